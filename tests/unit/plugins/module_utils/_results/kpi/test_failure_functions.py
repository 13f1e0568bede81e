# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures of failures from recoveries that are known exactly, and the sentence that they make."""

from __future__ import annotations

from array import array
from math import nan
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi import (
    failure_functions,
    kpi_definitions,
    write_kpis,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.point_data import PointData, PointExtras
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.failure_recoveries import (
    PointFailures,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.failure_rows import Injection
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.recovery_stages import (
    STAGES,
    Recovery,
    Resumption,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import TimelineTable

DEFINITIONS = [
    str(Path(__file__).parents[6] / f"roles/results/files/kpis/{name}.yml") for name in ("failures", "recovery")
]


def recovery(number: int, whole: float | None, kind: str = "node_lost", over: bool = False) -> Recovery:
    """A failure at 100 s that takes two pods with 8 GPUs, and is whole so many seconds later."""
    stages = dict.fromkeys(STAGES, (nan, nan))
    if whole is not None:
        stages["whole"] = (100 + whole, 100 + whole)
    lost = {"waiting": 8.0, "blocked": 4.0, "redone": 2.0}
    return Recovery(number, kind, "n", number, 2, 8.0, (100.0, 100.0), stages, lost, over)


def point(failures: PointFailures | None) -> PointData:
    stages = [{"name": "succeeded", "kind": "Job", "writer": "node", "simulated": True, "ends": "succeeded"}]
    header = {"start": 0.0, "end": 400.0, "planned": 0, "stages": stages, "schema": "timeline/1"}
    return PointData(TimelineTable(header), PointExtras(failures=(lambda: failures) if failures is not None else None))


def figures(failures: PointFailures | None) -> dict[str, dict[str, Any]]:
    definitions = write_kpis.load_and_check_kpi_definitions(DEFINITIONS)
    return {kpi["name"]: kpi for kpi, _figure in write_kpis.compute_point_kpis(point(failures), definitions)}


def test_a_point_without_failures_has_no_figures_of_them() -> None:
    assert figures(None) == {}


def test_the_median_counts_recoveries_that_were_not_seen_as_longer() -> None:
    seen = [recovery(0, 40), recovery(1, 42), recovery(2, None)]
    found = figures(PointFailures(seen, {"node_lost": 3}, held=1000, useful=920, end=400))
    median = found["time_to_recover_node_lost"]
    assert (median["value"], median["n"], median["of"]) == (42, 2, 3)
    assert found["time_to_recover_node_lost_max"]["value"] is None
    assert found["time_to_recover_node_lost_max"]["at_least"] == 300
    assert found["never_recovered"]["value"] == 1 and found["failures_injected"]["value"] == 3
    assert found["goodput"]["value"] == 92
    assert found["gpu_seconds_lost"]["value"] == 42 and found["gpu_seconds_lost_blocked"]["value"] == 12
    text = median["answer"]["text"]
    assert text == "A lost node costs 8 GPUs x {value} (40 to 42 s, 2 recoveries); 92 % goodput at 27 failures an hour"


def test_a_training_that_succeeded_without_being_whole_counts_until_then_and_as_recovered() -> None:
    succeeded = recovery(2, None, over=True)
    succeeded.succeeded = 130.0
    seen = [recovery(0, 40), recovery(1, 42), succeeded, recovery(3, None, over=True)]
    found = figures(PointFailures(seen, {"node_lost": 4}, held=1, useful=1, end=400))
    assert found["never_recovered"]["value"] == 1
    assert found["never_recovered"]["note"] == "1 more succeeded without being whole again"
    # It was watched for 30 s only. As one that never recovered, it would leave no median.
    assert found["time_to_recover_node_lost"]["value"] == pytest.approx(41.75)


def test_many_recoveries_have_a_confidence_interval() -> None:
    seen = [recovery(number, 40 + number % 5) for number in range(20)]
    found = figures(PointFailures(seen, {"node_lost": 20}, held=10, useful=5, end=400))["time_to_recover_node_lost"]
    assert 40 <= found["confidence"]["low"] <= found["value"] <= found["confidence"]["high"] <= 44
    assert "s at 95 %" in found["answer"]["text"]


def test_the_spread_in_the_answer_contains_the_figure_that_it_is_of() -> None:
    for number, spread in ((2, "(9.94 s, 2 recoveries)"), (20, "(9.94 s at 95 %)")):
        found = PointFailures([recovery(place, 9.94) for place in range(number)], {"node_lost": number}, end=400)
        assert spread in figures(found)["time_to_recover_node_lost"]["answer"]["text"]


def test_a_report_leads_with_the_lost_node() -> None:
    seen = [recovery(0, 40), recovery(1, 5, "pod_killed"), recovery(2, 9, "node_drained")]
    names = [name for name, kpi in figures(PointFailures(seen, {}, end=400)).items() if "answer" in kpi]
    assert names[-1] == "time_to_recover_node_lost" and len(names) == 3


def test_pods_without_gpus_have_a_goodput_of_their_seconds_and_lose_no_gpu_seconds() -> None:
    seen = [recovery(0, 40, "pod_killed")]
    found = figures(PointFailures(seen, {"pod_killed": 1}, held=200, useful=150, end=400, holds_gpus=False))
    assert found["goodput"]["value"] == 75 and found["goodput"]["note"] == "of pod-seconds: the pods hold no GPUs"
    lost = [kpi for name, kpi in found.items() if name.startswith("gpu_seconds_lost")]
    assert len(lost) == 4 and {(kpi["value"], kpi["note"]) for kpi in lost} == {(None, "the pods hold no GPUs")}
    assert "; 75 % goodput at 9 failures an hour" in found["time_to_recover_pod_killed"]["answer"]["text"]
    with_gpus = figures(PointFailures(seen, {"pod_killed": 1}, held=200, useful=150, end=400))
    assert with_gpus["gpu_seconds_lost"]["value"] == 14 and "note" not in with_gpus["goodput"]


def test_figures_without_pods_or_hits_say_so() -> None:
    found = figures(PointFailures([], {"gpu_lost": 1}, skipped=2, end=400))
    assert found["goodput"]["value"] is None and found["goodput"]["note"] == "no pod was seen to have a node"
    assert found["failures_injected"]["note"] == "2 found nothing to fail"
    assert not any(name.startswith("time_to_recover") for name in found)


def test_gpus_are_those_of_one_node_also_if_two_fail_together() -> None:
    seen = [recovery(0, 40), recovery(0, 42)]
    seen[1].target = "m"
    found = figures(PointFailures(seen, {"node_lost": 2}, held=1000, useful=920, end=400))
    assert found["time_to_recover_node_lost"]["labels"]["lost"] == "8 GPUs"


def test_only_a_lost_node_is_detected_and_tainted() -> None:
    data = point(PointFailures([recovery(0, 40), recovery(1, 5, "pod_killed")], end=400))
    assert failure_functions.recovery(data, "tainted", failure="pod_killed").inapplicable
    assert failure_functions.recovery(data, "tainted", failure="node_lost").of == 1
    assert failure_functions.recovery(data, "tainted").of == 1, "that of the lost node"
    assert failure_functions.recovery(data, "whole").of == 2


def loaded(*runs: tuple[float, float]) -> PointData:
    """Workloads by when they were due and when they ran, and an API server that is away from 10 s to 30 s."""
    stage = {"name": "running", "kind": "Job", "writer": "kubelet", "simulated": False, "ends": None}
    table = TimelineTable({"start": 0.0, "end": 100.0, "planned": len(runs), "stages": [stage], "schema": "timeline/1"})
    table.index, table.outcome = list(range(len(runs))), ["succeeded"] * len(runs)
    due, ran = (array("d", column) for column in zip(*runs, strict=True))
    table.moments = dict.fromkeys(("intended", "sent", "answered"), due)
    table.earliest, table.latest = {"running": ran}, {"running": ran}
    away = Injection(0, "api_away", "kube-apiserver", (10.0, 10.0), undone=(30.0, 30.0))
    failures = PointFailures(outages=[away], end=100.0)
    return PointData(table, PointExtras(failures=lambda: failures))


def test_an_outage_is_over_when_all_run_that_were_due_meanwhile() -> None:
    data = loaded((5, 6), (9, 31), (20, 33), (40, 41))
    caught_up = failure_functions.outage(data, failure="api_away")
    assert caught_up.value == 23 and caught_up.labels["waiting"] == "2 workloads"
    assert failure_functions.outage(data, "back", failure="api_away").value == 20
    assert failure_functions.outage(data, failure="etcd_slow").inapplicable
    never = failure_functions.outage(loaded((9, 31), (20, nan)), failure="api_away")
    assert never.value is None and never.at_least == 90
    nobody = failure_functions.outage(loaded((5, 6), (40, 41)), failure="api_away")
    assert nobody.value == 20 and nobody.labels["waiting"] == "0 workloads"


def test_an_unknown_stage_or_cause_is_refused_by_name() -> None:
    data = point(PointFailures([recovery(0, 1)]))
    with pytest.raises(InputError, match="wohle"):
        failure_functions.recovery(data, "wohle")
    with pytest.raises(InputError, match="waitin"):
        failure_functions.gpu_seconds_lost(data, "waitin")


def test_definitions_name_what_is_looked_up() -> None:
    assert {"failures", "failed", "outages", "resumed", "evicted"} <= set(kpi_definitions.LOOKED_UP)


def test_trainings_without_gpus_cost_pods_and_say_what_they_did_again() -> None:
    seen = [recovery(number, 40 + number, "pod_killed") for number in range(3)]
    resumptions = (Resumption(150, 155, 90, 7, 10.0), Resumption(152, 158, 95, 4, 5.0), Resumption())
    for entry, resumption in zip(seen, resumptions, strict=True):
        entry.gpus, entry.pods, entry.resumption = 0.0, 1, resumption
        for stage in ("resumed", "useful"):
            entry.stages[stage] = (getattr(resumption, stage),) * 2
    found = figures(PointFailures(seen, {"pod_killed": 2}, end=400))
    answer = found["time_to_recover_pod_killed"]["answer"]["text"]
    assert answer == "A killed pod costs 1 pod x {value} (40 to 42 s, 3 recoveries)"
    assert (
        found["training_steps_redone_pod_killed"]["value"] == 11
        and found["training_seconds_redone_pod_killed"]["value"] == 15
    )
    assert found["training_seconds_redone_pod_killed"]["note"] == "1 of 3 did not go on"
    assert found["time_to_useful_pod_killed_p50"]["value"] == 58
    assert found["time_to_useful_pod_killed_max"]["at_least"] == 300
    seen[2].resumption = Resumption(kept=90, succeeded=True)
    found = figures(PointFailures(seen, {"pod_killed": 3}, end=400))
    assert "note" not in found["training_seconds_redone_pod_killed"]
    assert found["time_to_useful_pod_killed_max"]["of"] == 2
    for entry in seen:
        entry.resumption = None
    untold = figures(PointFailures(seen, {"pod_killed": 3}, end=400))
    assert not [name for name in untold if name.startswith("training_") or "useful" in name]


def test_evictions_of_kueue_have_figures_beside_those_of_the_node() -> None:
    seen = [recovery(number, 40) for number in range(2)]
    for entry in seen:
        entry.stages |= {"detected": (110.0, 110.0), "evicted": (130.0, 130.0), "requeued": (135.0, 135.0)}
        entry.stages["readmitted"] = (nan, nan)
    found = figures(PointFailures(seen, {"node_lost": 2}, end=400))
    assert found["time_to_detected_node_lost_p50"]["value"] == 10
    assert found["time_to_evicted_node_lost_max"]["value"] == 30
    assert found["time_to_requeued_node_lost_p50"]["value"] == 35
    assert found["time_to_readmitted_node_lost_p50"]["at_least"] == 300
    kept = recovery(2, 5)
    kept.stages |= dict.fromkeys(("evicted", "requeued", "readmitted"), (nan, nan))
    beside = figures(PointFailures([*seen, kept], {"node_lost": 3}, end=400))["time_to_evicted_node_lost_max"]
    assert (beside["value"], beside["n"], beside["of"]) == (30, 2, 2), "the third one recovered without an eviction"
    assert "time_to_evicted_node_lost_p50" not in figures(PointFailures([recovery(0, 40)], {"node_lost": 1}, end=400))


def test_nodes_that_kueue_replaces_have_figures_of_the_workloads_that_were_marked() -> None:
    seen = [recovery(number, 40) for number in range(3)]
    for entry in seen[:2]:
        entry.stages |= {"marked": (110.0, 110.0), "reassigned": (112.0, 112.0)}
    seen[1].stages["reassigned"] = (nan, nan)
    found = figures(PointFailures(seen, {"node_lost": 3}, end=400))
    assert (found["time_to_marked_node_lost_max"]["value"], found["time_to_marked_node_lost_max"]["of"]) == (10, 2)
    assert found["time_to_reassigned_node_lost_max"]["at_least"] == 300
    assert "time_to_marked_node_lost_p50" not in figures(PointFailures([recovery(0, 40)], {"node_lost": 1}, end=400))

"""Plots in the manner of the Run:ai scale-test tool, and the points for which they are drawn."""

from __future__ import annotations

import struct
from datetime import datetime, timezone
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.runai import runai_export
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import timeline_table
from scale_test_tables import WHOLE, T, with_parts

EVERYTHING = {"all_points": False, "plots": ["general", "detailed"], "skip_errors": True, "head": 0, "tail": 0}


def waiting(seconds: float, sent: float = 0.0) -> dict[str, float]:
    return {**WHOLE, "sent": WHOLE["sent"] + sent, "pods_scheduled": WHOLE["pods_scheduled"] + seconds}


def size(path: Path) -> tuple[int, int]:
    """Width and height of a PNG file."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", data[16:24])


def seen(*rows: dict[str, float]) -> list[runai_export.WorkloadTimes]:
    return [stamps for _row, stamps in runai_export.fully_measured_workloads(with_parts(*rows))]


def test_panels_are_the_tools_in_its_order_and_what_was_not_measured_is_no_panel() -> None:
    assert list(runai_export.plot_values_by_event(seen(WHOLE), "general")) == ["Total Pod Scheduling Decision"]
    assert list(runai_export.plot_values_by_event(seen(WHOLE), "detailed")) == [
        "Workload Creation",
        "Job Creation",
        "First Pod Creation",
        "Last Pod Creation",
        "Pod Group Creation",
        "Pod Scheduling Decision",
    ]
    claim = {"persistentvolumeclaim_created": T + 1.5, "persistentvolumeclaim_bound": T + 2.5}
    with_claims = runai_export.plot_values_by_event(seen({**WHOLE, **claim}, WHOLE), "detailed")
    assert list(with_claims)[-2:] == ["First PVC Bind Request", "First PVC Bind"]
    assert [value for _sent, value in with_claims["First PVC Bind"]] == [pytest.approx(1.0)]


def test_a_panel_is_in_submission_order_and_its_title_has_the_mean() -> None:
    values = runai_export.plot_values_by_event(seen(waiting(3, sent=0.1), waiting(1)), "general")[
        "Total Pod Scheduling Decision"
    ]
    assert [round(value, 2) for _sent, value in values] == [4.08, 5.98]
    title = runai_export.panel_title("Total Pod Scheduling Decision", values, "general", False)
    assert title == "Total Pod Scheduling Decision Time from Workload Submission (average: 5.03 seconds)"
    title = runai_export.panel_title("Job Creation", [(T, 0.5)], "detailed", True)
    assert title == "Time between Workload Creation and Job Creation (average: 0.50 seconds) – SIMULATED"


def test_an_event_is_simulated_if_its_stage_or_one_that_it_is_counted_from_is() -> None:
    table = with_parts(WHOLE)
    assert runai_export.events_of_simulated_stages(table) == set()
    table.header["stages"] = [{"name": "podgroup_created", "simulated": True}]
    found = runai_export.events_of_simulated_stages(table)
    assert {"Pod Group Creation", "Pod Scheduling Decision"} <= found
    assert found.isdisjoint({"Workload Creation", "Job Creation", "Last Pod Creation", "Total Pod Scheduling Decision"})


def test_the_labels_of_a_short_time_axis_differ() -> None:
    moments = [datetime(2026, 11, 23, 6, 18, 11, number * 500_000, timezone.utc) for number in (0, 1)]
    assert [runai_export.time_axis_label(one, 2.0) for one in moments] == ["06:18:11.0", "06:18:11.5"]
    assert runai_export.time_axis_label(moments[1], 60.0) == "06:18:11"


@pytest.mark.parametrize(("head", "tail", "shown"), [(0, 0, "abcde"), (2, 0, "ab"), (0, 2, "de"), (4, 2, "cd")])
def test_head_and_tail_choose_as_the_tool_does(head: int, tail: int, shown: str) -> None:
    assert "".join(runai_export.select_tail_of_head(list("abcde"), head, tail)) == shown


def run_of(folder: Path, *kinds: str) -> Path:
    """A run with one point per kind of workload."""
    files.write_yaml(folder / "run.yml", {"schema": "run/1", "run_id": "t1121-k3f9xa"})
    for number, kind in enumerate(kinds, 1):
        table = with_parts(WHOLE, waiting(1))
        stages = ["created", "runaijob_created", "podgroup_created"]
        stages += ["pods_created_first", "pods_created", "pods_scheduled"]
        stage = {"kind": kind, "writer": "controller", "simulated": False, "ends": None, "needs": []}
        table.header.update({"schema": "timeline/1", "run": "t1121-k3f9xa", "point": f"{number:03d}"})
        table.header["stages"] = [{"name": name, **stage} for name in stages]
        size = len(table)
        table.kind, table.uid = [kind] * size, [None] * size
        table.censored, table.attempts, table.pods = [False] * size, [1] * size, [1] * size
        table.gpus, table.nodes = [1.0] * size, [None] * size
        point = folder / "points" / f"{number:03d}"
        point.mkdir(parents=True)
        table.moments["intended"] = table.moments["answered"] = table.moments["sent"]
        timeline_table.write_jsonl_and_csv(table, point)
    return folder


def test_points_through_runai_get_files_and_plots_without_being_asked(tmp_path: Path) -> None:
    run = run_of(tmp_path, "TrainingWorkload", "Job")
    done = runai_export.write_runai_files_of_points(run, **EVERYTHING)
    assert done["points"] == {"001": {"submitted.json": 2, "sampled.json": 2}} and done["changed"]
    folder = run / "points/001/runai"
    names = {"submitted.json", "sampled.json", "times.csv", "names.csv", "general.png", "detailed.png"}
    assert {one.name for one in folder.iterdir()} == names
    assert size(folder / "general.png") == (1500, 300)
    assert size(folder / "detailed.png") == (3000, 1020)
    assert not (run / "points/002/runai").exists()
    assert set(runai_export.write_runai_files_of_points(run, **{**EVERYTHING, "all_points": True})["points"]) == {
        "001",
        "002",
    }


def test_a_plot_that_is_no_longer_wanted_does_not_stay(tmp_path: Path) -> None:
    run = run_of(tmp_path, "InteractiveWorkload")
    runai_export.write_runai_files_of_points(run, **EVERYTHING)
    runai_export.write_runai_files_of_points(run, **{**EVERYTHING, "plots": ["general"]})
    folder = run / "points/001/runai"
    assert (folder / "general.png").exists() and not (folder / "detailed.png").exists()


def test_a_negative_number_of_workloads_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="tail is -1"):
        runai_export.write_runai_files_of_points(tmp_path, **{**EVERYTHING, "tail": -1})

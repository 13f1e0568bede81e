# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures of a number of servers that follows a load, with times that are known exactly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import headline
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi import read_point_data, write_kpis
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.report import request_plots
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline import write_timeline
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader
from request_files import START, request, write_requests

DEFINITIONS = [str(Path(__file__).parents[6] / "roles" / "serving" / "files" / "kpis.yml")]
#: One request a second for 20 s, then two.
STEPS = [(1.0, 20.0), (2.0, 40.0)]
OFFSETS = [*range(20), *(20 + number / 2 for number in range(80))]


def pod(name: str, stage: str, at: float, since: float | None) -> dict[str, Any]:
    return {"type": "pod", "pod": name, "stage": stage, "at": START + at, "since": since and START + since}


def desired(replicas: int, at: float, since: float | None) -> dict[str, Any]:
    return {"type": "desired", "name": "s", "replicas": replicas, "at": START + at, "since": since and START + since}


OLD = [
    desired(1, -0.1, None),
    *(pod("old", stage, -0.1, None) for stage in ("created", "scheduled", "started", "ready")),
]
NEW = [
    desired(3, 30.2, 30.0),
    *(pod(name, "created", 30.4, 30.2) for name in ("b", "c")),
    *(pod(name, "scheduled", 30.6, 30.4) for name in ("b", "c")),
    *(pod(name, "started", 31.2, 31.0) for name in ("b", "c")),
    pod("b", "ready", 32.2, 32.0),
]


def measured(tmp_path: Path, scale: list[dict[str, Any]]) -> tuple[dict[str, Any], list[str]]:
    """Return the KPIs and the answer of a load whose requests miss the objective from 25 s to 35 s."""
    records = [request(n, at, ttft=1.0 if 25 <= at < 35 else 0.1) for n, at in enumerate(OFFSETS)]
    folder = write_requests(tmp_path / "points" / "001", records, OFFSETS, STEPS)
    (folder / "settings.yml").write_text("serving_slo: {ttft: 0.2, share: 0.95}\n")
    anchor = {"wall": START, "monotonic": 100.0, "boot": "b"}
    session = {"type": "session", "schema": "scale/1", "run": "t", "point": "001", "anchor": anchor, "pid": 1}
    if scale:
        (folder / "scale.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in [session, *scale]))
    write_timeline.write_timeline(str(tmp_path))
    write_kpis.write_kpis(str(tmp_path), DEFINITIONS)
    run = run_reader.read_run_directory(tmp_path)
    return {kpi["name"]: kpi for kpi in run.points[0].kpis or []}, headline.run_answer_sentence(run.points, {"001": ""})


def test_the_stages_count_from_the_rise_of_the_load_and_lie_between_two_looks(tmp_path: Path) -> None:
    kpis, answer = measured(tmp_path, [*OLD, *NEW, pod("c", "ready", 34.2, 34.0)])
    bounds = {stage: kpis[f"scale_up_{stage}"]["interval"] for stage in ("desired", "created", "started", "ready")}
    assert {stage: pytest.approx(each) for stage, each in bounds.items()} == {
        "desired": [10.0, 10.2],
        "created": [10.2, 10.4],
        "started": [11.0, 11.2],
        "ready": [12.0, 12.2],
    }
    ready = kpis["scale_up_all_ready"]
    assert ready["interval"] == pytest.approx([14.0, 14.2]) and ready["value"] == pytest.approx(14.1)
    assert kpis["servers_ready_max"]["value"] == 3
    # 29 requests are due from 20 s until 34.2 s, those from 25 s on are late.
    assert kpis["scale_up_missed"]["value"] == pytest.approx(100 * 19 / 29)
    assert answer == [
        "The autoscaler took 14.1 s from 1 to 3 servers after the load rose; 19 of 29 requests due meanwhile missed the"
        " objective (SIMULATED)"
    ]


def test_the_first_answer_after_a_rise_is_measured_if_no_server_was_ready(tmp_path: Path) -> None:
    none = [desired(0, -0.1, None)]
    new = [desired(1, 20.4, 20.2), *(pod("a", stage, 20.8, 20.6) for stage in ("created", "scheduled", "started"))]
    kpis, answer = measured(tmp_path / "zero", [*none, *new, pod("a", "ready", 21.4, 21.2)])
    # The request that is due when the load rises, at 20 s, waits in these files for 0.1 s only.
    first = kpis["scale_up_first_token"]
    assert first["value"] == pytest.approx(0.1, abs=1e-4)
    assert first["interval"][0] <= first["value"] <= first["interval"][1] < 0.101
    assert answer == [
        "The autoscaler took 1.30 s from 0 to 1 server after the load rose, and the first token came after 100 ms; 0"
        " of 3 requests due meanwhile missed the objective (SIMULATED)"
    ]
    assert kpis["scale_up_ready"]["interval"] == pytest.approx([1.2, 1.4])
    kpis, _answer = measured(tmp_path / "one", [*OLD, *NEW])
    assert "scale_up_first_token" not in kpis


def test_servers_that_are_never_all_ready_give_a_lower_bound(tmp_path: Path) -> None:
    kpis, answer = measured(tmp_path, [*OLD, *NEW])
    ready = kpis["scale_up_all_ready"]
    assert ready["value"] is None and ready["at_least"] > 39 and "2 of 3 servers were ready at most" in ready["note"]
    assert "had not all servers ready" in answer[0]


def test_pods_whose_number_nobody_wants_count_by_those_that_become_ready(tmp_path: Path) -> None:
    pods = [one for one in [*OLD, *NEW] if one["type"] == "pod"]
    kpis, _answer = measured(tmp_path, pods)
    assert kpis["scale_up_all_ready"]["interval"] == pytest.approx([12.0, 12.2])
    assert kpis["scale_up_desired"]["value"] is None


def test_a_number_of_servers_that_stays_has_no_time_and_one_that_nobody_watched_no_figure(tmp_path: Path) -> None:
    kpis, answer = measured(tmp_path / "stays", OLD)
    assert "did not grow" in kpis["scale_up_all_ready"]["note"] and kpis["servers_ready_max"]["value"] == 1
    assert "autoscaler" not in answer[0]
    kpis, _answer = measured(tmp_path / "none", [])
    assert not [name for name in kpis if name.startswith("scale_up")] and "servers_ready_max" not in kpis


def test_the_plot_has_the_servers_that_were_ready_from_each_moment_on(tmp_path: Path) -> None:
    measured(tmp_path, [*OLD, *NEW, pod("c", "ready", 34.2, 34.0)])
    run = run_reader.read_run_directory(tmp_path)
    data = read_point_data.read_point_data(run, run.points[0], [])
    drawing = request_plots.draw_rates_and_servers(data, "")
    assert drawing is not None and "servers ready: 1 at first, 3 at most, 3 at the end" in drawing.alt
    ready = [(row[1], row[2]) for row in drawing.rows if row[0] == "servers_ready"]
    assert ready[:3] == [(0.0, 1), (pytest.approx(32.2), 2), (pytest.approx(34.2), 3)]


#: A second session begins at 50 s: what its first look finds may be there for long, and b may be gone.
SECOND = [
    {
        "type": "session",
        "schema": "scale/1",
        "run": "t",
        "point": "001",
        "anchor": {"wall": START, "monotonic": 100.0, "boot": "b"},
        "pid": 2,
    },
    desired(3, 50.0, None),
    *(pod(name, stage, 50.0, None) for name in ("old", "c") for stage in ("created", "scheduled", "started", "ready")),
]


def failed(since: float, at: float) -> list[dict[str, Any]]:
    """Return the records of a look that failed, and of one a second later that did not."""
    return [
        {"type": "failed", "error": "e", "since": START + since, "at": START + at},
        {"type": "blind", "since": START + since, "at": START + at + 1},
    ]


@pytest.mark.parametrize(
    ("unseen", "why"),
    [
        (SECOND, "the load was interrupted"),
        (failed(30.0, 32.5), "the looks at the servers failed for 3.5"),
        (failed(30.0, 33.5)[:1], "the looks at the servers failed for 3.5"),
    ],
    ids=["second session", "failed looks", "failed looks to the end"],
)
@pytest.mark.parametrize("seen", [OLD, [*OLD, *NEW]], ids=["stays", "grows"])
def test_a_time_without_looks_leaves_the_servers_unknown(
    tmp_path: Path, seen: list[dict[str, Any]], unseen: list[dict[str, Any]], why: str
) -> None:
    kpis, answer = measured(tmp_path, [*seen, *unseen])
    for name in ("scale_up_desired", "scale_up_all_ready", "scale_up_missed", "servers_ready_max"):
        assert kpis[name]["value"] is None and kpis[name].get("at_least") is None and why in kpis[name]["note"]
    assert "autoscaler" not in answer[0]
    run = run_reader.read_run_directory(tmp_path)
    assert request_plots.draw_rates_and_servers(read_point_data.read_point_data(run, run.points[0], []), "") is None


def test_looks_that_fail_for_a_moment_or_before_the_load_leave_the_figures(tmp_path: Path) -> None:
    short = [*OLD, *failed(-10.0, 0.5), *NEW, pod("c", "ready", 34.2, 34.0), *failed(40.0, 40.5)]
    kpis, _answer = measured(tmp_path, short)
    assert kpis["scale_up_all_ready"]["interval"] == pytest.approx([14.0, 14.2])

"""Times of a load of others: each true moment lies within its bounds, whatever the offset of the server's clock."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from math import floor
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import run_checks
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.latency_attribution import (
    attribute_latency_to_stages,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.point_data import PointData
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.timeline_functions import duration
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline import timeline_builder
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.revision_and_server_clocks import (
    ServerClock,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import TimelineTable
from hypothesis import given, settings
from hypothesis import strategies as st

EPOCH = 1_795_000_000.0
RUN = "foreign"
JOB = {
    "stages": [
        {"name": "created", "field": "metadata.creationTimestamp", "writer": "api-server"},
        {"name": "started", "field": "status.startTime", "writer": "controller", "depends_on": ["created"]},
        {
            "name": "succeeded",
            "condition": "Complete",
            "writer": "controller",
            "depends_on": ["started"],
            "ends": "succeeded",
        },
    ]
}


class Cluster:
    """Commits in order, with the moments of a sampler that follows them. Times in seconds after EPOCH on our clock.

    offset: of the server's clock at EPOCH. drift: seconds that it gains a second. asked: moments of
    requests for its time.
    """

    def __init__(
        self,
        offset: float = 0.0,
        canary: bool = True,
        drift: float = 0.0,
        asked: Sequence[float] = (0.1, 0.47, 0.84, 1.21),
        **follows: Any,
    ) -> None:
        self.offset, self.drift = offset, drift
        self.truth: dict[tuple[str, str], float] = {}
        anchor = {"wall": EPOCH, "monotonic": 0.0, "boot": "b"}
        self.rows: list[dict[str, Any]] = [
            {"type": "session", "schema": "observations/1", "run": RUN, "point": "001", "anchor": anchor, "pid": 1},
            {"type": "stages", "kinds": {"Job": JOB}, "simulated_writers": []},
            {
                "type": "follows",
                "namespaces": [],
                "labels": "",
                "fields": "",
                "existing": False,
                "canary_rate": 20.0,
                **follows,
            },
        ]
        self.canary = canary
        self._version = 0
        self._names: dict[str, int] = {}
        for at in asked:
            moments = {"sent": EPOCH + at - 0.002, "answered": EPOCH + at + 0.002}
            self.rows.append({"type": "server_time", **moments, "stated": self.stamp(at)})

    def stamp(self, at: float) -> str:
        return f"{datetime.fromtimestamp(floor(EPOCH + at * (1 + self.drift) + self.offset), UTC):%Y-%m-%dT%H:%M:%SZ}"

    def write_canary(self, at: float) -> None:
        self._version += 1
        if self.canary:
            moments = {"sent": EPOCH + at - 0.004, "answered": EPOCH + at + 0.004}
            self.rows.append({"type": "canary", **moments, "resource_version": str(self._version)})

    def commit(
        self,
        name: str,
        stage: str,
        at: float,
        how: str = "watch",
        received: float = 0,
        values: Any = None,
        delay: float = 0,
    ) -> None:
        """Commit a change; how: in which way it is seen. delay: of the commit after its creationTimestamp."""
        self._version += 1
        if name not in self._names:
            self._names[name] = len(self._names)
            place = {"index": self._names[name], "kind": "Job", "namespace": "n", "name": name, "uid": f"u-{name}"}
            self.rows.append({"type": "workload", **place})
        for one in values or [stage]:
            self.truth.setdefault((name, one), EPOCH + at)
        stated = {one: self.stamp(at - delay) for one in values or [stage]}
        if values:
            stated["created"] = self.stamp(self.truth[name, "created"] - EPOCH)
        self.rows.append(
            {
                "type": "event",
                "received": EPOCH + (received or at + 0.005),
                "how": how,
                "event": "ADDED" if stage == "created" else "MODIFIED",
                "kind": "Job",
                "namespace": "n",
                "name": name,
                "uid": f"u-{name}",
                "owners": [],
                "index": self._names[name],
                "resource_version": str(self._version),
                "values": stated,
            }
        )

    def build(self, folder: Path) -> TimelineTable:
        self.rows.append({"type": "end", "at": EPOCH + 1000, "reason": "done"})
        for row in {row["type"]: row for row in self.rows}.values():
            files.validate_schema_if_enabled("observations/1", row)
        folder.mkdir(exist_ok=True)
        lines = [json.dumps(row, separators=(",", ":")) + "\n" for row in self.rows]
        (folder / "observations.jsonl").write_text("".join(lines), encoding="utf-8")
        table = timeline_builder.build_timeline_of_workloads(folder, RUN, "001")
        files.validate_schema_if_enabled("timeline/1", {"type": "header", **table.header})
        return table

    def outside(self, table: TimelineTable) -> list[tuple[str, str]]:
        """Return what lies outside of its bounds."""
        return [
            (name, stage)
            for (name, stage), moment in self.truth.items()
            if not table.earliest[stage][self._names[name]] <= moment <= table.latest[stage][self._names[name]]
        ]


MOMENTS = st.lists(st.floats(2, 300), min_size=1, max_size=8)
#: When the sampler asks for the server's time: at the beginning, and every 30 seconds.
AGAIN = [30.0 * number + 0.37 * few for number in range(11) for few in range(10)]


@settings(max_examples=30, deadline=None)
@given(MOMENTS, st.floats(-40, 40), st.booleans(), st.floats(0, 3), st.floats(-0.009, 0.009))
def test_every_true_moment_lies_within_its_bounds(
    tmp_path_factory: pytest.TempPathFactory,
    moments: list[float],
    offset: float,
    canary: bool,
    delay: float,
    drift: float,
) -> None:
    cluster = Cluster(offset, canary, drift, AGAIN)
    steps: list[tuple[float, str, str]] = []
    for number, at in enumerate(moments):
        steps += [
            (at, f"j{number}", "created"),
            (at + 1.5, f"j{number}", "started"),
            (at + 7, f"j{number}", "succeeded"),
        ]
    steps += [(2.0 * number, "", "") for number in range(1, 160)]
    for at, name, stage in sorted(steps):
        if name:
            cluster.commit(name, stage, at, delay=delay if stage == "created" else 0)
        else:
            cluster.write_canary(at)
    table = cluster.build(tmp_path_factory.mktemp("point"))
    assert not cluster.outside(table) and not table.contradictions
    assert set(table.outcome) == {"succeeded"} and not table.header["notes"]
    widths = [last - first for first, last in zip(table.earliest["created"], table.latest["created"], strict=True)]
    # Without a canary the second that the server states remains; the clock is known to a fraction of a second.
    assert max(widths) < (2.1 if canary else 5.5)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0, 3600), min_size=1, max_size=20), st.floats(-1e5, 1e5), st.floats(-0.009, 0.009))
def test_a_stated_second_lies_within_its_bounds_however_the_clocks_drift(
    moments: list[float], offset: float, drift: float
) -> None:
    cluster = Cluster(offset, drift=drift)
    # Asked for in the first and in the last minute only.
    asked = [0.1 + 0.37 * number for number in range(10)] + [3601 + 0.37 * number for number in range(10)]
    clock = ServerClock((cluster.stamp(at), EPOCH + at - 0.002, EPOCH + at + 0.002) for at in asked)
    for at in (*moments, *asked):
        span = clock.span(cluster.stamp(at))
        assert span is not None and span[0] <= EPOCH + at <= span[1]
        near = min(at, 3601 - at) if at < 3601 else 0.0
        assert span[1] - span[0] < 3.1 + 2 * 0.0201 * near


@pytest.mark.parametrize("drift", [0.05, -0.3])
def test_a_server_whose_clock_runs_wrong_gets_wider_bounds(drift: float) -> None:
    cluster = Cluster(7.0, drift=drift)
    moments = [10.0 * number + 0.37 * number for number in range(30)]
    clock = ServerClock((cluster.stamp(at), EPOCH + at - 0.002, EPOCH + at + 0.002) for at in moments)
    assert not clock.contradictory
    for at in (moments[3] + 2, moments[20] + 3.3):
        span = clock.span(cluster.stamp(at))
        assert span is not None and span[0] <= EPOCH + at <= span[1]


def test_seconds_of_a_server_whose_clock_jumps_are_not_used(tmp_path: Path) -> None:
    cluster = Cluster(existing=True, asked=[0.5])
    cluster.commit("old", "created", -100.0, how="list", received=1.5)
    cluster.offset = 3600.0
    stated = {"sent": EPOCH + 5.0, "answered": EPOCH + 5.01, "stated": cluster.stamp(5.0)}
    cluster.rows.append({"type": "server_time", **stated})
    table = cluster.build(tmp_path / "p")
    assert table.header["notes"] == ["the API server's clock has jumped: the seconds that it states are not used"]
    assert table.header["dated_by"]["created"] == {"list": 1}


def test_what_was_there_before_is_dated_by_the_second_of_its_creation(tmp_path: Path) -> None:
    cluster = Cluster(offset=3.25, existing=True)
    cluster.commit("old", "created", -100.0, how="list", received=1.5)
    table = cluster.build(tmp_path / "p")
    assert not cluster.outside(table)
    # A second, and the drift of a hundred of them in either direction.
    assert table.latest["created"][0] - table.earliest["created"][0] < 2 + 100 * 0.021
    assert table.header["dated_by"] == {"created": {"creationTimestamp": 1}}
    assert table.outcome == ["unfinished"] and table.header["start"] == table.earliest["created"][0]


def test_a_workload_that_came_to_match_the_selector_is_dated_by_its_creation(tmp_path: Path) -> None:
    cluster = Cluster(labels="app=x")
    for number in range(1, 2000):
        cluster.write_canary(0.05 * number)
        if number == 1000:
            cluster.truth["late", "created"] = EPOCH + 20.5
            cluster.commit("late", "created", 50.01, values=["created"])
    table = cluster.build(tmp_path / "p")
    assert not cluster.outside(table)
    assert table.header["dated_by"]["created"] == {"creationTimestamp": 1}


def test_a_state_that_a_list_shows_after_a_gap_lies_after_the_creation(tmp_path: Path) -> None:
    cluster = Cluster()
    for number in range(1, 800):
        at = 0.05 * number
        cluster.write_canary(at)
        if number == 100:
            cluster.commit("one", "created", at + 0.01)
        if number == 300:
            cluster.commit("gap", "created", at + 0.01, how="relist", received=30.0)
            cluster.commit("gap", "succeeded", at + 0.02, how="relist", received=30.0)
    table = cluster.build(tmp_path / "p")
    assert not cluster.outside(table) and not table.contradictions
    assert table.earliest["created"][1] > EPOCH + 5 and table.header["dated_by"]["succeeded"] == {"list": 1}


def test_an_object_that_is_created_again_under_its_name_is_another_workload(tmp_path: Path) -> None:
    cluster = Cluster()
    for at in (1.0, 2.0, 3.0, 4.0, 5.0):
        cluster.write_canary(at)
        if at in (2.0, 4.0):
            cluster.commit(f"again-{at:g}", "created", at + 0.5)
    for row in cluster.rows:
        if "name" in row:
            row["name"] = "again"
    table = cluster.build(tmp_path / "p")
    assert table.name == ["again", "again"] and table.earliest["created"][1] > table.latest["created"][0]


def test_figures_count_from_the_creation_and_the_verdict_needs_no_due_time(tmp_path: Path) -> None:
    cluster = Cluster()
    for number in range(1, 400):
        cluster.write_canary(0.05 * number)
        if number == 100:
            cluster.commit("one", "created", 5.01)
        if number == 300:
            cluster.commit("one", "succeeded", 15.01)
    table = cluster.build(tmp_path / "p")
    data = PointData(table)
    found = duration(data, "succeeded", "p50", "sent")
    assert found.value == pytest.approx(10, abs=0.1) and found.interval is not None
    assert found.interval[0] < 10 < found.interval[1]
    assert duration(data, "created", "p50", "sent").value is None
    parts = attribute_latency_to_stages(data)
    assert list(parts.stages) == parts.order == ["succeeded"] and parts.total[0] == pytest.approx(10, abs=0.1)
    assert run_checks.check_load_generator_lateness("001", table, 0.1)["result"] == "pass"
    assert run_checks.check_workload_successes("001", table)["result"] == "pass"


def test_a_load_of_which_nothing_ended_is_valid_and_one_of_nothing_is_not(tmp_path: Path) -> None:
    cluster = Cluster()
    assert "seen" in run_checks.check_workload_successes("001", cluster.build(tmp_path / "none"))["detail"]
    cluster = Cluster()
    cluster.commit("one", "created", 5.0)
    assert run_checks.check_workload_successes("001", cluster.build(tmp_path / "one"), None)["result"] == "pass"


def test_an_audit_log_is_left_out_with_a_note(tmp_path: Path) -> None:
    cluster = Cluster()
    cluster.commit("one", "created", 5.0)
    cluster.build(tmp_path / "p")
    table = timeline_builder.build_timeline_of_workloads(tmp_path / "p", RUN, "001", audit_log=tmp_path / "audit.log")
    assert table.header["notes"] == [
        "the audit log audit.log was not used: others submitted the load, without names of ours"
    ]

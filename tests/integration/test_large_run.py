"""From the plan of many workloads to the report: nothing of what several clients recorded is missing."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import large_chain
import large_run
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import timeline_table


def check(count: int, clients: int, top: Path) -> None:
    steps = {one.name.partition(",")[0]: one.found for one in large_chain.measure(count, clients, top)}
    fates = Counter(large_run.fate(index) for index in range(count))
    timeline = steps["timeline"]
    assert steps["plan"] == {"planned": count}
    assert timeline["planned"] == count and timeline["contradictions"] == 0 and timeline["notes"] == []
    assert timeline["outcomes"] == dict(fates)
    assert timeline["clocks"] == clients
    point = top / "points" / "000"
    table = timeline_table.read_timeline_jsonl(point / "timeline.jsonl")
    assert list(table.index) == list(range(count)), "one row for each workload, in the order of the plan"
    assert table.seen("created") == count and table.seen("succeeded") == fates["succeeded"]
    # True moments lie between the bounds, on the clock of the reference.
    header = table.header
    (reference,) = [one["client"] for one in header["clocks"] if one["reference"]]
    clock = large_run.clock_of(reference)
    for index, life in enumerate(large_run.lives(large_run.due_times(count))):
        true = clock.shows(large_run.EPOCH + life[1][0])
        assert table.earliest["created"][index] - 1e-4 <= true <= table.latest["created"][index] + 1e-4, index
    ledger = Counter(json.loads(line)["type"] for line in (point / "ledger.jsonl").open("rb"))
    assert ledger == {"session": clients, "start": clients, "attempt": count}
    kpis = json.loads((point / "kpis.json").read_text())
    assert kpis, "the KPIs are written"
    assert steps["report"]["plots"] >= 6 and (top / "report" / "index.html").stat().st_size > 100_000


@pytest.mark.long
def test_what_ten_clients_recorded_of_a_hundred_thousand_workloads_is_complete(tmp_path: Path) -> None:
    check(100_000, 10, tmp_path / "run")

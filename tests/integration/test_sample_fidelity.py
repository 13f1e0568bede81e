"""How true the intervals are: 1,000 real jobs against the API server's audit log, which the sampler does not see."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from datetime import datetime
from itertools import accumulate
from math import inf
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import Any

import audit_truth
import benchmark_table
import pytest
import rehearsal as support
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import cluster_lifecycle
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline import timeline_builder
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu import fake_nodes, simulated_node_pool
from load_bench import REAL_TEMPLATE
from load_world import world_on

COUNT = 1000
STAGES = ("created", "pods_scheduled", "pods_running", "pods_succeeded", "succeeded")
#: Maximum difference of the API server's clock and the sampler's, which is anchored when the sampler starts, seconds.
SKEW = 0.005
#: Share of intervals that must use every request; the clocks compared here may differ by more for a moment.
EXACT = 0.999

Window = tuple[float, float]

#: Rate -> the table of a whole run; both together go into the page.
TOLD: dict[int, str] = {}
PAGE = benchmark_table.PAGE.with_name("sampling.md")


def keep(version: str) -> None:
    """Write the tables into docs/sampling.md when both are there."""
    if len(TOLD) == 2:
        text = "\n\n".join([benchmark_table.machine(version), *(TOLD[rate].strip() for rate in sorted(TOLD))])
        begin = "<!-- fidelity: written by test_sample_fidelity.py -->"
        benchmark_table.put(PAGE, begin, "<!-- fidelity: end -->", text)


def quantile(values: list[float], q: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def others(folder: Path, stage: str) -> tuple[dict[int, tuple[float, float]], dict[int, tuple[float, float]]]:
    """What the peers do, from the same events: the floored time's second; the event before and this one's receipt."""
    floored: dict[int, tuple[float, float]] = {}
    received: dict[int, tuple[float, float]] = {}
    kind = "Pod" if stage.startswith("pods_") else "Job"
    name = stage.removeprefix("pods_")
    last = 0.0
    with open(folder / "observations.jsonl", encoding="utf-8") as stream:
        for line in stream:
            row = json.loads(line)
            if row["type"] != "event" or row["kind"] != kind:
                continue
            value = row["values"].get(name)
            if value and row["index"] not in received:
                received[row["index"]] = (last, row["received"])
                if isinstance(value, str):
                    second = datetime.fromisoformat(value.replace("Z", "+00:00")).timestamp()
                    floored[row["index"]] = (second, second + 1)
            last = row["received"]
    return floored, received


def parts(ours: dict[int, tuple[float, float]], windows: dict[int, tuple[float, float]]) -> list[float]:
    """What an interval consists of, medians: before the write, the write in the API server, after it; seconds.

    Before it: the time since an earlier write or probe of ours was sent. After it: the delivery through the watch and
    our reading, or the answer to a later write of ours.
    """
    pairs = [(ours[index], windows[index]) for index in windows]
    return [
        median(window[0] - interval[0] for interval, window in pairs),
        median(window[1] - window[0] for _interval, window in pairs),
        median(interval[1] - window[1] for interval, window in pairs),
    ]


def meets(interval: Window, window: Window) -> bool:
    return interval[0] <= window[1] and interval[1] >= window[0]


class OwnRequests:
    """Canary writes and revision probes of the sampler, as (sent, answered)."""

    def __init__(self, requests: Iterable[Window]) -> None:
        by_sent = sorted(requests)
        by_answer = sorted(by_sent, key=itemgetter(1))
        self._answered = [answered for _sent, answered in by_answer]
        self._latest_sent = list(accumulate((sent for sent, _answered in by_answer), max))
        self._sent = [sent for sent, _answered in by_sent]
        self._earliest_answered = list(accumulate((answered for _sent, answered in reversed(by_sent)), min))[::-1]

    def around(self, write: Window) -> Window:
        """Return the interval of a write that these requests permit, however slow the machine is.

        It begins when the last request that was answered before the write was sent, and it ends when the first request
        that was sent after the write was answered.
        """
        before = bisect_right(self._answered, write[0] - SKEW)
        after = bisect_left(self._sent, write[1] + SKEW)
        return (
            self._latest_sent[before - 1] if before else -inf,
            self._earliest_answered[after] if after < len(self._sent) else inf,
        )


@pytest.mark.long
@pytest.mark.parametrize("rate", [20, 100])
def test_the_intervals_meet_the_writes_that_the_audit_log_shows(own_instance: Any, tmp_path: Path, rate: int) -> None:
    measure(own_instance, tmp_path, rate, COUNT)


def test_the_intervals_of_a_short_load_meet_the_audit_log_too(own_instance: Any, tmp_path: Path) -> None:
    """The same with a few jobs, without a table: the machine is busy with other tests."""
    measure(own_instance, tmp_path, 20, 60, page=False)


def measure(own_instance: Any, folder: Path, rate: int, count: int, page: bool = True) -> None:
    info = cluster_lifecycle.create_or_repair_instance(own_instance("fidelity", components=[]), support.quiet)
    audit = Path(info["cluster"]["audit_log"])
    with world_on(info["kubeconfig"], folder) as world:
        fake_nodes.create_fake_nodes(
            world.client, simulated_node_pool.NodePoolSpec(200 if page else 4), 120, support.quiet
        )
        found = world.submit(
            count=count,
            arrival={"rate": rate},
            templates=[{"name": "job", "content": REAL_TEMPLATE, "parameters": {"run_seconds": 2}}],
            wait=True,
            timeout=240,
            settle=1,
            in_flight=32,
        )
        assert found["counts"]["succeeded"] == count, found
        assert world.rows("observations", "sounding"), "a real API server lets etcd be sounded"
        own = world.rows("observations", "canary", "sounding")
        requests = OwnRequests((row["sent"], row["answered"]) for row in own)
        table = timeline_builder.build_timeline_of_workloads(world.point_dir, world.run_id, "001")
        truth = audit_truth.stages_of_jobs(audit, world.run_id)
        met = within = of = 0
        spans: list[float] = []
        report = []
        for stage in STAGES:
            windows = truth[stage]
            assert len(windows) == count, f"{stage}: the audit log tells of {len(windows)}"
            ours = {
                index: (table.earliest[stage][row], table.latest[stage][row]) for row, index in enumerate(table.index)
            }
            floored, received = others(world.point_dir, stage)
            row = {"stage": stage, "n": len(windows)}
            for name, intervals in (("ours", ours), ("floored", floored), ("received", received)):
                if intervals:
                    hits = sum(meets(intervals[index], windows[index]) for index in windows)
                    row[name] = {
                        "width": median(last - first for first, last in intervals.values()),
                        "p99": quantile([last - first for first, last in intervals.values()], 0.99),
                        "meets": hits / len(windows),
                    }
            row["parts"] = parts(ours, windows)
            report.append(row)
            permitted = {index: requests.around(window) for index, window in windows.items()}
            row["permitted"] = median(last - first for first, last in permitted.values())
            met += sum(meets(ours[index], windows[index]) for index in windows)
            within += sum(
                permitted[index][0] <= ours[index][0] and ours[index][1] <= permitted[index][1] for index in windows
            )
            of += len(windows)
            spans += [last - first for first, last in ours.values()]
        text = show(rate, report, met / of, quantile(spans, 0.99), found)
        print(text)
        if page:
            TOLD[rate] = text
            keep(info["cluster"]["version"])
        assert met == of, f"{of - met} of {of} intervals miss the write that made the stage"
        # A width in milliseconds depends on the machine; that an interval uses every request of the sampler does not.
        assert within / of >= EXACT, f"{of - within} of {of} intervals are wider than the sampler's requests permit"
        assert not table.contradictions
        narrow = timeline_builder.build_timeline_of_workloads(world.point_dir, world.run_id, "001", audit_log=audit)
        assert not narrow.contradictions and not narrow.header["notes"]
        for stage in STAGES:
            for row, index in enumerate(narrow.index):
                cut = (narrow.earliest[stage][row], narrow.latest[stage][row])
                assert table.earliest[stage][row] <= cut[0] <= cut[1] <= table.latest[stage][row]
                assert meets(cut, truth[stage][index])


def show(rate: int, report: list[dict[str, Any]], met: float, p99: float, found: dict[str, Any]) -> str:
    """The figures as the table of docs/sampling.md."""
    lines = [
        f"\n**{rate} jobs a second**: {met * 100:.2f} % of intervals meet the write, "
        f"P99 of all widths {p99 * 1e3:.0f} ms, sampler's lag P50 {found['sampling']['lag']['p50'] * 1e3:.1f} ms; "
        f"the API server answered canary writes in {answers(found, 'canary')} ms, "
        f"probes in {answers(found, 'revision_probes')} ms",
        "",
        "| stage | width, median (P99) | permitted | before, in and after the write | meets | "
        "floored time: width, meets | receive times: width, meets |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in report:
        cells = []
        for name in ("ours", "floored", "received"):
            one = row.get(name)
            cells.append(
                (f"{one['width'] * 1e3:.1f} ms", f"{one['p99'] * 1e3:.0f}", f"{one['meets'] * 100:.1f} %")
                if one
                else None
            )
        ours, floored, received = cells
        assert ours is not None
        peers = [f"{one[0]}, {one[2]}" if one else "–" for one in (floored, received)]
        held = " + ".join(f"{one * 1e3:.1f}" for one in row["parts"])
        permitted = f"{row['permitted'] * 1e3:.1f} ms"
        lines.append(
            f"| {row['stage']} | {ours[0]} ({ours[1]}) | {permitted} | {held} ms | {ours[2]} | {' | '.join(peers)} |"
        )
    return "\n".join(lines)


def answers(found: dict[str, Any], what: str) -> str:
    """Median and P99 of the API server's answers, ms."""
    took = found["sampling"][what]["took"]
    return f"{took['p50'] * 1e3:.1f} (P99 {took['p99'] * 1e3:.0f})"

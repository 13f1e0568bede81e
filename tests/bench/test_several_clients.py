"""One client and two, in turn, of an artificial API server that latency alone limits: rows of docs/benchmarks.md."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import drive_workload
import pytest
from bench_scale import PAIRS, scaled, spread
from benchmark_table import Table
from load_bench import ROOT, SUSPENDED_TEMPLATE

#: Seconds until the server answers a create, and requests that a client has in flight: 160 creates a second at most.
SECONDS, IN_FLIGHT = 0.2, 32
#: The share of twice one client's rate that two clients are to reach, on time.
SHARE = 1.9


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The kubeconfig of the server."""
    folder = tmp_path / "server"
    folder.mkdir()
    program = ROOT / "tests" / "support" / "latency_bound_server.py"
    words = [sys.executable, str(program), str(folder), str(SECONDS)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True) as process:
        deadline = time.monotonic() + 20
        while not (folder / "kubeconfig").exists():
            assert time.monotonic() < deadline and process.poll() is None, "the server does not listen"
            time.sleep(0.05)
        yield str(folder / "kubeconfig")
        assert process.stdin is not None
        process.stdin.close()


def submit(
    kubeconfig: str, folder: Path, run: str, clients: int, count: int, arrival: dict[str, Any]
) -> dict[str, Any]:
    """Send a load; return the result of workload_submit."""
    options = {
        "kubeconfig": kubeconfig,
        "run_id": run,
        "point_dir": str(folder / run / "points" / "001"),
        "namespace": "bench",
        "count": count,
        "clients": clients,
        "arrival": arrival,
        "in_flight": IN_FLIGHT,
        "templates": [{"name": "job", "content": SUSPENDED_TEMPLATE}],
        "stages": [],
        "sample": False,
        "wait": False,
    }
    found = drive_workload.result(drive_workload.start("submit", options, folder / run), timeout=300)
    assert found.get("counts", {}).get("created") == count, found
    return found


def test_two_clients_beside_one(server: str, table: Table, tmp_path: Path) -> None:
    count = scaled(1600, 200)
    pairs: list[tuple[float, float]] = []
    late: list[dict[str, float]] = []
    reached: list[float] = []
    for number in range(PAIRS):
        closed = {"type": "closed"}
        rates = {
            clients: submit(server, tmp_path, f"closed-{number}-{clients}", clients, count * clients, closed)["rate"]
            for clients in ((1, 2) if number % 2 else (2, 1))
        }
        pairs.append((rates[1], rates[2]))
        arrival = {"type": "constant", "rate": round(SHARE * rates[1], 3)}
        on_time = submit(server, tmp_path, f"timed-{number}-2", 2, count * 2, arrival)
        late.append(on_time["lateness"])
        reached.append(on_time["rate"] / rates[1])
    ratios = [two / one for one, two in pairs]
    one, two = (median(values) for values in zip(*pairs, strict=True))
    how = f"artificial server that answers after {SECONDS * 1e3:.0f} ms, {IN_FLIGHT} in flight per client"
    table.add(
        f"creates/s of two clients against one, {how}, closed loop",
        f"≥ {SHARE:g}",
        f"{median(ratios):.2f}",
        median(ratios) >= SHARE,
        f"{two:.0f}/s to {one:.0f}/s; {spread(ratios)}",
    )
    worst = median(each["p99"] for each in late)
    table.add(
        f"lateness P99 of two clients at {SHARE:g} times one client's rate, the same server, constant arrivals",
        "≤ 5 ms",
        f"{worst * 1e3:.1f} ms",
        worst <= 0.005,
        f"median of {len(late)} loads, {min(each['p99'] for each in late) * 1e3:.1f} to "
        f"{max(each['p99'] for each in late) * 1e3:.1f} ms, max {max(each['max'] for each in late) * 1e3:.1f} ms; "
        f"{median(reached):.2f} times one client's rate reached",
    )

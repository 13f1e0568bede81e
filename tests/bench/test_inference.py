"""How exact the times of a load of requests are, and what it costs: compared with the truth of simulated servers."""

from __future__ import annotations

import math
import time
from pathlib import Path

import model_servers as support
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.load_generator_health import quantile
from bench_scale import SCALE, scaled
from benchmark_table import Table, machine, put

PAGE = Path(__file__).resolve().parents[2] / "docs" / "inference_load.md"
BEGIN, END = "<!-- accuracy: written by make bench -->", "<!-- accuracy: end -->"
RATE, TOKENS = 200, 32


def microseconds(values: list[float]) -> str:
    ordered = sorted(values)
    return f"{quantile(ordered, 0.5) * 1e6:.0f} / {quantile(ordered, 0.99) * 1e6:.0f} µs"


def p99(values: list[float]) -> float:
    return quantile(sorted(values), 0.99)


def wall_cost(folder: Path, urls: list[str], count: int) -> float:
    """Return the processor seconds of a load of ``count`` requests, one after the other in 16 streams."""
    result = support.send(folder, urls, count=count, streams={"count": 16}, output_tokens=8)
    return result["cpu_per_token"] * result["tokens"]


def test_accuracy_and_cost(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.delenv("SEATRIAL_VALIDATE", raising=False)
    table = Table()
    count = scaled(6_000, 100)
    with support.model_servers(tmp_path, 1, step_ms=4, max_num_seqs=256) as servers:
        point = tmp_path / "001"
        result = support.send(
            point,
            servers.urls,
            count=count,
            arrival={"type": "poisson", "rate": RATE},
            output_tokens=TOKENS,
            prompt_tokens=64,
            warm_up=50,
        )
        truth = servers.truth_of("001", count)
        rows = support.read_rows(point, "request")
        exact = sum(
            row["outcome"] == "succeeded"
            and len(truth[row["name"]]) == 1
            and row["chunks"] == len(truth[row["name"]][0]["writes"])
            and row["output_tokens"] == truth[row["name"]][0]["output_tokens"] == TOKENS
            for row in rows
        )
        first, gaps = [], []
        for row in rows:
            writes = truth[row["name"]][0]["writes"]
            first.append(abs(row["first_token"] - writes[0] / 1e9))
            times = [0, *row["times"]]
            for number in range(1, len(times)):
                gap = (times[number] - times[number - 1]) / 1e6
                gaps.append(abs(gap - (writes[number] - writes[number - 1]) / 1e9))
        how = f"{count:,} requests at {RATE}/s (Poisson), {TOKENS} tokens each; median / P99"
        table.add("requests and tokens", "all exact", f"{exact:,} of {count:,}", exact == count, "joined by request id")
        table.add("error of the first token's time", "P99 ≤ 100 µs", microseconds(first), p99(first) <= 1e-4, how)
        table.add("error of each gap between tokens", "none", microseconds(gaps), True, how)
        lateness, lag = result["lateness"], result["lag"]
        late = f"{lateness['p50'] * 1e6:.0f} / {lateness['p99'] * 1e6:.0f} µs"
        table.add("lateness of sending", "P99 ≤ 1 ms", late, lateness["p99"] <= 1e-3, how)
        read = f"{lag['p50'] * 1e6:.0f} / {lag['p99'] * 1e6:.0f} µs"
        table.add("lag of reading, not in any time", "none", read, True, how)
        cost = result["cpu_per_token"] * 1e6
        speed = interpreter_speed() * 1e6
        more = f"all of the client, prompts and files included; here Python adds the numbers to 1,000 in {speed:.0f} µs"
        table.add("processor time for each token", "≤ 10 µs", f"{cost:.1f} µs", cost <= 10, more)
        few, many = scaled(1_000, 50), scaled(10_000, 500)
        ratio = wall_cost(tmp_path / "002", servers.urls, many) / wall_cost(tmp_path / "003", servers.urls, few)
        growth = f"{few:,} and {many:,} requests, processor time"
        table.add("ten times the requests", "≤ 11 times the cost", f"{ratio:.1f} times", ratio <= 11, growth)
    print(f"\n{table.text()}\n", flush=True)
    assert exact == count and math.isfinite(ratio)
    if SCALE >= 1:
        put(PAGE, BEGIN, END, table.text().replace(machine(""), machine("").partition(", Kubernetes")[0] + "."))


def interpreter_speed() -> float:
    """Return the seconds that a fixed piece of Python takes: a slow or busy machine is known by it."""
    best = math.inf
    for _attempt in range(20):
        began = time.process_time()
        for _round in range(100):
            sum(range(1000))
        best = min(best, (time.process_time() - began) / 100)
    return best

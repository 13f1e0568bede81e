"""Other load generators beside ours: the same prompts to the same simulated server, compared with its truth log.

PEERS=1 installs them, each into an environment of its own below .cache (1.5 GB), and measures.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import model_servers
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.load_generator_health import quantile
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference.request_bodies import (
    WORDS,
    PromptTexts,
    draw_token_count,
)
from bench_scale import SCALE, scaled
from benchmark_table import machine, put
from inference_peers import GENERATORS, PeerLoad, PeerResult, run_generator

PAGE = Path(__file__).resolve().parents[2] / "docs" / "serving.md"
BEGIN, END = "<!-- peers: written by make bench -->", "<!-- peers: end -->"
RATE, TOKENS = 50.0, 32
LENGTHS = {"type": "lognormal", "mean": 64, "sigma": 0.5, "low": 8, "high": 256}
HEAD = (
    "| generator | answered | error of the first token's time | time to first token, more than the server took |"
    " error of gaps | requests/s of 50 | processor time per token | until the first request |"
)


def truth_of(path: Path, began: float) -> list[dict[str, Any]]:
    """Return the lines of the truth log of the requests that asked for all tokens since ``began``."""
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line["received"] > began and "warm-up" not in line["request_id"]]


def microseconds(nanoseconds: list[float]) -> str:
    """Return median and P99 in microseconds."""
    ordered = sorted(nanoseconds)
    return f"{quantile(ordered, 0.5) / 1e3:,.0f} / {quantile(ordered, 0.99) / 1e3:,.0f} µs"


def joined(result: PeerResult, truth: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the line of the truth log of each request of a result.

    Without ids, first tokens are joined in their order, which makes errors smaller if it differs, never larger.
    """
    if result.ids:
        by_id = {line["request_id"]: line for line in truth}
        return [by_id[name] for name in result.ids]
    ordered = sorted(truth, key=lambda line: line["writes"][0])
    places = sorted(range(len(result.first_tokens)), key=result.first_tokens.__getitem__)
    assert len(places) == len(ordered), f"{len(places)} requests reported, {len(ordered)} answered"
    found: dict[int, dict[str, Any]] = dict(zip(places, ordered, strict=True))
    return [found[place] for place in range(len(places))]


def gap_errors(reported: list[float], writes: list[int]) -> list[float]:
    """Return the errors of the gaps of a request, or that of their mean if only this is reported."""
    true = [later - earlier for earlier, later in zip(writes, writes[1:], strict=False)]
    if len(reported) == 1:
        true = [sum(true) / len(true)]
    if len(reported) != len(true):  # pieces that were read as one
        return []
    return [abs(gap - right) for gap, right in zip(reported, true, strict=True)]


def row_of(name: str, result: PeerResult, truth: list[dict[str, Any]], count: int) -> str:
    """Return the row of a generator in the table."""
    lines = joined(result, truth)
    first = [abs(at - line["writes"][0]) for at, line in zip(result.first_tokens, lines, strict=True)]
    more = [
        at - sent - (line["writes"][0] - line["received"])
        for at, sent, line in zip(result.first_tokens, result.sent, lines, strict=True)
    ]
    pairs = zip(result.gaps, lines, strict=True)
    errors = [gap_errors(reported, line["writes"]) for reported, line in pairs]
    gaps = [error for of_request in errors for error in of_request]
    means = " (of means only)" if all(len(one) == 1 for one in result.gaps) else ""
    without = f", without {left} requests" if (left := errors.count([])) else ""
    received = sorted(line["received"] for line in truth)
    rate = (len(received) - 1) / (received[-1] - received[0]) * 1e9
    tokens = sum(line["output_tokens"] for line in truth)
    cells = [
        f"{name} {result.version}",
        f"{len(result.first_tokens):,} of {count:,}",
        microseconds(first),
        microseconds(more),
        microseconds(gaps) + means + without,
        f"{rate:.1f}",
        f"{result.processor / tokens * 1e6:,.0f} µs",
        f"{(received[0] - result.began) / 1e9:.1f} s",
    ]
    return f"| {' | '.join(cells)} |"


def test_requests_whose_chunks_were_read_as_one_are_counted_in_the_table() -> None:
    writes = [0, 1_000_000, 2_000_000, 3_000_000]
    names = ["a", "b"]
    truth = [
        {"request_id": name, "received": at, "writes": writes, "output_tokens": 4} for at, name in enumerate(names)
    ]
    whole, short = [1e6, 1e6, 1e6], [1e6, 2e6]
    result = PeerResult("1", -1.0, 1.0, names, [0.0, 0.0], [0.0, 0.0], [whole, short])
    assert "| 0 / 0 µs, without 1 requests |" in row_of("x", result, truth, 2)
    assert "without" not in row_of("x", replace(result, gaps=[whole, whole]), truth, 2)


def test_all_processes_of_a_generator_end_with_it(tmp_path: Path) -> None:
    program = "import subprocess, sys; print(subprocess.Popen(['sleep', '60']).pid, flush=True); "
    for name, rest, error in (("ends", "", None), ("hangs", "import time; time.sleep(60)", subprocess.TimeoutExpired)):
        folder = tmp_path / name
        folder.mkdir()
        with pytest.raises(error) if error else contextlib.nullcontext():
            run_generator([sys.executable, "-c", program + rest], folder, limit=60 if error is None else 5)
        left = int((folder / "output.txt").read_text())
        deadline = time.monotonic() + 20
        while processes.start_ticks_of(left) is not None and time.monotonic() < deadline:
            time.sleep(0.05)
        assert processes.start_ticks_of(left) is None


@pytest.mark.skipif(not os.environ.get("PEERS"), reason="PEERS=1 installs other load generators and measures them")
def test_other_generators_beside_ours(tmp_path: Path) -> None:
    count = scaled(1_000, 50)
    texts = PromptTexts(1, "peers")
    prompts = [texts.text(index, draw_token_count(index, LENGTHS, 1, "prompt")) for index in range(count)]
    rows, load = [], os.getloadavg()[0]
    with model_servers.model_servers(tmp_path, 1, step_ms=4, max_num_seqs=256) as servers:
        for name, generate in GENERATORS.items():
            folder = tmp_path / name
            folder.mkdir()
            result = generate(PeerLoad(servers.urls[0], RATE, prompts, TOKENS, WORDS), folder, time.time_ns)
            truth = truth_of(servers.truth_path, result.began)
            rows.append(row_of(name, result, truth, count))
            print(rows[-1], flush=True)
            # What is compared is the same load.
            assert len(truth) >= len(result.first_tokens) >= 0.99 * count
            assert {line["output_tokens"] for line in truth} == {TOKENS}
    busy = f"At its begin the load average of the machine was {load:.1f}."
    about = machine("").partition(", Kubernetes")[0]
    table = "\n".join([f"{about}. {busy}", "", HEAD, f"|{'---|' * 8}", *rows])
    print(f"\n{table}\n", flush=True)
    if SCALE >= 1:
        put(PAGE, BEGIN, END, table)

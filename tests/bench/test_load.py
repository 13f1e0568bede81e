"""The load engine, side by side with others and against its own limits; fills the table of docs/benchmarks.md.

Nothing here fails for being slow: the table says which targets were met. BENCH_SCALE=0.1 runs a tenth of
everything, to try whether it runs; such a table is not written into the page.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import drive_workload
import pytest
import watch_lines
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import partial_json_decoder
from bench_scale import PAIRS, scaled, spread
from benchmark_table import Table
from load_bench import REAL_TEMPLATE, ROOT, Bench, Done, Usage
from playbook import PROGRAM, environment


@pytest.fixture(autouse=True)
def _complete(table: Table, control_plane: dict[str, Any]) -> None:
    table.kubernetes = str(control_plane["cluster"].get("version", ""))


def late(done: Done) -> str:
    """Lateness in words."""
    found = done.result["lateness"]
    return f"P50 {found['p50'] * 1e3:.1f}, P99 {found['p99'] * 1e3:.1f}, max {found['max'] * 1e3:.1f} ms"


def test_creates_beside_a_raw_client_and_kubectl(bench: Bench, table: Table) -> None:
    count, few = scaled(2000), scaled(160)
    ours: list[Done] = []
    raws: list[Done] = []
    kubectls: list[Done] = []

    def run_ours() -> None:
        ours.append(bench.submit(count, sample=False))

    def run_raw() -> None:
        raws.append(bench.raw(count, 32))

    bench.submit(100, sample=False)  # the control plane has seen jobs before
    for number in range(PAIRS):
        order: list[Callable[[], None]] = [run_ours, run_raw] if number % 2 else [run_raw, run_ours]
        for one in order:
            bench.clear()
            time.sleep(1)
            one()
        bench.clear()
        kubectls.append(bench.kubectl(few, 8))
    bench.clear()
    faster = [one.rate / raw.rate for one, raw in zip(ours, raws, strict=True)]
    cheaper = [one.cost.cpu / raw.cost.cpu for one, raw in zip(ours, raws, strict=True)]
    than_kubectl = [one.rate / other.rate for one, other in zip(ours, kubectls, strict=True)]
    mine, theirs = median(one.rate for one in ours), median(one.rate for one in raws)
    table.add(
        f"creates/s, {count:,} suspended Jobs, 32 in flight, against raw_create.py",
        "≥ 1.0",
        f"{median(faster):.2f}",
        median(faster) >= 1.0,
        f"{mine:.0f}/s to {theirs:.0f}/s; {spread(faster)}",
    )
    each = [median(one.cost.cpu for one in runs) / count * 1e6 for runs in (ours, raws)]
    table.add(
        "client CPU per create against the same",
        "≤ 0.5",
        f"{median(cheaper):.2f}",
        median(cheaper) <= 0.5,
        f"{each[0]:.0f} µs to {each[1]:.0f} µs, start of the process included; {spread(cheaper)}",
    )
    table.add(
        "creates/s against kubectl create -f per object, 8 processes",
        "≥ 20",
        f"{median(than_kubectl):.0f}",
        median(than_kubectl) >= 20,
        f"{median(one.rate for one in kubectls):.1f}/s with kubectl; {spread(than_kubectl)}",
    )


def test_lateness_of_suspended_jobs(bench: Bench, table: Table) -> None:
    bench.clear()
    done = bench.submit(scaled(6000), arrival={"rate": 100})
    late99 = done.result["lateness"]["p99"]
    table.add(
        "lateness P99, 100/s for 60 s, suspended Jobs, sampler on",
        "≤ 5 ms",
        f"{late99 * 1e3:.1f} ms",
        late99 <= 0.005,
        late(done),
    )
    bench.clear()


def test_lateness_and_sampling_of_real_jobs(bench: Bench, table: Table) -> None:
    template = {"name": "job", "content": REAL_TEMPLATE, "parameters": {"run_seconds": 1}}
    # The control plane has the two cores for itself and its writes stall for up to half a second: at 100/s more than
    # 32 have to be on their way to keep every moment.
    more = {"wait": True, "timeout": 300, "in_flight": 128}
    done = bench.submit(scaled(6000), arrival={"rate": 100}, templates=[template], **more)
    result = done.result
    late99 = result["lateness"]["p99"]
    table.add(
        "lateness P99, 100/s for 60 s, real Jobs on KWOK, 128 in flight, sampler on",
        "≤ 10 ms",
        f"{late99 * 1e3:.1f} ms",
        late99 <= 0.010,
        late(done),
    )
    sampling, events = result["sampling"], result["events"]
    each, rows = (sampling[name] / events * 1e6 for name in ("cpu_events", "cpu_rows"))
    table.add(
        "CPU per watch event in that run, of Jobs and Pods, four stages extracted",
        "≤ 40 µs",
        f"{each:.0f} µs",
        each <= 40,
        f"all of it; {rows:.0f} µs from received bytes to rows in the file ({sampling['decoder']}), "
        f"the rest is waking up and receiving; "
        f"{events:,} events, {sampling['cpu_events']:.1f} s; the whole sampler with its canary {sampling['cpu']:.1f} s",
    )
    canary, lag = sampling["canary"], sampling["lag"]
    took = canary["took"]
    table.add(
        "the canary's cost in that run: our CPU, and what a write took",
        "–",
        f"{canary['cpu'] / done.cost.seconds * 100:.1f} % of a core",
        True,
        f"{canary['writes']:,} writes, P50 {took['p50'] * 1e3:.1f} ms, P99 {took['p99'] * 1e3:.1f} ms; the sampler "
        f"lags P50 {lag['p50'] * 1e3:.1f} ms, P99 {lag['p99'] * 1e3:.1f} ms behind it",
    )
    bench.clear()


def test_decoding_of_events_beside_json(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    events = watch_lines.lines(scaled(1000))
    measured: dict[str, list[tuple[float, float, list[str]]]] = {"msgspec": [], "json": []}
    for number in range(PAIRS):
        for name in sorted(measured, reverse=number % 2 == 0):
            with monkeypatch.context() as patch:
                patch.setattr(partial_json_decoder, "json_decoder_package", lambda name=name: name)
                measured[name].append(watch_lines.cost(events))
    assert all(rows == measured["msgspec"][0][2] for runs in measured.values() for _decode, _rest, rows in runs)
    decode, whole = (median(one[0] for one in measured[name]) / len(events) * 1e6 for name in ("msgspec", "json"))
    rest = median(one[1] for one in measured["msgspec"]) / len(events) * 1e6
    table.add(
        "CPU to decode the needed fields of a watch event: msgspec to json.loads",
        "–",
        f"{decode / whole:.2f}",
        True,
        f"{decode:.1f} µs to {whole:.1f} µs, and {rest:.1f} µs from the fields to the row; {len(events):,} events of "
        f"Jobs and Pods, {sum(len(line) for _kind, line in events) / len(events) / 1e3:.1f} KB each; equal rows",
    )


def test_lateness_at_500_a_second(bench: Bench, table: Table) -> None:
    folder = bench.folder / "responder"
    folder.mkdir()
    program = ROOT / "tests" / "support" / "tls_responder.py"
    with subprocess.Popen([sys.executable, str(program), str(folder)], stdin=subprocess.PIPE) as server:
        deadline = time.monotonic() + 20
        while not (folder / "kubeconfig").exists():
            assert time.monotonic() < deadline and server.poll() is None, "the responder does not listen"
            time.sleep(0.05)
        done = bench.submit(scaled(10_000), kubeconfig=str(folder / "kubeconfig"), sample=False, arrival={"rate": 500})
        assert server.stdin is not None
        server.stdin.close()
    late99 = done.result["lateness"]["p99"]
    table.add(
        "lateness P99, 500/s for 20 s, trivial local TLS responder",
        "≤ 5 ms",
        f"{late99 * 1e3:.1f} ms",
        late99 <= 0.005,
        late(done),
    )


MODULE_UTILS = "ansible_collections.perfscale.seatrial.plugins.module_utils"


def step(name: str, arguments: list[str]) -> tuple[float, int]:
    """Run a step of results in a process of its own; return processor seconds and peak KiB."""
    code = (
        "import sys, resource; sys.path.insert(0, sys.argv[1])\n"
        f"from {MODULE_UTILS}._results.timeline.write_timeline import write_timeline\n"
        f"from {MODULE_UTILS}._results.kpi.write_kpis import write_kpis\n"
        "made = {'timeline': write_timeline, 'kpis': lambda top: write_kpis(top, sys.argv[4:])}\n"
        "made[sys.argv[2]](sys.argv[3])\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    began = Usage()
    words = [sys.executable, "-c", code, str(ROOT / "collections"), name, *arguments]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=600)
    return began.until_now().cpu, int(done.stdout)


def steps(bench: Bench, count: int) -> dict[str, tuple[float, float]]:
    """Seconds and MiB of every step of a run of ``count`` suspended jobs; submit's has the API server's time in it."""
    bench.clear()
    done = bench.submit(count, measure_memory=True)
    found = {
        "submit": (done.result["load_seconds"], done.cost.memory["submit"] / 1024),
        "sampler": (done.result["sampling"]["cpu"], done.cost.memory["sampler"] / 1024),
    }
    options = json.loads((done.point_dir.parents[1] / "submit-options.json").read_text())
    given = {key: options[key] for key in ("kubeconfig", "run_id", "point_dir", "namespace", "stages")}
    began = time.monotonic()
    process = drive_workload.start("sample", {**given, "timeout": 0, "settle": 0}, done.point_dir.parents[1])
    said = drive_workload.result(process, timeout=600)
    assert said["counts"]["seen"] == count, said
    found["sample again"] = (time.monotonic() - began, 0.0)
    top = done.point_dir.parents[1]
    kpis = str(ROOT / "roles" / "results" / "files" / "kpis" / "workload.yml")
    for name, more in (("timeline", []), ("kpis", [kpis])):
        cpu, peak = step(name, [str(top), *more])
        found[name] = (cpu, peak / 1024)
    found["delete"] = (bench.clear(), 0.0)
    found["submit, our CPU"] = (done.cost.cpu - done.result["sampling"]["cpu"], 0.0)
    return found


def test_ten_times_the_objects(bench: Bench, table: Table) -> None:
    small, large = scaled(1000), scaled(10_000, 200)
    one, ten = steps(bench, small), steps(bench, large)
    told = []
    worst = 0.0
    for name, (seconds, memory) in ten.items():
        ratio = seconds / max(one[name][0], 0.01)
        worst = max(worst, ratio, memory / one[name][1] if one[name][1] else 0.0)
        told.append(f"{name} {one[name][0]:.1f} → {seconds:.1f} s" + (f", {memory:.0f} MiB" if memory else ""))
    table.add(
        f"{large:,} workloads against {small:,}: time and memory of every step, the worst ratio",
        "≤ 11",
        f"{worst:.1f}",
        worst <= 11,
        "; ".join(told),
    )
    held = [(ten[name][1] - one[name][1]) * 1024 / (large - small) for name in ("submit", "sampler")]
    table.add(
        "resident memory per workload held, above the process's base: submitter, sampler",
        "≤ 1.5 KB",
        f"{held[0]:.2f} KB, {held[1]:.2f} KB",
        max(held) <= 1.5,
        f"between {small:,} and {large:,} workloads",
    )


def test_what_ansible_adds(bench: Bench, table: Table, tmp_path: Path) -> None:
    bench.clear()
    count = scaled(10_000, 200)
    top = tmp_path / "run"
    (top / "points" / "001").mkdir(parents=True)
    variables = {
        "bench_kubeconfig": bench.kubeconfig,
        "bench_run_id": f"{bench.namespace}-a",
        "bench_run_dir": str(top),
        "bench_namespace": bench.namespace,
        "bench_count": count,
    }
    path = tmp_path / "variables.json"
    path.write_text(json.dumps(variables), encoding="utf-8")
    began = time.monotonic()
    words = [str(PROGRAM), "-i", "localhost,", str(ROOT / "tests/bench/playbooks/ten_thousand.yml"), "-e", f"@{path}"]
    # What the modules say is read off the output: a task of the bench's own would count as Ansible's.
    env = environment(tmp_path, {"ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json"})
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, timeout=900)
    seconds = time.monotonic() - began
    assert done.returncode == 0, done.stdout + done.stderr
    (play,) = json.loads(done.stdout[done.stdout.index("{\n") :])["plays"]
    submitted, sampled, _timeline = (one["hosts"]["localhost"] for one in play["tasks"])
    assert submitted["counts"]["created"] == count, submitted
    timeline = sum(row["seconds"] for row in files.read_json_lines(top / "timing.json") if row["category"] == "results")
    modules = submitted["seconds"] + sampled["seconds"] + timeline
    table.add(
        f"{count:,} workloads: Ansible's part of submit, sample and timeline",
        "≤ 6 tasks, ≤ 5 s",
        f"3 tasks, {seconds - modules:.1f} s",
        seconds - modules <= 5,
        f"{seconds:.1f} s in all, of which the modules worked {modules:.1f} s",
    )
    bench.clear()

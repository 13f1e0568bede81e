# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""tools/ci as a CI system runs it: the exit status, the last line and the JUnit file state the verdict."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ci_job import Job, begin, ended, read, run
from playbook import ROOT, environment, run_dirs
from processes import traces

#: A run of all phases in seconds.
SMALL = {
    "workload_scale_count": 3,
    "workload_scale_arrival": {"type": "constant", "rate": 3},
    "workload_scale_type": "training",
    "workload_scale_run_seconds": 1,
    "workload_scale_timeout": 120,
    "workload_max_lateness": 60,  # how busy this machine is says nothing of the wrapper
    "rehearsal_components": [],
    "fake_gpu_nodes": 1,
}


def measure(folder: Path, rehearsal_folder: Path, **settings: Any) -> tuple[Job, Path]:
    """Run all phases; return the job and its run directory."""
    own = {**SMALL, "rehearsal_name": f"ci-{folder.name[-12:]}", "rehearsal_data_dir": str(rehearsal_folder)}
    job = run(folder, "workload_scale", **{**own, **settings})
    (run_dir,) = run_dirs(folder)
    return job, run_dir


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, rehearsal_folder: Path) -> tuple[Job, Path]:
    return measure(tmp_path_factory.mktemp("measured"), rehearsal_folder)


@pytest.fixture
def again(measured: tuple[Job, Path], tmp_path: Path) -> Path:
    """A copy of the run, to be judged by other limits."""
    shutil.copytree(measured[1], tmp_path / measured[1].name)
    return tmp_path / measured[1].name


def judge(run_dir: Path, **settings: Any) -> Job:
    return run(run_dir.parent, "workload_scale", "--tags", "report", "-e", f"run_dir={run_dir}", **settings)


def test_a_run_without_a_regression_ends_with_0(measured: tuple[Job, Path]) -> None:
    job, run_dir = measured
    assert job.status == 0, job.output[-4000:]
    assert job.last.startswith("pass (exit 0): ")
    assert job.cases("failure") == job.cases("error") == {}
    assert {"phase test", "point 001", "objects 001"} <= {case.get("name") for case in job.suite.iter("testcase")}
    assert (run_dir / "junit.xml").read_text() == (run_dir.parent / "junit.xml").read_text()
    assert (run_dir / "summary.md").read_text().startswith("# pass")


def test_a_figure_outside_its_limit_ends_with_1(again: Path) -> None:
    job = judge(again, results_limits={"makespan": {"max": "1 ms"}, "workloads_failed": {"max": 0}})
    assert job.status == 1, job.output[-4000:]
    assert re.fullmatch(r"regression \(exit 1\): makespan \(point 001\): .* is outside the limit, max 1 ms\.", job.last)
    assert list(job.cases("failure")) == ["001 makespan"] and job.cases("error") == {}
    assert files.read_json(again / "verdict.json")["code"] == 4


def test_a_figure_whose_interval_contains_its_limit_ends_with_2(again: Path) -> None:
    judged = files.read_json(again / "verdict.json")["kpis"]
    low, high = next((one["low"], one["high"]) for one in judged if one["name"] == "makespan")
    assert low < high
    job = judge(again, results_limits={"makespan": {"max": (low + high) / 2}})
    assert job.status == 2, job.output[-4000:]
    assert job.last.startswith("inconclusive (exit 2): makespan (point 001): ")
    assert job.cases("failure") == job.cases("error") == {}
    assert "001 makespan" in job.cases("skipped")


@pytest.mark.long
def test_a_load_that_was_late_ends_with_2_and_is_no_failure(again: Path) -> None:
    job = judge(again, workload_max_lateness=1e-9, results_limits={"makespan": {"max": "1 ms"}})
    assert job.status == 2, job.output[-4000:]
    assert job.last.startswith("invalid (exit 2): generator (point 001): ")
    assert job.cases("failure") == {} and list(job.cases("error")) == ["generator 001"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["-e", "preset=ligth"], "light"),
        pytest.param(
            ["-e", "cluster_provider=existing", "-e", "cluster_kubeconfig=/no/such"],
            "there is no file /no/such",
            marks=pytest.mark.long,
        ),
        pytest.param(["-e", '{"results_limits": {"makespn": {"max": 1}}}'], "makespan", marks=pytest.mark.long),
        pytest.param(["-e", "run_dir=/no/such"], "/no/such", marks=pytest.mark.long),
        (["--no-such-option"], "before it opened a run"),
    ],
)
def test_bad_input_ends_with_3_and_is_one_error(tmp_path: Path, words: list[str], reason: str) -> None:
    job = run(tmp_path, "workload_scale", *words)
    assert job.status == 3, job.output[-4000:]
    assert job.last.startswith("error (exit 3): ") and reason in job.last
    (text,) = job.cases("error").values()
    assert reason in text and job.cases("failure") == {}
    assert run_dirs(tmp_path) == []


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(300)
        yield server


def kubeconfig(folder: Path, port: int) -> Path:
    """Write a kubeconfig that names a port of this machine."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_a_cluster_that_is_unreachable_from_the_start_ends_with_3_and_is_one_error(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, 9)
    job = run(tmp_path, "workload_scale", cluster_provider="existing", cluster_kubeconfig=str(path))
    assert job.status == 3, job.output[-4000:]
    assert job.last.startswith("error (exit 3): ") and "127.0.0.1:9" in job.last
    assert job.cases("failure") == {} and len(job.cases("error")) == 1
    assert run_dirs(tmp_path) == []


def interrupted(folder: Path, process: subprocess.Popen[bytes], number: signal.Signals) -> Job:
    """Interrupt a job; return it after its end."""
    process.send_signal(number)
    job = ended(folder, process, 300)
    assert job.status == 3, job.output[-4000:]
    assert job.last == f"error (exit 3): ended by {number.name}"
    assert job.cases("failure") == {} and len(job.cases("error")) == 1
    return job


def test_ctrl_c_before_a_run_is_opened_ends_with_3(tmp_path: Path, silent: socket.socket) -> None:
    path = kubeconfig(tmp_path, silent.getsockname()[1])
    process = begin(tmp_path, "workload_scale", cluster_provider="existing", cluster_kubeconfig=str(path))
    with silent.accept()[0]:
        interrupted(tmp_path, process, signal.SIGINT)
    assert run_dirs(tmp_path) == []


@pytest.mark.long
def test_an_interrupted_run_gives_back_and_ends_with_3(tmp_path: Path) -> None:
    data = tmp_path / "data"
    process = begin(tmp_path, "workload_scale", **{**SMALL, "rehearsal_data_dir": str(data)})
    deadline = time.monotonic() + 120
    while not list(data.glob("*/*")):
        assert time.monotonic() < deadline and process.poll() is None, (tmp_path / "log").read_text()
        time.sleep(0.2)
    job = interrupted(tmp_path, process, signal.SIGTERM)
    (run_dir,) = run_dirs(tmp_path)
    assert list(job.cases("error")) == ["phase cluster"]
    record = files.read_yaml(run_dir / "run.yml")
    assert (record["status"], record["held"]) == ("interrupted", [])
    assert traces(data) == []


SAMPLE = re.compile(r"^(\w+)(\{.*\})? \S+$", re.MULTILINE)


@pytest.mark.long
def test_two_runs_have_the_same_prometheus_series(tmp_path: Path, rehearsal_folder: Path) -> None:
    series = []
    for name in ("first", "second"):
        textfile = tmp_path / f"{name}.prom"
        job, run_dir = measure(tmp_path / name, rehearsal_folder, export_textfile=str(textfile))
        assert job.status == 0, job.output[-4000:]
        found = set(SAMPLE.findall(textfile.read_text(encoding="utf-8")))
        own = {one for one in found if one[0] == "seatrial_run_info"}
        run_id = files.read_yaml(run_dir / "run.yml")["id"]
        assert len(own) == 1 and not [one for one in found - own if run_id in one[1]]
        series.append(found - own)
    assert series[0] == series[1] and len(series[0]) > 50


def test_make_runs_the_job(tmp_path: Path) -> None:
    """make itself ends with 2 whatever failed."""
    words = ["make", "ci", "PROJECT=workload_scale", "PRESET=ligth"]
    # An outer make, as in CI, would make the inner one print that it leaves the directory.
    own = {name: value for name, value in environment(tmp_path).items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(words, cwd=ROOT, env=own, timeout=600, capture_output=True, text=True)
    job = read(tmp_path, done.returncode, done.stdout)
    assert job.status == 2 and job.last.startswith("error (exit 3): ") and "light" in job.last
    assert len(job.cases("error")) == 1

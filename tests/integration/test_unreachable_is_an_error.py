# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster or lab that cannot be reached is an error, at any moment of a run, and never a regression.

The API server of a real control plane is killed while tools/ci runs a project on it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import bare_metal_lab
import pytest
import rehearsal as support
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import (
    cluster_lifecycle,
    cluster_status,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu import fake_nodes, simulated_node_pool
from ci_job import Job, begin, ended
from playbook import run_dirs

pytestmark = pytest.mark.long

SMALL = {
    "workload_scale_type": "training",
    "workload_scale_count": 3,
    "workload_scale_arrival": {"type": "constant", "rate": 3},
    "workload_scale_run_seconds": 1,
    "workload_scale_timeout": 60,
    "workload_max_lateness": 60,
    "workload_scale_gpus": 0,
}


@pytest.fixture(scope="module")
def options(rehearsal_folder: Path) -> Iterator[cluster_lifecycle.RehearsalOptions]:
    found = support.options(rehearsal_folder, "unreachable", components=[])
    yield found
    cluster_lifecycle.remove_instance(support.options(rehearsal_folder, "unreachable", force=True), support.quiet)


@pytest.fixture
def cluster(options: cluster_lifecycle.RehearsalOptions) -> dict[str, Any]:
    """A control plane whose API server is up, with two nodes."""
    info = cluster_lifecycle.create_or_repair_instance(options, support.quiet)
    with Client.from_kubeconfig(info["kubeconfig"]) as client:
        fake_nodes.create_fake_nodes(client, simulated_node_pool.NodePoolSpec(2), 240, support.quiet, False)
    return info


def phase_runs(name: str) -> Callable[[Path], bool]:
    def begun(run_dir: Path) -> bool:
        return bool(files.read_yaml(run_dir / "run.yml")["phases"].get(name, {}).get("status") == "running")

    return begun


def point_passed(run_dir: Path) -> bool:
    return bool(files.read_yaml(run_dir / "points" / "001" / "point.yml")["status"] == "passed")


def load_runs(run_dir: Path) -> bool:
    return (
        sum(one.get("outcome") == "created" for one in files.read_json_lines(run_dir / "points/001/ledger.jsonl")) > 5
    )


def when(moment: Callable[[Path], bool], job: Any, folder: Path) -> Path:
    """Wait for a moment of a run; return its directory."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and job.poll() is None:
        for run_dir in run_dirs(folder):
            try:
                if moment(run_dir):
                    return run_dir
            except (DataError, OSError):
                pass  # not written yet
        time.sleep(0.1)
    pytest.fail((folder / "log").read_text(encoding="utf-8")[-4000:])


def check(job: Job, run_dir: Path, where: str) -> None:
    """Everything that a CI system or a person reads says that this is an error, and that it is one."""
    assert job.status == 3, job.output[-6000:]
    assert job.last.startswith("error (exit 3): "), job.last
    assert job.cases("failure") == {}
    assert list(job.cases("error")) == [where], job.cases("error")
    verdict = files.read_json(run_dir / "verdict.json")
    assert (verdict["verdict"], verdict["code"]) == ("error", 5), verdict
    # A cluster that is lost takes the lock of the run with it.
    assert verdict["cause"] in (causes := ("AccessError", "LockLost")), verdict["cause"]
    assert job.suite.find("testcase/error").get("type") in (*causes, "Interrupted")  # type: ignore[union-attr]
    assert "# error" in (run_dir / "summary.md").read_text(encoding="utf-8")
    textfile = (run_dir.parent / "metrics.prom").read_text(encoding="utf-8")
    assert [line.split()[-1] for line in textfile.splitlines() if line.startswith("seatrial_verdict_code")] == ["5.0"]


@pytest.mark.parametrize(
    ("moment", "where", "more"),
    [
        (Path.is_dir, "phase cluster", {}),
        (phase_runs("prepare"), "phase prepare", {}),
        (phase_runs("test"), "point 001", {}),
        (
            load_runs,
            "point 001",
            {"workload_scale_count": 300, "workload_scale_arrival": {"type": "constant", "rate": 5}},
        ),
        (point_passed, "point 002", {"matrix": {"workload_scale_seed": [1, 2, 3]}}),
    ],
    ids=["cluster", "prepare", "test", "load", "between points"],
)
def test_a_cluster_that_is_lost(
    moment: Callable[[Path], bool],
    where: str,
    more: dict[str, Any],
    options: cluster_lifecycle.RehearsalOptions,
    cluster: dict[str, Any],
    tmp_path: Path,
) -> None:
    api_server = next(
        one for one in cluster_status.read_instance_state(options)["processes"] if one["name"] == "kube-apiserver"
    )
    given = {
        "cluster_provider": "existing",
        "cluster_kubeconfig": cluster["kubeconfig"],
        "export_textfile": str(tmp_path / "metrics.prom"),
        "results_limits": {"makespan": {"max": "1 ms"}, "workloads_failed": {"max": 0}},
    }
    process = begin(tmp_path, "workload_scale", **{**SMALL, **given, **more})
    run_dir = when(moment, process, tmp_path)
    os.kill(int(api_server["pid"]), signal.SIGKILL)
    job = ended(tmp_path, process, 900)
    check(job, run_dir, where)


def test_a_lab_that_is_lost(rehearsal: support.Rehearsal, tmp_path: Path) -> None:
    with bare_metal_lab.lab(tmp_path / "lab", str(rehearsal.kubeconfig)) as lab:
        words = ["-i", str(lab.inventory), "-e", "preset=light,bare_metal"]
        given = {"export_textfile": str(tmp_path / "metrics.prom")}
        process = begin(tmp_path, "fine_tuning", *words, env=lab.environment, **given)
        run_dir = when(Path.is_dir, process, tmp_path)
        lab.server.stop()
        job = ended(tmp_path, process, 900)
    check(job, run_dir, "phase lease")


def test_an_export_server_that_cannot_be_reached_leaves_the_verdict(cluster: dict[str, Any], tmp_path: Path) -> None:
    given = {
        "cluster_provider": "existing",
        "cluster_kubeconfig": cluster["kubeconfig"],
        "export_opensearch_url": "http://127.0.0.1:9",
    }
    process = begin(tmp_path, "workload_scale", **{**SMALL, **given})
    job = ended(tmp_path, process, 600)
    assert job.status == 3, job.output[-6000:]
    assert job.last.startswith("error (exit 3): verdict pass, but the run failed: "), job.last
    assert job.cases("failure") == {} and list(job.cases("error")) == ["phase export"]
    (run_dir,) = run_dirs(tmp_path)
    assert files.read_json(run_dir / "verdict.json")["verdict"] == "pass"

"""Killed at any moment, a run is given back by its printed command: no object, no process, no port is left."""

from __future__ import annotations

import contextlib
import random
import subprocess
import time
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from killed_runs import end, give_back
from playbook import begin, run_dirs
from processes import open_ports, ports_of, traces

pytestmark = pytest.mark.long

#: A warm run of preset light takes about this long here; moments are drawn from within it.
SPAN = 75.0
MOMENTS = [
    (seed, random.Random(seed).uniform(0.5, SPAN), ("kill", "interrupt", "term")[seed % 3]) for seed in range(20)
]


def name_of(value: object) -> str:
    """A readable id of a test."""
    return f"{value:.0f}s" if isinstance(value, float) else str(value)


@pytest.mark.parametrize(("seed", "moment", "how"), MOMENTS, ids=name_of)
def test_nothing_is_left_after_the_give_back_command(seed: int, moment: float, how: str, tmp_path: Path) -> None:
    data = tmp_path / "rehearsal"
    words = ["-e", "preset=light", "-e", f"rehearsal_data_dir={data}"]
    process = begin(*words, artifacts=tmp_path / "artifacts", log=tmp_path / "log")
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=moment)
    end(process, how)
    ports = [port for path in data.glob("*") for port in ports_of(path)]
    found = run_dirs(tmp_path / "artifacts")
    if not found:
        assert traces(data) == [], "something was taken before the give-back command was written"
        return
    done = give_back(found[0])
    assert done.returncode == 0, f"killed at {moment:.1f} s by {how}\n{done.stdout[-6000:]}"
    deadline = time.monotonic() + 120  # a module that was killed with its run ends within seconds
    while traces(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert traces(tmp_path) == []
    assert open_ports(ports) == []
    assert [path.name for path in data.glob("*") if path.is_dir()] == []
    assert files.read_yaml(found[0] / "run.yml")["held"] == []


@pytest.mark.parametrize(
    ("seed", "moment", "how"), [(seed, moment / 2, how) for seed, moment, how in MOMENTS[:6]], ids=name_of
)
def test_nothing_is_left_on_a_cluster_of_others(seed: int, moment: float, how: str, tmp_path: Path, rehearsal) -> None:
    data = Path(rehearsal.info["data_dir"])
    words = ["-e", "preset=light", "-e", f"rehearsal_name={data.name}", "-e", f"rehearsal_data_dir={data.parent}"]
    process = begin(*words, artifacts=tmp_path / "artifacts", log=tmp_path / "log")
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=moment)
    end(process, how)
    for run_dir in run_dirs(tmp_path / "artifacts"):
        done = give_back(run_dir)
        assert done.returncode == 0, f"killed at {moment:.1f} s by {how}\n{done.stdout[-6000:]}"
        run_id = files.read_yaml(run_dir / "run.yml")["id"]
        assert labelled(rehearsal.kubeconfig, run_id) == []


def labelled(kubeconfig: str, run_id: str) -> list[str]:
    """Objects of the run, of every kind that it makes or that is made for it."""
    client = Client.from_kubeconfig(kubeconfig)
    found = []
    for path in (
        "api/v1/namespaces",
        "api/v1/pods",
        "api/v1/configmaps",
        "api/v1/secrets",
        "api/v1/services",
        "api/v1/nodes",
        "apis/kubeflow.org/v1/pytorchjobs",
    ):
        listed = client.request("GET", f"/{path}", query={"labelSelector": f"perfscale.seatrial/run={run_id}"})
        found += [f"{path} {one['metadata']['name']}" for one in listed["items"]]
    return found

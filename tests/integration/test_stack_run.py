"""A whole run with the stack under test leaves a cluster as it found it: empty, and with a colleague's things on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import rehearsal as support
import snapshot
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import cluster_lifecycle
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu import fake_nodes, simulated_node_pool
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.olm import install_operators, operator_specs
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.rhoai import data_science_cluster
from playbook import play, run_dirs

pytestmark = pytest.mark.long

COLLEAGUE = "colleague"


@pytest.fixture(scope="module")
def info(rehearsal_folder: Path) -> Iterator[dict[str, Any]]:
    """A cluster with OLM, the training operator and nodes, to which runs come as to somebody's existing one."""
    options = support.options(rehearsal_folder, "stack", components=["training-operator", "trainer", "olm"])
    made = cluster_lifecycle.create_or_repair_instance(options, support.quiet)
    with Client.from_kubeconfig(made["kubeconfig"]) as client:
        fake_nodes.create_fake_nodes(client, simulated_node_pool.NodePoolSpec(4, pool="test-stack"), 240, support.quiet)
    yield made
    cluster_lifecycle.remove_instance(support.options(rehearsal_folder, "stack", force=True), support.quiet)


@pytest.fixture
def client(info: dict[str, Any]) -> Iterator[Client]:
    with Client.from_kubeconfig(info["kubeconfig"]) as made:
        yield made


def run_on(info: dict[str, Any], artifacts: Path, *more: str, preset: str = "rhoai_light") -> Path:
    """Run the main job on the cluster as an existing one; return the run directory."""
    words = [f"preset={preset}", "cluster_provider=existing", f"cluster_kubeconfig={info['kubeconfig']}", *more]
    words.append("workload_max_lateness=60")  # how busy this machine is says nothing of what is left
    done = play(*(word for one in words for word in ("-e", one)), artifacts=artifacts, timeout=1200)
    assert done.code == 0, done.output
    (run_dir,) = run_dirs(artifacts)
    assert (run_dir / "report" / "index.html").exists()
    assert files.read_json(run_dir / "verdict.json")["verdict"] == "pass"
    return run_dir


def installed_by(run_dir: Path) -> str:
    """What the operators' modules said."""
    return "".join(path.read_text() for path in sorted(run_dir.glob("*__olm_operator__install/log")))


# With version 3, cert-manager and the JobSet operator too.
@pytest.mark.parametrize(("preset", "operators"), [("rhoai_light", 5), ("rhoai2_light", 3)])
def test_an_empty_cluster_is_as_before(
    info: dict[str, Any], client: Client, tmp_path: Path, preset: str, operators: int
) -> None:
    before = snapshot.settled(client)
    run_dir = run_on(info, tmp_path, preset=preset)
    assert f"{operators} operators are installed" in installed_by(run_dir)
    said = "".join(path.read_text() for path in sorted(run_dir.glob("*__cleanup__main/log")))
    job = "TrainJob" if preset == "rhoai_light" else "PyTorchJob"
    assert said.index(job) < said.index("deleting DataScienceCluster"), "their operators remove what holds them"
    assert snapshot.left(client, before) == []


def test_a_colleagues_things_are_as_before(info: dict[str, Any], client: Client, tmp_path: Path) -> None:
    theirs = [
        # Not the channel that the run would subscribe to: theirs is used all the same.
        {"package": "rhods-operator", "namespace": "colleague-rhoai", "watches": "all", "channel": "stable-3.4"},
        {
            "package": "nfd",
            "namespace": "colleague-nfd",
            "version": "4.17.0",
            "operand": {"kind": "NodeFeatureDiscovery", "single": True, "ready": {"condition": "Available"}},
        },
    ]
    install_operators.install_operators(
        client, operator_specs.read_operators(theirs), COLLEAGUE, 240, StepDirectory(None), print
    )
    order = data_science_cluster.DataScienceSpec(
        COLLEAGUE, name="theirs", components=["dashboard", "trainingoperator"], timeout=120
    )
    data_science_cluster.ensure_data_science_cluster_state(client, order, "present", StepDirectory(None), print)
    # Where the run's own things would lie.
    for manifest in (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "nvidia-gpu-operator"}},
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "notes", "namespace": "nvidia-gpu-operator"},
            "data": {"from": "a colleague"},
        },
    ):
        client.create(manifest)
    before = snapshot.settled(client)
    # ray is missing on their DataScienceCluster: it is added with leave, and taken back.
    run_dir = run_on(
        info, tmp_path, '{"rhoai_components": ["dashboard", "trainingoperator", "ray"]}', '{"rhoai_adopt": true}'
    )
    assert "1 operators are installed" not in installed_by(run_dir)
    said = "".join(path.read_text() for path in sorted(run_dir.glob("*__rhoai__components/log")))
    assert "added ray to DataScienceCluster theirs" in said
    assert snapshot.left(client, before) == []

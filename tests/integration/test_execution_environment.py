"""The image of the execution environment is built, and a job of ansible-runner in it measures a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import execution_environment
import pytest
import rehearsal as support
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils import _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._rehearsal import cluster_lifecycle, fake_nodes
from ansible_collections.perfscale.seatrial.plugins.module_utils._rehearsal.fake_nodes import NodePoolSpec
from execution_environment import Podman
from playbook import run_dirs

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(execution_environment.unavailable()), reason=execution_environment.unavailable()),
]


@pytest.fixture
def podman(tmp_path: Path) -> Iterator[Podman]:
    """Podman with a separate storage, which is gone afterwards."""
    (tmp_path / "podman").mkdir()
    made = Podman(tmp_path / "podman")
    yield made
    made.remove()


def test_a_job_in_the_image_measures_an_existing_cluster_as_any_user(
    podman: Podman, tmp_path: Path, own_instance: Callable[..., cluster_lifecycle.Options]
) -> None:
    (tmp_path / "built").mkdir()
    podman.build(execution_environment.context(tmp_path / "built"), tmp_path / "install.log")
    info = cluster_lifecycle.present(own_instance("from-an-image"), support.quiet)
    fake_nodes.present(support.Rehearsal(info["kubeconfig"], info).client(), NodePoolSpec(1), 60, support.quiet)
    job, runs = tmp_path / "job", tmp_path / "runs"
    for folder in (job / "env", job / "inventory", runs):
        folder.mkdir(parents=True)
        folder.chmod(0o777)
    job.chmod(0o777)
    (job / "inventory" / "hosts").write_text("localhost ansible_connection=local\n", encoding="utf-8")
    (job / "kubeconfig").write_bytes(Path(info["kubeconfig"]).read_bytes())
    (job / "kubeconfig").chmod(0o644)
    given = {
        "preset": ["light"],
        "cluster_provider": "existing",
        "cluster_kubeconfig": "/runner/job/kubeconfig",
        "run_artifacts_dir": "/runs",
        "fine_tuning_count": 4,
    }
    (job / "env" / "extravars").write_text(yaml.safe_dump(given), encoding="utf-8")
    said = podman.run(
        *("ansible-runner", "run", "/runner/job", "-p", "perfscale.seatrial.fine_tuning"),
        volumes={job: "/runner/job", runs: "/runs"},
        user="12345:0",
    )
    assert "report    /runs/" in said
    (run_dir,) = run_dirs(runs)
    assert _files.read_json(run_dir / "verdict.json")["verdict"] in ("pass", "baseline"), said[-4000:]
    assert (run_dir / "report" / "index.html").is_file()

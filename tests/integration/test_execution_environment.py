"""The image of the execution environment is built, and a job of ansible-runner in it measures a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import execution_environment
import pytest
import rehearsal as support
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import cluster_lifecycle
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu import fake_nodes
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu.simulated_node_pool import NodePoolSpec
from execution_environment import Podman
from playbook import run_dirs

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(execution_environment.unavailable()), reason=execution_environment.unavailable()),
]


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    """Podman with the image of this clone in a separate storage, which is gone afterwards."""
    folder = tmp_path_factory.mktemp("image")
    for name in ("podman", "built"):
        (folder / name).mkdir()
    made = Podman(folder / "podman")
    try:
        made.build(execution_environment.context(folder / "built"), folder / "install.log")
        yield made
    finally:
        made.remove()


def job_of(folder: Path, given: dict[str, object]) -> tuple[Path, Path]:
    """Return the private data directory of a job, and the folder of its runs; any user may write to both."""
    job, runs = folder / "job", folder / "runs"
    for one in (job / "env", job / "inventory", runs):
        one.mkdir(parents=True)
        one.chmod(0o777)
    job.chmod(0o777)
    (job / "inventory" / "hosts").write_text("localhost ansible_connection=local\n", encoding="utf-8")
    given = {"preset": ["light"], "run_artifacts_dir": "/runs", "fine_tuning_count": 4, **given}
    (job / "env" / "extravars").write_text(yaml.safe_dump(given), encoding="utf-8")
    return job, runs


def run_job(podman: Podman, job: Path, runs: Path, **more: str) -> None:
    """Run the main job as a user of group 0 that the image does not know; check its results."""
    said = podman.run(
        *("ansible-runner", "run", "/runner/job", "-p", "perfscale.seatrial.fine_tuning"),
        volumes={job: "/runner/job", runs: "/runs"},
        user="12345:0",
        **more,
    )
    assert "report    /runs/" in said
    (run_dir,) = run_dirs(runs)
    assert files.read_json(run_dir / "verdict.json")["verdict"] in ("pass", "baseline"), said[-4000:]
    assert (run_dir / "report" / "index.html").is_file()


def test_a_job_in_the_image_measures_an_existing_cluster_as_any_user(
    podman: Podman, tmp_path: Path, own_instance: Callable[..., cluster_lifecycle.RehearsalOptions]
) -> None:
    info = cluster_lifecycle.create_or_repair_instance(
        own_instance("from-an-image", components=["trainer"]), support.quiet
    )
    fake_nodes.create_fake_nodes(
        support.Rehearsal(info["kubeconfig"], info).client(), NodePoolSpec(1), 240, support.quiet
    )
    given = {"cluster_provider": "existing", "cluster_kubeconfig": "/runner/job/kubeconfig"}
    job, runs = job_of(tmp_path, given)
    (job / "kubeconfig").write_bytes(Path(info["kubeconfig"]).read_bytes())
    (job / "kubeconfig").chmod(0o644)
    run_job(podman, job, runs)


def test_a_job_of_awx_starts_a_rehearsal_cluster_from_the_programs_of_the_optional_layer(
    podman: Podman, tmp_path: Path
) -> None:
    (tmp_path / "programs").mkdir()
    podman.add_programs(tmp_path / "programs")
    job, runs = job_of(tmp_path, {"awx_job_id": 7})
    run_job(podman, job, runs, image=execution_environment.WITH_PROGRAMS)

"""A real control plane for the tests that need one: started by the first that asks, removed when the run ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import leftovers
import pytest
import rehearsal as support
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import cluster_lifecycle
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from load_world import World, world_on

#: Files whose tests take 40 s and more together: begun first, so that no worker waits for another's last.
LONGEST = [
    "olm",
    "ci_wrapper",
    "failures",
    "ci_playbook",
    "export_opensearch",
    "history",
    "settings",
    "quads",
    "main_job",
    "awx_objects",
    "report_in_browser",
    "inference_load",
    "workload",
    "giving_back",
    "sample",
    "replot",
    "rehearsal_lifecycle",
    "rhoai",
    "bare_metal",
    "stages_of_sets",
    "cluster",
    "driver_pod",
    "metrics",
    "failures_killed",
    "fake_gpu",
    "kinds",
    "registry_access",
    "elsewhere",
    "load_faults",
    "workload_scale",
    "real_node",
    "doctor",
    "without_a_cluster",
    "runner",
    "clients",
    "load_shapes",
    "lock",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first."""
    rank = {f"test_{name}": number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(rank)))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Remove what this run started. Workers leave that to the process that outlives them."""
    if not hasattr(session.config, "workerinput"):
        leftovers.remove_all(leftovers.folder_of(os.getpid()))


@pytest.fixture(scope="session")
def rehearsal_folder() -> Path:
    """The folder of this test run's instances."""
    leftovers.sweep()
    return leftovers.RUNS / os.environ[leftovers.MARK]


@pytest.fixture(scope="session")
def rehearsal(rehearsal_folder: Path) -> support.Rehearsal:
    """The rehearsal cluster of a worker. Its tests share it: use a namespace and a run id of your own."""
    name = f"tests-{os.environ.get('PYTEST_XDIST_WORKER', 'only')}"
    options = support.options(rehearsal_folder, name, components=["training-operator", "trainer"])
    info = cluster_lifecycle.create_or_repair_instance(options, print)
    return support.Rehearsal(info["kubeconfig"], info)


@pytest.fixture
def client(rehearsal: support.Rehearsal) -> Iterator[Client]:
    """A client of the rehearsal cluster."""
    with rehearsal.client() as found:
        yield found


@pytest.fixture
def world(rehearsal: support.Rehearsal, tmp_path: Path) -> Iterator[World]:
    """A namespace of its own for loads."""
    with world_on(rehearsal.kubeconfig, tmp_path) as made:
        yield made


@pytest.fixture
def own_instance(rehearsal_folder: Path) -> Iterator[Callable[..., cluster_lifecycle.RehearsalOptions]]:
    """Make options of instances that belong to one test, which may stop and break them; they are gone afterwards."""
    made: list[cluster_lifecycle.RehearsalOptions] = []

    def make(name: str, **more: Any) -> cluster_lifecycle.RehearsalOptions:
        made.append(support.options(rehearsal_folder, name, **more))
        return made[-1]

    yield make
    for one in made:
        cluster_lifecycle.remove_instance(support.options(rehearsal_folder, one.name, force=True), support.quiet)

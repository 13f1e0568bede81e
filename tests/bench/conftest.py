"""The control plane that all benchmarks share, and the table that they fill."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import leftovers
import pytest
import rehearsal as support
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import cluster_lifecycle
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu import fake_nodes, simulated_node_pool
from bench_scale import ROWS, SCALE
from benchmark_table import Table
from load_bench import Bench


@pytest.fixture(scope="session")
def table() -> Iterator[Table]:
    """The rows of docs/benchmarks.md; written when the last one is there, printed in any case."""
    made = Table(expected=ROWS if SCALE >= 1 else 10**9)
    yield made
    made.finish()


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A rehearsal cluster of its own: control plane, KWOK and 200 nodes with 8 GPUs, nothing else."""
    # As in a run: nothing is validated on write, and what was compiled once is not compiled again.
    for name in ("SEATRIAL_VALIDATE", "PYTHONDONTWRITEBYTECODE"):
        os.environ.pop(name, None)
    leftovers.sweep()
    options = support.options(tmp_path_factory.mktemp("cluster"), "bench", components=["kubectl"])
    info = cluster_lifecycle.create_or_repair_instance(options, support.quiet)
    with support.Rehearsal(info["kubeconfig"], info).client() as client:
        fake_nodes.create_fake_nodes(client, simulated_node_pool.NodePoolSpec(200), 120, support.quiet)
    yield info
    os.environ["SEATRIAL_VALIDATE"] = "1"
    cluster_lifecycle.remove_instance(support.options(Path(options.data_dir), "bench", force=True), support.quiet)


@pytest.fixture(scope="module")
def bench(control_plane: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A namespace, and calls into it."""
    made = Bench(control_plane, tmp_path_factory.mktemp("bench"))
    yield made
    made.close()

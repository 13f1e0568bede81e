# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a point of the matrix has other nodes than the run, and which settings may differ in that way."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import next_point

#: Beginnings of the names of settings about nodes.
PREFIXES = ("node_scaling_", "fake_gpu_")
#: Those of them that may differ between points: number and size of nodes.
SCALED = (
    "node_scaling_count",
    "node_scaling_users",
    "fake_gpu_nodes",
    "fake_gpu_gpus_per_node",
    "fake_gpu_cpu",
    "fake_gpu_node_memory_gib",
    "fake_gpu_pods_per_node",
    "fake_gpu_product",
    "fake_gpu_memory_mib",
)


def of_point(run_dir: Path, folder: Path) -> tuple[bool, dict[str, Any]]:
    """Return whether the nodes must be scaled before a point, and its settings that differ from those of the run.

    A point with the nodes of the run must be scaled too if a point before it was. folder: that of the point.
    """
    run, point = (files.read_yaml(one / "settings.yml") for one in (run_dir, folder))
    differs = difference(run, point)
    return bool(differs or any(one.record.get("nodes") for one in next_point.read_attempts(run_dir))), differs


def difference(run: Mapping[str, Any], point: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings about the number and the size of nodes of a point that are not those of the run."""
    return {name: point.get(name) for name in SCALED if point.get(name) != run.get(name)}

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine types of a lab, from its host records."""

from __future__ import annotations

from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._lab import host_search
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack import node_count_for_users


def host(model: str, threads: int, memory: list[int]) -> dict[str, Any]:
    """A host record as the lab returns it."""
    cpu = {"handle": "CPU1", "processor_type": "CPU", "cores": threads // 2, "threads": threads}
    gpu = {"handle": "GPU1", "processor_type": "GPU", "cores": 1000, "threads": 1000}
    modules = [{"handle": f"DIMM{number}", "size_gb": size} for number, size in enumerate(memory)]
    return {"name": f"x-{model}", "model": model, "processors": [cpu, cpu, gpu], "memory": modules}


def test_the_smallest_host_of_a_model_counts_and_gpus_are_no_cpus() -> None:
    hosts = [host("R650", 64, [192, 192]), host("R650", 56, [512]), host("R640", 40, [96])]
    bare = {"name": "y", "model": "R750", "processors": [], "memory": []}
    found = host_search.machine_types([*hosts, bare])
    assert found == [{"name": "R650", "cpu": 112, "memory": 384}, {"name": "R640", "cpu": 80, "memory": 96}]
    assert node_count_for_users.size_of_machine_type("R650", found).memory == 384

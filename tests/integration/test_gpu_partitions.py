# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Partitions of simulated GPUs: the real scheduler allocates exactly as many as the counters of the GPUs allow."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import rehearsal as support
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.formats import parse_kube_quantity
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import conditions_by_type
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu import fake_nodes, simulated_node_pool
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu.simulated_gpu_slices import (
    API_VERSION,
    DRIVER,
    GpuPartition,
    GpuPartitioning,
)
from load_world import World

pytestmark = pytest.mark.long
POOL = "test-partitions"
GPUS = 4
PARTITIONING = GpuPartitioning(7, (GpuPartition("1g.10gb", 1, 10240), GpuPartition("3g.40gb", 3, 40960)))
OURS = f'device.attributes["{DRIVER}"]'
WHOLE = f'!("profile" in {OURS})'
SEVENTH = f'"profile" in {OURS} && {OURS}.profile == "1g.10gb"'
#: By capacity: of the partitions, only halves have as much.
HALF = f'{OURS}.type == "mig" && device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0'


class Claimants:
    """Pods that each claim a device of the simulated GPUs, and what the scheduler allocated to them."""

    def __init__(self, world: World) -> None:
        self.world, self.client = world, world.client

    def submit(self, name: str, count: int, selector: str) -> None:
        """Create a Job of that many pods, each of which claims one device that the expression selects."""
        namespace = self.world.namespace
        request = {"deviceClassName": POOL, "selectors": [{"cel": {"expression": selector}}]}
        self._create(
            API_VERSION,
            "ResourceClaimTemplate",
            {"metadata": {"name": name, "namespace": namespace}}
            | {"spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": request}]}}}},
        )
        pod = {
            "metadata": {"annotations": {"perfscale.seatrial/run-seconds": "3600"}},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 0,
                "nodeSelector": {"perfscale.seatrial/pool": POOL},
                "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": name}],
                "containers": [{"name": "main", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}],
            },
        }
        spec = {"parallelism": count, "completions": count, "template": pod}
        self._create("batch/v1", "Job", {"metadata": {"name": name, "namespace": namespace}, "spec": spec})

    def _create(self, version: str, kind: str, manifest: dict[str, Any]) -> None:
        path = self.client.kind(version, kind).path(manifest["metadata"].get("namespace", ""))
        self.client.request("POST", path, {"apiVersion": version, "kind": kind, **manifest})

    def pods(self, name: str) -> list[dict[str, Any]]:
        kind = self.client.kind("v1", "Pod")
        return self.client.list(kind, self.world.namespace, f"batch.kubernetes.io/job-name={name}")[0]

    def placed(self, name: str) -> tuple[int, int]:
        """Return how many pods of a Job have a node, and for how many the scheduler says that there is none."""
        pods = self.pods(name)
        conditions = [conditions_by_type(pod).get("PodScheduled", {}) for pod in pods]
        waiting = sum(
            condition.get("status") == "False" and condition.get("reason") == "Unschedulable"
            for condition in conditions
        )
        return sum(bool(pod["spec"].get("nodeName")) for pod in pods), waiting

    def expect(self, name: str, placed: int, waiting: int) -> None:
        """Wait until the scheduler has decided about all pods of a Job, and assert what it decided, for good."""
        deadline = time.monotonic() + 120
        while sum(self.placed(name)) < placed + waiting and time.monotonic() < deadline:
            time.sleep(0.5)
        for _look in range(6):
            assert self.placed(name) == (placed, waiting)
            self.check_counters()
            time.sleep(0.5)

    def claims(self) -> list[dict[str, Any]]:
        return self.client.list(self.client.kind(API_VERSION, "ResourceClaim"), self.world.namespace)[0]

    def check_counters(self) -> None:
        """Assert that no device is allocated twice, and that those of a GPU take no more than its counters."""
        slices = self.client.list(
            self.client.kind(API_VERSION, "ResourceSlice"), label_selector=f"perfscale.seatrial/pool={POOL}"
        )[0]
        left: Counter[tuple[str, str, str]] = Counter()
        taken_by: dict[tuple[str, str], dict[str, Any]] = {}
        for one in slices:
            pool = one["spec"]["pool"]["name"]
            for counters in one["spec"].get("sharedCounters") or ():
                for name, counter in counters["counters"].items():
                    left[pool, counters["name"], name] += int(parse_kube_quantity(counter["value"]))
            for device in one["spec"].get("devices") or ():
                (taken_by[pool, device["name"]],) = device["consumesCounters"]
        assert len(left) == GPUS * 2
        allocated = [
            (result["pool"], result["device"])
            for claim in self.claims()
            for result in ((claim.get("status") or {}).get("allocation") or {"devices": {"results": []}})["devices"][
                "results"
            ]
        ]
        assert len(set(allocated)) == len(allocated)
        for pool, device in allocated:
            taken = taken_by[pool, device]
            for name, counter in taken["counters"].items():
                left[pool, taken["counterSet"], name] -= int(parse_kube_quantity(counter["value"]))
        assert min(left.values()) >= 0, left

    def remove(self, *names: str) -> None:
        """Delete Jobs with their pods, and wait until their claims are gone."""
        kind = self.client.kind("batch/v1", "Job")
        for name in names:
            self.client.delete(kind, name, self.world.namespace, {"propagationPolicy": "Background"})
        deadline = time.monotonic() + 60
        while left := ([pod for name in names for pod in self.pods(name)] or self.claims()):
            assert time.monotonic() < deadline, left
            time.sleep(0.3)


@pytest.fixture
def claimants(world: World) -> Iterator[Claimants]:
    """Two nodes with two GPUs each that can be divided, and a class of their devices."""
    spec = simulated_node_pool.NodePoolSpec(
        2,
        simulated_node_pool.NodeShape(gpus=GPUS // 2),
        POOL,
        world.run_id,
        devices=True,
        partitioning=PARTITIONING,
    )
    kind = world.client.kind(API_VERSION, "DeviceClass")
    device_class = {
        "metadata": {"name": POOL},
        "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
    }
    try:
        assert fake_nodes.create_fake_nodes(world.client, spec, 240, support.quiet)["changed"]
        assert not fake_nodes.create_fake_nodes(world.client, spec, 240, support.quiet)["changed"]
        world.client.request("POST", kind.path(), {"apiVersion": API_VERSION, "kind": "DeviceClass", **device_class})
        yield Claimants(world)
    finally:
        world.client.delete(kind, POOL)
        fake_nodes.remove_fake_nodes(world.client, spec, 240, support.quiet)


def test_the_scheduler_places_exactly_as_many_partitions_as_the_gpus_have_room_for(claimants: Claimants) -> None:
    claimants.submit("sevenths", 30, SEVENTH)
    claimants.expect("sevenths", GPUS * 7, 2)
    claimants.remove("sevenths")
    # Halves by their memory. Two take all of the memory of a GPU, so no seventh is beside them.
    claimants.submit("halves", 9, HALF)
    claimants.expect("halves", GPUS * 2, 1)
    claimants.submit("beside", 1, SEVENTH)
    claimants.expect("beside", 0, 1)
    claimants.remove("halves", "beside")
    # Whole GPUs and partitions exclude each other.
    claimants.submit("whole", 3, WHOLE)
    claimants.expect("whole", 3, 0)
    claimants.submit("rest", 9, SEVENTH)
    claimants.expect("rest", 7, 2)
    claimants.submit("late", 1, WHOLE)
    claimants.expect("late", 0, 1)

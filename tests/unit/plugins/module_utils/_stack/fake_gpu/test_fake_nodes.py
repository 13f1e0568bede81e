"""Fake nodes: what they look like, what is made and removed, and what is never touched."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    InputError,
    OwnershipError,
    WaitTimeout,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu import fake_nodes, simulated_node_pool
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu.simulated_node_pool import (
    TopologyLevel,
)
from hypothesis import given
from hypothesis import strategies as st

ORDER = simulated_node_pool.NodePoolSpec(3, run_id="run-1")


def levels(**nodes: int) -> tuple[TopologyLevel, ...]:
    return tuple(TopologyLevel(f"x/{name}", number) for name, number in nodes.items())


def made(order: simulated_node_pool.NodePoolSpec) -> list[dict]:
    """The nodes of an order as the API server would list them: quantities in its own form, more labels."""
    found = [
        copy.deepcopy(simulated_node_pool.node_manifest(order, simulated_node_pool.format_node_name(order, index)))
        for index in range(order.count)
    ]
    for one in found:
        one["status"]["capacity"] = {**one["status"]["capacity"], "memory": "1Ti"}
        one["metadata"]["labels"]["added.by/somebody"] = "x"
    return found


def test_a_node_says_that_it_is_simulated_whose_it_is_and_what_it_has() -> None:
    one = simulated_node_pool.node_manifest(
        simulated_node_pool.NodePoolSpec(
            1, simulated_node_pool.NodeShape(gpus=4, product="P", gpu_memory_mib=7), "pool", "run-1", {"zone": "a"}
        ),
        "pool-0000",
    )
    labels = one["metadata"]["labels"]
    assert one["metadata"]["name"] == "pool-0000"
    assert labels["perfscale.seatrial/simulated"] == "true" and labels["perfscale.seatrial/run"] == "run-1"
    assert {key[15:]: labels[key] for key in labels if key.startswith("nvidia.com/gpu.")} == {
        "present": "true",
        "count": "4",
        "product": "P",
        "memory": "7",
    }
    assert labels["zone"] == "a"
    assert one["metadata"]["annotations"] == {"kwok.x-k8s.io/node": "fake"}
    assert one["status"]["allocatable"]["nvidia.com/gpu"] == "4"


def test_consecutive_nodes_share_racks_and_blocks_and_another_topology_replaces_them() -> None:
    order = simulated_node_pool.NodePoolSpec(6, run_id="run-1", topology=levels(block=4, rack=2))
    there = made(order)
    found = [[one["metadata"]["labels"][f"x/{name}"] for name in ("block", "rack")] for one in there]
    assert found == [["block-0", f"rack-{rack}"] for rack in (0, 0, 1, 1)] + [["block-1", "rack-2"]] * 2
    assert simulated_node_pool.compute_pool_changes(order, there).create == []
    other = simulated_node_pool.NodePoolSpec(6, run_id="run-1", topology=levels(block=4, rack=1))
    replaced = [one["metadata"]["name"] for one in simulated_node_pool.compute_pool_changes(other, there).create]
    assert replaced == [f"fake-gpu-{index:04d}" for index in (1, 2, 3, 4, 5)]  # the first is in rack-0 either way


def test_a_node_without_gpus_has_no_sign_of_them() -> None:
    one = simulated_node_pool.node_manifest(
        simulated_node_pool.NodePoolSpec(1, simulated_node_pool.NodeShape(gpus=0)), "fake-gpu-0000"
    )
    assert not [key for key in [*one["metadata"]["labels"], *one["status"]["capacity"]] if "nvidia" in key]


def test_what_is_there_already_is_left_alone() -> None:
    changes = simulated_node_pool.compute_pool_changes(ORDER, made(ORDER))
    assert (changes.create, changes.remove) == ([], [])


def test_a_pool_grows_and_shrinks() -> None:
    two, five = simulated_node_pool.NodePoolSpec(2, run_id="run-1"), simulated_node_pool.NodePoolSpec(5, run_id="run-1")
    grown = simulated_node_pool.compute_pool_changes(five, made(two))
    assert [one["metadata"]["name"] for one in grown.create] == [f"fake-gpu-{index:04d}" for index in (2, 3, 4)]
    shrunk = simulated_node_pool.compute_pool_changes(two, made(five))
    assert (shrunk.create, shrunk.remove) == ([], [f"fake-gpu-{index:04d}" for index in (2, 3, 4)])


@pytest.mark.parametrize(
    "shape",
    [
        simulated_node_pool.NodeShape(gpus=4),
        simulated_node_pool.NodeShape(product="other"),
        simulated_node_pool.NodeShape(cpu=1),
    ],
)
def test_a_node_of_another_shape_is_replaced(shape: simulated_node_pool.NodeShape) -> None:
    changes = simulated_node_pool.compute_pool_changes(
        simulated_node_pool.NodePoolSpec(3, shape, run_id="run-1"), made(ORDER)
    )
    assert len(changes.create) == len(changes.remove) == 3


def test_nodes_of_no_run_that_fit_are_used() -> None:
    changes = simulated_node_pool.compute_pool_changes(
        simulated_node_pool.NodePoolSpec(2, run_id="run-1"), made(simulated_node_pool.NodePoolSpec(2))
    )
    assert (changes.create, changes.remove) == ([], [])


@pytest.mark.parametrize("shape", [simulated_node_pool.NodeShape(), simulated_node_pool.NodeShape(gpus=1)])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_nodes_of_another_run_never_count_and_never_stand_in_the_way(
    count: int, shape: simulated_node_pool.NodeShape
) -> None:
    order, others = (
        simulated_node_pool.NodePoolSpec(count, run_id="run-1"),
        made(simulated_node_pool.NodePoolSpec(2, shape, run_id="run-2")),
    )
    changes = simulated_node_pool.compute_pool_changes(order, others)
    assert changes.remove == []
    assert [one["metadata"]["name"] for one in changes.create] == [f"fake-gpu-{2 + n:04d}" for n in range(count)]
    assert simulated_node_pool.compute_pool_changes(order, changes.create) == simulated_node_pool.NodePoolChanges(
        [], []
    ), "also when those of the other run are gone"


@pytest.mark.parametrize("count", [1, 0])
def test_nodes_of_no_run_are_never_removed_for_a_run(count: int) -> None:
    with pytest.raises(OwnershipError, match="nodes of no run are in the way"):
        simulated_node_pool.compute_pool_changes(
            simulated_node_pool.NodePoolSpec(count, run_id="run-1"), made(simulated_node_pool.NodePoolSpec(2))
        )


@given(st.integers(0, 30), st.integers(0, 30))
def test_after_the_changes_a_pool_is_as_ordered(before: int, after: int) -> None:
    have = {one["metadata"]["name"]: one for one in made(simulated_node_pool.NodePoolSpec(before, run_id="r-1234"))}
    order = simulated_node_pool.NodePoolSpec(after, run_id="r-1234")
    changes = simulated_node_pool.compute_pool_changes(order, list(have.values()))
    for name in changes.remove:
        del have[name]
    have.update({one["metadata"]["name"]: one for one in changes.create})
    assert sorted(have) == [simulated_node_pool.format_node_name(order, index) for index in range(after)]
    assert simulated_node_pool.compute_pool_changes(order, list(have.values())) == simulated_node_pool.NodePoolChanges(
        [], []
    )


READY = {"type": "Ready", "status": "True"}


@pytest.mark.parametrize(
    ("status", "spec", "ready"),
    [
        ({"conditions": [READY]}, {}, True),
        ({"conditions": [READY]}, {"taints": [{"key": "mine", "effect": "NoSchedule"}]}, True),
        ({"conditions": [READY]}, {"taints": [{"key": simulated_node_pool.NOT_READY, "effect": "NoSchedule"}]}, False),
        ({"conditions": [{"type": "Ready", "status": "False"}]}, {}, False),
        ({"conditions": [{"type": "DiskPressure", "status": "True"}]}, {}, False),
        ({}, {}, False),
    ],
)
def test_a_node_is_ready_when_pods_can_be_scheduled_on_it(status: dict, spec: dict, ready: bool) -> None:
    assert simulated_node_pool.is_node_schedulable({"status": status, "spec": spec}) is ready


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("96", 96),
        ("1500m", 1.5),
        ("1k", 1000),
        ("1Ki", 1024),
        ("1Ti", 2**40),
        ("1024Gi", 2**40),
        ("2M", 2e6),
        ("1.5Gi", 1.5 * 2**30),
    ],
)
def test_quantities_are_compared_as_numbers(text: str, number: float) -> None:
    assert formats.parse_kube_quantity(text) == number


def test_what_is_no_quantity_equals_nothing() -> None:
    assert formats.parse_kube_quantity("many") != formats.parse_kube_quantity("many")


@pytest.mark.parametrize(
    ("order", "words"),
    [
        (simulated_node_pool.NodePoolSpec(-1), "count is -1, at least 0"),
        (simulated_node_pool.NodePoolSpec(1, simulated_node_pool.NodeShape(gpus=-2)), "gpus is -2"),
        (simulated_node_pool.NodePoolSpec(1, simulated_node_pool.NodeShape(cpu=0)), "cpu is 0, at least 1"),
        (simulated_node_pool.NodePoolSpec(1, pool="Bad_Pool"), "pool 'Bad_Pool' is not a valid pool name"),
        (
            simulated_node_pool.NodePoolSpec(1, topology=levels(block=8, rack=3)),
            "8 nodes of x/block can't be divided .* of 3 nodes",
        ),
        (simulated_node_pool.NodePoolSpec(1, topology=levels(rack=4, block=8)), "name the widest level first"),
        (simulated_node_pool.NodePoolSpec(1, topology=levels(rack=0)), "x/rack has 0 nodes for each value"),
        (simulated_node_pool.NodePoolSpec(1, topology=levels(rack=4) + levels(rack=2)), "a label of its own"),
    ],
)
def test_what_can_not_be_meant_is_refused(order: simulated_node_pool.NodePoolSpec, words: str) -> None:
    with pytest.raises(InputError, match=words):
        order.check()


class BookmarkingWatch:
    """A watch with bookmarks and no end; it may say nothing until its silence is over."""

    opened: ClassVar[list[dict[str, Any]]] = []

    def __init__(self, *_where: Any, **options: Any) -> None:
        self.opened.append(options)

    def lines(self) -> Iterator[tuple[float, bytes]]:
        for number in range(500):
            time.sleep(0.01)
            yield 0.0, b'{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "%d"}}}' % number

    def close(self) -> None:
        pass


def test_the_wait_for_nodes_ends_though_a_watch_with_bookmarks_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake_nodes, "WatchConnection", BookmarkingWatch)
    client: Any = SimpleNamespace(kind=lambda *_kind: None, list=lambda *_kind, **_options: ([], "1"))
    began = time.monotonic()
    with pytest.raises(WaitTimeout, match="1 of 3 nodes are not ready after 0 s"):
        fake_nodes.await_fake_nodes_ready(client, ORDER, ["a"], 0.2, lambda _text: None)
    assert time.monotonic() - began < 3
    assert BookmarkingWatch.opened[0]["silence"] <= 10, "a watch without a line ends soon after the timeout, too"

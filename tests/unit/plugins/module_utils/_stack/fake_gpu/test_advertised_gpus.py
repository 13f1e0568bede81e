# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ResourceSlices of simulated nodes: complete pools, owned by their nodes, and no write where nothing changes."""

from __future__ import annotations

from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu import advertised_gpus
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.fake_gpu.advertised_gpus import DeviceShape
from hypothesis import given
from hypothesis import strategies as st

NODE = {"metadata": {"name": "fake-gpu-0000", "uid": "node-uid"}}
LABELS = advertised_gpus.slice_labels("fake-gpu", "t1")


def slices(gpus: int, node: dict[str, Any] = NODE) -> list[dict[str, Any]]:
    return advertised_gpus.node_slices(DeviceShape(gpus, "A100", 81920), node, LABELS)


@given(st.integers(0, 700))
def test_each_gpu_is_one_device_of_a_complete_pool(gpus: int) -> None:
    made = slices(gpus)
    devices = [device for one in made for device in one["spec"]["devices"]]
    assert [device["name"] for device in devices] == [f"gpu-{number}" for number in range(gpus)]
    assert all(0 < len(one["spec"]["devices"]) <= 128 for one in made)
    assert {one["spec"]["pool"]["resourceSliceCount"] for one in made} <= {len(made)}
    assert len({one["metadata"]["name"] for one in made}) == len(made)
    assert all(one["metadata"]["ownerReferences"][0]["uid"] == "node-uid" for one in made)


def test_only_what_differs_is_written() -> None:
    wanted, other_node = slices(8), {"metadata": {"name": "fake-gpu-0000", "uid": "later"}}
    same = advertised_gpus.compute_slice_changes(wanted, wanted)
    assert (same.create, same.remove) == ([], [])
    # A node that was created again under its name, another shape, and no devices any more.
    for present, create in ((slices(8, other_node), wanted), (slices(4), wanted), (wanted, [])):
        changes = advertised_gpus.compute_slice_changes(create, present)
        assert (changes.create, changes.remove) == (create, ["fake-gpu-0000-gpu-0"])

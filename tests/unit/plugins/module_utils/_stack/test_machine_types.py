# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The size of machines by their type, so that nobody types CPU and memory."""

from __future__ import annotations

from typing import Any

import machine_api_simulator
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack import (
    find_or_derive_machine_set,
    node_count_for_users,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.find_or_derive_machine_set import MachineSetSpec
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.node_count_for_users import UserDemand


@pytest.mark.parametrize(
    ("name", "cpu", "memory", "volumes"),
    [
        ("m6i.xlarge", 4, 16, 26),
        ("m5.large", 2, 8, 26),
        ("c5.9xlarge", 36, 72, 26),
        ("r5.4xlarge", 16, 128, 26),
        ("g5.48xlarge", 192, 768, 26),
        ("p4d.24xlarge", 96, 1152, 26),
        ("bx2-8x32", 8, 32, 12),
        ("gx3-16x80x1l4", 16, 80, 12),
    ],
)
def test_types_of_aws_and_ibm_are_known(name: str, cpu: float, memory: float, volumes: int) -> None:
    size = node_count_for_users.size_of_machine_type(name)
    assert (size.cpu, size.memory, size.volumes) == (cpu, memory, volumes)


def test_types_of_the_user_come_first() -> None:
    more = [{"name": "lab.big", "cpu": 128, "memory": "512", "pods": 500}, {"name": "m5.large", "cpu": 3, "memory": 9}]
    big = node_count_for_users.size_of_machine_type("lab.big", more)
    assert (big.cpu, big.memory, big.pods, big.reserved_pods) == (128, 512, 500, 15)
    assert node_count_for_users.size_of_machine_type("m5.large", more).cpu == 3


@pytest.mark.parametrize(
    ("name", "more", "why"),
    [
        ("m5.4xlage", [], r"machine type 'm5.4xlage' is not known \(did you mean 'm5.4xlarge'\?\); give its CPU and"),
        ("a", [{"name": "a", "cpu": 2}], "machine type a: .*memory"),
        ("a", [{"name": "a", "cpu": 2, "memory": "much"}], "machine type a: could not convert"),
        ("a", [{"name": "a", "cpu": 2, "memroy": 3}], r"unknown field 'memroy' \(did you mean 'memory'\?\)"),
        ("a", [{"cpu": 2, "memory": 3}], "has no name"),
    ],
)
def test_unknown_types_and_wrong_fields_are_refused(name: str, more: list[dict[str, Any]], why: str) -> None:
    with pytest.raises(InputError, match=why):
        node_count_for_users.size_of_machine_type(name, more)


def test_a_set_is_sized_by_the_type_of_its_machines() -> None:
    there = [machine_api_simulator.machine_set("workers", 2)]  # m6i.xlarge: room for 2 cores and 12 GiB
    spec, sizing = find_or_derive_machine_set.size_machine_set_for_users(
        there, MachineSetSpec(0, "workers", users=10, user=UserDemand(0.5, 1)), []
    )
    assert (spec.replicas, sizing["decides"], sizing["instance_type"]) == (3, "cpu", "m6i.xlarge")
    other = MachineSetSpec(0, instance_type="bx2-8x32", users=10, user=UserDemand(0.25, 2))
    assert find_or_derive_machine_set.size_machine_set_for_users(there, other, [])[0].replicas == 1
    with pytest.raises(InputError, match="10 users, and what one of them needs"):
        find_or_derive_machine_set.size_machine_set_for_users(there, MachineSetSpec(0, "workers", users=10), [])

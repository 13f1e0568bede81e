# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""agent-config.yaml from what an inventory says of machines."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.openshift import agent_config
from hypothesis import given
from hypothesis import strategies as st

SETTINGS: dict[str, Any] = {
    "cluster_agent_machine_network": "198.18.0.0/24",
    "cluster_agent_first_address": "198.18.0.4",
    "cluster_agent_gateway": "198.18.0.1",
    "cluster_agent_dns": ["198.18.0.1"],
    "cluster_agent_api_vip": "198.18.0.5",
    "cluster_agent_ingress_vip": "198.18.0.6",
    "cluster_agent_interface": "em2",
}


def machine(number: int, role: str = "master", **more: Any) -> agent_config.BareMetalHost:
    macs = {f"em{nic}": f"02:11:22:33:{number:02x}:0{nic}" for nic in (1, 2)}
    variables = {
        "quads_macs": macs,
        "quads_model": "R650",
        "bmc_address": f"mgmt-{number}",
        "bmc_user": "quads",
        **more,
    }
    return agent_config.read_host_from_inventory(
        f"s01-h{number:02d}-000-r650.lab.example.com", role, variables, SETTINGS
    )


def test_every_machine_gets_its_address_network_and_disk() -> None:
    settings = {**SETTINGS, "cluster_agent_ntp": ["198.18.0.1"], "cluster_agent_vlan": 601, "cluster_agent_mtu": 9000}
    machines = [
        machine(1, cluster_agent_root_device={"deviceName": "/dev/sda"}),
        machine(2),
        machine(3),
        machine(4, "worker"),
    ]
    config = agent_config.build_agent_config(machines, settings, "perf")
    assert config["rendezvousIP"] == "198.18.0.4" and config["additionalNTPSources"] == ["198.18.0.1"]
    first, second = config["hosts"][0], config["hosts"][1]
    assert first["hostname"] == "s01-h01-000-r650" and first["rootDeviceHints"] == {"deviceName": "/dev/sda"}
    assert first["interfaces"] == [{"name": "em2", "macAddress": "02:11:22:33:01:02"}]
    plain, tagged = first["networkConfig"]["interfaces"]
    assert plain["ipv4"] == {"enabled": False} and tagged["name"] == "em2.601" and tagged["mtu"] == 9000
    assert tagged["ipv4"]["address"] == [{"ip": "198.18.0.4", "prefix-length": 24}]
    assert first["networkConfig"]["routes"]["config"][0]["next-hop-interface"] == "em2.601"
    address = second["networkConfig"]["interfaces"][1]["ipv4"]["address"][0]["ip"]
    assert address == "198.18.0.7", "the virtual addresses are left out"
    assert [one["role"] for one in config["hosts"]] == ["master", "master", "master", "worker"]


def test_without_addresses_machines_ask_dhcp_and_the_rendezvous_must_be_told() -> None:
    settings = {name: value for name, value in SETTINGS.items() if name != "cluster_agent_first_address"}
    with pytest.raises(InputError, match="cluster_agent_rendezvous_ip is required"):
        agent_config.build_agent_config([machine(1)], settings, "perf")
    config = agent_config.build_agent_config(
        [machine(1)], {**settings, "cluster_agent_rendezvous_ip": "198.18.0.9"}, "perf"
    )
    network = config["hosts"][0]["networkConfig"]
    assert network["interfaces"][0]["ipv4"] == {"enabled": True, "dhcp": True} and "routes" not in network


def test_a_machine_s_own_network_is_taken_as_it_is() -> None:
    own = {"interfaces": [{"name": "bond0", "type": "bond", "state": "up"}]}
    config = agent_config.build_agent_config([machine(1, cluster_agent_network_config=own)], SETTINGS, "perf")
    assert config["hosts"][0]["networkConfig"] == own


def test_a_model_says_which_interface_and_disk() -> None:
    models = {"r650": {"interface": "1", "root_device": {"model": "PERC"}}}
    settings = {**SETTINGS, "cluster_agent_models": models}
    one = agent_config.read_host_from_inventory(
        "a", "master", {"macs": {"x": "02:00:00:00:00:01", "y": "02:00:00:00:00:02"}, "model": "R650"}, settings
    )
    assert one.interface == "y" and one.root_device == {"model": "PERC"}


@pytest.mark.parametrize(
    ("variables", "settings", "message"),
    [
        ({}, {}, "a: no MAC addresses in the inventory"),
        ({"macs": {"em1": "02:00"}}, {}, "a: '02:00' of em1 is not a MAC address"),
        ({"macs": {"em1": "02:00:00:00:00:01"}}, {"cluster_agent_interface": "em2"}, "a has no interface em2"),
        ({"macs": {"em1": "02:00:00:00:00:01"}}, {"cluster_agent_interface": "1"}, "the interfaces are 0 to 0"),
        (
            {"macs": {"em1": "02:00:00:00:00:01"}},
            {"cluster_agent_root_device": {"devicename": "/dev/sda"}},
            "a: root device.devicename is not a documented field .did you mean 'deviceName'",
        ),
        (
            {"macs": {"em1": "02:00:00:00:00:01"}},
            {"cluster_agent_models": {"R650": {"nic": "em1"}}},
            "cluster_agent_models: R650: 'nic' is unknown",
        ),
    ],
)
def test_what_an_inventory_lacks_is_named(variables: dict, settings: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        agent_config.read_host_from_inventory("a", "master", variables, settings)


@pytest.mark.parametrize(("masters", "workers"), [(0, 3), (2, 0), (1, 1), (6, 0)])
def test_a_set_of_machines_that_is_no_cluster_is_refused(masters: int, workers: int) -> None:
    machines = [machine(at) for at in range(masters)] + [machine(20 + at, "worker") for at in range(workers)]
    with pytest.raises(InputError, match=f"{masters} control plane machines and {workers} workers do not"):
        agent_config.valid_master_and_worker_counts(machines)


def test_two_machines_with_one_mac_are_refused() -> None:
    with pytest.raises(InputError, match="two machines have the MAC address 02:11:22:33:01:02"):
        agent_config.valid_master_and_worker_counts([machine(1), machine(1), machine(2)])


@given(
    st.lists(st.one_of(st.none(), st.integers(20, 60)), min_size=1, max_size=12, unique_by=lambda x: x or object()),
    st.integers(1, 100),
)
def test_addresses_are_in_the_network_and_nobody_s_twice(own: list[int | None], first: int) -> None:
    machines = [machine(at, cluster_agent_address=f"198.18.0.{one}" if one else "") for at, one in enumerate(own)]
    settings = {**SETTINGS, "cluster_agent_first_address": f"198.18.0.{first}"}
    found = list(agent_config.addresses_by_machine(machines, settings).values())
    assert len(set(found)) == len(found) == len(own)
    network = ipaddress.ip_network("198.18.0.0/24")
    assert all(ipaddress.ip_address(one) in network for one in found)
    assert not {"198.18.0.1", "198.18.0.5", "198.18.0.6"} & set(found)


def test_addresses_outside_the_network_and_given_twice_are_refused() -> None:
    with pytest.raises(InputError, match="198.19.0.9 is not in 198.18.0.0/24"):
        agent_config.addresses_by_machine([machine(1, cluster_agent_address="198.19.0.9")], SETTINGS)
    twice = [machine(at, cluster_agent_address="198.18.0.9") for at in (1, 2)]
    with pytest.raises(InputError, match="two machines have the address 198.18.0.9"):
        agent_config.addresses_by_machine(twice, SETTINGS)
    with pytest.raises(InputError, match="only IPv4 is supported"):
        agent_config.addresses_by_machine([machine(1)], {"cluster_agent_machine_network": "2001:db8::/64"})

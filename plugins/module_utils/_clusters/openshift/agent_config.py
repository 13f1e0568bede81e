# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machines of a bare-metal cluster, read from inventory variables, and agent-config.yaml."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name

from . import install_config
from .install_config import check_address_in_network, parse_network_cidr, require_settings_are_set

MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
ROLES = ("master", "worker")

#: Keys of a model in cluster_agent_models.
OF_MODEL = ("interface", "root_device")


@dataclass(frozen=True)
class BareMetalHost:
    """One machine. macs: interface -> MAC. interface: that in the machine network. network: NMState, if given."""

    name: str
    role: str
    macs: Mapping[str, str]
    interface: str
    bmc_address: str = ""
    bmc_user: str = ""
    bmc_system: str = ""
    address: str = ""
    root_device: Mapping[str, Any] = field(default_factory=dict)
    network: Mapping[str, Any] = field(default_factory=dict)

    @property
    def mac(self) -> str:
        """The MAC address by which the installer identifies the machine."""
        return self.macs[self.interface]

    @property
    def hostname(self) -> str:
        """The name without its domain."""
        return self.name.split(".")[0]


def read_host_from_inventory(
    name: str, role: str, variables: Mapping[str, Any], settings: Mapping[str, Any]
) -> BareMetalHost:
    """Return a machine from its inventory variables; those of our QUADS inventory plugin are sufficient.

    variables: quads_macs (interface -> MAC) or macs; quads_model or model; bmc_address, bmc_user, bmc_system; and
    values that override the settings of all machines or of a model: cluster_agent_interface, cluster_agent_address,
    cluster_agent_root_device, cluster_agent_network_config. Raises InputError naming host and variable.
    """
    macs = {
        str(nic): str(mac).lower() for nic, mac in (variables.get("quads_macs") or variables.get("macs") or {}).items()
    }
    for nic, mac in macs.items():
        if not MAC.fullmatch(mac):
            raise InputError(f"{name}: '{mac}' of {nic} is not a MAC address")
    if not macs:
        raise InputError(f"{name}: no MAC addresses in the inventory: set macs to a dictionary, interface: address")
    model = str(variables.get("quads_model") or variables.get("model") or "")
    by_model = _settings_of_model(settings.get("cluster_agent_models") or {}, model)
    choice = (
        variables.get("cluster_agent_interface") or by_model.get("interface") or settings.get("cluster_agent_interface")
    )
    interface = _choose_interface(name, str(choice or ""), macs)
    hints = variables.get("cluster_agent_root_device") or by_model.get("root_device")
    hints = dict(hints or settings.get("cluster_agent_root_device") or {})
    install_config.check_field_types(hints, install_config.ROOT_DEVICE, f"{name}: root device")
    return BareMetalHost(
        name=name,
        role=role,
        macs=macs,
        interface=interface,
        bmc_address=str(variables.get("bmc_address") or ""),
        bmc_user=str(variables.get("bmc_user") or settings.get("cluster_agent_bmc_user") or ""),
        bmc_system=str(variables.get("bmc_system") or ""),
        address=str(variables.get("cluster_agent_address") or ""),
        root_device=hints,
        network=dict(variables.get("cluster_agent_network_config") or {}),
    )


def _settings_of_model(models: Mapping[str, Mapping[str, Any]], model: str) -> Mapping[str, Any]:
    for name, values in models.items():
        for key in values:
            if key not in OF_MODEL:
                raise InputError(
                    f"cluster_agent_models: {name}: '{key}' is unknown{suggest_similar_name(key, OF_MODEL)}"
                )
    return next((values for name, values in models.items() if name.lower() == model.lower()), {})


def _choose_interface(host: str, choice: str, macs: Mapping[str, str]) -> str:
    """Return the interface by its name or its index among the sorted names (default 0)."""
    names = sorted(macs)
    at = formats.parse_whole_number(choice or "0")
    if at is not None:
        if at >= len(names):
            raise InputError(f"{host}: cluster_agent_interface is {at}, but the interfaces are 0 to {len(names) - 1}")
        return names[at]
    if choice not in macs:
        raise InputError(
            f"{host} has no interface {choice}{suggest_similar_name(choice, names)}; it has {', '.join(names)}"
        )
    return choice


def valid_master_and_worker_counts(machines: Sequence[BareMetalHost]) -> tuple[int, int]:
    """Return the numbers of masters and workers. Raises InputError for a set that can't form a cluster."""
    masters = sum(machine.role == "master" for machine in machines)
    workers = len(machines) - masters
    if masters not in (1, 3, 4, 5) or (masters == 1 and workers):
        raise InputError(
            f"{masters} control plane machines and {workers} workers do not form a cluster: 1 alone, or 3 to 5 with "
            "any number of workers; see cluster_agent_control_plane_group and cluster_agent_worker_group"
        )
    for what, values in (
        ("MAC address", [machine.mac for machine in machines]),
        ("name", [machine.hostname for machine in machines]),
    ):
        twice = sorted({value for value in values if values.count(value) > 1})
        if twice:
            raise InputError(f"two machines have the {what} {twice[0]}")
    return masters, workers


def addresses_by_machine(machines: Sequence[BareMetalHost], settings: Mapping[str, Any]) -> dict[str, str]:
    """Return machine -> address, empty for DHCP.

    Addresses are consecutive from cluster_agent_first_address in the order of the machines, without the virtual
    addresses and the gateway; a machine's own address has precedence. Raises InputError for an address outside the
    network or given twice.
    """
    cidr = parse_network_cidr(settings, "cluster_agent_machine_network", "")
    if ":" in cidr:
        raise InputError(f"cluster_agent_machine_network: {cidr}: only IPv4 is supported")
    taken = {str(settings.get(f"cluster_agent_{part}") or "") for part in ("api_vip", "ingress_vip", "gateway")}
    taken |= {machine.address for machine in machines}
    first = settings.get("cluster_agent_first_address")
    following = (
        ipaddress.ip_address(check_address_in_network(str(first), cidr, "cluster_agent_first_address"))
        if first
        else None
    )
    addresses: dict[str, str] = {}
    for machine in machines:
        address = machine.address
        if not address and following is not None:
            while str(following) in taken:
                following += 1
            address = str(following)
            following += 1
        addresses[machine.name] = check_address_in_network(address, cidr, f"{machine.name}: address") if address else ""
    static = [address for address in addresses.values() if address]
    twice = [address for address in static if static.count(address) > 1]
    if twice:
        raise InputError(f"two machines have the address {twice[0]}")
    return addresses


def build_agent_config(machines: Sequence[BareMetalHost], settings: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return agent-config.yaml: the rendezvous host and, for every machine, NMState and root device.

    The rendezvous host is the first control plane machine, unless cluster_agent_rendezvous_ip names another's address.
    """
    addresses = addresses_by_machine(machines, settings)
    first = next(machine for machine in machines if machine.role == "master")
    rendezvous = str(settings.get("cluster_agent_rendezvous_ip") or addresses[first.name])
    if not rendezvous:
        require_settings_are_set(settings, "cluster_agent_rendezvous_ip")
    config: dict[str, Any] = {
        "apiVersion": "v1beta1",
        "kind": "AgentConfig",
        "metadata": {"name": name},
        "rendezvousIP": rendezvous,
        "hosts": [_agent_config_host(machine, addresses[machine.name], settings) for machine in machines],
    }
    if settings.get("cluster_agent_ntp"):
        config["additionalNTPSources"] = [str(server) for server in settings["cluster_agent_ntp"]]
    install_config.check_field_types(config, install_config.AGENT_CONFIG, "agent-config.yaml")
    return config


def _agent_config_host(machine: BareMetalHost, address: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "hostname": machine.hostname,
        "role": machine.role,
        "interfaces": [{"name": machine.interface, "macAddress": machine.mac}],
    }
    if machine.root_device:
        entry["rootDeviceHints"] = dict(machine.root_device)
    entry["networkConfig"] = dict(machine.network) or nmstate_network_config(machine, address, settings)
    return entry


def nmstate_network_config(machine: BareMetalHost, address: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the NMState configuration of a machine: one interface, static or DHCP, optionally with a VLAN."""
    vlan = int(settings.get("cluster_agent_vlan") or 0)
    mtu = int(settings.get("cluster_agent_mtu") or 0)
    plain: dict[str, Any] = {
        "name": machine.interface,
        "type": "ethernet",
        "state": "up",
        "mac-address": machine.mac,
        "ipv4": {"enabled": False},
        "ipv6": {"enabled": False},
    }
    interfaces = [plain]
    top = plain
    if vlan:
        top = {"name": f"{machine.interface}.{vlan}", "type": "vlan", "state": "up", "ipv6": {"enabled": False}}
        top["vlan"] = {"base-iface": machine.interface, "id": vlan}
        interfaces.append(top)
    if mtu:
        for entry in interfaces:
            entry["mtu"] = mtu
    if not address:
        top["ipv4"] = {"enabled": True, "dhcp": True}
        return {"interfaces": interfaces}
    prefix = ipaddress.ip_network(parse_network_cidr(settings, "cluster_agent_machine_network", "")).prefixlen
    top["ipv4"] = {"enabled": True, "dhcp": False, "address": [{"ip": address, "prefix-length": prefix}]}
    require_settings_are_set(settings, "cluster_agent_gateway", "cluster_agent_dns")
    route = {"destination": "0.0.0.0/0", "next-hop-address": str(settings["cluster_agent_gateway"])}
    return {
        "interfaces": interfaces,
        "dns-resolver": {"config": {"server": [str(server) for server in settings["cluster_agent_dns"]]}},
        "routes": {"config": [{**route, "next-hop-interface": str(top["name"]), "table-id": 254}]},
    }

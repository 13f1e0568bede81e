# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inventory of the machines of a QUADS lease."""

from __future__ import annotations

DOCUMENTATION = r"""
name: quads
short_description: Machines of a QUADS lease
version_added: 0.1.0
author:
  - The perfscale.seatrial authors (@perfscale)
description:
  - Returns the machines of one lease with their BMC addresses, MAC addresses by interface name and VLAN. Groups are
    formed by host name or by properties of a machine.
  - The name of the file must end in C(quads.yml) or C(quads.yaml). For several labs, use several such files in one
    folder.
  - The inventory that the lab publishes is used only if it is that of this lease. It does not include BMC passwords;
    M(perfscale.seatrial.quads_info) returns them.
  - Only reads, without credentials.
extends_documentation_fragment:
  - constructed
  - inventory_cache
  - perfscale.seatrial._quads.server
  - perfscale.seatrial._quads.which
  - perfscale.seatrial._quads.inventory
options:
  plugin:
    description: Marks the file as a configuration of this plugin.
    type: str
    required: true
    choices: [perfscale.seatrial.quads]
  api_url:
    env:
      - name: SEATRIAL_QUADS_LEASE_API_URL
  ca_path:
    description:
      - PEM file of the certificate authorities to trust for the server. A relative path is relative to the folder of
        this file.
    type: str
  lease_file:
    description:
      - The lease file, which lists the requested hosts. A relative path is relative to the folder of this file. The
        file must exist. Without it, a host that another tenant has added to the cloud counts as one of the lease.
    type: str
  group:
    description: Group of all machines of this file.
    type: str
    default: quads
  roles:
    description:
      - Groups in the order in which machines are assigned to them, each from the machines without a group. C(name) of
        the group; C(hosts), names or patterns; C(where), conditions as in the filters of
        M(perfscale.seatrial.quads_lease); C(count), a number or C(rest), which is the default.
      - Without C(hosts) and C(where), machines are assigned in the order of their names.
    type: list
    elements: dict
    default: []
  bmc:
    description: Read BMC addresses from the inventory that the lab publishes. Fails if it is not that of this lease.
    type: bool
    default: true
"""

EXAMPLES = r"""
# my_lab.quads.yml:
plugin: perfscale.seatrial.quads
api_url: https://quads.example.com
username: jo@example.com
lease_id: t1121-k3f9xa
roles:
  - {name: bastion, hosts: [s01-h01-000-r640]}
  - {name: controlplane, count: 3, where: {model: R650}}
  - {name: worker, count: 2}
  - {name: hypervisor, count: rest}

# the long-term allocation of a team, without BMCs:
# plugin: perfscale.seatrial.quads
# api_url: https://quads.example.com
# cloud: cloud07
# bmc: false
"""

import os
import time
from typing import Any

from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, SeatrialError
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab import lab_inventory, quads_options
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.compat.ansible_core import mark_as_data

NAMES = ("quads.yml", "quads.yaml")
SERVER_AND_LEASE = (*quads_options.SERVER, *quads_options.NAMED)
_WHY_FILE = {
    "lease_file": "It tells the hosts of the lease from those that other tenants have added to its cloud",
    "ca_path": "It has the certificate authorities to trust for the server",
}


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    """Reads one lease for each file."""

    NAME = "perfscale.seatrial.quads"

    def verify_file(self, path: str) -> bool:
        """Return whether the name of the file is one of ours."""
        return super().verify_file(path) and path.endswith(NAMES)

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:
        """Fill the inventory from the cache or the server."""
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        self.load_cache_plugin()
        key = self.get_cache_key(path)
        try:
            content = self._cached(key) if cache and self.get_option("cache") else None
            if content is None:
                content = self._collect(path)
                if self.get_option("cache"):
                    self._cache[key] = content
            self._fill(content)
        except SeatrialError as error:
            raise AnsibleParserError(f"{path}: {error}") from error

    def _cached(self, key: str) -> dict[str, Any] | None:
        entry = self._cache.get(key)
        asked = {name: self.get_option(name) for name in SERVER_AND_LEASE}
        if not entry or entry["asked"] != asked or lab_inventory.is_lease_expired(entry["lease"], time.time()):
            return None
        return entry

    def _collect(self, path: str) -> dict[str, Any]:
        params = {name: self.get_option(name) for name in (*SERVER_AND_LEASE, "lease_file")}
        if sum(bool(params[name]) for name in quads_options.NAMED) != 1:
            raise InputError("which machines? Give one of lease_id, assignment_id and cloud")
        for name in ("lease_file", "ca_path"):  # of type str: Ansible resolves a path against the working directory
            if params[name]:
                params[name] = os.path.join(os.path.dirname(os.path.abspath(path)), os.path.expanduser(params[name]))
                if not os.path.isfile(params[name]):
                    raise InputError(f"{name}: {params[name]} does not exist. {_WHY_FILE[name]}")
        client = quads_options.client_from_params({**params, "retry_time": 60})
        selector = quads_options.LeaseSelector.from_params(params)
        content = lab_inventory.collect_lease_inventory(
            client, selector, self.get_option("bmc"), self.get_option("inventory_url")
        )
        return {"asked": {name: self.get_option(name) for name in SERVER_AND_LEASE}, **content}

    def _fill(self, content: dict[str, Any]) -> None:
        lease, machines = content["lease"], content["machines"]
        common = mark_as_data(content["common"])  # what the server sends is no template
        variables_of = {name: mark_as_data(machine["vars"]) for name, machine in machines.items()}
        records = {name: machine["about"] for name, machine in machines.items()}
        groups = lab_inventory.assign_groups(records, self.get_option("roles"))
        top = self.inventory.add_group(self.get_option("group"))
        for name, value in common.items():
            self.inventory.set_variable(top, name, value)
        for name in groups:
            self.inventory.add_child(top, self.inventory.add_group(name))
        for name, own in variables_of.items():
            self.inventory.add_host(name, group=top)
            for key, value in own.items():
                self.inventory.set_variable(name, key, value)
        for group, hosts in groups.items():
            for host in hosts:
                self.inventory.add_host(host, group=group)
        for name, own in variables_of.items():
            variables = {**common, **own}
            strict = self.get_option("strict")
            self._set_composite_vars(self.get_option("compose"), variables, name, strict=strict)
            self._add_host_to_composed_groups(self.get_option("groups"), variables, name, strict=strict)
            self._add_host_to_keyed_groups(self.get_option("keyed_groups"), variables, name, strict=strict)
        self.display.vvv(f"{self.get_option('group')}: lease {lease['lease_id'] or lease['assignment_id']}")

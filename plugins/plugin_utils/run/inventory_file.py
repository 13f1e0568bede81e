# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Another inventory than that of the play, which a setting names (cluster_agent_inventory)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError


def read_hosts_and_groups(loader: DataLoader, source: str) -> tuple[Mapping[str, Any], dict[str, list[str]]]:
    """Return the variables of the hosts, and the hosts of the groups, of an inventory. Raises InputError."""
    if not Path(source).exists():
        raise InputError(f"cluster_agent_inventory: there is no {source}")
    inventory = InventoryManager(loader=loader, sources=[source])
    variables = VariableManager(loader=loader, inventory=inventory)
    if not inventory.hosts:
        raise InputError(f"inventory {source} has no hosts")
    return HostVars(inventory, variables, loader), inventory.get_groups_dict()


def create_bmc_address_lookup(
    loader: DataLoader, source: str | None, hostvars: Mapping[str, Any]
) -> Callable[[str], str]:
    """Return a function that returns the address of the BMC of a machine, from this inventory or that of the play."""

    @functools.cache
    def inventories() -> list[Mapping[str, Any]]:
        return [*([read_hosts_and_groups(loader, source)[0]] if source else []), hostvars]

    def bmc_address_of(name: str) -> str:
        addresses = (hosts[name].get("bmc_address") for hosts in inventories() if name in hosts)
        return next((str(address) for address in addresses if address), "")

    return bmc_address_of

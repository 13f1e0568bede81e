# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inventory variables of a lease's machines, without passwords."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from . import lease_info, server_errors
from .quads_client import QuadsClient


def collect(client: QuadsClient, given: Mapping[str, Any], bmc: bool) -> dict[str, Any]:
    """Return ``lease`` (a view), ``common`` variables and ``machines``: host -> ``vars`` and ``about`` (the lab's).

    given: lease_id, assignment_id or cloud, and the server. bmc: read the published inventory too. Raises LeaseError
    without such a lease, InventoryStale if the published inventory is not that of the lease.
    """
    lease = lease_info.lease(client, given)
    view = lease.view()
    if not lease.hosts:
        raise server_errors.LeaseError(f"{view['cloud']}, assignment {view['assignment_id']}, has no host of ours")
    nodes = (
        {one["name"]: one for one in lease_info.nodes(client, {**given, "url": given.get("inventory_url")})}
        if bmc
        else {}
    )
    machines = {}
    for part in view["parts"]:
        for host in part["hosts"]:
            about = client.host(host) or {}
            machines[host] = {"about": about, "vars": _variables(host, about, part, nodes.get(host))}
    common = {
        "quads_lease": view["lease_id"],
        "quads_owner": view["owner"],
        "quads_expires_at": view["expires_at"],
        "quads_validated": view["validated"],
    }
    return {"lease": view, "common": common, "machines": machines}


def _variables(
    host: str, about: Mapping[str, Any], part: Mapping[str, Any], node: Mapping[str, Any] | None
) -> dict[str, Any]:
    interfaces = sorted(about.get("interfaces") or (), key=lambda one: one["name"])
    found = {
        "ansible_host": host,
        "quads_assignment_id": part["assignment_id"],
        "quads_cloud": part["cloud"],
        "quads_model": about.get("model"),
        "quads_macs": {one["name"]: str(one["mac_address"]).lower() for one in interfaces},
        "quads_pxe_interfaces": [one["name"] for one in interfaces if one.get("pxe_boot")],
        "quads_vlan": part["vlan"],
    }
    if node:
        found |= {"bmc_address": node["bmc_address"], "bmc_user": node["bmc_user"]}
    return found


def expired(view: Mapping[str, Any], now: float) -> bool:
    """Return whether a lease, as a view, is over at ``now`` (epoch seconds); one without an end is not."""
    end = view.get("expires_at")
    if not end:
        return False
    return datetime.fromisoformat(end).timestamp() <= now

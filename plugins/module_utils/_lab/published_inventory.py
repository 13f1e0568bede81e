# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory that a QUADS server publishes for OpenShift installers, verified before use.

A job writes the file of a cloud every quarter of an hour while the cloud has hosts, and never deletes it: it may be
that of an earlier tenant. So its hosts must be the lease's, and its passwords must end with the lease's ticket.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from . import server_errors
from .quads_client import QuadsClient


@dataclass(frozen=True)
class InventoryNode:
    """One machine of an inventory. ``macs`` in the order of the interfaces' names."""

    name: str
    bmc_address: str
    bmc_user: str
    bmc_password: str = field(repr=False)
    macs: tuple[str, ...]

    @classmethod
    def of(cls, view: Mapping[str, Any]) -> InventoryNode:
        """Read an entry of the file. Old files have no names: a name is then the BMC's without mgmt-."""
        address = str(view.get("pm_addr") or "")
        return cls(
            name=str(view.get("name") or address.removeprefix("mgmt-")),
            bmc_address=address,
            bmc_user=str(view.get("pm_user") or ""),
            bmc_password=str(view.get("pm_password") or ""),
            macs=tuple(str(mac).lower() for mac in view.get("mac") or ()),
        )

    def view(self, passwords: bool = False) -> dict[str, Any]:
        """Return the node as modules return it."""
        found = {
            "name": self.name,
            "bmc_address": self.bmc_address,
            "bmc_user": self.bmc_user,
            "macs": list(self.macs),
        }
        return {**found, "bmc_password": self.bmc_password} if passwords else found


def default_url(api_url: str, cloud: str) -> str:
    """Return the default URL of a cloud's file."""
    parts = urlsplit(api_url)
    return f"{parts.scheme}://{parts.netloc}/instack/{quote(cloud)}_ocpinventory.json"


def fetch(client: QuadsClient, url: str) -> list[InventoryNode]:
    """Read the file. Raises InventoryStale if it does not exist or is invalid."""
    reply = client.file(url)
    if reply is None:
        raise server_errors.InventoryStale(
            f"{url} does not exist (yet): the lab writes it every quarter of an hour, and only if openshift_management "
            "is enabled"
        )
    body = reply.body
    if not isinstance(body, Mapping) or not isinstance(body.get("nodes"), list):
        raise server_errors.InventoryStale(f"{url} is not an inventory: {reply.said[:80]}")
    return [InventoryNode.of(one) for one in body["nodes"]]


def wrong(nodes: Collection[InventoryNode], hosts: Collection[str], ticket: str) -> str:
    """Return why an inventory is not that of a lease, "" if it is.

    hosts: those of the lease; the cloud may have more. The password of each of them must end with the number of the
    ticket.
    """
    names = {node.name for node in nodes}
    missing = sorted(set(hosts) - names)
    if missing:
        return f"{', '.join(missing)} missing in it" + (
            "" if names & set(hosts) else " and none of this lease's hosts is in it"
        )
    number = ticket.rpartition("-")[2]
    other = [node.name for node in nodes if node.name in hosts and not node.bmc_password.endswith(f"@{number}")]
    if number and other:
        return f"the credentials of {', '.join(sorted(other))} are of another ticket than {ticket}"
    return ""


def read(client: QuadsClient, url: str, hosts: Collection[str], ticket: str) -> list[InventoryNode]:
    """Return the nodes of our hosts, by name. Raises InventoryStale if the file is not that of this lease."""
    nodes = fetch(client, url)
    reason = wrong(nodes, hosts, ticket)
    if reason:
        raise server_errors.InventoryStale(
            f"{url} is not, or not yet, the inventory of this lease: {reason}", stale=True
        )
    return sorted((node for node in nodes if node.name in set(hosts)), key=lambda node: node.name)

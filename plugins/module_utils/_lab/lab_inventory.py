# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machines of a lease with their BMCs, from the inventory that the lab publishes, and as an Ansible inventory.

The lab writes the file every quarter of an hour and never deletes it, so it may be that of an earlier tenant.
"""

from __future__ import annotations

import fnmatch
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote, urlsplit

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import expect_documented_form

from . import host_search, lease_lookup, quads_errors, quads_records
from .quads_client import QuadsClient
from .quads_options import LeaseSelector
from .quads_records import Lease


@dataclass(frozen=True)
class InventoryNode:
    """One machine of an inventory. ``macs`` in the order of the interfaces' names."""

    name: str
    bmc_address: str
    bmc_user: str
    bmc_password: str = field(repr=False)
    macs: tuple[str, ...]

    @classmethod
    def from_json(cls, view: Mapping[str, Any]) -> InventoryNode:
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
        host = {
            "name": self.name,
            "bmc_address": self.bmc_address,
            "bmc_user": self.bmc_user,
            "macs": list(self.macs),
        }
        return {**host, "bmc_password": self.bmc_password} if passwords else host


def inventory_url(client: QuadsClient, cloud: str, template: str = "") -> str:
    """Return the URL of a cloud's file. template: a URL with ``{cloud}``, empty for the usual place on the server."""
    parts = urlsplit(client.url)
    usual = f"{parts.scheme}://{parts.netloc}/instack/{{cloud}}_ocpinventory.json"
    return (template or usual).replace("{cloud}", quote(cloud))


def _fetch_inventory_file(client: QuadsClient, url: str) -> list[InventoryNode]:
    """Read the file. Raises InventoryStale if it does not exist or is invalid."""
    reply = client.read_web_file(url)
    if reply is None:
        raise quads_errors.InventoryStale(
            f"{url} does not exist (yet): the lab writes it every quarter of an hour, and only if openshift_management "
            "is enabled"
        )
    body = reply.body
    if not isinstance(body, Mapping) or not isinstance(body.get("nodes"), list):
        raise quads_errors.InventoryStale(f"{url} is not an inventory: {reply.explanation[:80]}")
    with expect_documented_form(url, body["nodes"]):
        return [InventoryNode.from_json(node) for node in body["nodes"]]


def why_inventory_is_stale(nodes: Collection[InventoryNode], hosts: Collection[str], ticket: str) -> str:
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


def read_published_inventory(client: QuadsClient, url: str, hosts: Collection[str], ticket: str) -> list[InventoryNode]:
    """Return the nodes of our hosts, by name. Raises InventoryStale if the file is not that of this lease."""
    nodes = _fetch_inventory_file(client, url)
    reason = why_inventory_is_stale(nodes, hosts, ticket)
    if reason:
        raise quads_errors.InventoryStale(
            f"{url} is not, or not yet, the inventory of this lease: {reason}", stale=True
        )
    return sorted((node for node in nodes if node.name in set(hosts)), key=lambda node: node.name)


def bmc_nodes(client: QuadsClient, lease: Lease, url: str = "") -> list[dict[str, Any]]:
    """Return the machines of a lease with BMC passwords. url: see inventory_url. Raises InventoryStale."""
    nodes: list[dict[str, Any]] = []
    for part in lease.parts:
        assignment = part.assignment
        hosts = [host for host in part.hosts if host not in lease.lost_hosts]
        for node in read_published_inventory(
            client, inventory_url(client, assignment.cloud, url), hosts, assignment.ticket
        ):
            interfaces = (client.host(node.name) or {}).get("interfaces") or ()
            macs = {interface["name"]: str(interface["mac_address"]).lower() for interface in interfaces}
            nodes.append({**node.view(passwords=True), "interfaces": dict(sorted(macs.items()))})
    return nodes


def collect_lease_inventory(client: QuadsClient, selector: LeaseSelector, bmc: bool, url: str = "") -> dict[str, Any]:
    """Return ``lease`` (a view), ``common`` variables and ``machines``: host -> ``vars`` and ``about`` (the lab's).

    bmc: read the published inventory too, at ``url``. Raises LeaseError without such a lease, InventoryStale if the
    published inventory is not that of the lease.
    """
    lease = lease_lookup.active_lease(client, selector)
    view = lease.view()
    if not lease.hosts:
        raise quads_errors.LeaseError(f"{view['cloud']}, assignment {view['assignment_id']}, has no host of ours")
    nodes = {node["name"]: node for node in bmc_nodes(client, lease, url)} if bmc else {}
    machines = {}
    for part in view["parts"]:
        for host in part["hosts"]:
            about = client.host(host) or {}
            machines[host] = {"about": about, "vars": _ansible_host_variables(host, about, part, nodes.get(host))}
    common = {
        "quads_lease": view["lease_id"],
        "quads_owner": view["owner"],
        "quads_expires_at": view["expires_at"],
        "quads_validated": view["validated"],
    }
    return {"lease": view, "common": common, "machines": machines}


def _ansible_host_variables(
    host: str, about: Mapping[str, Any], part: Mapping[str, Any], node: Mapping[str, Any] | None
) -> dict[str, Any]:
    interfaces = sorted(about.get("interfaces") or (), key=lambda interface: interface["name"])
    values = {
        "ansible_host": host,
        "quads_assignment_id": part["assignment_id"],
        "quads_cloud": part["cloud"],
        "quads_model": about.get("model"),
        "quads_macs": {interface["name"]: str(interface["mac_address"]).lower() for interface in interfaces},
        "quads_pxe_interfaces": [interface["name"] for interface in interfaces if interface.get("pxe_boot")],
        "quads_vlan": part["vlan"],
    }
    if node:
        values |= {"bmc_address": node["bmc_address"], "bmc_user": node["bmc_user"]}
    return values


def is_lease_expired(view: Mapping[str, Any], now: float) -> bool:
    """Return whether a lease, as a view, is over at ``now`` (epoch seconds); one without an end is not.

    In an unknown time zone it is over when it is over in all of them.
    """
    end = view.get("expires_at")
    if not end:
        return False
    moment = datetime.fromisoformat(end)
    if moment.tzinfo is None:
        return moment.replace(tzinfo=timezone.utc).timestamp() - quads_records.WEST <= now
    return moment.timestamp() <= now


_RULE_KEYS = ("name", "hosts", "where", "count")
#: Fields of a leased machine beside those of a free one.
LEASED_FIELDS = {"cloud": host_search.WORD}


@dataclass(frozen=True)
class GroupRule:
    """One group. ``hosts``: names or patterns; ``where``: conditions as in a lease; ``count`` None: the rest."""

    name: str
    hosts: tuple[str, ...] = ()
    where: tuple[tuple[str, str], ...] = ()
    count: int | None = None

    @classmethod
    def from_option(cls, role: Mapping[str, Any]) -> GroupRule:
        """Check one entry of the option. Raises InputError."""
        if not isinstance(role, Mapping):
            raise InputError(f"roles: '{role}' is not a dictionary with name, hosts, where and count")
        for key in role:
            if key not in _RULE_KEYS:
                known = ", ".join(_RULE_KEYS)
                raise InputError(
                    f"roles: unknown key '{key}'{suggest_similar_name(str(key), _RULE_KEYS)}; known: {known}"
                )
        name = str(role.get("name") or "")
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise InputError(f"roles: name '{name}' is not a group name: letters, digits and _ only")
        count = role.get("count", "rest")
        if count != "rest" and not re.fullmatch(r"\d+", str(count)):
            raise InputError(f"roles: {name}: count must be a number or rest, not '{count}'")
        hosts = role.get("hosts") or ()
        return cls(
            name=name,
            hosts=(hosts,) if isinstance(hosts, str) else tuple(hosts),
            where=tuple(
                host_search.render_host_condition(key, value, f"roles: {name}: where", LEASED_FIELDS)
                for key, value in (role.get("where") or {}).items()
            ),
            count=None if count == "rest" else int(count),
        )


def assign_groups(
    machines: Mapping[str, Mapping[str, Any]], rules: Sequence[Mapping[str, Any]]
) -> dict[str, list[str]]:
    """Return group -> hosts. machines: host -> its record, as returned by GET /hosts/<name>.

    Rules apply in order, each to the hosts without a group, by name. Raises InputError if a rule finds fewer hosts than
    its count, or names a host that is not in the lease.
    """
    left = sorted(machines, key=natural_sort_key)
    groups: dict[str, list[str]] = {}
    for rule in [GroupRule.from_option(rule) for rule in rules]:
        _check_rule_host_patterns(rule, machines)
        fitting = [host for host in left if _is_host_matching_rule(rule, host, machines[host])]
        taken = fitting if rule.count is None else fitting[: rule.count]
        if rule.count is not None and len(taken) < rule.count:
            raise InputError(
                f"roles: {rule.name} needs {rule.count} machines, but {len(taken)} of the lease's {len(machines)} are "
                f"left that match: {', '.join(taken) or 'none'}"
            )
        groups.setdefault(rule.name, []).extend(taken)
        left = [host for host in left if host not in taken]
    return groups


def natural_sort_key(name: str) -> list[Any]:
    """Return a sort key that orders h2 before h10."""
    # Digits without leading zeros, after their number: any count of digits is ordered as numbers are.
    parts = enumerate(re.split("([0-9]+)", name))
    return [(len(part.lstrip("0")), part.lstrip("0")) if number % 2 else part for number, part in parts]


def _check_rule_host_patterns(rule: GroupRule, machines: Mapping[str, Any]) -> None:
    for pattern in rule.hosts:
        if not any(_is_host_matching_pattern(host, pattern) for host in machines):
            raise InputError(
                f"roles: {rule.name}: no host of the lease matches '{pattern}'{suggest_similar_name(pattern, machines)}"
            )


def _is_host_matching_pattern(host: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(host, pattern) or fnmatch.fnmatchcase(host.split(".")[0], pattern)


def _is_host_matching_rule(rule: GroupRule, host: str, machine: Mapping[str, Any]) -> bool:
    """Return whether a host meets a rule, by the semantics of the server.

    One part must meet all conditions on its kind; a sum is over all parts of its kind.
    """
    if rule.hosts and not any(_is_host_matching_pattern(host, pattern) for pattern in rule.hosts):
        return False
    kinds = {key: host_search.host_part_and_sum_flag(key) for key, _wanted in rule.where}
    for child in {child for child, _sum in kinds.values()}:
        conditions = [(key, wanted) for key, wanted in rule.where if kinds[key][0] == child]
        plain = [condition for condition in conditions if not kinds[condition[0]][1]]
        parts = machine.get(child) or () if child else (machine,)
        sums = [condition for condition in conditions if kinds[condition[0]][1]]
        fitting = any(
            all(_is_comparison_true(_host_part_value(part, key), key, wanted) for key, wanted in plain)
            for part in parts
        )
        if not fitting or not all(
            _is_comparison_true(_sum_over_host_parts(parts, key), key, wanted) for key, wanted in sums
        ):
            return False
    return True


def _host_part_value(part: Mapping[str, Any], key: str) -> Any:
    value = part.get(key.partition("__")[0].rpartition(".")[2])
    return value.get("name") if isinstance(value, Mapping) else value


def _sum_over_host_parts(parts: Sequence[Mapping[str, Any]], key: str) -> int:
    return len(parts) if key.startswith("interfaces.") else sum(_host_part_value(part, key) or 0 for part in parts)


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "lte": operator.le,
    "gt": operator.gt,
    "gte": operator.ge,
}


def _is_comparison_true(value: Any, key: str, wanted: str) -> bool:
    """Compare like a database: every comparison with an unknown value is false."""
    comparison = key.partition("__")[2]
    if value is None:
        return False
    if comparison in ("like", "ilike"):
        flags = re.IGNORECASE if comparison == "ilike" else 0
        pattern = "".join(".*" if char == "%" else "." if char == "_" else re.escape(char) for char in wanted)
        return re.fullmatch(pattern, str(value), flags) is not None
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if comparison == "in":
        return text in wanted.split(",")
    holds = _COMPARISONS[comparison]
    return holds(value, int(wanted)) if isinstance(value, int) and not isinstance(value, bool) else holds(text, wanted)

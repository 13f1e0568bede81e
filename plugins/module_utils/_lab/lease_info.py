# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading leases, free hosts and machines for the _info modules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError

from . import host_preferences, lease_lookup, lease_record, lease_tag, published_inventory, server_errors, times
from .api_records import Assignment, Lease
from .quads_client import QuadsClient

LOOK_EVERY = 30.0


def remembered(path: str | None) -> dict[str, Any]:
    """Return the content of a lease file, empty without one."""
    return lease_record.read(path) if path and Path(path).exists() else {}


def asked(known: Mapping[str, Any]) -> set[str] | None:
    """Return the requested hosts, None if they are unknown or the lease was adopted."""
    return None if not known or known.get("adopted") else set(known["asked_hosts"])


def looker(client: QuadsClient, given: Mapping[str, Any], known: Mapping[str, Any]) -> Callable[[], list[Assignment]]:
    """Return a function that returns the assignments of the lease in ``given``, including ended ones.

    Assignments in a lease file are looked up by number, so that an ended one is found too.
    """
    numbers = [part["assignment_id"] for part in known.get("parts") or ()]
    if given.get("assignment_id"):
        numbers = [given["assignment_id"]]
    lease_id = given.get("lease_id")
    if given.get("cloud"):
        one = client.active_in(given["cloud"])
        if one is None:
            raise server_errors.LeaseError(f"there is no active assignment of {given['cloud']}")
        numbers = [one.id]
    if numbers:
        return lambda: [one for number in numbers if (one := client.assignment(number))]
    if not client.account.owner:
        raise InputError(f"lease {lease_id}: set username, its owner")
    return lambda: _newest(lease_lookup.tagged(client, lease_tag.check_id(str(lease_id))))


def _newest(found: list[Assignment]) -> list[Assignment]:
    """Return the active assignment of each part, else the last one: a part may have been acquired more than once."""
    parts: dict[int, Assignment] = {}
    for one in found:
        number = one.tag.part if one.tag else 0
        if one.active or number not in parts or not parts[number].active:
            parts[number] = one
    return [parts[number] for number in sorted(parts)]


def lease(client: QuadsClient, given: Mapping[str, Any]) -> Lease:
    """Return the active lease in ``given``. Raises LeaseError if there is none."""
    known = remembered(given.get("lease_file"))
    client.remember_offset(known.get("utc_offset"))
    found = looker(client, given, known)()
    active = [one for one in found if one.active]
    what = next(f"{key} {given[key]}" for key in ("lease_id", "assignment_id", "cloud") if given.get(key))
    if not active:
        raise server_errors.LeaseLost(f"{what}: none of its assignments is active")
    first = active[0].tag
    name = given.get("lease_id") or (first.lease_id if first else "")
    return lease_lookup.read(client, active, name, asked(known), bool(known.get("adopted")))


def leases(client: QuadsClient, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the leases that meet the options of quads_lease_info, as views."""
    client.remember_offset(remembered(given.get("lease_file")).get("utc_offset"))
    if given.get("lease_id"):
        owner = given.get("owner") or client.account.owner
        if not owner:
            raise InputError(f"lease {given['lease_id']}: set username or owner, its owner")
        found = _newest(lease_lookup.tagged(client, lease_tag.check_id(given["lease_id"]), owner=owner))
    elif given.get("assignment_id"):
        found = [one for one in [client.assignment(given["assignment_id"])] if one]
    elif given.get("cloud"):
        found = [one for one in [client.active_in(given["cloud"])] if one]
    else:
        found = client.assignments(("owner", given["owner"]), *([("active", "true")] if given["active"] else []))
    groups: dict[str, list[Assignment]] = {}
    for one in found:
        if one.active or not given["active"]:
            name = one.tag.lease_id if one.tag else f"assignment {one.id}"
            groups.setdefault(name, []).append(one)
    return [lease_lookup.read(client, parts, _id(parts[0])).view() for parts in groups.values()]


def _id(one: Assignment) -> str:
    return one.tag.lease_id if one.tag else ""


def available(client: QuadsClient, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return free hosts, clouds and VLANs, for quads_available_info. Raises NotEnoughHosts."""
    conditions = host_preferences.preferences(given["model"], given["filters"], given["prefer"])
    seconds = times.duration(given["duration"], "duration")
    version = client.version()
    now = client.server_now()
    found: dict[str, None] = {}
    for one in conditions:
        found.update(dict.fromkeys(host_preferences.free(client, one, now + seconds)))
    hosts = [name for name in found if name not in given["exclude"]]
    if not hosts and (unknown := host_preferences.unknown_models(client, conditions)):
        raise InputError(unknown)
    if len(hosts) < given["count"]:
        wanted = "; ".join(", ".join(f"{key}={value}" for key, value in one.items()) for one in conditions if one)
        raise server_errors.NotEnoughHosts(
            f"{len(hosts)} hosts{f' with {wanted}' if wanted else ''} are free for {times.about(seconds)}, but "
            f"{given['count']} are required"
        )
    result: dict[str, Any] = {
        "hosts": hosts,
        "free_clouds": client.free_clouds(),
        "free_vlans": client.free_vlans(),
        "server_version": version,
    }
    if given["gather_metadata"]:
        result["hosts_info"] = [known for name in hosts if (known := client.host(name))]
        result["machine_types"] = machine_types(result["hosts_info"])
    return result


def machine_types(hosts: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the machine types of a lab's host records (QUADS), one per model: threads of CPUs and GiB of memory.

    Hosts of one model may differ; the smallest counts. Models without hardware data are left out.
    """
    found: dict[str, dict[str, Any]] = {}
    for host in hosts:
        processors = [one for one in host.get("processors") or () if one.get("processor_type") in (None, "CPU")]
        cpu = sum(one.get("threads") or one.get("cores") or 0 for one in processors)
        memory = sum(one.get("size_gb") or 0 for one in host.get("memory") or ())
        if not cpu or not memory:
            continue
        model = str(host["model"])
        known = found.get(model, {"cpu": cpu, "memory": memory})
        found[model] = {"name": model, "cpu": min(cpu, known["cpu"]), "memory": min(memory, known["memory"])}
    return list(found.values())


def nodes(client: QuadsClient, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the machines of a lease with BMC passwords, for quads_inventory_info. Raises InventoryStale."""
    held = lease(client, given)
    found: list[dict[str, Any]] = []
    until = client.timing.monotonic() + float(given.get("wait") or 0)
    for part in held.parts:
        one = part.assignment
        hosts = [host for host in part.hosts if host not in held.lost_hosts]
        hosts = [host for host in hosts if host in given["expected_hosts"]] if given.get("expected_hosts") else hosts
        url = (given.get("url") or published_inventory.default_url(client.base, "{cloud}")).replace(
            "%7Bcloud%7D", "{cloud}"
        )
        url = url.replace("{cloud}", one.cloud)
        for node in _patient(client, url, hosts, given.get("ticket") or one.ticket, until):
            known = client.host(node.name) or {}
            macs = {each["name"]: str(each["mac_address"]).lower() for each in known.get("interfaces") or ()}
            found.append({**node.view(passwords=True), "interfaces": dict(sorted(macs.items()))})
    missing = sorted(set(given.get("expected_hosts") or ()) - {node["name"] for node in found})
    if missing:
        raise server_errors.InventoryStale(f"the lease does not have {', '.join(missing)}", stale=True)
    return found


def _patient(
    client: QuadsClient, url: str, hosts: list[str], ticket: str, until: float
) -> list[published_inventory.InventoryNode]:
    while True:
        try:
            return published_inventory.read(client, url, hosts, ticket)
        except server_errors.InventoryStale:
            left = until - client.timing.monotonic()
            if left <= 0:
                raise
            client.pause(min(LOOK_EVERY, left))

"""What the server's cron jobs do: move hosts, validate, write the OpenShift inventory, end what has expired."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from quads_simulator.state import Assignment, Schedule

if TYPE_CHECKING:
    from quads_simulator.core import Simulator


def run(simulator: Simulator) -> None:
    """Bring the lab up to the clock's moment."""
    now = simulator.clock.now()
    _expire(simulator, now)
    _move(simulator, now)
    _validate(simulator, now)
    if now - simulator.inventory_at >= simulator.config.inventory_period:
        write_inventories(simulator)


def _expire(simulator: Simulator, now: float) -> None:
    """An assignment ends with its last schedule. One that never had a schedule never ends."""
    for one in simulator.assignments.values():
        rows = [row for row in simulator.schedules.values() if row.assignment is one]
        if one.active and rows and all(row.end <= now for row in rows):
            one.active = False


def holder(simulator: Simulator, host: str, now: float) -> Schedule | None:
    """Return the schedule that has the host now: of two, the earlier one."""
    rows = [row for row in simulator.schedules.values() if row.host == host and row.current(now)]
    return min(rows, key=lambda row: row.id, default=None)


def _move(simulator: Simulator, now: float) -> None:
    for host in simulator.hosts.values():
        row = holder(simulator, host["name"], now)
        wanted = row.assignment.cloud if row else host["default_cloud"]["name"]
        since = row.start if row else 0.0
        if host["cloud"]["name"] == wanted or now < since + simulator.config.move_delay:
            continue
        if not row and now < simulator.released_at.get(host["name"], 0.0) + simulator.config.move_delay:
            continue
        host["cloud"] = simulator.clouds[wanted]
        host["cloud_id"] = host["cloud"]["id"]
        host["build"], host["switch_config_applied"], host["validated"] = bool(row), bool(row), False
        if row and row.assignment.wipe:
            row.assignment.validated = False  # a host that joins takes the cloud back to unvalidated


def _rows(simulator: Simulator, one: Assignment, now: float) -> list[Schedule]:
    return [row for row in simulator.schedules.values() if row.assignment is one and row.current(now)]


def _validate(simulator: Simulator, now: float) -> None:
    for one in simulator.assignments.values():
        rows = _rows(simulator, one, now)
        moved = [row for row in rows if simulator.hosts[row.host]["cloud"]["name"] == one.cloud]
        # A host that another tenant holds by an earlier schedule never arrives.
        awaited = [row for row in rows if holder(simulator, row.host, now) is row]
        if not one.active or not rows or one.validated or len(moved) < len(awaited):
            continue
        if not one.provisioned:
            one.provisioned, one.provisioned_at = True, now
        broken = [row.host for row in awaited if row.host in simulator.faults.broken]
        if not one.wipe or now >= one.provisioned_at + simulator.config.validate_delay and not broken:
            one.validated = True
        for row in awaited:
            if one.validated or (
                now >= one.provisioned_at + simulator.config.validate_delay and row.host not in broken
            ):
                simulator.hosts[row.host]["validated"] = True


def write_inventories(simulator: Simulator) -> None:
    """Write <cloud>_ocpinventory.json for every cloud that has hosts; those without keep what they had."""
    simulator.inventory_at = simulator.clock.now()
    for name in simulator.clouds:
        hosts = [host for host in simulator.hosts.values() if host["cloud"]["name"] == name]
        if hosts:
            ticket = next(
                (one.ticket for one in simulator.assignments.values() if one.cloud == name and one.active), ""
            )
            password = f"{simulator.config.infra}@{ticket}"
            simulator.inventories[name] = json.dumps({"nodes": [_node(host, password) for host in hosts]}, indent=4)


def _node(host: dict[str, Any], password: str) -> dict[str, Any]:
    return {
        "name": host["name"],
        "pm_addr": f"mgmt-{host['name']}",
        "pm_user": "quads",
        "pm_password": password,
        "pm_type": "pxe_ipmitool",
        "mac": [one["mac_address"] for one in sorted(host["interfaces"], key=lambda one: one["name"])],
        "cpu": "2",
        "memory": "1024",
        "disk": "20",
        "arch": "x86_64",
    }

"""The server's cron jobs: move hosts, validate, write the OpenShift inventory, end expired assignments."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from quads_simulator.state import Schedule

if TYPE_CHECKING:
    from quads_simulator.core import Simulator


def run(simulator: Simulator) -> None:
    """Bring the lab up to the clock's moment."""
    now = simulator.clock.now()
    _expire(simulator, now)
    if simulator.schedules:
        held = holders(simulator, now)
        _move(simulator, now, held)
        _validate(simulator, now, held)
    if now - simulator.inventory_at >= simulator.config.inventory_period:
        write_inventories(simulator)


def _expire(simulator: Simulator, now: float) -> None:
    """An assignment ends with its last schedule. One that never had a schedule never ends."""
    for one in simulator.assignments.values():
        rows = [row for row in simulator.schedules.values() if row.assignment is one]
        if one.active and rows and all(row.end <= now for row in rows):
            one.active = False


def holders(simulator: Simulator, now: float) -> dict[str, Schedule]:
    """Return host -> the schedule that has it now: of two, the earlier one."""
    rows = sorted((row for row in simulator.schedules.values() if row.current(now)), key=lambda row: -row.id)
    return {row.host: row for row in rows}


def _move(simulator: Simulator, now: float, held: dict[str, Schedule]) -> None:
    for name, host in simulator.hosts.items():
        row = held.get(name)
        wanted = row.assignment.cloud if row else host["default_cloud"]["name"]
        since = row.start if row else simulator.released_at.get(name, 0.0)
        if host["cloud"]["name"] == wanted or now < since + simulator.config.move_delay:
            continue
        host["cloud"] = simulator.clouds[wanted]
        host["cloud_id"] = host["cloud"]["id"]
        host["build"], host["switch_config_applied"], host["validated"] = bool(row), bool(row), False
        if row and row.assignment.wipe:
            # A host that joins takes the cloud back to unvalidated.
            row.assignment.validated, row.assignment.provisioned_at = False, now


def _validate(simulator: Simulator, now: float, held: dict[str, Schedule]) -> None:
    for one in simulator.assignments.values():
        # A host that another tenant holds by an earlier schedule never arrives.
        hosts = [simulator.hosts[name] for name, row in held.items() if row.assignment is one]
        if not one.active or not hosts or any(host["cloud"]["name"] != one.cloud for host in hosts):
            continue
        if not one.provisioned:
            one.provisioned, one.provisioned_at = True, now
        done = not one.wipe or now >= one.provisioned_at + simulator.config.validate_delay
        for host in hosts:
            host["validated"] = host["validated"] or (done and host["name"] not in simulator.faults.broken)
        one.validated = one.validated or not one.wipe or all(host["validated"] for host in hosts)


def write_inventories(simulator: Simulator) -> None:
    """Write <cloud>_ocpinventory.json for every cloud that has hosts; those without hosts keep their file."""
    simulator.inventory_at = simulator.clock.now()
    for name in simulator.clouds:
        hosts = [host for host in simulator.hosts.values() if host["cloud"]["name"] == name]
        if hosts:
            ticket = next(
                (one.ticket for one in simulator.assignments.values() if one.cloud == name and one.active), ""
            )
            password = f"{simulator.config.infra}@{ticket}"
            simulator.inventories[name] = json.dumps(
                {"nodes": [_node(host, password, simulator.config.bmc_addresses) for host in hosts]}, indent=4
            )


def _node(host: dict[str, Any], password: str, addresses: dict[str, str]) -> dict[str, Any]:
    return {
        "name": host["name"],
        "pm_addr": addresses.get(host["name"], f"mgmt-{host['name']}"),
        "pm_user": "quads",
        "pm_password": password,
        "pm_type": "pxe_ipmitool",
        "mac": [one["mac_address"] for one in sorted(host["interfaces"], key=lambda one: one["name"])],
        "cpu": "2",
        "memory": "1024",
        "disk": "20",
        "arch": "x86_64",
    }

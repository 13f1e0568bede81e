# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many machines in parallel, each in a thread, because a BMC takes seconds for each response; and their options.

The modules of community.general handle one BMC in a task, do not wait for a state, and know no free virtual media, busy
job queues or ETags. Hundreds of machines would need a loop of tasks that each repeat what failed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    AccessError,
    InputError,
    SeatrialError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import ThreadPool
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import expect_documented_form

from .bmc_machine import BmcConnection, RedfishMachine

#: Largest number of BMCs at a time; more are not faster and load a lab's network.
WORKERS = 32

#: Options of the modules (doc fragment _redfish).
MACHINE: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "address": {"type": "str", "required": True},
    "user": {"type": "str", "required": True},
    "password": {"type": "str", "default": "", "no_log": True},
    "system": {"type": "str", "default": ""},
    "role": {"type": "str"},
    "ip": {"type": "str"},
}
BMCS: dict[str, Any] = {
    "machines": {"type": "list", "elements": "dict", "required": True, "options": MACHINE},
    "passwords": {"type": "dict", "default": {}, "no_log": True},
    "password": {"type": "str", "default": "", "no_log": True},
    "validate_certs": {"type": "bool", "default": True},
    "ca_path": {"type": "path"},
    "timeout": {"type": "int", "default": 30},
    "contact_timeout": {"type": "float", "default": 120},
    "wait_timeout": {"type": "float", "default": 900},
    "vendors": {"type": "dict", "default": {}},
}


class FleetError(AccessError):
    """Some machines did not reach the state. facts: the state of each machine."""

    def __init__(self, message: str, machines: list[dict[str, Any]]) -> None:
        super().__init__(message)
        self.facts = {"machines": machines}


def bmcs_from_params(params: Mapping[str, Any]) -> list[BmcConnection]:
    """Return address and credentials of each machine's BMC. Raises InputError for one without a password."""
    return [_bmc_from_params(machine, params) for machine in params["machines"]]


def _bmc_from_params(machine: Mapping[str, Any], params: Mapping[str, Any]) -> BmcConnection:
    password = machine["password"] or params["passwords"].get(machine["name"]) or params["password"]
    if not password:
        raise InputError(
            f"{machine['name']}: the password of its BMC is unknown: set cluster_agent_bmc_password, or bmc_password "
            "in the inventory"
        )
    return BmcConnection(machine["name"], machine["address"], machine["user"], str(password), machine["system"])


def read_machine_states(
    machines: Iterable[BmcConnection], params: Mapping[str, Any], say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Return the state of all machines in order; one whose BMC can't be read has an ``error``. params: see bring."""
    return [
        {name: value for name, value in state.items() if name != "changed"}
        for state in _call_for_all_machines(machines, params, say, lambda _machine: False)
    ]


def set_machine_states(
    machines: Iterable[BmcConnection], state: str, image: str, params: Mapping[str, Any], say: Callable[[str], None]
) -> tuple[list[dict[str, Any]], bool]:
    """Bring all machines to ``state``: booted (from ``image``, once), ejected or off.

    params: wait_timeout in seconds for all machines, and the parameters of Machine. Returns the state of each machine
    in order, and whether any was changed. Raises FleetError if one failed; the others reach the state nevertheless.
    """
    states = _call_for_all_machines(machines, params, say, lambda machine: STATES[state](machine, image))
    failed = [row["error"] for row in states if row["error"]]
    if failed:
        raise FleetError(f"{len(failed)} of {len(states)} machines are not {state}: " + "; ".join(failed), states)
    return states, any(row["changed"] for row in states)


def _call_for_all_machines(
    machines: Iterable[BmcConnection],
    params: Mapping[str, Any],
    say: Callable[[str], None],
    act: Callable[[RedfishMachine], bool],
) -> list[dict[str, Any]]:
    """Call ``act`` with every machine, and return the state of each afterwards."""
    deadline = time.monotonic() + float(params.get("wait_timeout") or 600)

    def one(bmc: BmcConnection) -> dict[str, Any]:
        try:
            machine = RedfishMachine(bmc, params, deadline, say)
            with expect_documented_form(f"{bmc.name}: its BMC {bmc.address}", {}):
                machine.find()
                changed = act(machine)
                state = {**machine.state(), "changed": changed, "error": ""}
        except SeatrialError as error:
            return {"name": bmc.name, "power": None, "media": [], "changed": True, "error": str(error)}
        if changed:
            say(f"{bmc.name}: power {state['power']}, media {', '.join(state['media']) or 'none'}")
        return state

    with ThreadPool(max_workers=WORKERS) as pool:
        return list(pool.map(one, list(machines)))


def _boot_from_image(machine: RedfishMachine, image: str) -> bool:
    if machine.traits.off_before_media:
        machine.power("Off")
    machine.insert(image)
    machine.boot_once()
    machine.power("Off")
    machine.power("On")
    return True


def _power_off_machine(machine: RedfishMachine, _image: str) -> bool:
    changed = machine.power("Off")
    machine.boot_as_usual()
    return machine.eject() or changed


def _eject_boot_media(machine: RedfishMachine, _image: str) -> bool:
    machine.boot_as_usual()
    return machine.eject()


#: State -> function that brings a machine to it.
STATES: dict[str, Callable[[RedfishMachine, str], bool]] = {
    "booted": _boot_from_image,
    "ejected": _eject_boot_media,
    "off": _power_off_machine,
}

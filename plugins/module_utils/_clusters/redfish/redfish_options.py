# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of the modules that talk to BMCs (doc fragment _redfish)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError

from .bmc_machine import Bmc

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


def bmcs(given: Mapping[str, Any]) -> list[Bmc]:
    """Return address and credentials of each machine's BMC. Raises InputError for one without a password."""
    return [_bmc(one, given) for one in given["machines"]]


def _bmc(one: Mapping[str, Any], given: Mapping[str, Any]) -> Bmc:
    password = one["password"] or given["passwords"].get(one["name"]) or given["password"]
    if not password:
        raise InputError(
            f"{one['name']}: the password of its BMC is unknown: set cluster_agent_bmc_password, or bmc_password "
            "in the inventory"
        )
    return Bmc(one["name"], one["address"], one["user"], str(password), one["system"])

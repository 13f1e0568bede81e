# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the machines of a cluster from the inventory of the play or another one."""

from __future__ import annotations

from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions.action_base import SeatrialAction
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import inventory_file

#: Variables of a machine that are read, beside cluster_agent_*.
NAMES = ("quads_macs", "macs", "quads_model", "model", "bmc_address", "bmc_user", "bmc_system")


class ActionModule(SeatrialAction):
    """Return the machines in the order of groups and hosts, and their passwords, where the inventory has them."""

    ARGUMENTS = {
        "inventory": {"type": "path"},
        "control_plane_group": {"type": "str", "required": True},
        "worker_group": {"type": "str", "default": ""},
    }

    def act(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Read the inventory; change nothing."""
        source = arguments["inventory"]
        hostvars, groups = (
            inventory_file.read_hosts_and_groups(self._loader, source)
            if source
            else (task_vars["hostvars"], task_vars["groups"])
        )
        machines, passwords = [], {}
        wanted = (("master", arguments["control_plane_group"]), ("worker", arguments["worker_group"]))
        for role, group in wanted:
            if group and group not in groups and (role == "master" or group != "worker"):
                where = f"inventory {source}" if source else "the inventory"
                raise InputError(f"{where} has no group {group}{suggest_similar_name(group, groups)}")
            for name in groups.get(group, ()) if group else ():
                known = hostvars[name]
                kept = [key for key in known if key in NAMES or key.startswith("cluster_agent_")]
                values = {key: files.to_plain_types(known[key]) for key in kept if key != "cluster_agent_bmc_password"}
                machines.append({"name": str(name), "role": role, "vars": values})
                if known.get("bmc_password"):
                    passwords[str(name)] = str(known["bmc_password"])
        return {"machines": machines, "passwords": passwords}

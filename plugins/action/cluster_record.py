# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write what became of a cluster into the run's cluster.yml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.utils.display import Display
from ansible_collections.perfscale.seatrial.plugins.module_utils import _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._cluster import identity, record
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._openshift import store
from ansible_collections.perfscale.seatrial.plugins.module_utils._step import Step
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.action import SeatrialAction


class ActionModule(SeatrialAction):
    """Merge values into the records of some hosts, or only read the records."""

    ARGUMENTS = {
        "run_dir": {"type": "path", "required": True},
        "hosts": {"type": "list", "elements": "str", "default": []},
        "values": {"type": "dict", "default": {}},
        "show": {"type": "bool", "default": False},
        "say": {"type": "list", "elements": "str", "default": []},
        "store": {"type": "str", "default": ""},
        "named": {"type": "str", "default": ""},
        "step_dir": {"type": "path"},
    }

    def act(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Return all records, each cluster once, and a line for each that has an identity."""
        changed = False
        clusters = record.read(arguments["run_dir"])
        if arguments["named"] and not self._task.check_mode:
            if not arguments["store"]:
                raise InputError(
                    f"cluster_release_named={arguments['named']} needs cluster_metadata_store, which knows it"
                )
            kept = store.get(arguments["store"], arguments["named"])
            clusters, changed = record.take_over(arguments["run_dir"], kept)
        if arguments["hosts"] and not self._task.check_mode:
            values = _files.plain(arguments["values"])
            clusters, changed = record.update(arguments["run_dir"], arguments["hosts"], values)
        distinct = record.distinct(clusters)
        lines = [identity.line(one["record"], one["hosts"]) for one in distinct if one["record"].get("api_host")]
        for line in [*(lines if arguments["show"] else []), *arguments["say"]]:
            Display().display(line)
        if changed:
            states = (f"{' and '.join(one['hosts'])}: {one['record']['state']}" for one in distinct)
            Step(arguments["step_dir"]).log("; ".join([*states, *lines]))
        # Every role that installs operators, or adds to them, does so in one of these entry points; its step is there
        # before it begins.
        steps = Path(arguments["run_dir"])
        operators = any([*steps.glob("*__*__install"), *steps.glob("*__rhoai__components")])
        return {
            "changed": changed,
            "clusters": clusters,
            "distinct": distinct,
            "lines": lines,
            "operators": operators,
        }

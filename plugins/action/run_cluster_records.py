# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read or update the records of a run's clusters in cluster.yml."""

from __future__ import annotations

from typing import Any

from ansible.utils.vars import load_extra_vars
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module, files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters import cluster_properties, clusters_of_run
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions.action_base import SeatrialAction
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import foreign_kubeconfigs, terminal_output
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run.stored_cluster import take_over_named_cluster


class ActionModule(SeatrialAction):
    """Merge values into the records of some hosts, or only read the records."""

    ARGUMENTS = {
        **ansible_module.RUN_DIR,
        "hosts": {"type": "list", "elements": "str", "default": []},
        "values": {"type": "dict", "default": {}},
        "say": {"type": "list", "elements": "str", "default": []},
        **dict.fromkeys(("store", "named", "bastion", "share_dir"), {"type": "str", "default": ""}),
        "inventory": {"type": "path", "default": ""},
        **dict.fromkeys(("show", "regain"), {"type": "bool", "default": False}),
        **clusters_of_run.OPTIONS,
        **ansible_module.STEP,
    }

    def act(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Return all records, each cluster once, and a line for each that has an identity."""
        run_dir = arguments["run_dir"]
        clusters, changed = clusters_of_run.read_cluster_records(run_dir), False
        if arguments["named"] and not self._task.check_mode:
            clusters, changed = take_over_named_cluster(arguments, self._loader, task_vars["hostvars"])
        if arguments["hosts"] and not self._task.check_mode:
            values = files.to_plain_types(arguments["values"])
            clusters, changed = clusters_of_run.update_host_records(run_dir, arguments["hosts"], values)
        if arguments["regain"] and not self._task.check_mode:
            of_session = (task_vars, load_extra_vars(self._loader), self._templar.template)
            access = foreign_kubeconfigs.create_trusted_access_lookup(run_dir, *of_session)
            clusters, changed = clusters_of_run.replace_recorded_access(run_dir, access, terminal_output.show_warning)
        if arguments["identify"]:
            display, check_mode = terminal_output.show_line, bool(self._task.check_mode)
            clusters, changed = clusters_of_run.record_cluster_identities(arguments, display, check_mode)
        distinct = clusters_of_run.distinct_clusters_with_hosts(clusters)
        identified = [entry for entry in distinct if entry["record"].get("version")]
        lines = [cluster_properties.format_cluster_record(entry["record"], entry["hosts"]) for entry in identified]
        for text in [*(lines if arguments["show"] else []), *arguments["say"]]:
            terminal_output.show_line(text)
        if changed:
            states = (f"{' and '.join(entry['hosts'])}: {entry['record']['state']}" for entry in distinct)
            StepDirectory(arguments["step_dir"]).log("; ".join([*states, *lines]))
        operators = clusters_of_run.has_run_changed_operators(run_dir)
        return {"changed": changed, "clusters": clusters, "distinct": distinct, "lines": lines, "operators": operators}

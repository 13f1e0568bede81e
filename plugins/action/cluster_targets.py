# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Select the clusters to acquire, and record them before one is acquired."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.utils.vars import load_extra_vars
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters import clusters_of_run
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.providers import provider_by_name
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions.action_base import SeatrialAction
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import cluster_settings, settings_catalogue

ROOT = Path(__file__).parents[2]


class ActionModule(SeatrialAction):
    """Return the targets; afterwards each of them is in cluster.yml with state ``acquiring``."""

    ARGUMENTS = {
        **ansible_module.RUN_DIR,
        "run_id": {"type": "str", "required": True},
        **ansible_module.STEP,
    }

    def act(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Check all targets first, so that no cluster is acquired if the second of two is refused."""
        run_dir = arguments["run_dir"]
        known = settings_catalogue.load_catalogue(ROOT)
        extra = load_extra_vars(self._loader)
        settings = cluster_settings.cluster_settings_of_play(known, task_vars, self._templar.template, extra)
        everyone = cluster_settings.inventory_values_in_request(run_dir)
        chosen_targets = cluster_settings.cluster_targets(known, settings, task_vars.get("hostvars") or {}, everyone)
        initial = cluster_settings.initial_cluster_records(chosen_targets, arguments["run_id"])
        StepDirectory(arguments["step_dir"]).log(clusters_of_run.format_cluster_targets(chosen_targets))
        clusters = clusters_of_run.read_cluster_records(run_dir)
        for target in chosen_targets:
            provider_by_name(target.provider).refuse_unfinished(clusters.get(target.hosts[0], {}), run_dir)
        changed = False
        for target, values in [] if self._task.check_mode else zip(chosen_targets, initial, strict=True):
            clusters, wrote = clusters_of_run.record_cluster_being_acquired(run_dir, target.hosts, values)
            changed = changed or wrote
        targets = [
            cluster_settings.result_of_cluster_targets(target, values, clusters.get(target.hosts[0], {}))
            for target, values in zip(chosen_targets, initial, strict=True)
        ]
        return {"changed": changed, "targets": targets, "clusters": clusters}

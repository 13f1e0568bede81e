# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a module about rehearsal clusters with the caller's paths and the folder of the components."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions.module_actions import ProgressAction
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import (
    cluster_requirements,
    point_loads,
    project_role,
    workload_kinds,
)


class ActionModule(ProgressAction):
    """See the documentation of module rehearsal_cluster."""

    #: States for which the components of the kinds are needed; no others depend on the folders of kinds.
    PROVIDING = ("present", "binaries")
    PATHS = ("data_dir", "cache_dir", "binaries", "binaries_dir", "sources")

    def prepare(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Make the paths absolute and add the folder of the components; replace kinds of workloads by theirs."""
        params = super().prepare(arguments, task_vars)
        folder = params.get("components_dir") or str(project_role.COMPONENTS)
        if isinstance(params.get("components"), list):
            places = workload_kinds.kind_folders_of_task(task_vars, self._templar.template)
            providing = params.get("state", "present") in self.PROVIDING
            names = [*params["components"], *(self._components_of_kinds(task_vars) if providing else ())]
            params["components"] = workload_kinds.replace_kinds_with_component_folders(names, Path(folder), places)
        # An action runs in a worker of ansible-playbook.
        return {**params, "components_dir": folder, "user_pid": os.getppid()}

    def _components_of_kinds(self, task_vars: dict[str, Any]) -> list[str]:
        """Return the components that have the kinds of the workloads of the run, none outside of a run."""
        if not task_vars.get("run_dir") or not task_vars.get("run_role"):
            return []
        directory, name = (Path(str(self._templar.template(task_vars[key]))) for key in ("run_dir", "run_role"))
        run = cluster_requirements.ExaminedRun.read(directory, task_vars, self._templar)
        role = project_role.find_role(str(name)).folder
        return point_loads.components_of_kinds(role, list(run.points.values()) or [run.settings], run.render)

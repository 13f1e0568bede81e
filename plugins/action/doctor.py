# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run module doctor with the requirements of a project, rendered with the settings that a run has or would have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.utils.vars import load_extra_vars
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions.module_actions import InPlaceAction
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run.terminal_output import show_line
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import (
    cluster_requirements,
    settings_from_ansible,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.convert_setting_values import absolute_path


class ActionModule(InPlaceAction):
    """See the documentation of module doctor. With ``run_dir`` the settings are those of that run."""

    ARGUMENTS = {
        **ansible_module.CLUSTER,
        **ansible_module.PROJECT,
        "phases": {"type": "list", "elements": "str", "required": True},
        **dict.fromkeys(("kubeconfig", "run_dir", "rbac_file"), {"type": "path", "default": ""}),
        "nodes_made": {"type": "bool", "default": False},
        "subject": {"type": "str", "default": ""},
    }

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the module; outside of a run, also print its findings."""
        result = super().run(tmp, task_vars)
        args = self._task.args
        if not result.get("failed") and not args.get("run_dir"):
            where = f" of {absolute_path(args['kubeconfig'])}" if args.get("kubeconfig") else ""
            for line in (f"What {args['project']} needs{where}:", *result["lines"]):
                show_line(line)
        return result

    def prepare(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Add the requirements, and make the paths absolute."""
        _validation, params = self.validate_argument_spec(self.ARGUMENTS)
        project, directory, phases = params["project"], params.pop("run_dir"), params["phases"]
        if directory:
            phases = cluster_requirements.selected_phases_with_cluster(phases, task_vars)
        documents = cluster_requirements.read_doctor_files(project, required=not directory)
        if directory:
            run = cluster_requirements.ExaminedRun.read(Path(directory), task_vars, self._templar)
        else:
            extra = load_extra_vars(self._loader)
            run = cluster_requirements.ExaminedRun.resolve(project, task_vars, extra, self._loader, self._templar)
        needs = cluster_requirements.requirements_to_check(documents, run, phases, self._find_needle, project)
        paths = {name: absolute_path(params[name]) for name in ("kubeconfig", "rbac_file")}
        needs.update({"nodes": []} if params.get("nodes_made") else {})
        requirements = settings_from_ansible.raw_variable_value({**needs, "others": not directory})
        return {**params, **paths, "phases": phases, "requirements": requirements}

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Give a module (meta/runtime.yml lists them) the secrets that it must not write; record an export in run.yml."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import SeatrialError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import format_utc_timestamp
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions.module_actions import ProgressAction
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import run_record
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run.run_directory import read_document_if_exists
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import (
    project_role,
    read_secret_settings,
    secrets_inside_settings,
    settings_catalogue,
)


class ActionModule(ProgressAction):
    """See the documentation of the modules."""

    def prepare(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Add the values of all secret settings and the kubeconfigs of the run, for the scan for secrets."""
        given = str(arguments.get("run_dir") or task_vars.get("run_dir") or "")
        top = Path(given).expanduser()
        record = read_document_if_exists(top / "run.yml") if given else {}
        role = project_role.find_role(str(record.get("role") or record.get("project") or ""))
        known = {
            name: value
            for name in settings_catalogue.load_catalogue(project_role.ROOT, role).secrets
            if (value := read_secret_settings.read_secret_if_given(name, task_vars, os.environ, self._templar.template))
        }
        clusters = (read_document_if_exists(top / "cluster.yml").get("clusters") or {}).values() if given else ()
        paths = [cluster["kubeconfig"] for cluster in clusters if cluster.get("kubeconfig")]
        secrets = {**known, **secrets_inside_settings.kept_secret_entries(), **(arguments.get("secrets") or {})}
        return {**arguments, "secrets": secrets, "kubeconfigs": [*paths, *(arguments.get("kubeconfigs") or [])]}

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the module, then record the address in run.yml."""
        result = super().run(tmp, task_vars)
        exported = result.get("exported")
        if exported and not result.get("failed"):
            top = Path(str(self._task.args.get("run_dir"))).expanduser()

            def edit(record: dict[str, Any]) -> None:
                others = [entry for entry in record.get("exported") or [] if entry["address"] != exported["address"]]
                record["exported"] = [*others, {**exported, "at": format_utc_timestamp()}]

            try:
                run_record.update_record(top, edit)
            except SeatrialError as error:
                result.setdefault("warnings", []).append(f"the address was not recorded in run.yml: {error}")
        return result

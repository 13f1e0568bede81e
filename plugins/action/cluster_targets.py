# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute which clusters to acquire, refuse what can't be right, and record them before one is taken."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.utils.vars import load_extra_vars
from ansible_collections.perfscale.seatrial.plugins.module_utils import _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._cluster import cluster_record, cluster_targets
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import OwnershipError
from ansible_collections.perfscale.seatrial.plugins.module_utils._step_dir import Step, stamp
from ansible_collections.perfscale.seatrial.plugins.plugin_utils import cluster_choice, settings_catalogue
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.action_base import SeatrialAction

#: The instance that playbooks/rehearsal.yml keeps up, which a run uses only when it is asked for by name.
TOOLS_INSTANCE = "default"

ROOT = Path(__file__).parents[2]

#: Settings that the record has under names of its own.
_TOLD = ("cluster_provider", "cluster_name", "cluster_owner", "cluster_purpose", "cluster_lifetime")


class ActionModule(SeatrialAction):
    """Return the targets; cluster.yml says ``acquiring`` for each of them afterwards."""

    ARGUMENTS = {
        "run_dir": {"type": "path", "required": True},
        "run_id": {"type": "str", "required": True},
        "step_dir": {"type": "path"},
    }

    def act(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Look at everything first, so that nothing is taken when the second of two clusters can't be right."""
        run_dir = arguments["run_dir"]
        known = settings_catalogue.load(ROOT)
        names = [name for name in task_vars if cluster_choice.counts(known, name)]
        settings = {name: self._templar.template(task_vars[name]) for name in names}
        if settings.get("rehearsal_name") == TOOLS_INSTANCE and "rehearsal_name" not in load_extra_vars(self._loader):
            settings.pop("rehearsal_name")
        found = cluster_choice.wanted(known, settings, task_vars.get("hostvars") or {}, self._everyone(run_dir))
        called = cluster_targets.names(found, arguments["run_id"])
        wanted = [(one, self._values(one, arguments["run_id"], name)) for one, name in zip(found, called, strict=True)]
        Step(arguments["step_dir"]).log(cluster_targets.describe(found))
        changed = False
        clusters: dict[str, dict[str, Any]] = cluster_record.read(run_dir)
        self._refuse_failed(run_dir, found, clusters)
        if not self._task.check_mode:
            for one, values in wanted:
                clusters, wrote = cluster_record.begin(run_dir, one.hosts, values)
                changed = changed or wrote
        return {
            "changed": changed,
            "targets": [
                {
                    "hosts": list(one.hosts),
                    "settings": one.chosen,
                    "steps": cluster_targets.steps_of(cluster_choice.TASKS, one.provider),
                    "there": one.provider in cluster_targets.MAKING
                    and clusters.get(one.hosts[0], {}).get("state") == "acquired",
                    **values,
                }
                for one, values in wanted
            ],
            "clusters": clusters,
        }

    def _refuse_failed(
        self, run_dir: str, found: list[cluster_targets.ClusterTarget], clusters: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """Refuse to go on with what can't be finished: what there is of it must be given back first."""
        for one in found:
            known = clusters.get(one.hosts[0], {})
            if one.provider in cluster_targets.MAKING and known.get("state") == "failed":
                raise OwnershipError(
                    f"this run's {known['provider']} cluster {known.get('name', '')} failed ({known.get('failure')}): "
                    f"release it (--tags release -e run_dir={run_dir}) before another is made"
                )
            data = known.get("provider_data") or {}
            begun = known.get("state") == "acquiring" and bool(data.get("machines"))
            if one.provider == "openshift_agent" and begun and not data.get("booted"):
                raise OwnershipError(
                    f"this run's installation of {known.get('name', '')} was interrupted before its machines were "
                    f"booted, and can't be gone on with: give it back (--tags release -e run_dir={run_dir}), then "
                    "begin again"
                )

    def _values(self, target: cluster_targets.ClusterTarget, run_id: str, called: str) -> dict[str, Any]:
        """Return what is known of a cluster before it is acquired."""
        if target.provider == "existing":
            return {"provider": "existing", **cluster_targets.check_existing(target, os.environ)}
        if target.provider == "rehearsal":
            name = target.chosen.get("rehearsal_name") or run_id
            played = {"provider": "rehearsal", "name": name, "simulated": True, "simulated_writers": ["node"]}
            return {**played, **self._meant(target, run_id)}
        if target.provider not in cluster_targets.MAKING:
            return {"provider": target.provider}
        return {
            "provider": target.provider,
            "name": called,
            "owned": True,
            **self._meant(target, run_id),
            "provider_data": {"settings": {name: one for name, one in target.chosen.items() if name not in _TOLD}},
        }

    def _meant(self, target: cluster_targets.ClusterTarget, run_id: str) -> dict[str, Any]:
        """Return whose a cluster is that is made now, what for, and how long it may stay."""
        now = time.time()
        lifetime = cluster_choice.lifetime(target)
        return {
            "owner": str(target.chosen.get("cluster_owner") or run_id),
            "purpose": str(target.chosen.get("cluster_purpose", "")),
            "taken": stamp(now),
            "expires": stamp(now + lifetime) if lifetime else None,
        }

    def _everyone(self, run_dir: str) -> Mapping[str, Any]:
        """Return the raw values that the inventory gives to localhost too, from the run's request."""
        path = Path(run_dir) / "request.yml"
        layers = _files.read_yaml(path)["layers"] if path.exists() else []
        return {name: value for one in layers if one["kind"] == "inventory" for name, value in one["values"].items()}

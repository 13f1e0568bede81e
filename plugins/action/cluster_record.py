# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write what became of a cluster into the run's cluster.yml."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.utils.display import Display
from ansible.utils.vars import load_extra_vars
from ansible_collections.perfscale.seatrial.plugins.module_utils import _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._cluster import (
    cluster_identity,
    cluster_record,
    kubeconfig_recovery,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.kubeconfig import IN_CLUSTER
from ansible_collections.perfscale.seatrial.plugins.module_utils._openshift import destroy_metadata_store
from ansible_collections.perfscale.seatrial.plugins.module_utils._step_dir import Step
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.action_base import SeatrialAction


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
        "regain": {"type": "bool", "default": False},
        "step_dir": {"type": "path"},
    }

    def act(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Return all records, each cluster once, and a line for each that has an identity."""
        changed = False
        clusters = cluster_record.read(arguments["run_dir"])
        if arguments["named"] and not self._task.check_mode:
            if not arguments["store"]:
                raise InputError(
                    f"cluster_release_named={arguments['named']} needs cluster_metadata_store, which knows it"
                )
            kept = destroy_metadata_store.get(arguments["store"], arguments["named"])
            clusters, changed = cluster_record.take_over(arguments["run_dir"], kept)
        if arguments["hosts"] and not self._task.check_mode:
            values = _files.plain(arguments["values"])
            clusters, changed = cluster_record.update(arguments["run_dir"], arguments["hosts"], values)
        if arguments["regain"] and not self._task.check_mode:
            clusters, changed = self._regain(arguments["run_dir"], clusters, task_vars)
        distinct = cluster_record.distinct(clusters)
        lines = [cluster_identity.line(one["record"], one["hosts"]) for one in distinct if one["record"].get("version")]
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

    def _regain(
        self, run_dir: str, clusters: dict[str, dict[str, Any]], task_vars: dict[str, Any]
    ) -> tuple[dict[str, dict[str, Any]], bool]:
        """Record kubeconfigs that are given now, in place of recorded ones that are gone or were replaced by -e."""
        now = load_extra_vars(self._loader)
        changed = False
        for host, one in list(clusters.items()):
            values = self._access_now(host, one, now, task_vars)
            if values:
                clusters, wrote = cluster_record.update(run_dir, [host], values)
                changed = changed or wrote
        return clusters, changed

    def _access_now(
        self, host: str, one: dict[str, Any], now: Mapping[str, Any], task_vars: dict[str, Any]
    ) -> dict[str, Any] | None:
        def given(name: str, where: Mapping[str, Any] = task_vars) -> str:
            return str(self._templar.template(where.get(name)) or "")

        data = one.get("provider_data") or {}
        if one["provider"] == "hive_pool" and kubeconfig_recovery.is_gone(data.get("hub") or IN_CLUSTER):
            hub = given("cluster_hive_kubeconfig")
            return {"provider_data": {**data, "hub": kubeconfig_recovery.absolute(hub)}} if hub else None
        if one["provider"] != "existing" or not one.get("kubeconfig"):
            return None
        if one["state"] == "released" and not one.get("objects"):
            return None
        asked = given("cluster_kubeconfig", now)
        if not asked and not kubeconfig_recovery.is_gone(one["kubeconfig"]):
            return None
        hostvars = task_vars.get("hostvars") or {}
        own = given("cluster_kubeconfig", hostvars[host]) if host in hostvars else ""
        paths = [asked, own, given("cluster_kubeconfig"), *os.environ.get("KUBECONFIG", "").split(os.pathsep)]
        found = kubeconfig_recovery.by(one, paths, given("cluster_context", now))
        if found is None and asked and kubeconfig_recovery.absolute(asked) != one["kubeconfig"]:
            kubeconfig_recovery.refuse_another(one, asked, given("cluster_context", now))
        if found is None:
            Display().warning(
                f"the kubeconfig of the run's cluster {one.get('api_host', '')} is gone ({one['kubeconfig']}): give "
                "the one that you have now, with -e cluster_kubeconfig=<file> or in the environment variable KUBECONFIG"
            )
        return found

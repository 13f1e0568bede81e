# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Switch on OpenShift's monitoring of user workloads for a run, and restore it exactly.

ConfigMap cluster-monitoring-config holds the settings of the whole monitoring as one YAML text. The text before the
change is recorded in the run directory, so that it is restored byte by byte.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, untrusted_input
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    ApiError,
    DataError,
    InputError,
    OwnershipError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.waiting import Say, wait_until
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.server_side_apply import ObjectDiff

#: In the run directory: the ConfigMap before it was changed (schema monitoring/1).
FILE, SCHEMA = "monitoring.json", "monitoring/1"
NAMESPACE, NAME, KEY = "openshift-monitoring", "cluster-monitoring-config", "config.yaml"
SWITCH = "enableUserWorkload"
#: The Prometheus that the monitoring operator then creates.
STATEFUL_SET = "/apis/apps/v1/namespaces/openshift-user-workload-monitoring/statefulsets/prometheus-user-workload"


def switch_on_user_workload_monitoring(
    client: Client, path: Path, timeout: float, say: Say, diff: ObjectDiff, check: bool = False
) -> bool:
    """Switch it on and wait until its Prometheus is ready; return whether that was a change.

    path: the record, written before the change. timeout: in seconds. Raises InputError, ApiError, WaitTimeout.
    """
    kind = client.kind("v1", "ConfigMap")
    if client.get(client.kind("v1", "Namespace"), NAMESPACE, metadata_only=True) is None:
        raise InputError(
            f"metrics_user_workload: {client.access.server} has no namespace {NAMESPACE}; is this OpenShift?"
        )
    config_map = client.get(kind, NAME, NAMESPACE)
    settings = _parse_monitoring_settings(config_map)
    changed = settings.get(SWITCH) is not True
    if changed:
        before = _config_text_of_configmap(config_map)
        wanted = _settings_as_yaml({**settings, SWITCH: True})
        _add_configmap_diff(diff, config_map, wanted)
        if check:
            return True
        record = {"schema": SCHEMA, "existed": config_map is not None, "before": before, "wanted": wanted}
        files.write_json(path, record, SCHEMA)
        if config_map is None:
            client.create(_config_map(wanted))
        else:
            _patch_configmap(client, config_map, wanted)
    if not check:
        wait_until(
            partial(_check_prometheus_ready, client),
            timeout,
            say,
            lambda message: f"monitoring of user workloads is not ready after {timeout:.0f} s: {message}",
        )
    return changed


def restore_monitoring_config(client: Client, path: Path, diff: ObjectDiff, check: bool = False) -> bool:
    """Restore the ConfigMap that a run changed, see above; return whether it had to be. Safe to repeat.

    Raises OwnershipError, without a change, if somebody else has changed it since.
    """
    if not path.exists():
        return False
    record = files.read_json(path)
    config_map = client.get(client.kind("v1", "ConfigMap"), NAME, NAMESPACE)
    now = _config_text_of_configmap(config_map)
    # Also true if the run was killed between its record and its change.
    is_restored = now == record["before"] and (config_map is not None) == record["existed"]
    if not is_restored and now != record["wanted"]:
        raise OwnershipError(
            f"ConfigMap {NAMESPACE}/{NAME} was changed by somebody else since this run set {SWITCH}, so it was left "
            f"unchanged. Restore it by hand; {path} has what it was"
        )
    if not is_restored:
        others = set((config_map or {}).get("data") or {}) - {KEY}
        remove = not record["existed"] and not others
        if remove:
            diff.deleted(_config_map(now))
        else:
            _add_configmap_diff(diff, config_map, record["before"])
        if not check and remove:
            _delete_configmap(client, config_map or {})
        elif not check:
            _patch_configmap(client, config_map or {}, record["before"])
    if not check:
        path.unlink()
    return not is_restored


def _parse_monitoring_settings(config_map: dict[str, Any] | None) -> dict[str, Any]:
    where = f"ConfigMap {NAMESPACE}/{NAME}: {KEY}"
    try:
        settings = untrusted_input.parse_yaml(_config_text_of_configmap(config_map) or "", where) or {}
    except DataError as error:
        raise InputError(str(error)) from error
    if not isinstance(settings, dict):
        raise InputError(f"ConfigMap {NAMESPACE}/{NAME}: {KEY} is not a YAML mapping")
    return settings


def _settings_as_yaml(settings: dict[str, Any]) -> str:
    import yaml

    return yaml.safe_dump(settings, sort_keys=False)


def _config_text_of_configmap(config_map: dict[str, Any] | None) -> str | None:
    return ((config_map or {}).get("data") or {}).get(KEY)


def _config_map(text: str | None) -> dict[str, Any]:
    metadata = {"name": NAME, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {KEY: text}}


def _add_configmap_diff(diff: ObjectDiff, config_map: dict[str, Any] | None, text: str | None) -> None:
    """Add the change of the ConfigMap to the diff. text: None if it loses the key."""
    if config_map is None:
        diff.created(_config_map(text))
    else:
        diff.patched({**config_map, "kind": "ConfigMap"}, {"data": {KEY: text}})


def _patch_configmap(client: Client, config_map: dict[str, Any], text: str | None) -> None:
    """Set the text. Raises ApiError 409 if the object has changed since it was read."""
    body = {"metadata": {"resourceVersion": config_map["metadata"]["resourceVersion"]}, "data": {KEY: text}}
    path = client.kind("v1", "ConfigMap").path(NAMESPACE, NAME)
    client.request("PATCH", path, body, content_type=MERGE_PATCH)


def _delete_configmap(client: Client, config_map: dict[str, Any]) -> None:
    if not client.delete_seen(client.kind("v1", "ConfigMap"), config_map["metadata"], unchanged=True):
        raise OwnershipError(f"somebody changed ConfigMap {NAMESPACE}/{NAME} at the same moment: run again")


def _check_prometheus_ready(client: Client) -> tuple[bool | None, str]:
    try:
        stateful_set = client.request("GET", STATEFUL_SET)
    except ApiError as error:
        if error.status != 404:
            raise
        return None, "its Prometheus does not exist yet"
    ready, wanted = stateful_set.get("status", {}).get("readyReplicas", 0), stateful_set["spec"].get("replicas", 1)
    return (True, "") if ready >= wanted else (None, f"{ready} of {wanted} pods of its Prometheus are ready")

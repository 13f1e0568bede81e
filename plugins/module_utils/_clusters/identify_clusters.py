# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Identify the clusters of a run and record what they are; annotate a cluster of the run with its owner.

The annotations of namespace kube-system say for whom, for what purpose and until when a cluster exists, to people who
find it without the run's directory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError, SeatrialError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.waiting import Say
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client

from . import clusters_of_run, describe_cluster

PATH = "/api/v1/namespaces/kube-system"
PREFIX = "perfscale.seatrial/made-"

#: Keys of a cluster's record, and suffixes of the annotations.
KEYS = ("run", "owner", "purpose", "taken", "expires")

#: Options of module run_cluster_records that are parameters of identify().
OPTIONS: dict[str, dict[str, Any]] = {
    "identify": {"type": "bool", "default": False},
    "timeout": {"type": "float", "default": 0},
    "nodes_ready": {"type": "int", "default": 0},
    "run_id": {"type": "str", "default": ""},
}


def record_cluster_identities(
    params: Mapping[str, Any], show: Say, check: bool = False
) -> tuple[dict[str, dict[str, Any]], bool]:
    """Query each cluster of the run and record its identity; return all records, and whether they changed.

    A cluster that the run owns gets the annotations of its owner before its state becomes ``acquired``.

    Args:
        params: run_dir, run_id, step_dir; timeout in seconds for each cluster; nodes_ready, the number of Ready nodes
            to wait for.
        show: Called with lines for the terminal while waiting.
        check: Change nothing.

    Raises:
        AccessError, ApiError, WaitTimeout: A cluster does not respond, or has too few Ready nodes.
    """
    step = StepDirectory(params["step_dir"])

    def say(text: str) -> None:
        step.log(text)
        show(f"cluster: {text}")

    clusters, changed = clusters_of_run.read_cluster_records(params["run_dir"]), False
    for cluster in clusters_of_run.distinct_clusters_with_hosts(clusters):
        if cluster["record"]["state"] == "released":
            continue
        try:
            values = _query_cluster_identity(cluster["record"], params, step, say, check)
        except SeatrialError as error:
            step.log(f"failed: {error}")
            raise
        if not check:
            clusters, wrote = clusters_of_run.update_host_records(params["run_dir"], cluster["hosts"], values)
            changed = changed or wrote
    return clusters, changed


def _query_cluster_identity(
    record: Mapping[str, Any], params: Mapping[str, Any], step: StepDirectory, say: Say, check: bool
) -> dict[str, Any]:
    access = (record["kubeconfig"], record.get("context") or "")
    with Client.from_kubeconfig(*access, timeout=30) as client, step.timed("cluster", "identity"):
        identity = describe_cluster.wait_for_ready_cluster(
            client, params["timeout"], params["nodes_ready"], say, params["run_id"]
        )
        step.log(f"{client.access.server} is {identity.version}, {identity.nodes} nodes, {identity.gpus} GPUs")
        if record["owned"] and record["state"] != "acquired":
            write_cluster_annotations(client, {**record, "run": params["run_id"]}, check)
    return {**identity.record(), "state": "acquired"}


def read_annotations(client: Client) -> dict[str, str]:
    """Return the annotations by key; empty if there are none or they may not be read."""
    try:
        namespace = client.request("GET", PATH)
    except ApiError as error:
        if error.status in (403, 404):
            return {}
        raise
    annotations = namespace["metadata"].get("annotations") or {}
    return {key: annotations[PREFIX + key] for key in KEYS if annotations.get(PREFIX + key)}


def write_cluster_annotations(client: Client, values: Mapping[str, Any], check: bool = False) -> None:
    """Write the annotations that differ from the existing ones."""
    wanted = {key: str(values[key]) for key in KEYS if values.get(key)}
    if read_annotations(client) != wanted and not check:
        annotations = {PREFIX + key: wanted.get(key) for key in KEYS}
        client.request("PATCH", PATH, {"metadata": {"annotations": annotations}}, content_type=MERGE_PATCH)

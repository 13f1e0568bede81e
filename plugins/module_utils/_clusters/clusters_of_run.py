# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The clusters of a run: which ones it acquires, their records in cluster.yml, and what is found out about them.

``sutest`` is the system under test, ``driver`` the cluster that the load comes from. Both are the same cluster unless
an inventory gives them different settings. Hosts ``worker-1``, ``worker-2``, … are further clusters, to which the
system under test dispatches workloads (setting ``cluster_workers``).

A record is written before its cluster is acquired. Afterwards the cluster is identified. The annotations of namespace
kube-system say for whom, for what purpose and until when it exists, to people who find it without the run's
directory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, state_file
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    ApiError,
    DataError,
    OwnershipError,
    SeatrialError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.waiting import Say
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client

from . import cluster_properties
from .provider_interface import AccessSettings, ClusterTarget, release_arguments
from .providers import PROVIDERS, WORKERS, provider_by_name

#: The hosts of an inventory that represent clusters, the system under test first.
HOSTS = ("sutest", "driver")
#: How the hosts of worker clusters are called, before their number.
WORKER = "worker-"


@functools.cache
def is_cluster_setting(name: str) -> bool:
    """Return whether a setting is about a cluster, so that each of the hosts may have its own value."""
    return name == "cluster_provider" or any(provider.uses(name) for provider in PROVIDERS.values())


def host_specific_settings(host: Mapping[str, Any], everyone: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cluster settings that an inventory gives to this host only.

    A value that a lab gives to all its hosts is a setting of the run: presets and ``-e`` override it.
    """
    return {
        name: value
        for name, value in host.items()
        if is_cluster_setting(name) and value not in (None, "") and value != everyone.get(name)
    }


def clusters_to_acquire(settings: Mapping[str, Any], own: Mapping[str, Mapping[str, Any]]) -> list[ClusterTarget]:
    """Return the clusters to acquire: one or two, and the workers.

    settings: the run's effective settings. own: host -> host_specific_settings() of it; a host that is not in the
    inventory is absent. The driver is the system under test unless it has settings that differ. Raises InputError for
    an unknown provider.
    """
    common = {name: value for name, value in settings.items() if is_cluster_setting(name) and value not in (None, "")}
    of_driver = own.get("driver", {})
    differs = any(value != common.get(name) for name, value in of_driver.items())
    measured = _merge_host_settings(common, own.get("sutest", {}), "sutest")
    driving = _merge_host_settings(common if differs else measured, of_driver, "driver")
    workers = [ClusterTarget((f"{WORKER}{number + 1}",), measured) for number in range(measured.get(WORKERS, 0))]
    if driving == measured:
        return [ClusterTarget(HOSTS, measured), *workers]
    return [ClusterTarget(("sutest",), measured), ClusterTarget(("driver",), driving), *workers]


def _merge_host_settings(common: Mapping[str, Any], own: Mapping[str, Any], host: str) -> dict[str, Any]:
    """Override the common settings by the host's. Another kubeconfig means another context and host too."""
    base = dict(common)
    if any(own.get(name, common.get(name)) != common.get(name) for name in ("cluster_kubeconfig", "cluster_provider")):
        base.pop("cluster_context", None)
        base.pop("cluster_expected_host", None)
    chosen = {**base, **own}
    provider = provider_by_name(chosen["cluster_provider"], f"cluster for {host}")
    return {name: value for name, value in chosen.items() if name == "cluster_provider" or provider.uses(name)}


def assign_cluster_names(cluster_targets: Sequence[ClusterTarget], run_id: str) -> list[str]:
    """Return the name of each target's cluster; workers, and the second that a provider creates, get a suffix."""
    cluster_names = [provider_by_name(target.provider).cluster_name(target, run_id) for target in cluster_targets]
    return [
        f"{name}-{target.hosts[0]}"
        if target.hosts[0].startswith(WORKER)
        or (name in cluster_names[:at] and provider_by_name(target.provider).creates)
        else name
        for at, (target, name) in enumerate(zip(cluster_targets, cluster_names, strict=True))
    ]


def steps_of_provider(folder: Path, provider: str) -> list[str]:
    """Return the steps of a provider by its files: acquire, release, and finish and bundle if it has them."""
    return sorted(path.stem for path in (folder / provider).glob("*.yml"))


def format_cluster_targets(cluster_targets: Sequence[ClusterTarget]) -> str:
    """Return the targets as one line of a log."""
    return "; ".join(f"{' and '.join(target.hosts)}: provider {target.provider}" for target in cluster_targets)


FILE = "cluster.yml"

#: Values of a record until the cluster is identified.
_INITIAL: dict[str, Any] = {"owned": False, "simulated": False, "simulated_writers": []}


def read_cluster_records(run_dir: str | Path) -> dict[str, dict[str, Any]]:
    """Return host -> record of the clusters of a run; empty if none was ever requested. Raises DataError if damaged."""
    path = Path(run_dir) / FILE
    clusters = state_file.read_state_file(path, "clusters")["clusters"] if path.exists() else {}
    if not isinstance(clusters, dict) or not all(isinstance(record, dict) for record in clusters.values()):
        raise DataError(f"{path} is damaged: its clusters are no records")
    for host, record in clusters.items():
        if not {"provider", "state"} <= record.keys():
            raise DataError(f"{path} is damaged: the record of {host} has no provider or no state")
    return clusters


def update_host_records(
    run_dir: str | Path, hosts: Iterable[str], values: Mapping[str, Any]
) -> tuple[dict[str, dict[str, Any]], bool]:
    """Merge ``values`` into the records of ``hosts``; return all records and whether they changed."""
    before = read_cluster_records(run_dir)
    after = {**before, **{host: {**_INITIAL, **before.get(host, {}), **values} for host in hosts}}
    if after != before:
        files.write_yaml(Path(run_dir) / FILE, {"schema": "cluster/2", "clusters": after}, "cluster/2")
    return after, after != before


def record_cluster_being_acquired(
    run_dir: str | Path, hosts: Iterable[str], values: Mapping[str, Any]
) -> tuple[dict[str, dict[str, Any]], bool]:
    """Record the cluster to acquire for ``hosts``, in state ``acquiring``, in place of a released one.

    The record of the same cluster, if this run already holds it, is kept. Raises OwnershipError if the run holds
    another cluster for a host: without its record it would never be released.
    """
    wanted = list(hosts)
    before = read_cluster_records(run_dir)
    kept = dict(before)
    for host in wanted:
        record = kept.get(host)
        if not record or record["state"] == "released":
            kept.pop(host, None)
        elif _is_different_cluster(record, values):
            which = record.get("name") or record.get("api_host") or record.get("kubeconfig") or ""
            raise OwnershipError(
                f"this run already holds {record['provider']} cluster {which} for {host}: "
                f"release it ({release_arguments(run_dir)}) "
                "before acquiring another cluster"
            )
    fresh = [host for host in wanted if host not in kept]
    records = {**kept, **{host: {**_INITIAL, **values, "state": "acquiring"} for host in fresh}}
    changed = records != before
    if changed:
        files.write_yaml(Path(run_dir) / FILE, {"schema": "cluster/2", "clusters": records}, "cluster/2")
    return records, changed


#: Keys that an entry of cluster_metadata_store and a record share.
_SHARED = ("provider", "name", "owned", "owner", "purpose", "taken", "expires")


def record_cluster_taken_over(run_dir: str | Path, entry: Mapping[str, Any]) -> tuple[dict[str, dict[str, Any]], bool]:
    """Record a cluster that another machine has created. entry: its entry in cluster_metadata_store.

    Raises OwnershipError if this run holds another cluster.
    """
    hosts = entry.get("hosts") or HOSTS
    values = {name: entry[name] for name in _SHARED if name in entry}
    data = dict(entry.get("provider_data") or {})
    if entry.get("metadata"):
        data["metadata"] = entry["metadata"]
    records, changed = record_cluster_being_acquired(run_dir, hosts, {**values, "provider_data": data})
    if any("left" in (records[host].get("provider_data") or {}) for host in hosts):  # the session may know more now
        records, _changed = update_host_records(run_dir, hosts, {"provider_data": data})
    return records, changed


def _is_different_cluster(record: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    return any(
        record.get(name, "") != values.get(name, "") for name in ("provider", "name", "kubeconfig") if values.get(name)
    )


def clusters_to_release(records: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the records of the clusters that the run must release, each once: those that it owns or may own."""
    return [
        cluster["record"]
        for cluster in distinct_clusters_with_hosts(records)
        if _may_run_own_cluster(cluster["record"])
    ]


def _may_run_own_cluster(record: Mapping[str, Any]) -> bool:
    if record["state"] == "released":
        return False
    unknown = provider_by_name(record["provider"]).may_own and record["state"] in ("acquiring", "failed")
    return bool(record["owned"]) or unknown


def cluster_display_name(record: Mapping[str, Any]) -> str:
    """Return the name of a cluster, the host of its API server if it has no name, else its provider."""
    return str(record.get("name") or record.get("api_host") or record["provider"])


def replace_recorded_access(
    run_dir: str | Path, settings_of: Callable[[str], AccessSettings], warn: Callable[[str], None]
) -> tuple[dict[str, dict[str, Any]], bool]:
    """Record how the clusters are reached now, if a recorded kubeconfig no longer exists or ``-e`` replaces it.

    settings_of: returns the settings for a host. Returns all records and whether they changed. Raises InputError.
    """
    changed = False
    clusters = read_cluster_records(run_dir)
    for host, record in list(clusters.items()):
        values = provider_by_name(record["provider"]).replaced_access(record, settings_of(host), warn)
        if values:
            clusters, wrote = update_host_records(run_dir, [host], values)
            changed = changed or wrote
    return clusters, changed


def has_run_changed_operators(run_dir: str | Path) -> bool:
    """Return whether the run started to install operators or to change what they manage, by its steps.

    Each role that does so has one of these entry points, whose step directory exists before it starts.
    """
    steps = Path(run_dir)
    return any([*steps.glob("*__*__install"), *steps.glob("*__rhoai__components")])


def distinct_clusters_with_hosts(records: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return each cluster once: ``{"hosts": [...], "record": {...}}``, in the order of their first host."""
    clusters: list[dict[str, Any]] = []
    for host, record in records.items():
        same = next((cluster for cluster in clusters if cluster["record"] == record), None)
        if same:
            same["hosts"].append(host)
        else:
            clusters.append({"hosts": [host], "record": record})
    return clusters


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

    clusters, changed = read_cluster_records(params["run_dir"]), False
    for cluster in distinct_clusters_with_hosts(clusters):
        if cluster["record"]["state"] == "released":
            continue
        try:
            values = _query_cluster_identity(cluster["record"], params, step, say, check)
        except SeatrialError as error:
            step.log(f"failed: {error}")
            raise
        if not check:
            clusters, wrote = update_host_records(params["run_dir"], cluster["hosts"], values)
            changed = changed or wrote
    return clusters, changed


def _query_cluster_identity(
    record: Mapping[str, Any], params: Mapping[str, Any], step: StepDirectory, say: Say, check: bool
) -> dict[str, Any]:
    access = (record["kubeconfig"], record.get("context") or "")
    with Client.from_kubeconfig(*access, timeout=30) as client, step.timed("cluster", "identity"):
        identity = cluster_properties.wait_for_ready_cluster(
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

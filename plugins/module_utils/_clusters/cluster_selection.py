# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Select the clusters to acquire for the hosts ``sutest`` and ``driver``, and for workers.

``sutest`` is the system under test, ``driver`` the cluster that the load comes from. Both are the same cluster unless
an inventory gives them different settings. Hosts ``worker-1``, ``worker-2``, … are further clusters, to which the
system under test dispatches workloads (setting ``cluster_workers``).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .provider_interface import ClusterTarget
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


def provider_steps(folder: Path, provider: str) -> list[str]:
    """Return the steps of a provider by its files: acquire, release, and finish and bundle if it has them."""
    return sorted(path.stem for path in (folder / provider).glob("*.yml"))


def format_cluster_targets(cluster_targets: Sequence[ClusterTarget]) -> str:
    """Return the targets as one line of a log."""
    return "; ".join(f"{' and '.join(target.hosts)}: provider {target.provider}" for target in cluster_targets)

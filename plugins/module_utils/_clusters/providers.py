# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The providers of clusters, by name. Their tasks are in role cluster, tasks/<name>/.

A recorded kubeconfig that no longer exists is replaced by one that the current session names: AWX, for example, writes
the kubeconfig of each job to a new path. A replacement must lead to the same API server.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    AccessError,
    ApiError,
    InputError,
    OwnershipError,
    SeatrialError,
    suggest_nearest_file,
    suggest_similar_name,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.kubeconfig import (
    IN_CLUSTER,
    ApiServerAccess,
    load_context_access,
)

from .cluster_properties import api_host_without_usual_port
from .provider_interface import (
    CREATED,
    OPENSHIFT,
    AccessSettings,
    ClusterProvider,
    ClusterTarget,
    CreatingProvider,
    release_arguments,
)


def is_kubeconfig_unreadable(path: str) -> bool:
    """Return whether a kubeconfig can no longer be read."""
    return path != IN_CLUSTER and not os.access(Path(path).expanduser(), os.R_OK)


def absolute_path(path: str) -> str:
    """Return the absolute path; the name of the in-cluster kubeconfig stays."""
    return path if path == IN_CLUSTER else os.path.abspath(Path(path).expanduser())


def first_usable_kubeconfig(
    record: Mapping[str, Any], paths: Iterable[str], context: str = ""
) -> dict[str, str] | None:
    """Return kubeconfig and context of the first of ``paths`` that leads to the recorded cluster; None if none does."""
    for path in dict.fromkeys(absolute_path(candidate) for candidate in paths if candidate):
        for chosen in [*filter(None, (context, record.get("context"))), ""]:
            try:
                host = api_host_without_usual_port(load_context_access(path, chosen))
            except SeatrialError:
                continue
            if host == record.get("api_host", host):
                return {"kubeconfig": path, "context": chosen}
    return None


def raise_wrong_cluster_error(record: Mapping[str, Any], path: str, context: str = "") -> None:
    """Raise InputError: the kubeconfig of this session does not lead to the recorded cluster."""
    access = load_context_access(absolute_path(path), context)
    raise InputError(
        f"cluster_kubeconfig '{path}' leads to {access.server}, and the cluster of this run is at "
        f"{record.get('api_host')}: nothing was touched"
    )


#: Timeout of the request that checks whether the API server responds, in seconds.
REACH_TIMEOUT = 5.0


class ExistingProvider(ClusterProvider):
    """Provider ``existing``."""

    name = "existing"
    settings = ("cluster_kubeconfig", "cluster_context", "cluster_expected_host")
    may_own = False
    shared = True

    def check(self, target: ClusterTarget) -> None:
        """Check the kubeconfig and the expected host, and that the API server responds."""
        access = verified_existing_cluster_access(target, os.environ)
        check_api_server_reachable(access["kubeconfig"], access["context"], target.where)

    def initial_record(self, target: ClusterTarget, name: str, ownership: Mapping[str, Any]) -> dict[str, Any]:
        """Return how to reach the cluster."""
        return {"provider": self.name, **verified_existing_cluster_access(target, os.environ)}

    def replaced_access(
        self, record: Mapping[str, Any], settings: AccessSettings, warn: Callable[[str], None]
    ) -> dict[str, Any] | None:
        """Replace a kubeconfig that no longer exists, or that ``-e`` replaces. Warns if nothing replaces it.

        Raises InputError if ``-e`` names a kubeconfig of another cluster.
        """
        if not record.get("kubeconfig") or (record["state"] == "released" and not record.get("objects")):
            return None
        asked, context = settings.extra["cluster_kubeconfig"], settings.extra["cluster_context"]
        if not asked and not is_kubeconfig_unreadable(record["kubeconfig"]):
            return None
        known = [asked, settings.host["cluster_kubeconfig"], settings.run["cluster_kubeconfig"]]
        paths = [*known, *os.environ.get("KUBECONFIG", "").split(os.pathsep)]
        access = first_usable_kubeconfig(record, paths, context)
        if access is None and asked and absolute_path(asked) != record["kubeconfig"]:
            raise_wrong_cluster_error(record, asked, context)
        if access is None:
            warn(
                f"the kubeconfig of the run's cluster {record.get('api_host', '')} no longer exists "
                f"({record['kubeconfig']}): name the current one with -e cluster_kubeconfig=<file> or in the "
                "environment variable KUBECONFIG"
            )
        return access


def explicitly_named_kubeconfig(chosen: Mapping[str, str], environment: Mapping[str, str], where: str) -> str:
    """Return the absolute path of the kubeconfig that names an existing cluster.

    This is cluster_kubeconfig, else KUBECONFIG of the environment; never ~/.kube/config, which leads to the cluster
    that was used last. Raises InputError.
    """
    kubeconfig_path = chosen.get("cluster_kubeconfig", "")
    origin = "cluster_kubeconfig"
    if not kubeconfig_path:
        kubeconfig_path, origin = _kubeconfig_from_environment(environment.get("KUBECONFIG", ""))
    if not kubeconfig_path:
        raise InputError(
            f"{where}: cluster_provider=existing requires a kubeconfig: set "
            "-e cluster_kubeconfig=<file>, or the environment variable KUBECONFIG. "
            "~/.kube/config is used only if you name it. In AWX, add a credential with a kubeconfig or a bearer token "
            "to the template."
        )
    if kubeconfig_path == IN_CLUSTER:
        return kubeconfig_path
    path = Path(kubeconfig_path).expanduser()
    path = path if path.is_absolute() else Path.cwd() / path
    if not path.is_file():
        text = f"{where}: {origin} names '{kubeconfig_path}', and there is no file {path}{suggest_nearest_file(path)}"
        raise InputError(text, setting="cluster_kubeconfig")
    if not os.access(path, os.R_OK):
        text = f"{where}: {origin} names '{kubeconfig_path}', and {path} can't be read by this user"
        raise InputError(text, setting="cluster_kubeconfig")
    return str(path)


def _kubeconfig_from_environment(value: str) -> tuple[str, str]:
    names = [name for name in value.split(os.pathsep) if name]
    there = [name for name in names if Path(name).expanduser().is_file()]
    if len(there) > 1:
        raise InputError(
            f"KUBECONFIG names {len(there)} files ({', '.join(there)}): choose one with -e cluster_kubeconfig=<file>"
        )
    return (there or names or [""])[0], "the environment variable KUBECONFIG"


def check_api_host(access: ApiServerAccess, expected: str, where: str = "") -> None:
    """Raise InputError unless ``access`` goes to ``expected``: a host, host:port, or an address with https://."""
    wanted = expected.strip().rstrip("/").lower()
    here = access.host.lower()
    bracketed = f"[{here}]" if ":" in here else here
    scheme = access.server.split("://", maxsplit=1)[0]
    spellings = {
        here,
        bracketed,
        f"{bracketed}:{access.port}",
        f"{scheme}://{bracketed}:{access.port}",
        access.server.lower(),
    }
    if wanted not in spellings:
        raise InputError(
            f"{where}{': ' if where else ''}cluster_expected_host is '{expected}', and {access.source} leads to "
            f"{access.server}",
            setting="cluster_expected_host",
        )


def check_api_server_reachable(kubeconfig: str, context: str, where: str) -> None:
    """Raise InputError unless the API server responds and accepts our credentials."""
    try:
        with Client.from_kubeconfig(kubeconfig, context, REACH_TIMEOUT) as client:
            client.request("GET", "/version")
    except ApiError:
        return  # it responds; what it refuses is reported where it is needed
    except AccessError as error:
        raise InputError(f"{where}: {error}") from error


def verified_existing_cluster_access(target: ClusterTarget, environment: Mapping[str, str]) -> dict[str, str]:
    """Return kubeconfig, context and API host of an existing cluster, refused when it is not the expected one."""
    path = explicitly_named_kubeconfig(target.chosen, environment, target.where)
    context = target.chosen.get("cluster_context", "")
    access = load_context_access(path, context)
    if target.chosen.get("cluster_expected_host"):
        check_api_host(access, target.chosen["cluster_expected_host"], target.where)
    return {"kubeconfig": path, "context": context, "api_host": api_host_without_usual_port(access)}


class HiveProvider(CreatingProvider):
    """Provider ``hive_pool``."""

    name = "hive_pool"
    settings = (*CREATED, "cluster_install_timeout", "cluster_hive_*")
    expires_by = "Hive takes it back"

    def replaced_access(
        self, record: Mapping[str, Any], settings: AccessSettings, warn: Callable[[str], None]
    ) -> dict[str, Any] | None:
        """Replace the kubeconfig of the hub, with which the claim is deleted."""
        data = record.get("provider_data") or {}
        hub = settings.run["cluster_hive_kubeconfig"]
        if not hub or not is_kubeconfig_unreadable(data.get("hub") or IN_CLUSTER):
            return None
        return {"provider_data": {**data, "hub": absolute_path(hub)}}


class ManagedProvider(CreatingProvider):
    """Provider ``managed``."""

    name = "managed"
    settings = (*CREATED, "cluster_version", "cluster_tags", "cluster_install_timeout", "cluster_managed_*")


class IpiProvider(CreatingProvider):
    """Provider ``openshift_ipi``: the installer creates the machines in a cloud."""

    name = "openshift_ipi"
    settings = (*OPENSHIFT, "cluster_ipi_*")


class AgentProvider(CreatingProvider):
    """Provider ``openshift_agent``: bare-metal machines boot an image of the agent-based installer."""

    name = "openshift_agent"
    settings = (*OPENSHIFT, "cluster_agent_*")
    bare_metal = True

    def refuse_unfinished(self, record: Mapping[str, Any], run_dir: str) -> None:
        """Also refuse an installation whose machines were not booted: the image may be incomplete."""
        super().refuse_unfinished(record, run_dir)
        data = record.get("provider_data") or {}
        if record.get("state") == "acquiring" and data.get("machines") and not data.get("booted"):
            raise OwnershipError(
                f"this run's installation of {record.get('name', '')} was interrupted before its machines were "
                f"booted, and can't be continued: release it ({release_arguments(run_dir)}), then start again"
            )


#: How many further clusters to start, to which the system under test dispatches workloads.
WORKERS = "cluster_workers"


class RehearsalProvider(ClusterProvider):
    """Provider ``rehearsal``."""

    name = "rehearsal"
    settings = ("rehearsal_name", "cluster_owner", "cluster_purpose", "cluster_lifetime", WORKERS)
    simulated = True

    def cluster_name(self, target: ClusterTarget, run_id: str) -> str:
        """Return the name of the instance."""
        return target.chosen.get("rehearsal_name") or run_id

    def initial_record(self, target: ClusterTarget, name: str, ownership: Mapping[str, Any]) -> dict[str, Any]:
        """Return the record of a simulated cluster."""
        return {"provider": self.name, "name": name, "simulated": True, "simulated_writers": ["node"], **ownership}


#: Each provider, by its name.
PROVIDERS: dict[str, ClusterProvider] = {
    provider.name: provider
    for provider in (
        RehearsalProvider(),
        ExistingProvider(),
        IpiProvider(),
        AgentProvider(),
        ManagedProvider(),
        HiveProvider(),
    )
}
DEFAULT = RehearsalProvider.name


def provider_by_name(name: str, where: str = "cluster.yml") -> ClusterProvider:
    """Return the provider of this name. Raises InputError with the nearest name."""
    if name not in PROVIDERS:
        known = sorted(PROVIDERS)
        raise InputError(
            f"{where}: cluster_provider '{name}' is unknown{suggest_similar_name(name, known)}; known:"
            f" {', '.join(known)}"
        )
    return PROVIDERS[name]

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Provider ``existing``: a cluster that somebody else created, named by a kubeconfig. The run never owns it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    AccessError,
    ApiError,
    InputError,
    nearest_file,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.kubeconfig import IN_CLUSTER, Access, load

from . import kubeconfig_fallback
from .describe_cluster import api_host
from .provider import AccessSettings, ClusterTarget, Provider

#: Timeout of the request that checks whether the API server responds, in seconds.
REACH_TIMEOUT = 5.0


class ExistingProvider(Provider):
    """Provider ``existing``."""

    name = "existing"
    settings = ("cluster_kubeconfig", "cluster_context", "cluster_expected_host")
    may_own = False
    shared = True

    def check(self, target: ClusterTarget) -> None:
        """Check the kubeconfig and the expected host, and that the API server responds."""
        found = check_existing(target, os.environ)
        check_reachable(found["kubeconfig"], found["context"], target.where)

    def initial_record(self, target: ClusterTarget, name: str, ownership: Mapping[str, Any]) -> dict[str, Any]:
        """Return how to reach the cluster."""
        return {"provider": self.name, **check_existing(target, os.environ)}

    def replaced_access(
        self, record: Mapping[str, Any], given: AccessSettings, warn: Callable[[str], None]
    ) -> dict[str, Any] | None:
        """Replace a kubeconfig that no longer exists, or that ``-e`` replaces. Warns if nothing replaces it.

        Raises InputError if ``-e`` names a kubeconfig of another cluster.
        """
        if not record.get("kubeconfig") or (record["state"] == "released" and not record.get("objects")):
            return None
        asked, context = given.extra["cluster_kubeconfig"], given.extra["cluster_context"]
        if not asked and not kubeconfig_fallback.is_gone(record["kubeconfig"]):
            return None
        known = [asked, given.host["cluster_kubeconfig"], given.run["cluster_kubeconfig"]]
        paths = [*known, *os.environ.get("KUBECONFIG", "").split(os.pathsep)]
        found = kubeconfig_fallback.by(record, paths, context)
        if found is None and asked and kubeconfig_fallback.absolute(asked) != record["kubeconfig"]:
            kubeconfig_fallback.refuse_another(record, asked, context)
        if found is None:
            warn(
                f"the kubeconfig of the run's cluster {record.get('api_host', '')} no longer exists "
                f"({record['kubeconfig']}): name the current one with -e cluster_kubeconfig=<file> or in the "
                "environment variable KUBECONFIG"
            )
        return found


PROVIDER = ExistingProvider()


def kubeconfig_of(chosen: Mapping[str, str], environment: Mapping[str, str], where: str) -> str:
    """Return the absolute path of the kubeconfig that names an existing cluster.

    This is cluster_kubeconfig, else KUBECONFIG of the environment; never ~/.kube/config, which leads to the cluster
    that was used last. Raises InputError.
    """
    given = chosen.get("cluster_kubeconfig", "")
    origin = "cluster_kubeconfig"
    if not given:
        given, origin = _from_environment(environment.get("KUBECONFIG", ""))
    if not given:
        raise InputError(
            f"{where}: cluster_provider=existing requires a kubeconfig: set "
            "-e cluster_kubeconfig=<file>, or the environment variable KUBECONFIG. "
            "~/.kube/config is used only if you name it. In AWX, add a credential with a kubeconfig or a bearer token "
            "to the template."
        )
    if given == IN_CLUSTER:
        return given
    path = Path(given).expanduser()
    path = path if path.is_absolute() else Path.cwd() / path
    if not path.is_file():
        text = f"{where}: {origin} names '{given}', and there is no file {path}{nearest_file(path)}"
        raise InputError(text, setting="cluster_kubeconfig")
    if not os.access(path, os.R_OK):
        text = f"{where}: {origin} names '{given}', and {path} can't be read by this user"
        raise InputError(text, setting="cluster_kubeconfig")
    return str(path)


def _from_environment(value: str) -> tuple[str, str]:
    names = [name for name in value.split(os.pathsep) if name]
    there = [name for name in names if Path(name).expanduser().is_file()]
    if len(there) > 1:
        raise InputError(
            f"KUBECONFIG names {len(there)} files ({', '.join(there)}): choose one with -e cluster_kubeconfig=<file>"
        )
    return (there or names or [""])[0], "the environment variable KUBECONFIG"


def check_host(access: Access, expected: str, where: str = "") -> None:
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


def check_reachable(kubeconfig: str, context: str, where: str) -> None:
    """Raise InputError unless the API server responds and accepts our credentials."""
    try:
        with Client.from_kubeconfig(kubeconfig, context, REACH_TIMEOUT) as client:
            client.request("GET", "/version")
    except ApiError:
        return  # it responds; what it refuses is reported where it is needed
    except AccessError as error:
        raise InputError(f"{where}: {error}") from error


def check_existing(target: ClusterTarget, environment: Mapping[str, str]) -> dict[str, str]:
    """Return kubeconfig, context and API host of an existing cluster, refused when it is not the expected one."""
    path = kubeconfig_of(target.chosen, environment, target.where)
    context = target.chosen.get("cluster_context", "")
    access = load(path, context)
    if target.chosen.get("cluster_expected_host"):
        check_host(access, target.chosen["cluster_expected_host"], target.where)
    return {"kubeconfig": path, "context": context, "api_host": api_host(access)}

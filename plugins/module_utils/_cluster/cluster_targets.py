# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which clusters are to be acquired, for which of the hosts ``sutest`` and ``driver``.

``sutest`` is the cluster that is measured, ``driver`` the one that the load comes from. Both are the same unless an
inventory says otherwise.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._cluster.cluster_identity import api_host
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError, nearest, nearest_file
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.kubeconfig import IN_CLUSTER, Access, load

#: The hosts of an inventory that stand for clusters, the measured one first.
HOSTS = ("sutest", "driver")

#: Settings that say which cluster; each of the hosts may have its own.
CHOOSING = ("cluster_provider", "cluster_kubeconfig", "cluster_context", "cluster_expected_host", "rehearsal_name")

#: What every cluster that is made for a run has, whoever makes it.
_MADE = ("cluster_name", "cluster_owner", "cluster_purpose", "cluster_lifetime")
_OPENSHIFT = (
    *_MADE,
    "cluster_base_domain",
    "cluster_version",
    "cluster_fips",
    "cluster_tags",
    "cluster_installer*",
    "cluster_install_timeout",
    "cluster_metadata_store",
)

#: Settings of a provider, by name or pattern: what tells two of its clusters apart, and what it is told. A host may
#: give a kubeconfig, and the run a rehearsal all the same.
MATTERS = {
    "rehearsal": ("rehearsal_name", "cluster_owner", "cluster_purpose", "cluster_lifetime"),
    "existing": ("cluster_kubeconfig", "cluster_context", "cluster_expected_host"),
    "openshift_ipi": (*_OPENSHIFT, "cluster_ipi_*"),
    "openshift_agent": (*_OPENSHIFT, "cluster_agent_*"),
    "managed": (*_MADE, "cluster_version", "cluster_tags", "cluster_install_timeout", "cluster_managed_*"),
    "hive_pool": (*_MADE, "cluster_install_timeout", "cluster_hive_*"),
}

#: Providers that make a cluster for the run: the run owns it from before it exists.
MAKING = ("openshift_ipi", "openshift_agent", "managed", "hive_pool")


@dataclass(frozen=True)
class ClusterTarget:
    """One cluster to acquire, and the hosts that it is for.

    ``chosen``: cluster_provider and the settings that MATTERS names for it, as far as they are given, a host's own
    laid over the run's.
    """

    hosts: tuple[str, ...]
    chosen: dict[str, Any] = field(default_factory=dict)

    @property
    def provider(self) -> str:
        """The provider's name, which is a folder of role cluster's tasks."""
        return self.chosen["cluster_provider"]


def of_clusters(name: str) -> bool:
    """Tell whether a setting is about a cluster, so that each of the hosts may have its own."""
    return name in CHOOSING or any(fnmatchcase(name, one) for names in MATTERS.values() for one in names)


def own_choice(host: Mapping[str, Any], everyone: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an inventory says about this host's cluster and not about every host.

    A value that a lab gives to all its hosts is the run's setting like any other: presets and ``-e`` come after it.
    """
    return {
        name: _value(name, value)
        for name, value in host.items()
        if of_clusters(name) and value not in (None, "") and value != everyone.get(name)
    }


def _value(name: str, value: Any) -> Any:
    return str(value) if name in CHOOSING else value


def targets(settings: Mapping[str, Any], own: Mapping[str, Mapping[str, Any]]) -> list[ClusterTarget]:
    """Return the clusters to acquire, one or two.

    settings: the run's effective settings. own: host -> own_choice() of it; a host that is not in the inventory is
    absent. The driver is the measured cluster unless it has a choice of its own.
    """
    common = {
        name: _value(name, value) for name, value in settings.items() if of_clusters(name) and value not in (None, "")
    }
    of_driver = own.get("driver", {})
    differs = any(value != common.get(name) for name, value in of_driver.items())
    measured = _of_host(common, own.get("sutest", {}))
    driving = _of_host(common if differs else measured, of_driver)
    if driving == measured:
        return [ClusterTarget(HOSTS, measured)]
    return [ClusterTarget(("sutest",), measured), ClusterTarget(("driver",), driving)]


def _of_host(common: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Lay a host's own choice over the common one. Another kubeconfig means another context and host too."""
    base = dict(common)
    if any(own.get(name, common.get(name)) != common.get(name) for name in ("cluster_kubeconfig", "cluster_provider")):
        base.pop("cluster_context", None)
        base.pop("cluster_expected_host", None)
    chosen = {**base, **own}
    matters = ("cluster_provider", *MATTERS.get(chosen["cluster_provider"], CHOOSING))
    return {name: value for name, value in chosen.items() if any(fnmatchcase(name, one) for one in matters)}


def names(found: Sequence[ClusterTarget], run_id: str) -> list[str]:
    """Return the name of each target's cluster: cluster_name, else the run's id; the second of two gets a suffix."""
    given = [str(one.chosen.get("cluster_name") or run_id) for one in found]
    return [name if name not in given[:at] else f"{name}-{found[at].hosts[0]}" for at, name in enumerate(given)]


def check_provider(name: str, known: Collection[str], where: str) -> None:
    """Raise InputError when there is no provider of this name."""
    if name not in known:
        raise InputError(
            f"{where}: cluster_provider '{name}' is unknown{nearest(name, known)}; known: {', '.join(sorted(known))}"
        )


def kubeconfig_of(chosen: Mapping[str, str], environment: Mapping[str, str], where: str) -> str:
    """Return the absolute path of the kubeconfig that an existing cluster was asked for with.

    cluster_kubeconfig, else KUBECONFIG of the environment; never ~/.kube/config, which holds whatever cluster was
    used last. Raises InputError.
    """
    given = chosen.get("cluster_kubeconfig", "")
    origin = "cluster_kubeconfig"
    if not given:
        given, origin = _from_environment(environment.get("KUBECONFIG", ""))
    if not given:
        raise InputError(
            f"{where}: cluster_provider=existing needs to be told which cluster: give "
            "-e cluster_kubeconfig=<file>, or set the environment variable KUBECONFIG. "
            "~/.kube/config is used only when you name it."
        )
    if given == IN_CLUSTER:
        return given
    path = Path(given).expanduser()
    path = path if path.is_absolute() else Path.cwd() / path
    if not path.is_file():
        raise InputError(f"{where}: {origin} names '{given}', and there is no file {path}{nearest_file(path)}")
    if not os.access(path, os.R_OK):
        raise InputError(f"{where}: {origin} names '{given}', and {path} can't be read by this user")
    return str(path)


def _from_environment(value: str) -> tuple[str, str]:
    names = [name for name in value.split(os.pathsep) if name]
    there = [name for name in names if Path(name).expanduser().is_file()]
    if len(there) > 1:
        raise InputError(
            f"KUBECONFIG names {len(there)} files ({', '.join(there)}): say which with -e cluster_kubeconfig=<file>"
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
            f"{access.server}: nothing was touched"
        )


def check_existing(target: ClusterTarget, environment: Mapping[str, str]) -> dict[str, str]:
    """Return kubeconfig, context and API host of an existing cluster, refused when it isn't the one expected."""
    where = f"cluster for {' and '.join(target.hosts)}"
    path = kubeconfig_of(target.chosen, environment, where)
    context = target.chosen.get("cluster_context", "")
    access = load(path, context)
    if target.chosen.get("cluster_expected_host"):
        check_host(access, target.chosen["cluster_expected_host"], where)
    return {"kubeconfig": path, "context": context, "api_host": api_host(access)}


def providers_in(folder: Path) -> list[str]:
    """Return the providers that role cluster has: folders below tasks/ that can acquire."""
    return sorted(path.parent.name for path in folder.glob("*/acquire.yml"))


def steps_of(folder: Path, provider: str) -> list[str]:
    """Return what a provider does, by its files: acquire, release, and finish and bundle where it has them."""
    return sorted(path.stem for path in (folder / provider).glob("*.yml"))


def describe(found: Sequence[ClusterTarget]) -> str:
    """Return the targets as one line of a log."""
    return "; ".join(f"{' and '.join(one.hosts)}: provider {one.provider}" for one in found)

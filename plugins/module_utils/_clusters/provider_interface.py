# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The interface of a cluster provider.

A provider is a module ``provider_<name>.py`` in this folder, listed in providers.py, and a folder of task files,
``roles/cluster/tasks/<name>/``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import translate
from functools import cached_property
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import OwnershipError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.extra_vars_arguments import extra_vars_shell_text

#: Settings of each cluster that a provider creates for a run.
CREATED = ("cluster_name", "cluster_owner", "cluster_purpose", "cluster_lifetime")
#: Settings of each OpenShift cluster that the installer creates.
OPENSHIFT = (
    *CREATED,
    "cluster_base_domain",
    "cluster_version",
    "cluster_fips",
    "cluster_tags",
    "cluster_installer*",
    "cluster_install_timeout",
    "cluster_metadata_store",
)


#: Settings that name a kubeconfig or a context.
ACCESS_SETTINGS = ("cluster_kubeconfig", "cluster_context", "cluster_hive_kubeconfig")


@dataclass(frozen=True)
class ClusterTarget:
    """One cluster to acquire, and the hosts that it is for.

    ``chosen``: cluster_provider and those settings of the provider that have a value; the values of a host override
    those of the run.
    """

    hosts: tuple[str, ...]
    chosen: dict[str, Any] = field(default_factory=dict)

    @property
    def provider(self) -> str:
        """The provider's name, which is a folder of role cluster's tasks."""
        return self.chosen["cluster_provider"]

    @property
    def where(self) -> str:
        """The beginning of an error message about this cluster."""
        return f"cluster for {' and '.join(self.hosts)}"


@dataclass(frozen=True)
class AccessSettings:
    """The values of ACCESS_SETTINGS in the current session: of the host, of the run, and by ``-e``; empty if unset."""

    host: Mapping[str, str]
    run: Mapping[str, str]
    extra: Mapping[str, str]


class ClusterProvider:
    """A source of clusters."""

    #: The value of cluster_provider.
    name = ""
    #: Its settings, by name or pattern. Two clusters of one provider differ if one of these differs.
    settings: tuple[str, ...] = ()
    #: Whether the run owns the cluster before it exists.
    creates = False
    #: Whether the run may own a cluster whose acquisition did not finish.
    may_own = True
    #: Whether other people may use the cluster during the run.
    shared = False
    #: Whether it runs on this machine, with the simulated nodes that settings of role fake_gpu describe.
    simulated = False
    #: Whether its machines are given, and not created by it.
    bare_metal = False
    #: What deletes an expired cluster without our help; empty if nothing does.
    expires_by = ""

    def uses(self, setting: str) -> bool:
        """Return whether this is one of its settings."""
        return any(pattern.match(setting) for pattern in self._patterns)

    @cached_property
    def _patterns(self) -> list[re.Pattern[str]]:
        """The patterns of its settings; each opening of a run asks for some thousand names."""
        return [re.compile("|".join(translate(setting) for setting in self.settings))] if self.settings else []

    def check(self, target: ClusterTarget) -> None:
        """Raise InputError if the target can't be acquired, before a run directory exists."""

    def cluster_name(self, target: ClusterTarget, run_id: str) -> str:
        """Return the name of the cluster if no other cluster of the run has it."""
        return str(target.chosen.get("cluster_name") or run_id)

    def initial_record(self, target: ClusterTarget, name: str, ownership: Mapping[str, Any]) -> dict[str, Any]:
        """Return the record of a cluster before it is acquired. ownership: owner, purpose, taken, expires."""
        raise NotImplementedError

    def refuse_unfinished(self, record: Mapping[str, Any], run_dir: str) -> None:
        """Raise OwnershipError if the recorded cluster (or ``{}``) can neither be used nor completed."""

    def replaced_access(
        self, record: Mapping[str, Any], settings: AccessSettings, warn: Callable[[str], None]
    ) -> dict[str, Any] | None:
        """Return what to change in the record so that the cluster can be reached again; None for no change."""
        return None


def release_arguments(run_dir: str | os.PathLike[str]) -> str:
    """Return the arguments of the playbook that release the clusters of a run, as they are typed in a shell."""
    return f"--tags release {extra_vars_shell_text({'run_dir': os.fspath(run_dir)})}"


class CreatingProvider(ClusterProvider):
    """A provider that creates a cluster for the run."""

    creates = True

    def initial_record(self, target: ClusterTarget, name: str, ownership: Mapping[str, Any]) -> dict[str, Any]:
        """Return the record with the settings, which the release needs."""
        in_record = ("cluster_provider", *CREATED)
        settings = {key: value for key, value in target.chosen.items() if key not in in_record}
        return {
            "provider": self.name,
            "name": name,
            "owned": True,
            **ownership,
            "provider_data": {"settings": settings},
        }

    def refuse_unfinished(self, record: Mapping[str, Any], run_dir: str) -> None:
        """Refuse a failed cluster: what exists of it must be released before another is created."""
        if record.get("state") == "failed":
            raise OwnershipError(
                f"this run's {record['provider']} cluster {record.get('name', '')} failed ({record.get('failure')}): "
                f"release it ({release_arguments(run_dir)}) before creating another"
            )

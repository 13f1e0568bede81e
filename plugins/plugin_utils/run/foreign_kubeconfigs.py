# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubeconfigs that a run directory names: of one that is not ours, only those that this session names, too.

A kubeconfig may name a program, and leads to a cluster on which objects are deleted. Who can write a run directory must
choose neither.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import extra_vars_arguments
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.detect_moved_run import is_own_run
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters import clusters_of_run
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.clusters_of_run import HOSTS
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.lock import lock_records
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.provider_interface import (
    ACCESS_SETTINGS,
    AccessSettings,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.providers import (
    absolute_path,
    is_kubeconfig_unreadable,
    provider_by_name,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import cluster_settings
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.resolve_settings import EffectiveSettings
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_from_ansible import SettingsContext

from .run_directory import read_document_if_exists

#: The record of a lease.
LEASE = "lease.yml"
#: Phases that use no cluster; the report does with metrics_route.
WITHOUT_CLUSTER = {"settings", "report", "export"}
#: Suffix that a cluster gets which has the name of another one of its run: that of the driver, and those of workers.
SUFFIX = re.compile(r"-(driver|worker-\d+)$")
#: Phase and entry point that release what other runs hold, by the settings alone.
REAP = "reap"
#: Project and role of leases: without a record, the id of the run names the lease.
LEASES = "lease", "perfscale.seatrial.quads_lease"
#: Settings that name a cluster that is created, and one that is simulated.
CLUSTER_NAMES = ("cluster_name", "rehearsal_name")
#: Settings that let a release act on what the run has not made, or at a server that it names.
CHOOSE_HOLDINGS = ("cluster_release_named", "cluster_metadata_store", "quads_lease_api_url")


def is_own_uncopied_directory(directory: Path) -> bool:
    """Return whether a run directory is where this user opened the run: not copied, moved, or received."""
    record = read_document_if_exists(directory / "run.yml") or {}
    return is_own_run(record, directory)


def refuse_foreign_kubeconfigs(
    directory: Path, context: SettingsContext, effective: EffectiveSettings, chosen: Iterable[str]
) -> None:
    """Raise InputError if a continued run would use a kubeconfig that only its directory names.

    effective: the settings of the run. chosen: the phases of this session.
    """
    if is_own_uncopied_directory(directory):
        return
    _refuse_reap(directory, chosen)
    trees = [effective.settings, *(point.settings for point in effective.points)]
    known = [{name: value for name, value in tree.items() if name not in effective.late} for tree in trees]
    phases = set(chosen)
    uses_none = phases <= WITHOUT_CLUSTER - {"settings"} and not any(tree.get("metrics_route") for tree in known)
    if uses_none and not _has_lock_to_release(directory):
        return
    sources: list[tuple[str, Any]] = [("request.yml", tree) for tree in known]
    if not phases <= {"settings"}:
        refuse_foreign_holdings(directory, context.extra, [("request.yml", tree) for tree in trees], context.project)
        _refuse_contexts(directory, context, [tree for _file, tree in sources])
        sources += _records(directory, context)
    _refuse(directory, context, sources)


def refuse_foreign_kubeconfigs_of_call(
    step: Path, context: SettingsContext, values: Iterable[Any], role: str, entry: str
) -> None:
    """Raise InputError if a role call would use a kubeconfig that only its run directory names.

    values: the contents of the files that are loaded as variables. role, entry: what is called.
    """
    if not is_own_uncopied_directory(step.parent):
        _refuse_reap(step.parent, [entry])
        loaded = [(step.name, tree) for tree in values]
        refuse_foreign_holdings(step.parent, context.extra, loaded, role)
        _refuse_contexts(step.parent, context, [tree for _file, tree in loaded])
        sources = [*loaded, *_records(step.parent, context)]
        _refuse(step.parent, context, sources)


def create_trusted_access_lookup(
    run_dir: str, variables: Mapping[str, Any], extra: Mapping[str, Any], template: Callable[[Any], Any]
) -> Callable[[str], AccessSettings]:
    """Return a function that returns the kubeconfig settings of the current session for a host.

    variables: those of a task, which have the settings of the run, too: those of a run directory that is not ours are
    left out. extra: those of ``-e``.
    """
    own = is_own_uncopied_directory(Path(run_dir))
    known = variables if own else {"hostvars": variables.get("hostvars"), **extra}
    return cluster_settings.create_kubeconfig_settings_lookup(known, extra, template)


def _has_lock_to_release(directory: Path) -> bool:
    """Return whether the end of any session would release a lock, with the kubeconfig of cluster.yml."""
    paths = [Path(f"{directory}/lock-{host}.json") for host in clusters_of_run.read_cluster_records(directory)]
    known = [lock_records.read_lock_record(path) for path in paths if path.exists()]
    return any(record is None or record.get("state") != lock_records.RELEASED for record in known)


def _refuse_reap(directory: Path, chosen: Iterable[str]) -> None:
    if REAP in chosen:
        raise InputError(
            f"{directory} was copied, moved or received, belongs to another user, or is of an older version: its "
            f"settings do not choose which leases and clusters of other runs are released. Run --tags {REAP} without it"
        )


def refuse_foreign_holdings(
    directory: Path, extra: Mapping[str, Any], trees: Iterable[tuple[str, Mapping[str, Any]]] = (), acting: str = ""
) -> None:
    """Raise InputError for a cluster or lease that only a run directory names, unless ``-e`` names it, too.

    Its release destroys what the record names, and uses addresses, folders and an inventory that it names. trees: file
    and settings that the session would use. acting: the project or role.
    """
    missing: dict[str, str] = {}
    named = []
    found = [*_recorded_holdings(directory, acting in LEASES), *_chosen_holdings(directory, trees)]
    for file, what, setting, name in found:
        given = str(extra.get(setting) or "")
        first = SUFFIX.sub("", name) if setting in CLUSTER_NAMES else name
        if not given or given not in (first, name):
            missing.setdefault(setting, first)
            named.append(f"{file} names the {what} '{name}'")
    if missing:
        raise InputError(
            f"{directory}: {', '.join(dict.fromkeys(named))}, and this run directory was copied, moved or received, "
            "belongs to another user, or is of an older version: what it names is used only if you name it. If you "
            f"trust this directory, give {extra_vars_arguments.extra_vars_shell_text(missing)}"
        )


def extra_vars_naming_holdings(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of ``-e`` that name clusters and leases: without them, a later session is refused."""
    names = (*CLUSTER_NAMES, "quads_lease_id", *CHOOSE_HOLDINGS, *ACCESS_SETTINGS)
    return {name: extra[name] for name in names if extra.get(name)}


def _recorded_holdings(directory: Path, leases: bool) -> Iterator[tuple[str, str, str, str]]:
    """Yield file, kind, setting and name of each cluster and lease that a run directory records.

    leases: whether the session acts on a lease even without a record of one.
    """
    for record in clusters_of_run.read_cluster_records(directory).values():
        provider = provider_by_name(record["provider"])
        if record.get("state") != "released" and not provider.shared:
            setting = "rehearsal_name" if provider.simulated else "cluster_name"
            yield clusters_of_run.FILE, "cluster", setting, str(record.get("name") or "")
    if (directory / LEASE).exists():  # released or not: its release ends the lease with the id of the run
        lease = read_document_if_exists(directory / LEASE) or {}
        yield LEASE, "lease", "quads_lease_id", str(lease.get("lease_id") or "")
    elif leases:
        record = read_document_if_exists(directory / "run.yml") or {}
        yield "run.yml", "lease", "quads_lease_id", str(record.get("id") or "")


def _chosen_holdings(
    directory: Path, trees: Iterable[tuple[str, Mapping[str, Any]]]
) -> Iterator[tuple[str, str, str, str]]:
    """Yield file, kind, setting and value of each setting that chooses a cluster or lease of another run."""
    own_lease = ("", "{{ run_id }}", str((read_document_if_exists(directory / "run.yml") or {}).get("id") or ""))
    for file, settings in trees:
        for name in CHOOSE_HOLDINGS:
            if settings.get(name):
                yield file, name, name, str(settings[name])
        lease = str(settings.get("quads_lease_id") or "")
        if lease not in own_lease:
            yield file, "lease", "quads_lease_id", lease


def _records(directory: Path, context: SettingsContext) -> Iterator[tuple[str, Any]]:
    """Yield the records whose access is not replaced by ``-e``."""
    for record in clusters_of_run.read_cluster_records(directory).values():
        gone = record.get("state") == "released" and not record.get("objects")
        if gone or not provider_by_name(record["provider"]).shared or not context.extra.get("cluster_kubeconfig"):
            yield clusters_of_run.FILE, record


def _refuse(directory: Path, context: SettingsContext, sources: Iterable[tuple[str, Any]]) -> None:
    named, places = None, [directory]
    for file, values in sources:
        for key, text in _kubeconfigs("", values):
            if is_kubeconfig_unreadable(text):
                continue
            if named is None:
                session = context.settings_to_find_run(gives_back=True)
                named = _named_by_session(context, session)
                places += [Path(session["rehearsal_data_dir"]).expanduser()] if session["rehearsal_data_dir"] else []
            path = Path(absolute_path(text)).resolve()
            if absolute_path(text) in named or any(path.is_relative_to(place.resolve()) for place in places):
                continue
            raise InputError(
                f"{directory / file}: {key} names the kubeconfig {text}, and this run directory was copied, moved or "
                "received, or belongs to another user: its kubeconfig is used only if you name it. If you trust it, "
                f"give {extra_vars_arguments.extra_vars_shell_text({'cluster_kubeconfig': text})}, or set the "
                "environment variable KUBECONFIG"
            )


def _refuse_contexts(directory: Path, context: SettingsContext, trees: Iterable[Mapping[str, Any]]) -> None:
    """Raise InputError for a context of the user's kubeconfig that only a run directory names: it is another cluster.

    trees: the settings that the session would use.
    """
    shared = [
        record
        for record in clusters_of_run.read_cluster_records(directory).values()
        if provider_by_name(record["provider"]).shared and (record.get("state") != "released" or record.get("objects"))
    ]
    texts = [tree.get("cluster_context") for tree in trees] + [record.get("context") for record in shared]
    wanted = {str(text) for text in texts if text}
    if not wanted:
        return
    hosts = context.variables.get("hostvars") or {}
    known = {str(context.settings_to_find_run(gives_back=True).get("cluster_context"))}
    known |= {str(hosts[host].get("cluster_context")) for host in HOSTS if host in hosts}
    for text in sorted(wanted - known):
        raise InputError(
            f"{directory} names the context {text} of a kubeconfig, and this run directory was copied, moved or "
            "received, or belongs to another user: another context may be another cluster. If you trust it, give "
            f"{extra_vars_arguments.extra_vars_shell_text({'cluster_context': text})}"
        )


def _named_by_session(context: SettingsContext, session: Mapping[str, Any]) -> set[str]:
    """Return the kubeconfigs that ``-e``, the inventory, presets and KUBECONFIG name, as absolute paths."""
    texts = [text for _key, text in _kubeconfigs("", session)]
    texts += os.environ.get("KUBECONFIG", "").split(os.pathsep)
    hosts = context.variables.get("hostvars") or {}
    texts += [str(hosts[host].get(name) or "") for host in HOSTS if host in hosts for name in ACCESS_SETTINGS]
    return {absolute_path(text) for text in texts if text}


def _kubeconfigs(key: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield key and text of each kubeconfig in a value; ``hub`` is that of a Hive cluster in a record."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _kubeconfigs(str(name), part)
    elif isinstance(value, list):
        for part in value:
            yield from _kubeconfigs(key, part)
    elif isinstance(value, str) and value and (key.endswith("kubeconfig") or key == "hub"):
        yield key, value

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run directory names on this machine: of one that is not ours, no file outside of it and no real node is used.

Such a setting could write into a file of the user, show the content of one in a report, or send it to a server. On a
real node this machine runs the commands of the run in containers, as root. So this session must name them, too. What
the directory says of loads on other hosts, and of what a run has changed on a cluster of others, is not undone.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import (
    convert_setting_values,
    read_secret_settings,
    setting_templates,
    settings_naming_programs,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_catalogue import Catalogue
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_from_ansible import SettingsContext

from .foreign_kubeconfigs import is_own_uncopied_directory
from .run_directory import read_document_if_exists

#: What names a file to write, which need not exist; a relative path is one in the run directory.
WRITTEN = frozenset({"export_junit", "export_textfile", "doctor_rbac_file", "results_compare_dir", "storage_files_to"})
INVENTORY, LEASED = "cluster_agent_inventory", "lease.quads.yml"
#: Files that are executed, so that one in the run directory counts, too: Ansible runs the program and the templates in
#: an inventory, and a template of the report may run for ever or put scripts into the page.
EXECUTED = frozenset({INVENTORY, "results_template"})
#: What names a host on which tasks are run.
HOSTS = frozenset({"cluster_agent_bastion", "workload_run_on"})
#: What names a rehearsal cluster of this machine.
INSTANCES = frozenset({"rehearsal_name"})
_NO_HOSTS = ("controller", "driver_pod", "localhost")
#: Records of what a run has changed on a cluster, and puts back. Nothing on the cluster proves that it was this run.
CHANGES = ("monitoring.json", "registry.json", "scaling.json", "scaling-driver.json")
#: Where a run directory is: a continued run stays where it is.
_UNUSED = frozenset({"run_artifacts_dir"})
_TAKING = frozenset({"lease", "cluster", "prepare", "test"})
_QUIET = frozenset({"settings", "report", "export"})
#: Role -> phases that use its files, of settings that its meta/files.yml does not list.
_PHASES = {"results": {"report"}, "metrics": {"prepare", "test", "report"}, "export": {"export"}}
#: Phases in which a file with a secret is read, and the secret may be sent: all but the one that only shows settings.
_SENDING = _TAKING | (_QUIET - {"settings"}) | {"cleanup", "release"}
_AGAIN = (
    "and this run directory was copied, moved or received, or belongs to another user: it is used only if you name it. "
    "If you trust it, give"
)


def refuse_foreign_machine_use(
    directory: Path,
    context: SettingsContext,
    trees: Sequence[Mapping[str, Any]],
    chosen: Collection[str] | None,
    also_trusted: Iterable[Mapping[str, Any]] = (),
) -> None:
    """Raise InputError for a file or a real node of this machine that only a run directory names.

    trees: what the directory sets: setting, dotted key or word -> value. chosen: the phases of this session; None for a
    role call, which may use everything. also_trusted: further settings that are not a stranger's.
    """
    if is_own_uncopied_directory(directory):
        return
    if chosen is None or set(chosen) - {"settings"}:
        _refuse_links(directory)
    known = [*context.trusted_values(), *also_trusted]
    trusted = set(_files_named(known, context.catalogue, directory))
    for setting, path in _files_named(trees, context.catalogue, directory):
        is_used = chosen is None or not _phases_of(setting, context.catalogue).isdisjoint(chosen)
        outside = setting in EXECUTED or not _is_inside(path, directory)
        if is_used and outside and (setting, path) not in trusted:
            raise InputError(f"{directory}: {setting} names {path} of this machine, {_AGAIN} {setting} again by -e")
    if chosen is None or not _QUIET.issuperset(chosen):
        _refuse_hosts(directory, trees, known)
        # The first tree of a role call has its arguments; the settings of the run name the instance of any other call.
        _refuse_instances(directory, trees[:1] if chosen is None else trees, context.extra)
        _refuse_records(directory, {path for setting, path in trusted if setting == INVENTORY})
    if chosen is None or not _TAKING.isdisjoint(chosen):
        named = (
            settings_naming_programs.settings_starting_real_node(values)
            for values in (context.variables, context.extra)
        )
        if not any(map(any, named)):
            for setting in (
                name for tree in trees for name in settings_naming_programs.settings_starting_real_node(tree)
            ):
                raise InputError(
                    f"{directory}: {setting} starts a real node, on which this machine runs the commands of the run, "
                    f"{_AGAIN} rehearsal_nodes_real=1"
                )


def _refuse_hosts(directory: Path, trees: Iterable[Mapping[str, Any]], known: Iterable[Mapping[str, Any]]) -> None:
    """Raise InputError for a host on which tasks would be run, unless the session names it."""
    trusted = set(_texts_of_settings(known, HOSTS))
    for setting, host in _texts_of_settings(trees, HOSTS):
        if host and host not in _NO_HOSTS and (setting, host) not in trusted:
            raise InputError(f"{directory}: {setting} names the host {host}, {_AGAIN} {setting} again by -e")


def _refuse_instances(directory: Path, trees: Iterable[Mapping[str, Any]], extra: Mapping[str, Any]) -> None:
    """Raise InputError for a rehearsal cluster that would be changed or removed, unless ``-e`` names it.

    The defaults of the session do not count: one of them is the name of an instance.
    """
    trusted = set(_texts_of_settings([extra], INSTANCES))
    for setting, name in _texts_of_settings(trees, INSTANCES):
        if name and (setting, name) not in trusted:
            raise InputError(
                f"{directory}: {setting} names the rehearsal cluster {name} of this machine, {_AGAIN} {setting} again "
                "by -e"
            )


def _refuse_records(directory: Path, inventories: Collection[str]) -> None:
    """Raise InputError for a record by which something would be deleted, changed or run elsewhere.

    inventories: paths that the session names.
    """
    why = "and this run directory was copied, moved or received, or belongs to another user"
    for path in map(directory.joinpath, CHANGES):
        if path.exists():
            raise InputError(
                f"{path} says what was changed on a cluster, {why}: it is not put back from here. Put it back from the "
                "directory in which the run was opened, or by hand, and remove this file"
            )
    for path in directory.glob("points/**/elsewhere.json"):
        record = read_document_if_exists(path)
        if not isinstance(record, dict) or record.get("state") != "fetched" or "collect" in record:
            raise InputError(
                f"{path} says where a load still runs, {why}: it is not stopped from here. Stop it from the directory "
                "in which the run was opened, or by hand, and remove this file"
            )
    leased = directory / LEASED
    if leased.exists() and not any(Path(path).resolve() == leased.resolve() for path in inventories):
        raise InputError(
            f"{leased} is an inventory, whose templates and programs Ansible would run, {_AGAIN} -e "
            f"{INVENTORY}={leased}, or remove it"
        )


def _refuse_links(directory: Path) -> None:
    """Raise InputError for a symbolic link or pipe: a file elsewhere would be written, or the session would wait."""
    for folder, folders, names in os.walk(directory):
        for path in (Path(folder) / name for name in [*folders, *names]):
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                what = "a symbolic link" if path.is_symlink() else "no file"
                raise InputError(
                    f"{directory}: {path.relative_to(directory)} is {what}, and this run directory was "
                    "copied, moved or received, or belongs to another user: a file elsewhere could be written through "
                    "a link, and a pipe has no end. Remove it"
                )


def _files_named(
    trees: Iterable[Mapping[str, Any]], catalogue: Catalogue, directory: Path
) -> Iterator[tuple[str, str]]:
    """Yield setting and absolute path of each file that ``trees`` name, and that exists or is to be written."""
    for setting, text in _texts_of_settings(trees):
        known = catalogue.settings.get(setting)
        if setting in _UNUSED or setting.endswith("_kubeconfig"):  # the latter are for foreign_kubeconfigs.py
            continue
        if not text or setting_templates.has_template(text):  # of a template that the session has, too
            continue
        if setting in WRITTEN:
            yield setting, os.path.join(directory, os.path.expanduser(text))
        elif known and (known.is_path or "/" in text) and _exists(path := convert_setting_values.absolute_path(text)):
            yield setting, path


def _texts_of_settings(
    trees: Iterable[Mapping[str, Any]], wanted: Collection[str] | None = None
) -> Iterator[tuple[str, str]]:
    """Yield setting and text of each text in ``trees``. wanted: of these settings only."""
    for key, value in itertools.chain.from_iterable(tree.items() for tree in trees):
        for name, part in [(str(key), value), *settings_naming_programs.settings_set_by_keyword(str(key), value)]:
            setting = setting_templates.setting_of_dotted_key(name)
            if wanted is None or setting in wanted:
                yield from ((setting, text) for text in setting_templates.texts_in_value(part))


def _phases_of(setting: str, catalogue: Catalogue) -> set[str]:
    """Return the phases that use the files of a setting."""
    if setting == read_secret_settings.DIRECTORY or setting.removesuffix("_file") in catalogue.secrets:
        return set(_SENDING)
    if setting in catalogue.files:
        return set(catalogue.files[setting]["phases"])
    return set(_PHASES.get(catalogue.role_of(setting)) or _TAKING)


def _exists(path: str) -> bool:
    try:
        return os.path.exists(path)
    except ValueError:  # a null character
        return False


def _is_inside(path: str, directory: Path) -> bool:
    try:
        return Path(path).resolve().is_relative_to(directory.resolve())
    except (OSError, ValueError, RuntimeError):  # no path
        return False

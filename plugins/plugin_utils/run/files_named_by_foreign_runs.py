# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run directory names on this machine: of one that is not ours, no file outside of it and no real node is used.

Such a setting could write into a file of the user, show the content of one in a report, or send it to a server. On a
real node this machine runs the commands of the run in containers, as root. So this session must name them, too.
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
    setting_templates,
    settings_naming_programs,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_catalogue import Catalogue
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_from_ansible import SettingsContext

from .foreign_kubeconfigs import is_own_uncopied_directory

#: What names a file to write, which need not exist; a relative path is one in the run directory.
WRITTEN = frozenset({"export_junit", "export_textfile", "doctor_rbac_file", "results_compare_dir", "storage_files_to"})
#: Where a run directory is: a continued run stays where it is.
_UNUSED = frozenset({"run_artifacts_dir"})
_TAKING = frozenset({"lease", "cluster", "prepare", "test"})
#: Role -> phases that use its files, of settings that its meta/files.yml does not list.
_PHASES = {"results": {"report"}, "metrics": {"prepare", "test", "report"}, "export": {"export"}}
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
        if is_used and (setting, path) not in trusted and not _is_inside(path, directory):
            raise InputError(f"{directory}: {setting} names {path} of this machine, {_AGAIN} {setting} again by -e")
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


def _refuse_links(directory: Path) -> None:
    """Raise InputError for a symbolic link, through which a log or a result would be written somewhere else."""
    for folder, folders, names in os.walk(directory):
        for path in (Path(folder) / name for name in [*folders, *names]):
            if path.is_symlink():
                raise InputError(
                    f"{directory}: {path.relative_to(directory)} is a symbolic link, and this run directory was "
                    "copied, moved or received, or belongs to another user: a file elsewhere could be written through "
                    "it. Remove the link"
                )


def _files_named(
    trees: Iterable[Mapping[str, Any]], catalogue: Catalogue, directory: Path
) -> Iterator[tuple[str, str]]:
    """Yield setting and absolute path of each file that ``trees`` name, and that exists or is to be written."""
    for key, value in itertools.chain.from_iterable(tree.items() for tree in trees):
        for name, part in [(str(key), value), *settings_naming_programs.settings_set_by_keyword(str(key), value)]:
            setting = setting_templates.setting_of_dotted_key(name)
            known = catalogue.settings.get(setting)
            if setting in _UNUSED or setting.endswith("_kubeconfig"):  # the latter are for foreign_kubeconfigs.py
                continue
            for text in setting_templates.texts_in_value(part):
                if not text or setting_templates.has_template(text):  # of a template that the session has, too
                    continue
                if setting in WRITTEN:
                    yield setting, os.path.join(directory, os.path.expanduser(text))
                elif (
                    known
                    and (known.is_path or "/" in text)
                    and _exists(path := convert_setting_values.absolute_path(text))
                ):
                    yield setting, path


def _phases_of(setting: str, catalogue: Catalogue) -> set[str]:
    """Return the phases that use the files of a setting."""
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

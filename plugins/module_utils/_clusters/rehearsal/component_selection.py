# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which components of a rehearsal cluster run, what they add to each other, and in which order they start."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name

from .component_spec import FILE, ProcessSpec, RehearsalComponent, load_component


def load_all_components(root: Path) -> dict[str, RehearsalComponent]:
    """Read every component below ``root``, by name. Raises InputError."""
    folders = sorted(path.parent for path in Path(root).glob(f"*/{FILE}"))
    if not folders:
        raise InputError(f"{root}: no components there (folders with a {FILE})")
    return {folder.name: load_component(folder) for folder in folders}


def select_required_components(
    known: Mapping[str, RehearsalComponent], wanted: Iterable[str]
) -> list[RehearsalComponent]:
    """Return the components that always run, those in ``wanted`` and those that they require, checked for conflicts.

    wanted: names, or paths of folders, which contain a "/".
    Raises InputError, for an unknown component with the nearest name.
    """
    names = [str(word) for word in wanted]
    known = {**known, **{name: load_component(Path(name).expanduser()) for name in names if "/" in name}}
    for name in names:
        if name not in known:
            raise InputError(
                f"rehearsal_components: unknown component '{name}'{suggest_similar_name(name, known)};"
                f" there are {', '.join(sorted(known))}",
                setting="rehearsal_components",
            )
    for name in names:  # grows while it is read
        for other in known[name].requires:
            if other not in known:
                raise InputError(
                    f"component {name} requires '{other}', which does not exist{suggest_similar_name(other, known)}"
                )
            if other not in names:
                names.append(other)
    chosen = _with_added_arguments(
        [component for name, component in known.items() if component.always or name in names]
    )
    owners: dict[str, str] = {}
    for process in processes_of_components(chosen):
        if process.name in owners:
            raise InputError(f"process {process.name} is in components {owners[process.name]} and {process.component}")
        owners[process.name] = process.component
    process_start_levels(processes_of_components(chosen))
    return chosen


def _with_added_arguments(chosen: list[RehearsalComponent]) -> list[RehearsalComponent]:
    """Return the components with the arguments that others add. Raises InputError for an unknown process."""
    added: dict[str, list[str]] = {}
    processes = {process.name for process in processes_of_components(chosen)}
    for component in chosen:
        for name, arguments in component.adds_arguments.items():
            if name not in processes:
                raise InputError(
                    f"component {component.name} adds arguments to '{name}'{suggest_similar_name(name, processes)},"
                    " a process that does not run"
                )
            added.setdefault(name, []).extend(str(argument) for argument in arguments)
    if not added:
        return chosen
    return [
        dataclasses.replace(
            component,
            processes=[
                dataclasses.replace(process, arguments=[*process.arguments, *added.get(process.name, ())])
                for process in component.processes
            ],
        )
        for component in chosen
    ]


def names_with_required(root: Path, names: Iterable[Any]) -> list[str]:
    """Return components, and those that they require. root: their folder. Unknown names are left as they are."""
    result = [str(name) for name in names]
    for name in result:  # grows while it is read
        folder = Path(name).expanduser() if "/" in name else root / name
        if (folder / FILE).is_file():
            result += [other for other in load_component(folder).requires if other not in result]
    return result


def processes_of_components(components: Iterable[RehearsalComponent]) -> list[ProcessSpec]:
    """Return the processes of all components."""
    return [process for component in components for process in component.processes]


def process_start_levels(wanted: Iterable[ProcessSpec]) -> list[list[ProcessSpec]]:
    """Return the processes in start order: each level depends only on the levels before it.

    Raises InputError for a dependency on an unknown process and for a circular one.
    """
    left = list(wanted)
    names = {process.name for process in left}
    for process in left:
        for other in process.after:
            if other not in names:
                raise InputError(
                    f"process {process.name} starts after '{other}', which does not"
                    f" exist{suggest_similar_name(other, names)}"
                )
    started: set[str] = set()
    order: list[list[ProcessSpec]] = []
    while left:
        level = [process for process in left if started.issuperset(process.after)]
        if not level:
            raise InputError(f"processes wait for each other: {', '.join(process.name for process in left)}")
        order.append(level)
        started.update(process.name for process in level)
        left = [process for process in left if process.name not in started]
    return order

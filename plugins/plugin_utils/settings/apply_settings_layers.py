# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Layers of settings, applied one after the other: presets that extend each other, dotted keys, the list of changes.

Nothing here knows Ansible or our settings: it works on any tree of dictionaries and lists.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, nearest

from . import dotted_paths

Tree = dict[str, Any]

#: Keys of a preset that are no settings.
PRESET_WORDS = ("description", "extends", "heavy")


class SettingsError(InputError):
    """Invalid input in a layer. ``source`` names the layer as in Change, ``at`` is the key or name as written.

    ``at`` may carry its file and line. A key of a layer that was read from request.yml does not; then ``source`` leads
    to its origin.
    """

    def __init__(self, message: str, at: Any = None, source: str = "") -> None:
        super().__init__(message)
        self.at = at
        self.source = source


@dataclass(frozen=True)
class Change:
    """One value that one layer sets. ``source`` names the layer, ``key`` is the key as written."""

    source: str
    path: dotted_paths.Path
    value: Any
    key: Any = None


@dataclass(frozen=True)
class Resolved:
    """The effective settings and all changes that led to them, in order; of one key the last change won."""

    settings: Tree
    changes: tuple[Change, ...] = ()


def layer(source: str, values: Mapping[str, Any]) -> list[Change]:
    """Return the changes that ``source`` makes. values: dotted key -> value."""
    return [_change(source, key, value) for key, value in values.items()]


def expand(presets: Mapping[str, Mapping[str, Any] | None], name: str) -> Iterator[Change]:
    """Yield the changes of a preset; those of an extended preset come at the position of ``extends``."""
    todo = [_items(presets, name, ())]  # a stack instead of recursion: a chain may be of any length
    while todo:
        chain, items = todo[-1]
        for key, value in items:
            if key == "extends":
                todo += reversed([_items(presets, parent, chain) for parent in _parents(value, chain[-1])])
                break
            if key not in PRESET_WORDS:
                yield _change(f"preset {' -> '.join(chain)}", key, value)
        else:
            todo.pop()


def _items(
    presets: Mapping[str, Mapping[str, Any] | None], name: str, chain: tuple[str, ...]
) -> tuple[tuple[str, ...], Iterator[tuple[Any, Any]]]:
    """Return the chain that leads to a preset, itself included, and its keys and values."""
    if name not in presets:
        by = f", extended by {' -> '.join(chain)}" if chain else ""
        known = ", ".join(sorted(presets)) or "none"
        raise SettingsError(f"unknown preset '{name}'{by}{nearest(name, presets)}; known: {known}", name)
    if name in chain:
        raise SettingsError(f"preset cycle: {' -> '.join((*chain, name))}", name)
    values = presets[name]
    if values is not None and not isinstance(values, Mapping):
        raise SettingsError(f"preset '{name}' is not a dictionary of settings", name)
    return (*chain, str(name)), iter((values or {}).items())


def _parents(value: Any, name: str) -> list[str]:
    """Return the presets that ``extends`` names."""
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(one, str) for one in names):
        shown = json.dumps(value, default=str)
        raise SettingsError(
            f"preset {name}: extends needs the name of a preset or a list of names, got {shown}",
            "extends",
            f"preset {name}",
        )
    return preset_names(names)


def _change(source: str, key: Any, value: Any) -> Change:
    try:
        return Change(source, dotted_paths.parse(str(key)), value, key)
    except dotted_paths.PathError as error:
        raise SettingsError(f"{source}: {error}", key, source) from error


def apply(
    resolved: Resolved, changes: Sequence[Change] | Iterator[Change], extensible: Collection[str] = ()
) -> Resolved:
    """Return ``resolved`` with the changes applied in order. Raises SettingsError for an unknown key.

    extensible: settings to which a dotted key may add a key.
    """
    tree: Any = resolved.settings
    made: list[Change] = []
    for change in changes:
        try:
            change_tree = dotted_paths.create if change.path[0] in extensible else dotted_paths.put
            tree = change_tree(tree, change.path, change.value)
        except dotted_paths.PathError as error:
            what = "setting" if len(change.path) == 1 else "key"
            dotted = dotted_paths.render(change.path)
            message = f"{change.source} sets the unknown {what} '{dotted}': {error}"
            raise SettingsError(message, change.key, change.source) from error
        made.append(change)
    return Resolved(tree, (*resolved.changes, *made))


def preset_names(value: Any) -> list[str]:
    """Return the preset names in ``a,b``, ``a b``, ``[a, b]``, ``["a,b"]`` or nothing, in order."""
    if value is None:
        return []
    if isinstance(value, str):
        return value.replace(",", " ").split()
    if isinstance(value, Sequence):
        return [name for one in value for name in preset_names(one)]
    raise SettingsError(f"preset: expected a name or a list of names, got {value!r}", value)

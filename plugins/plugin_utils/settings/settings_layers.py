# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Layers of settings: what a run was requested with (request.yml), and how one layer is applied after the other.

Settings are always resolved from these layers, also for a cluster profile or a later session, and not from variables:
variables contain the results of an earlier resolution.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    DataError,
    InputError,
    suggest_similar_name,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.compat import ansible_core

from . import dotted_paths

Tree = dict[str, Any]

#: Keys of a preset that are no settings.
PRESET_WORDS = ("description", "extends", "heavy")
#: Former names of presets, which files of a lab, CI jobs and answers in AWX may still have -> what they are now.
RENAMED_PRESETS = {"smoke": "light", "gang": "light"}


class SettingsError(InputError):
    """Invalid input in a layer. ``source`` names the layer as in SettingChange, ``at`` is the key or name as written.

    ``at`` may carry its file and line. A key of a layer that was read from request.yml does not; then ``source`` leads
    to its origin.
    """

    def __init__(self, message: str, at: Any = None, source: str = "") -> None:
        super().__init__(message)
        self.at = at
        self.source = source


@dataclass(frozen=True)
class SettingChange:
    """One value that one layer sets. ``source`` names the layer, ``key`` is the key as written."""

    source: str
    path: dotted_paths.Path
    value: Any
    key: Any = None


@dataclass(frozen=True)
class ResolvedSettings:
    """The effective settings and all changes that led to them, in order; of one key the last change won."""

    settings: Tree
    changes: tuple[SettingChange, ...] = ()


def changes_of_layer(source: str, values: Mapping[str, Any]) -> list[SettingChange]:
    """Return the changes that ``source`` makes. values: dotted key -> value."""
    return [_create_change(source, key, value) for key, value in values.items()]


def setting_changes_of_preset(presets: Mapping[str, Mapping[str, Any] | None], name: str) -> Iterator[SettingChange]:
    """Yield the changes of a preset; those of an extended preset come at the position of ``extends``."""
    todo = [_preset_chain_and_items(presets, name, ())]  # a stack instead of recursion: a chain may be of any length
    while todo:
        chain, items = todo[-1]
        for key, value in items:
            if key == "extends":
                todo += reversed(
                    [_preset_chain_and_items(presets, parent, chain) for parent in _extended_presets(value, chain[-1])]
                )
                break
            if key not in PRESET_WORDS:
                yield _create_change(f"preset {' -> '.join(chain)}", key, value)
        else:
            todo.pop()


def _preset_chain_and_items(
    presets: Mapping[str, Mapping[str, Any] | None], name: str, chain: tuple[str, ...]
) -> tuple[tuple[str, ...], Iterator[tuple[Any, Any]]]:
    """Return the chain that leads to a preset, itself included, and its keys and values."""
    if name not in presets:
        by = f", extended by {' -> '.join(chain)}" if chain else ""
        known = ", ".join(sorted(presets)) or "none"
        raise SettingsError(f"unknown preset '{name}'{by}{suggest_preset(name, presets)}; known: {known}", name)
    if name in chain:
        raise SettingsError(f"preset cycle: {' -> '.join((*chain, name))}", name)
    values = presets[name]
    if values is not None and not isinstance(values, Mapping):
        raise SettingsError(f"preset '{name}' is not a dictionary of settings", name)
    return (*chain, str(name)), iter((values or {}).items())


def _extended_presets(value: Any, name: str) -> list[str]:
    """Return the presets that ``extends`` names."""
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(parent, str) for parent in names):
        shown = json.dumps(value, default=str)
        raise SettingsError(
            f"preset {name}: extends needs the name of a preset or a list of names, got {shown}",
            "extends",
            f"preset {name}",
        )
    return parse_preset_names(names)


def _create_change(source: str, key: Any, value: Any) -> SettingChange:
    try:
        return SettingChange(source, dotted_paths.parse_dotted_path(str(key)), value, key)
    except dotted_paths.PathError as error:
        raise SettingsError(f"{source}: {error}", key, source) from error


def apply_setting_changes(
    resolved: ResolvedSettings,
    changes: Sequence[SettingChange] | Iterator[SettingChange],
    extensible: Collection[str] = (),
) -> ResolvedSettings:
    """Return ``resolved`` with the changes applied in order. Raises SettingsError for an unknown key.

    extensible: settings to which a dotted key may add a key.
    """
    tree: Any = resolved.settings
    made: list[SettingChange] = []
    for change in changes:
        try:
            change_tree = (
                dotted_paths.with_value_created if change.path[0] in extensible else dotted_paths.with_value_replaced
            )
            tree = change_tree(tree, change.path, change.value)
        except dotted_paths.PathError as error:
            what = "setting" if len(change.path) == 1 else "key"
            dotted = dotted_paths.format_dotted_path(change.path)
            message = f"{change.source} sets the unknown {what} '{dotted}': {error}"
            raise SettingsError(message, change.key, change.source) from error
        made.append(change)
    return ResolvedSettings(tree, (*resolved.changes, *made))


def suggest_preset(name: str, known: Collection[str]) -> str:
    """Return what to say of an unknown preset: what it is called now, else the most similar name, or an empty string.

    Args:
        name: The unknown name.
        known: Names of the presets that there are.
    """
    now = RENAMED_PRESETS.get(name)
    return f" (it is now '{now}')" if now in known else suggest_similar_name(name, known)


def parse_preset_names(value: Any) -> list[str]:
    """Return the preset names in ``a,b``, ``a b``, ``[a, b]``, ``["a,b"]`` or nothing, in order."""
    if value is None:
        return []
    if isinstance(value, str):
        return value.replace(",", " ").split()
    if isinstance(value, Sequence):
        return [name for entry in value for name in parse_preset_names(entry)]
    raise SettingsError(f"preset: expected a name or a list of names, got {value!r}", value)


@dataclass(frozen=True)
class SettingsLayer:
    """Raw values from one source.

    kind: inventory, preset, profile, overrides or extra. origins: key -> file:line.
    """

    kind: str
    source: str
    values: dict[str, Any]
    origins: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RequestedSettings:
    """The project, the presets by name, and all layers in the order in which they apply."""

    project: str
    presets: tuple[str, ...]
    layers: tuple[SettingsLayer, ...] = ()

    def layers_of_kind(self, kind: str) -> list[SettingsLayer]:
        """Return the layers of one kind, in order."""
        return [layer for layer in self.layers if layer.kind == kind]

    def with_layers(self, *more: SettingsLayer) -> RequestedSettings:
        """Return this request with layers added; one of the same kind and source is replaced."""
        names = {(layer.kind, layer.source) for layer in more}
        kept = tuple(layer for layer in self.layers if (layer.kind, layer.source) not in names)
        return replace(self, layers=kept + more)

    def definitions_of_presets(self) -> dict[str, dict[str, Any]]:
        """Return the definitions of the presets in this request, by name."""
        return {layer.source: layer.values for layer in self.layers_of_kind("preset")}

    def presets_to_apply(self) -> list[str]:
        """Return the presets to apply: the requested ones, then those of cluster profiles."""
        return [*self.presets, *(name for layer in self.layers_of_kind("profile") for name in layer.values["presets"])]

    def where(self, source: str, key: Any) -> str | None:
        """Return the origin of ``key`` in the layer that a change or error names as its ``source``, None if unknown.

        For ``preset a -> b`` the layer is preset b, for a point of the matrix the layer that sets the matrix.
        """
        name = _key_in_layer(source, key)
        origins = [layer.origins.get(name) for layer in self.layers if _is_layer_named(layer, source)]
        return next((origin for origin in reversed(origins) if origin), None)

    def without(self, source: str, key: Any) -> RequestedSettings:
        """Return this request without ``key`` in the layers that a change or error names as its ``source``."""
        name = _key_in_layer(source, key)
        of_matrix = f"{name}." if source.startswith("matrix") else name

        def smaller(layer: SettingsLayer) -> SettingsLayer:
            left = {
                path: value
                for path, value in layer.values.items()
                if str(path) != name and not (of_matrix != name and str(path).startswith(of_matrix))
            }
            return replace(layer, values=left) if _is_layer_named(layer, source) else layer

        return replace(self, layers=tuple(map(smaller, self.layers)))

    def document(self) -> dict[str, Any]:
        """Return the content of request.yml."""
        layers = [
            {
                "source": layer.source,
                "kind": layer.kind,
                "values": layer.values,
                **({"origins": layer.origins} if layer.origins else {}),
            }
            for layer in self.layers
        ]
        return {"schema": "request/1", "project": self.project, "presets": list(self.presets), "layers": layers}

    @classmethod
    def from_document(cls, document: Mapping[str, Any], path: str) -> RequestedSettings:
        """Read the content of request.yml. Raises DataError for another schema version."""
        if document.get("schema") != "request/1":
            raise DataError(f"{path}: schema '{document.get('schema')}' is not request/1, which this version reads")
        files.validate_schema_if_enabled("request/1", document)
        layers = tuple(
            SettingsLayer(
                str(entry["kind"]), str(entry["source"]), dict(entry["values"]), dict(entry.get("origins") or {})
            )
            for entry in document["layers"]
        )
        return cls(str(document["project"]), tuple(str(name) for name in document["presets"]), layers)


def _key_in_layer(source: str, key: Any) -> str:
    """Return the key of a layer that an error is about: of a point, that of the matrix."""
    return source.partition(",")[0] if source.startswith("matrix") else str(key)


def _is_layer_named(layer: SettingsLayer, source: str) -> bool:
    """Return whether ``source`` names a layer. A matrix may be set in any."""
    if source.startswith("matrix"):
        return True
    kind, name = source, source
    if source.startswith(("preset ", "profile ")):
        kind, name = "preset", source.rstrip(")").split(" ")[-1]
    elif source == "-e":
        kind = "extra"
    return (layer.kind, layer.source) == (kind, name)


def presets_with_extended(presets: Mapping[str, Mapping[str, Any] | None], names: Sequence[str]) -> list[str]:
    """Return ``names`` and all presets that they extend, each once; setting_changes_of_preset() checks them."""

    reached: list[str] = []
    todo = list(names)
    while todo:
        name = todo.pop(0)
        if name in reached or name not in presets:
            continue
        reached.append(name)
        todo += parse_preset_names((presets[name] or {}).get("extends"))
    return reached


def file_origins_by_key(values: Mapping[Any, Any]) -> dict[str, str]:
    """Return key -> origin for the keys whose value or name has a known origin."""
    origins = {
        str(key): ansible_core.origin_of_value(value) or ansible_core.origin_of_value(key)
        for key, value in values.items()
    }
    return {key: where for key, where in origins.items() if where}


def error_message_with_origin(error: Exception, where: str | None = None) -> str:
    """Return the message of an error, followed by the file and line of the value that caused it, if known.

    where: that origin; by default that of the error's ``at``.
    """
    where = where or ansible_core.origin_of_value(getattr(error, "at", None))
    return f"{error}\nwritten in {where}" if where and not where.startswith("<") else str(error)

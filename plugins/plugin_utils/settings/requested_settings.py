# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings that a run was requested with: their raw layers, as request.yml contains them.

Settings are always resolved from these layers, also for a cluster profile or a later session, and not from variables:
variables contain the results of an earlier resolution.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError


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

    def of(self, kind: str) -> list[SettingsLayer]:
        """Return the layers of one kind, in order."""
        return [layer for layer in self.layers if layer.kind == kind]

    def with_layers(self, *more: SettingsLayer) -> RequestedSettings:
        """Return this request with layers added; one of the same kind and source is replaced."""
        names = {(layer.kind, layer.source) for layer in more}
        kept = tuple(layer for layer in self.layers if (layer.kind, layer.source) not in names)
        return replace(self, layers=kept + more)

    def definitions(self) -> dict[str, dict[str, Any]]:
        """Return the definitions of the presets in this request, by name."""
        return {layer.source: layer.values for layer in self.of("preset")}

    def names(self) -> list[str]:
        """Return the presets to apply: the requested ones, then those of cluster profiles."""
        return [*self.presets, *(name for layer in self.of("profile") for name in layer.values["presets"])]

    def where(self, source: str, key: Any) -> str | None:
        """Return the origin of ``key`` in the layer that a change or error names as its ``source``, None if unknown.

        For ``preset a -> b`` the layer is preset b, for a point of the matrix the layer that sets the matrix.
        """
        if source.startswith("matrix"):
            word = source.partition(",")[0]
            given = [layer.origins[word] for layer in self.layers if word in layer.origins]
            return given[-1] if given else None
        kind, name = source, source
        if source.startswith(("preset ", "profile ")):
            kind, name = "preset", source.rstrip(")").split(" ")[-1]
        elif source == "-e":
            kind = "extra"
        found = [layer.origins.get(str(key)) for layer in self.layers if (layer.kind, layer.source) == (kind, name)]
        return found[-1] if found else None

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
    def read(cls, document: Mapping[str, Any], path: str) -> RequestedSettings:
        """Read the content of request.yml. Raises DataError for another schema version."""
        if document.get("schema") != "request/1":
            raise DataError(f"{path}: schema '{document.get('schema')}' is not request/1, which this version reads")
        files.check_schema("request/1", document)
        layers = tuple(
            SettingsLayer(str(one["kind"]), str(one["source"]), dict(one["values"]), dict(one.get("origins") or {}))
            for one in document["layers"]
        )
        return cls(str(document["project"]), tuple(str(name) for name in document["presets"]), layers)


def reachable(presets: Mapping[str, Mapping[str, Any] | None], names: Sequence[str]) -> list[str]:
    """Return ``names`` and all presets that they extend, each once; expand() reports unknown names."""
    from .apply_settings_layers import preset_names

    found: list[str] = []
    todo = list(names)
    while todo:
        name = todo.pop(0)
        if name in found or name not in presets:
            continue
        found.append(name)
        todo += preset_names((presets[name] or {}).get("extends"))
    return found

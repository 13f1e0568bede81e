# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which ``-e`` values of earlier sessions apply when a run is continued.

The values belong to the resources that were created with them. If a session failed and left nothing (neither a held
resource nor a measured point), its values are dropped, so that a wrong value does not apply again. A session that only
gives back, reports or exports uses all values ever given, since the objects that it looks for may have been created
with them. request.yml keeps the values from before the last session as a layer of kind ``before``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_layers import (
    RequestedSettings,
    SettingsLayer,
)

from .run_directory import read_document_if_exists

#: Phases that create nothing.
QUIET = {"settings", "report", "cleanup", "release", "export"}
#: Values that define the points of a run: they stay, as the folders of the points do.
STAYS = ("matrix", "matrix_points", "matrix_skip_if", "repeat", "bisect")


def request_of_new_run(request: RequestedSettings, extra: Iterable[str]) -> RequestedSettings:
    """Return the request of a new run, with the ``-e`` values that stay even if this session fails."""
    values = _values_of_layer(request, "extra")
    origins = {"overrides": "-e"} if "overrides" in extra else {}
    return request.with_layers(
        SettingsLayer("before", "-e", {name: values[name] for name in STAYS if name in values}, origins)
    )


def continued_request_and_dropped_names(
    request: RequestedSettings, more: SettingsLayer, sessions: Iterable[Mapping[str, Any]], chosen: Iterable[str]
) -> tuple[RequestedSettings, list[str]]:
    """Return the request of a session that continues a run, and the names of the values that it drops.

    more: the ``-e`` of this session. sessions: records of the earlier ones. chosen: the phases of this one.
    """
    values = _values_of_layer(request, "extra")
    if set(chosen) <= QUIET:
        return (_request_with_values(request, {**values, **more.values}, more), []) if more.values else (request, [])
    last: Mapping[str, Any] = next((session for session in reversed(list(sessions)) if "held" in session), {})
    dropped: list[str] = []
    if last.get("kept") is False:
        before = next(iter(request.layers_of_kind("before")), SettingsLayer("before", "-e", {}))
        dropped = [name for name in values if name not in more.values and values[name] != before.values.get(name)]
        if "overrides" in before.origins and request.layers_of_kind("overrides"):
            request = replace(request, layers=tuple(layer for layer in request.layers if layer.kind != "overrides"))
            dropped.append("overrides")
        values = before.values
    request = request.with_layers(SettingsLayer("before", "-e", dict(values)))
    return _request_with_values(request, {**values, **more.values}, more), dropped


def _request_with_values(request: RequestedSettings, values: dict[str, Any], more: SettingsLayer) -> RequestedSettings:
    origins = {**next((layer.origins for layer in request.layers_of_kind("extra")), {}), **more.origins}
    return request.with_layers(
        SettingsLayer("extra", "-e", values, {name: at for name, at in origins.items() if name in values})
    )


def _values_of_layer(request: RequestedSettings, kind: str) -> dict[str, Any]:
    return next((layer.values for layer in request.layers_of_kind(kind)), {})


def resources_held_before(record: Mapping[str, Any], chosen: Iterable[str]) -> dict[str, Any]:
    """Return ``held`` for the record of a session: what the run held before. Empty if it creates nothing."""
    return {} if set(chosen) <= QUIET else {"held": [holding["what"] for holding in record["held"]]}


def record_whether_extra_vars_stay(record: dict[str, Any], failures: list[str], directory: Path) -> None:
    """Record whether the ``-e`` values of the last session stay. Those of a killed session stay: it records nothing."""
    session: dict[str, Any] = next(iter(reversed(record.get("sessions", []))), {})
    if "held" in session:
        new = {holding["what"] for holding in record["held"]} - set(session["held"])
        session["kept"] = not failures or bool(new) or _has_point_passed_since(directory, session["started"])


def _has_point_passed_since(directory: Path, since: str) -> bool:
    """Return whether a point passed after ``since`` (UTC, in the format of the files)."""
    points = [read_document_if_exists(path) for path in directory.glob("points/*/point.yml")]
    return any(point.get("status") == "passed" and str(point.get("ended") or "") >= since for point in points)

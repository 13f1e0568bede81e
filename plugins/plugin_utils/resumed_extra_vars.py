# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which ``-e`` of earlier sessions a run goes on with.

They belong to what was made with them. A session that failed and left nothing, neither something that is held nor a
point that was measured, leaves its ``-e`` neither: whoever goes on without the wrong one does not get it again. A
session that only gives back, shows or exports goes by all that was ever given, since what it looks for may have been
made with that. request.yml keeps what was given before the last session as a layer of kind ``before``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.plugin_utils.requested_settings import (
    RequestedSettings,
    SettingsLayer,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run_directory import read_optional

#: Phases that make nothing.
QUIET = {"settings", "report", "cleanup", "release", "export"}
#: What the points of a run are made of: it stays with their folders.
STAYS = ("matrix",)


def opened(request: RequestedSettings, extra: Iterable[str]) -> RequestedSettings:
    """Return the request of a new run with what stays of its ``-e`` should this session come to nothing."""
    given = _values(request, "extra")
    origins = {"overrides": "-e"} if "overrides" in extra else {}
    return request.with_layers(
        SettingsLayer("before", "-e", {name: given[name] for name in STAYS if name in given}, origins)
    )


def continued(
    request: RequestedSettings, more: SettingsLayer, sessions: Iterable[Mapping[str, Any]], chosen: Iterable[str]
) -> tuple[RequestedSettings, list[str]]:
    """Return the request of a session that goes on, and the names of what it does not take over.

    more: the ``-e`` of this session. sessions: the earlier ones. chosen: the phases of this one.
    """
    given = _values(request, "extra")
    if set(chosen) <= QUIET:
        return (_with(request, {**given, **more.values}, more), []) if more.values else (request, [])
    last: Mapping[str, Any] = next((one for one in reversed(list(sessions)) if "held" in one), {})
    dropped: list[str] = []
    if last.get("kept") is False:
        before = next(iter(request.of("before")), SettingsLayer("before", "-e", {}))
        dropped = [name for name in given if name not in more.values and given[name] != before.values.get(name)]
        if "overrides" in before.origins and request.of("overrides"):
            request = replace(request, layers=tuple(one for one in request.layers if one.kind != "overrides"))
            dropped.append("overrides")
        given = before.values
    request = request.with_layers(SettingsLayer("before", "-e", dict(given)))
    return _with(request, {**given, **more.values}, more), dropped


def _with(request: RequestedSettings, values: dict[str, Any], more: SettingsLayer) -> RequestedSettings:
    origins = {**next((one.origins for one in request.of("extra")), {}), **more.origins}
    return request.with_layers(
        SettingsLayer("extra", "-e", values, {name: at for name, at in origins.items() if name in values})
    )


def _values(request: RequestedSettings, kind: str) -> dict[str, Any]:
    return next((one.values for one in request.of(kind)), {})


def held_before(record: Mapping[str, Any], chosen: Iterable[str]) -> dict[str, Any]:
    """Return what the record of a session says of what was held when it began; nothing for one that makes nothing."""
    return {} if set(chosen) <= QUIET else {"held": [one["what"] for one in record["held"]]}


def note_result(record: dict[str, Any], failures: list[str], directory: Path) -> None:
    """Note in the record whether the ``-e`` of its last session stay. Those of a killed one do, which notes nothing."""
    session: dict[str, Any] = next(iter(reversed(record.get("sessions", []))), {})
    if "held" in session:
        new = {one["what"] for one in record["held"]} - set(session["held"])
        session["kept"] = not failures or bool(new) or _measured(directory, session["started"])


def _measured(directory: Path, since: str) -> bool:
    """Return whether a point passed from ``since`` on (UTC, as files have it)."""
    points = [read_optional(path) for path in directory.glob("points/*/point.yml")]
    return any(one.get("status") == "passed" and str(one.get("ended") or "") >= since for one in points)

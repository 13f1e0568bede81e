# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Showing settings to people: what differs from the defaults, and who set it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.plugin_utils import paths
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.effective import Effective
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.request import Request
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.secrets import MASK

WIDTH = 60


def provenance(effective: Effective, request: Request, secrets: Iterable[str]) -> dict[str, Any]:
    """Return the content of provenance.yml: dotted key -> each write in order, with its place where that is known."""
    origins = {(one.kind, one.source): one.origins for one in request.layers}
    found: dict[str, list[dict[str, Any]]] = {}
    for change in effective.resolved.changes:
        entry: dict[str, Any] = {"source": change.source, "value": change.value}
        where = origins.get(_layer(change.source), {}).get(str(change.key))
        if where:
            entry["where"] = where
        found.setdefault(paths.render(change.path), []).append(entry)
    for name in secrets:
        found.setdefault(name, []).append({"source": "secret", "value": MASK})
    return {"schema": "provenance/1", "settings": found}


def _layer(source: str) -> tuple[str, str]:
    """Return (kind, source) of the layer that a change came from: of ``preset a -> b`` the preset b."""
    if source.startswith(("preset ", "profile ")):
        return "preset", source.rstrip(")").split(" ")[-1]
    return ("extra", "-e") if source == "-e" else (source, source)


def rows(document: Mapping[str, Any], defaults: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return (setting, value, who set it) of every key whose last write differs from the default, in order of names."""
    found = []
    for key, told in sorted(document["settings"].items()):
        last = told[-1]
        if key in defaults and last["value"] == defaults[key]:
            continue
        beaten = [one["source"] for one in told[:-1]]
        who = last["source"] + (f" ({_short(last['where'])})" if last.get("where") and last["source"] != "-e" else "")
        who += f", over {', '.join(beaten)}" if beaten else ""
        found.append((key, _text(last["value"]), who))
    return found


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"


def _short(where: str) -> str:
    return "/".join(where.split("/")[-2:])


def table(found: list[tuple[str, str, str]], presets: list[str], points: int) -> list[str]:
    """Return the lines that ``--tags settings`` prints."""
    asked = f"preset {', '.join(presets)}" if presets else "no preset"
    lines = [f"Settings that differ from their defaults ({asked}; {points} test point{'s' * (points != 1)}):"]
    if not found:
        return [*lines, "  none"]
    name = max(len(row[0]) for row in found)
    value = max(len(row[1]) for row in found)
    return [*lines, *(f"  {key:<{name}}  {text:<{value}}  {who}" for key, text, who in found)]

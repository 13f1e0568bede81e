# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of settings that a project declares in meta/checks.yml of its role, before a run begins.

An entry is one of these; ``setting`` names the setting that an error is about:

- ``keys``, ``what``: each key of the setting must be one of ``keys`` (any, if there are none)
- ``refuse_when``, ``because``: a condition on the settings under which nothing may run
- ``more``: further entries
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import nearest

from .apply_settings_layers import SettingsError
from .matrix_points import Render

Problem = tuple[str, str]


def read(path: Path) -> list[dict[str, Any]]:
    """Return the checks of a role's meta/checks.yml, none if there is no such file."""
    return (files.read_yaml(path) if path.exists() else None) or []


def first_problem(checks: Sequence[dict[str, Any]], settings: Mapping[str, Any], render: Render) -> Problem | None:
    """Return the first setting that a check refuses, and why; None if there is none."""
    return next(_problems(checks, settings, render), None)


def _problems(entries: Sequence[dict[str, Any]], settings: Mapping[str, Any], render: Render) -> Iterator[Problem]:
    conditions = [f"({one['refuse_when']}) | bool" for one in entries if "refuse_when" in one]
    fine = not conditions or _none_holds(conditions, settings, render)
    for entry in entries:
        if "more" in entry:
            yield from _problems(render(entry["more"], settings)[0], settings, render)
        elif "keys" in entry:
            yield from _unknown_keys(render(entry, settings)[0], settings)
        elif not fine and render("{{ (" + str(entry["refuse_when"]) + ") | bool }}", settings)[0] is True:
            name = entry["setting"]
            value = "empty" if settings[name] == "" else settings[name]
            yield name, f"{name} is {value}: {' '.join(entry['because'].split())}"


def _none_holds(conditions: Sequence[str], settings: Mapping[str, Any], render: Render) -> bool:
    """Return whether all conditions are known to be false: one template, because each costs milliseconds."""
    try:
        return render("{{ " + " or ".join(conditions) + " }}", settings)[0] is False
    except SettingsError:
        return False  # they are evaluated one by one; one before may hold


def _unknown_keys(entry: Mapping[str, Any], settings: Mapping[str, Any]) -> Iterator[Problem]:
    name, known = entry["setting"], entry["keys"]
    for key in settings[name] if known else ():
        if key not in known:
            yield name, f"{name}: '{key}' is no {entry['what']}{nearest(key, known)}"

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secret settings: reading and masking their values.

The value of a secret X is the variable X (from a vault or ``-e``), else the content of the file named by ``X_file``,
else the environment variable ``SEATRIAL_X``. It is never written to a file of the run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.matrix_points import Render
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings_catalogue import Catalogue

MASK = "<secret>"


def variable(name: str) -> str:
    """Return the name of the environment variable of a secret."""
    return f"SEATRIAL_{name.upper()}"


def read(
    name: str, variables: Mapping[str, Any], environ: Mapping[str, str], render: Callable[[Any], Any]
) -> str | None:
    """Return the value of a secret, None if it is not given. Raises InputError if its file can't be read."""
    value = variables.get(name)
    if value not in (None, ""):
        return str(render(value))
    path = variables.get(f"{name}_file")
    if path not in (None, ""):
        place = Path(str(render(path))).expanduser()
        try:
            return place.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{name}_file: can't read {place}: {error}") from error
    return environ.get(variable(name)) or None


def missing(name: str, why: str) -> InputError:
    """Return the error for a required secret that is not given."""
    return InputError(
        f"{name} is needed {why} and is not given: set the variable {name} (in a vault), "
        f"or {name}_file to the path of a file, or the environment variable {variable(name)}"
    )


def required(
    catalogue: Catalogue,
    variables: Mapping[str, Any],
    settings: Mapping[str, Any],
    chosen: Collection[str],
    render: Render,
    template: Callable[[Any], Any],
) -> dict[str, str | None]:
    """Return the value of each secret setting, None where none is given.

    chosen: the phases that will run. Raises InputError for a secret that one of them needs (meta/secrets.yml of its
    role) and that is not given.
    """
    values: dict[str, str | None] = {}
    for name in catalogue.secrets:
        known = {**variables, f"{name}_file": settings.get(f"{name}_file")}
        values[name] = read(name, known, os.environ, template)
        need = catalogue.needs.get(name) or {}
        phases = [phase for phase in need.get("phases", []) if phase in chosen]
        condition = "{{ (" + str(need.get("when", True)) + ") | bool }}"
        if not values[name] and phases and render(condition, settings)[0] is True:
            raise missing(name, f"by phase {phases[0]}")
    return values


def mask(text: str, values: Iterable[str | None]) -> str:
    """Return ``text`` with every one of these values replaced by ``<secret>``."""
    for value in sorted((one for one in values if one), key=len, reverse=True):
        text = text.replace(value, MASK)
    return text

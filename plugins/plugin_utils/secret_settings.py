# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secret settings: the one place where they are read.

The value of a secret X is the variable X (from a vault or ``-e``), else the content of the file named by ``X_file``,
else the environment variable ``SEATRIAL_X``. It is never written into a file of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError

MASK = "<secret>"


def variable(name: str) -> str:
    """Return the name of the environment variable of a secret."""
    return f"SEATRIAL_{name.upper()}"


def read(
    name: str, variables: Mapping[str, Any], environ: Mapping[str, str], render: Callable[[Any], Any]
) -> str | None:
    """Return the value of a secret, None when it is given nowhere. Raises InputError when its file can't be read."""
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
    """Return the error for a secret that is needed and not given."""
    return InputError(
        f"{name} is needed {why} and is not given: set the variable {name} (in a vault), "
        f"or {name}_file to the path of a file, or the environment variable {variable(name)}"
    )


def mask(text: str, values: Iterable[str | None]) -> str:
    """Return ``text`` with every one of these values replaced by ``<secret>``."""
    for value in sorted((one for one in values if one), key=len, reverse=True):
        text = text.replace(value, MASK)
    return text

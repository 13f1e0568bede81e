# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secret settings: reading and masking their values.

The value of a secret X is the variable X (from a vault or ``-e``), else the content of the file named by ``X_file``,
else that of the file X in the folder ``secrets_dir``, else the environment variable ``SEATRIAL_X``. It is never written
to a file of the run.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.secret_gate import MASK, SecretScanner

from .setting_templates import Render
from .settings_catalogue import Catalogue

#: Setting that names the folder of secrets.
DIRECTORY = "secrets_dir"
_LINE_BREAKS = "\r\n"


def secret_environment_variable(name: str) -> str:
    """Return the name of the environment variable of a secret."""
    return f"SEATRIAL_{name.upper()}"


def read_secret_if_given(
    name: str, variables: Mapping[str, Any], environ: Mapping[str, str], render: Callable[[Any], Any]
) -> str | None:
    """Return the value of a secret, None if it is not given. Raises InputError if its file can't be read.

    It has no line breaks at its ends: a text that was typed for ``ansible-vault encrypt_string`` has one.
    """
    value = variables.get(name)
    if value not in (None, ""):
        return str(render(value)).strip(_LINE_BREAKS)
    path = variables.get(f"{name}_file")
    if path not in (None, ""):
        return _read_secret_file(f"{name}_file", Path(str(render(path))).expanduser())
    folder = _secrets_folder(variables, render)
    if folder is not None and (folder / name).exists():
        return _read_secret_file(DIRECTORY, folder / name)
    return environ.get(secret_environment_variable(name), "").strip(_LINE_BREAKS) or None


def _secrets_folder(variables: Mapping[str, Any], render: Callable[[Any], Any]) -> Path | None:
    folder = variables.get(DIRECTORY)
    return Path(str(render(folder))).expanduser() if folder not in (None, "") else None


def _read_secret_file(setting: str, path: Path) -> str:
    try:
        content = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        # The text of a decoding error would quote bytes of the file.
        why = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise InputError(f"{setting}: can't read {path}: {why}") from None
    if not content:
        raise InputError(f"{setting}: {path} is empty")
    return content


def missing_secret_error(name: str, why: str, folder: Path | None = None) -> InputError:
    """Return the error for a required secret that is not given. folder: where a file of its name was looked for."""
    place = f"a file {name} in a folder that {DIRECTORY} names"
    if folder is not None:
        there = _file_names_in_folder(folder)
        place = f"a file {folder / name}, which does not exist{suggest_similar_name(name, there)}"
    return InputError(
        f"{name} is needed {why} and is not given: set the variable {name} (in a vault), "
        f"or {name}_file to the path of a file, or the environment variable"
        f" {secret_environment_variable(name)}, or create {place}"
    )


def _file_names_in_folder(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def check_secrets_folder(folder: Path, known: Collection[str]) -> None:
    """Raise InputError if the folder of secrets does not exist, or for a file whose name is nearly that of a secret."""
    if not folder.is_dir():
        raise InputError(f"{DIRECTORY}: {folder} is {'no folder' if folder.exists() else 'missing'}")
    try:
        names = _file_names_in_folder(folder)
    except OSError as error:
        raise InputError(f"{DIRECTORY}: can't read {folder}: {error.strerror}") from error
    for name in names:
        if name not in known and (like := difflib.get_close_matches(name, known, n=1, cutoff=0.9)):
            raise InputError(f"{DIRECTORY}: {folder / name} is not a secret setting; did you mean '{like[0]}'?")


def read_all_secrets(
    catalogue: Catalogue,
    variables: Mapping[str, Any],
    settings: Mapping[str, Any],
    chosen: Collection[str],
    render: Render,
    template: Callable[[Any], Any],
) -> dict[str, str | None]:
    """Return the value of each secret setting, None where none is given.

    chosen: the phases that will run. Raises InputError for a secret that one of them needs (meta/secrets.yml of its
    role) and that is not given, and for a folder of secrets that can't be used.
    """
    values: dict[str, str | None] = {}
    folder = _secrets_folder(settings, template)
    if folder is not None:
        check_secrets_folder(folder, catalogue.secrets)
    for name in catalogue.secrets:
        known = {**variables, DIRECTORY: str(folder or ""), f"{name}_file": settings.get(f"{name}_file")}
        values[name] = read_secret_if_given(name, known, os.environ, template)
        need = catalogue.needs.get(name) or {}
        phases = [phase for phase in need.get("phases", []) if phase in chosen]
        condition = "{{ (" + str(need.get("when", True)) + ") | bool }}"
        if not values[name] and phases and render(condition, settings)[0] is True:
            raise missing_secret_error(name, f"by phase {phases[0]}", folder)
    return values


def mask_secret_values(text: str, values: Iterable[str | None]) -> str:
    """Return ``text`` with every one of these values, and what has the form of a secret, replaced by ``<secret>``."""
    known = sorted((value for value in values if value), key=len, reverse=True)
    text = SecretScanner({str(number): value for number, value in enumerate(known)}).masked(text)
    for value in known:  # also one that is too short for the scanner
        text = text.replace(value, MASK)
    return text

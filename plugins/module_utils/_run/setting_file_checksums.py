# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text files of the user that settings of a run name, by their checksums when the run was opened.

A run directory may be a stranger's, and its settings may name any file of this machine. Who does not know the content
of a file does not know its checksum either: only a run that has read a file can have it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, secret_names

#: Size of the largest file that is part of a test.
MOST_BYTES = 1024 * 1024
#: Key of the checksums in an entry of provenance.yml.
FILES = "files"
#: How settings begin whose files belong to the test, beside those of the project; how those end that do not.
_TEST_SETTINGS = ("workload_", "results_kpi_files", "results_signature_files", "results_template")
_OF_A_PLACE = ("kubeconfig", "_ca_file", "_cert_file", "_key_file")


def texts_in_value(value: Any) -> Iterator[str]:
    """Yield the texts of a value, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (Mapping, list)):
        for entry in value.values() if isinstance(value, Mapping) else value:
            yield from texts_in_value(entry)


def paths_in_value(value: Any) -> list[str]:
    """Return the texts of a value that are the absolute path of a file."""
    texts = (text for text in texts_in_value(value) if text.startswith("/") and "\n" not in text)
    return [text for text in dict.fromkeys(texts) if _is_file(Path(text))]


def is_setting_of_a_test(name: str, project: str) -> bool:
    """Return whether the files that a setting names are part of the test. name: with its matrix and dots, if any."""
    name = name.removeprefix("matrix.")
    secret = secret_names.is_secret_name(name.removesuffix("_file"))
    return name.startswith((f"{project}_", *_TEST_SETTINGS)) and not secret and not name.endswith(_OF_A_PLACE)


def is_small_text_file(path: Path) -> bool:
    """Return whether a file is text of a size that a test can have. A program that a setting names is no part of it."""
    try:
        if path.is_symlink() or path.stat().st_size > MOST_BYTES or os.access(path, os.X_OK):
            return False
        path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return True


def checksums_of_files(
    value: Any, earlier: Mapping[str, str] | None, own: Collection[str] = frozenset()
) -> dict[str, str]:
    """Return path -> SHA-256 of the files of a test that a value names.

    earlier: the checksums that the run already has, which stay; None for a new run. A run that is continued gets no
    further ones, since its settings may be a stranger's, except for ``own``: files that presets of this session name.
    """
    known = earlier or {}
    read = [path for path in paths_in_value(value) if path in known or earlier is None or path in own]
    return {
        path: known.get(path) or files.sha256_of(path)
        for path in read
        if path in known or is_small_text_file(Path(path))
    }


def recorded_checksums(provenance: Mapping[str, Any]) -> dict[str, str]:
    """Return path -> SHA-256 of all files in the settings of a provenance.yml."""
    return {
        str(path): str(checksum)
        for changes in provenance.values()
        for change in (changes if isinstance(changes, list) else [])
        if isinstance(change, Mapping) and isinstance(change.get(FILES), Mapping)
        for path, checksum in change[FILES].items()
    }


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # such as a text that is too long for a path
        return False

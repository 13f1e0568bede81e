# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Downloading programs from the user's server, verified by checksum, and unchanged since their first use."""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _files, _https_request
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError, OwnershipError, ProcessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._rehearsal.component_spec import Component

Say = Callable[[str], None]

#: Names of processors, as Go and the publishers of programs write them.
_PROCESSORS = {"x86_64": "amd64", "aarch64": "arm64"}


def system() -> tuple[str, str]:
    """Return operating system and processor of this machine, such as ("linux", "amd64")."""
    return platform.system().lower(), _PROCESSORS.get(platform.machine(), platform.machine())


def address_of(template: str, component: Component, binary: str) -> str:
    """Return the URL of a program: ``template`` with its placeholders replaced; without any, our layout below it."""
    kind, processor = system()
    values = {"component": component.name, "version": component.version, "os": kind, "arch": processor}
    values["binary"] = binary
    if "{" not in template:
        template = template.rstrip("/") + "/{component}/{version}/{os}-{arch}/{binary}"
    try:
        return template.format(**values)
    except (KeyError, IndexError, ValueError) as error:
        raise InputError(
            f"rehearsal_download_url: '{template}': unknown placeholder {error}; known: {', '.join(sorted(values))}"
        ) from error


def fetch_all(component: Component, template: str, wanted: dict[str, Path], record: Path, say: Say) -> str:
    """Download the files in ``wanted`` (name to path), their checksums recorded in ``record``; return their origin.

    Raises InputError, ProcessError, OwnershipError.
    """
    for name, path in wanted.items():
        url = address_of(template, component, name)
        say(f"downloading {url}")
        expected = _https_request.fetch(f"{url}.sha256").decode("ascii", "replace").split()
        if not expected or len(expected[0]) != 64:
            raise ProcessError(f"{url}.sha256 has no SHA-256 checksum")
        found = _https_request.download(url, path)
        if found != expected[0].lower():
            raise ProcessError(f"{url} has the checksum {found}, its .sha256 file has {expected[0]}: nothing was kept")
        _remember(record, url, found)
    return "downloaded"


def _remember(file: Path, url: str, found: str) -> None:
    """Record the checksum at first use. Raises OwnershipError if it differs from the recorded one."""
    known: dict[str, Any] = _files.read_json(file) if file.exists() else {}
    if known.get(url, found) != found:
        raise OwnershipError(
            f"{url} has the checksum {found}; at its first use here it had {known[url]} ({file})."
            " If the change is intended, remove that line"
        )
    if url not in known:
        _files.write_json(file, {**known, url: found})

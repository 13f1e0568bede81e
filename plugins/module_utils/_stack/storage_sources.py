# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is downloaded to a volume: ``name@registry``, an address, or a dictionary with more."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name

SCHEMES = ("hf", "s3", "https", "http")
#: Registries that exist without a setting: name -> beginning of the address.
REGISTRIES = {"hf": "hf://", "hf-datasets": "hf://datasets/"}
_KEYS = ("name", "source", "revision", "files", "sha256")
_NAME = re.compile(r"[\w.-]+(/[\w.-]+)*")
_SHA256 = re.compile(r"[0-9a-f]{64}")
#: Hexadecimal digits of a key that identify a source.
_KEY_LENGTH = 16


@dataclass(frozen=True)
class StorageSource:
    """One model or dataset. name: its path in the volume. source: its address.

    revision: of a model hub, a branch, tag or commit. files: patterns of the files to download, for https:// names.
    sha256: expected checksum, empty if any.
    """

    name: str
    source: str
    revision: str = ""
    files: tuple[str, ...] = ()
    sha256: str = ""

    @property
    def key(self) -> str:
        """What identifies the content that was asked for."""
        text = json.dumps([self.source, self.revision, sorted(self.files), self.sha256])
        return hashlib.sha256(text.encode()).hexdigest()[:_KEY_LENGTH]

    def document(self) -> dict[str, Any]:
        """Return the source as the download script reads it."""
        return {**asdict(self), "files": list(self.files), "key": self.key}


def read_sources(entries: Iterable[Any], registries: Mapping[str, str]) -> list[StorageSource]:
    """Return the sources that setting ``storage_sources`` names. Raises InputError naming the entry.

    registries: name -> beginning of the addresses, in addition to the hub's.
    """
    known = {**REGISTRIES, **registries}
    for name, address in registries.items():
        _check_address(str(address), f"storage_registries.{name}")
    sources = [
        _parse_source_entry(entry, known, f"storage_sources, entry {number}") for number, entry in enumerate(entries, 1)
    ]
    for number, source in enumerate(sources):
        for other in sources[:number]:
            if f"{source.name}/".startswith(f"{other.name}/") or f"{other.name}/".startswith(f"{source.name}/"):
                raise InputError(
                    f"storage_sources: '{source.name}' and '{other.name}' would be at the same place in the volume; "
                    "give one of them another 'name'"
                )
    return sources


def _parse_source_entry(setting: Any, registries: Mapping[str, str], where: str) -> StorageSource:
    entry = {"source": setting} if isinstance(setting, str) else setting
    if not isinstance(entry, Mapping) or not entry.get("source"):
        raise InputError(f"{where}: '{setting}' is neither name@registry, an address, nor a dictionary with 'source'")
    for key in entry:
        if key not in _KEYS:
            raise InputError(
                f"{where}: unknown key '{key}'{suggest_similar_name(key, _KEYS)}; known: {', '.join(_KEYS)}"
            )
    text = str(entry["source"])
    if "://" in text:
        address, name = text, text.partition("://")[2].rstrip("/")
        name = name.rpartition("/")[2] if not text.startswith("hf://") else name.removeprefix("datasets/")
    else:
        name, at, registry = text.rpartition("@")
        if not at or not name:
            raise InputError(f"{where}: '{text}' is neither name@registry nor an address such as hf://{text}")
        if registry not in registries:
            raise InputError(
                f"{where}: no registry '{registry}'{suggest_similar_name(registry, registries)}; there are "
                f"{', '.join(sorted(registries))}, and storage_registries adds others"
            )
        address = _join_address(registries[registry], name)
    _check_address(address, where)
    name = str(entry.get("name") or name)
    if not _NAME.fullmatch(name) or any(set(part) == {"."} for part in name.split("/")):
        raise InputError(f"{where}: '{name}' is no path in a volume: letters, digits, '.', '_', '-' and '/' between")
    sha256 = str(entry.get("sha256") or "").lower()
    if sha256 and not _SHA256.fullmatch(sha256):
        raise InputError(f"{where}: sha256 '{sha256}' is not 64 hexadecimal digits")
    revision, files = str(entry.get("revision") or ""), tuple(str(file) for file in entry.get("files") or ())
    if revision and not address.startswith("hf://"):
        raise InputError(f"{where}: only sources of a model hub (hf://) have a revision, and this is {address}")
    for file in files if address.startswith("http") else ():
        if not _NAME.fullmatch(file):
            raise InputError(f"{where}: '{file}' is no name of a file, and {address} lists none to choose from")

    return StorageSource(name, address, revision, files, sha256)


def _join_address(beginning: str, name: str) -> str:
    return beginning + name if beginning.endswith("/") else f"{beginning}/{name}"


def _check_address(address: str, where: str) -> None:
    scheme, separator, rest = address.partition("://")
    if not separator or scheme not in SCHEMES:
        choices = ", ".join(f"{choice}://" for choice in SCHEMES)
        raise InputError(f"{where}: '{address}' begins with none of {choices}{suggest_similar_name(scheme, SCHEMES)}")
    if not rest and scheme != "hf":
        raise InputError(f"{where}: '{address}' names no {'bucket' if scheme == 's3' else 'server'}")


def path_in_volume(name: str) -> str:
    """Return the path in the volume of ``name@registry``, or of a path."""
    return name.rpartition("@")[0] or name

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The secret gate: the whole run is searched for secrets before any of it is exported.

It searches for known values (of secret settings, of the credentials in the run's kubeconfigs), plain, percent-encoded,
inside JSON text or as base64 (in one line, in several, or encoded again), and for patterns of secrets: private keys,
bearer and web tokens, access keys.
Findings are reported by file and line, never shown.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import os
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import files
from .errors import DataError, SeatrialError
from .secret_encodings import WORD, decode_base64_blocks, decode_dumps, encodings_of_secrets
from .secret_names import MASK, is_secret_name
from .step_directory import ANSIBLE_LOG
from .untrusted_archives import contents_including_packed_files

#: Maximum number of findings reported.
MOST = 10
#: The parts in which files are read overlap by more than the longest pattern.
OVERLAP = 64 * 1024

#: Texts may be made to delay the search: a pattern matches in a time that is proportional to the text. A repetition
#: without a limit starts where its characters start, not at each of them.
FORMS: dict[str, re.Pattern[bytes]] = {
    "a private key": re.compile(rb"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----"),
    "a bearer token": re.compile(rb"[Bb](?:earer|EARER)[ \t]+(?=[\w.~+/-]*\d)[A-Za-z0-9._~+/-]{16,}"),
    "a web token": re.compile(rb"(?<![\w-])[\w-]{11,}\.eyJ[\w-]{8,}\.[\w-]{8,}"),
    "an OpenShift token": re.compile(rb"sha256~[A-Za-z0-9_-]{20,}"),
    "an access key": re.compile(rb"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    "a model hub token": re.compile(rb"\bhf_[A-Za-z0-9]{30,}\b"),
    "a Git token": re.compile(
        rb"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{36,}|glpat-[A-Za-z0-9_-]{20,})"
    ),
    "a Slack token": re.compile(rb"\bxox[abeprs]-[A-Za-z0-9-]{20,}"),
    "a Slack webhook": re.compile(rb"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Z0-9]{6,}/[\w/]{12,}"),
    "a key of an interface": re.compile(
        rb"\b(?:sk-(?:proj-|ant-|svcacct-)?[A-Za-z0-9_-]{40,}|nvapi-[A-Za-z0-9_-]{40,}|AIza[A-Za-z0-9_-]{35}\b)"
    ),
    "a token of a registry": re.compile(
        rb"\b(?:npm_[A-Za-z0-9]{36}|pypi-AgE[A-Za-z0-9_-]{40,}|dckr_pat_[A-Za-z0-9_-]{20,})"
    ),
    "a user and a password": re.compile(
        rb"[Aa]uthorization[\\\"']{0,3}[ \t]{0,3}[:=][ \t]{0,3}[\\\"']{0,3}[Bb]asic[ \t]{1,3}[A-Za-z0-9+/]{8,}={0,2}"
        rb"|\"auth\\?\"[ \t]{0,3}:[ \t]{0,3}\\?\"[A-Za-z0-9+/]{12,}={0,2}"
    ),
    "a password in an address": re.compile(
        rb"[A-Za-z0-9+.-]{1,20}://[^\s/:@\"'<]{0,64}:(?!<secret>)(?![0-9]{1,5}/)[^\s@\"'<]{3,128}@[\w.-]+"
        rb"|https?://(?!<secret>)[^\s/:@\"'<]{16,256}@[\w.-]+"
    ),
}
#: A private key to its end, or to the end of the text.
_WHOLE_KEY = re.compile(
    rb'-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----[^"]*?(?:-----END [A-Z0-9 ]{1,100}-----|(?=")|\Z)'
)
#: A whole PEM file as base64.
_WHOLE_PEM = re.compile(rb"LS0tLS1CRUdJT[A-Za-z0-9+/]{30,}={0,2}")
#: A PEM file as base64 starts like this; whether it is a key, shows only its decoded header.
_PEM = re.compile(rb"LS0tLS1CRUdJT[A-Za-z0-9+/]{30,90}")


class SecretFound(SeatrialError):
    """A secret is in a file that would be exported."""


@dataclass(frozen=True)
class SecretFinding:
    """A secret: its file, line and description."""

    file: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}"


def create_secret_scanner(secrets: Mapping[str, str], kubeconfigs: Iterable[str]) -> SecretScanner:
    """Return what searches for the values of secrets, and for the credentials in kubeconfigs."""
    known = {name: value for name, value in secrets.items() if value}
    for path in kubeconfigs:
        known.update(read_kubeconfig_credentials(path))
    return SecretScanner(known)


def read_kubeconfig_credentials(path: str | Path) -> dict[str, str]:
    """Return the credentials in a kubeconfig and the files that it names; empty for a missing kubeconfig."""
    where = Path(path).expanduser()
    try:
        config = files.read_yaml(where)
    except (DataError, OSError, UnicodeDecodeError):
        return {}
    credentials = {}
    users = config.get("users") if isinstance(config, dict) else None
    for entry in users if isinstance(users, list) else []:
        user = entry.get("user") if isinstance(entry, dict) else None
        if not isinstance(user, dict):
            continue
        name = f"user {entry.get('name')} in a kubeconfig"
        for key in ("token", "password", "client-key-data"):
            if user.get(key):
                credentials[f"{key} of {name}"] = str(user[key])
        for key in ("tokenFile", "client-key"):
            file = where.parent / str(user.get(key) or "")
            if user.get(key) and file.is_file():
                credentials[f"{key} of {name}"] = file.read_text(encoding="utf-8", errors="replace")
        for key, value in _credentials_of_plugins(user):
            credentials[f"{key} of {name}"] = value
    return credentials


def _credentials_of_plugins(user: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield name and value of the secrets that the user of a kubeconfig gives to a program or a provider."""
    program, provider = user.get("exec"), user.get("auth-provider")
    variables = program.get("env") if isinstance(program, dict) else None
    for variable in variables if isinstance(variables, list) else []:
        if isinstance(variable, dict) and is_secret_name(variable.get("name"), anywhere=True):
            yield str(variable["name"]), str(variable.get("value") or "")
    settings = provider.get("config") if isinstance(provider, dict) else None
    for key, value in settings.items() if isinstance(settings, dict) else ():
        if is_secret_name(key):
            yield str(key), str(value or "")


class SecretScanner:
    """Searches files for the known values in ``secrets`` (name -> value) and for for patterns of secrets."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._literals = encodings_of_secrets(secrets)
        longest_first = sorted(self._literals, key=len, reverse=True)
        words = [
            rb"(?<![\w])" + re.escape(literal) + rb"(?![\w])" if len(literal) < WORD else re.escape(literal)
            for literal in longest_first
        ]
        # YAML folds a long text at its blanks.
        words = [word.replace(rb"\ ", rb"[\s\\]{1,200}") for word in words]
        self._known = re.compile(b"|".join(words)) if words else None

    def search(self, top: Path, files: Iterable[Path]) -> list[SecretFinding]:
        """Return the findings, at most MOST."""
        findings: list[SecretFinding] = []
        for path in files:
            name = str(path.relative_to(top))
            for finding in self._names(name):
                findings.append(finding)
            for inside, stream_parts in contents_including_packed_files(path):
                shown = f"{name} ({inside})" if inside else name
                findings += self._in(shown, stream_parts)
                if len(findings) >= MOST:
                    return findings[:MOST]
        return findings

    def check(self, top: Path, files: Iterable[Path]) -> int:
        """Return the number of files searched. Raises SecretFound naming file and line of each finding."""
        searched = list(files)
        findings = self.search(top, searched)
        if findings:
            places = "; ".join(str(finding) for finding in findings)
            raise SecretFound(
                f"nothing was exported: {len(findings)}{' or more' if len(findings) == MOST else ''} "
                f"place{'s' if len(findings) > 1 else ''} of {top.name} with a secret: {places}. "
                "Remove it there and at its source, then export again"
            )
        return len(searched)

    def in_text(self, text: str) -> list[str]:
        """Return what the secrets in a text are, each once."""
        return list(dict.fromkeys(what for _place, what in self._hits(text.encode())))

    def masked(self, text: str) -> str:
        """Return a text with every secret replaced by MASK; a key or an encoded PEM file as a whole."""
        return self.masked_bytes(text.encode("utf-8", "replace")).decode()

    def masked_bytes(self, data: bytes) -> bytes:
        """Return bytes with every secret replaced by MASK."""
        mask = MASK.encode()
        data = _WHOLE_KEY.sub(mask, data)
        data = _WHOLE_PEM.sub(lambda hit: mask if _is_key(hit.group()[:90]) else hit.group(), data)
        if self._known:
            data = self._known.sub(mask, data)
        for form in FORMS.values():
            data = form.sub(mask, data)
        kept, after = [], 0
        for start, end in sorted(self._hits_in_blocks(data)):
            kept += [data[after:start], mask] if end > after else []
            after = max(after, end)
        return b"".join([*kept, data[after:]])

    def _names(self, name: str) -> Iterator[SecretFinding]:
        if self._known and self._known.search(name.encode()):
            yield SecretFinding("(a file's name)", 0, "a secret value is in the name of a file")

    def _in(self, name: str, parts: Iterable[bytes]) -> list[SecretFinding]:
        findings: list[SecretFinding] = []
        seen: set[int] = set()
        lines, before, offset = 1, b"", 0
        for part in parts:
            data = before + part
            for place, what in self._hits(data):
                absolute = offset + place
                if absolute not in seen:
                    seen.add(absolute)
                    findings.append(SecretFinding(name, lines + data.count(b"\n", 0, place), what))
                if len(findings) >= MOST:
                    return findings
            kept = min(OVERLAP, len(data))
            lines += data.count(b"\n", 0, len(data) - kept)
            offset += len(data) - kept
            before = data[len(data) - kept :]
        return sorted(findings, key=lambda finding: finding.line)

    def _hits(self, data: bytes) -> Iterator[tuple[int, str]]:
        """Yield place and description of each secret; of a block or a dump only if it has none as it is written."""
        plain = sorted(self._plain_hits(data))
        yield from plain
        places = [place for place, _what in plain]
        for (start, end), what in self._hits_in_blocks(data).items():
            if bisect_left(places, start) == bisect_left(places, end):
                yield start, what

    def _plain_hits(self, data: bytes) -> Iterator[tuple[int, str]]:
        if self._known:
            for hit in self._known.finditer(data):
                yield hit.start(), self._literals.get(hit.group(), "the value of a secret, folded")
        for what, form in FORMS.items():
            for hit in form.finditer(data):
                yield hit.start(), what
        for hit in _PEM.finditer(data):
            if _is_key(hit.group()):
                yield hit.start(), "a private key, as base64"

    def _hits_in_blocks(self, data: bytes) -> dict[tuple[int, int], str]:
        """Return start and end of the blocks of base64, and of dumps, whose content has a secret: -> the secret."""
        hits: dict[tuple[int, int], str] = {}
        for what, blocks in (("base64", decode_base64_blocks(data)), ("a dump", decode_dumps(data))):
            for spans, contents in _in_batches(blocks):
                starts = [0, *itertools.accumulate(len(content) + 1 for content in contents)]
                for place, secret in self._plain_hits(b"\0".join(contents)):  # at once: faster than one by one
                    shown = secret if secret.endswith(what) else f"{secret}, as {what}"
                    hits[spans[bisect_right(starts, place) - 1]] = shown
        return hits


#: Bytes of contents that are searched at once.
_BATCH = 1 << 25


def _in_batches(blocks: Iterable[tuple[int, int, bytes]]) -> Iterator[tuple[list[tuple[int, int]], list[bytes]]]:
    """Yield the places and contents of blocks, as many at once as a search should have in memory."""
    spans, contents, size = [], [], 0
    for start, end, content in blocks:
        spans.append((start, end))
        contents.append(content)
        size += len(content)
        if size > _BATCH:
            yield spans, contents
            spans, contents, size = [], [], 0
    yield spans, contents


def _is_key(text: bytes) -> bool:
    try:
        return b"PRIVATE KEY" in base64.b64decode(text[: len(text) // 4 * 4])
    except binascii.Error:
        return False


def list_exportable_files(top: Path) -> list[Path]:
    """Return the files of a run to export: regular, no links, not hidden; in a fixed order.

    Ansible's log is left out: it grows during the export.
    """
    paths = []
    for folder, folders, names in os.walk(top):
        folders[:] = sorted(subfolder for subfolder in folders if not subfolder.startswith("."))
        for name in sorted(names):
            path = Path(folder) / name
            hidden = name.startswith(".") or path == top / ANSIBLE_LOG
            if not hidden and path.is_file() and not path.is_symlink():
                paths.append(path)
    return paths

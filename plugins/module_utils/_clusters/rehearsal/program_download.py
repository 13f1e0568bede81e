# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Downloading programs from the user's server or their publisher: verified, and unchanged since their first use."""

from __future__ import annotations

import platform
import re
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, untrusted_archives
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    AccessError,
    InputError,
    OwnershipError,
    ProcessError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import SignalBlockingThread
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import parse_json
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.waiting import Say
from ansible_collections.perfscale.seatrial.plugins.module_utils._http import http_client
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.http_client import HttpClient, HttpPolicy

from .component_spec import PublishedBinaries, RehearsalComponent

_PIN = re.compile("([0-9a-f]{64})  ([^ ]+)")
#: Names of processors, as Go and the publishers of programs write them.
_PROCESSORS = {"x86_64": "amd64", "aarch64": "arm64"}

#: Seconds without any data after which a publisher is given up, and programs are built.
ANSWER_TIMEOUT = 5.0
#: File of a component: lines of SHA-256 and URL of published files. tools/pin_published.py writes it.
PINS = "published.sha256"
#: Largest text of checksums, in bytes. GitHub's description of a release has hundreds of files.
MOST_TEXT = 16 << 20


def go_os_and_architecture() -> tuple[str, str]:
    """Return operating system and processor of this machine, such as ("linux", "amd64")."""
    return platform.system().lower(), _PROCESSORS.get(platform.machine(), platform.machine())


def binary_url(template: str, component: RehearsalComponent, binary: str, processor: str = "") -> str:
    """Return the URL of a program: ``template`` with its placeholders replaced; without any, our layout below it.

    processor: as Go writes it; empty: of this machine.
    """
    kind, own = go_os_and_architecture()
    processor = processor or own
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


def checksum_file_url(
    published: PublishedBinaries, component: RehearsalComponent, binary: str, processor: str = ""
) -> str:
    """Return the URL of the file that has the checksum of a program."""
    if published.sums:
        return binary_url(published.sums, component, binary, processor)
    return binary_url(published.url, component, binary, processor) + ".sha256"


def download_from_users_server(
    component: RehearsalComponent, template: str, wanted: dict[str, Path], record: Path, say: Say
) -> str:
    """Download the files in ``wanted`` (name to path) from the user's server; return their origin.

    record: file of their checksums. Raises InputError, AccessError, ProcessError, OwnershipError.
    """
    _download_binaries(
        component, PublishedBinaries(template), wanted, record, say, HttpPolicy.timeout, http_client.DOWNLOAD_TIME
    )
    return "downloaded"


def read_recorded_publisher_checksums(component: RehearsalComponent) -> dict[str, str]:
    """Return the checksums of published files that the component has: URL -> SHA-256. Raises InputError."""
    file, pins = component.folder / PINS, {}
    for number, line in enumerate(file.read_text("utf-8").splitlines() if file.exists() else (), 1):
        if not (match := _PIN.fullmatch(line)):
            raise InputError(f"{file}:{number}: '{line[:100]}' is not a SHA-256 and a URL")
        pins[match[2]] = match[1]
    return pins


def has_all_published_checksums(component: RehearsalComponent) -> bool:
    """Return whether the component has the checksums of all its programs at their publisher."""
    published = component.build.published
    pins = read_recorded_publisher_checksums(component) if published else {}
    return published is not None and all(
        binary_url(published.url, component, name) in pins for name in component.build.binaries
    )


def download_from_publisher(component: RehearsalComponent, wanted: dict[str, Path], record: Path, say: Say) -> str:
    """Download the programs in ``wanted`` (name to path) from their publisher; return their origin.

    record: file of their checksums. Raises AccessError without an answer, and HttpRefused, ProcessError, OwnershipError
    """
    published = component.build.published
    if published is None:
        raise ProcessError(f"nobody publishes the programs of {component.name}")
    # Not longer than the build would take.
    _download_binaries(component, published, wanted, record, say, ANSWER_TIMEOUT, max(component.build.minutes * 60, 60))
    return f"fetched from {published.url.split('/')[2]}"


def _download_binaries(
    component: RehearsalComponent,
    published: PublishedBinaries,
    wanted: dict[str, Path],
    record: Path,
    say: Say,
    patience: float,
    limit: float,
) -> None:
    pins = read_recorded_publisher_checksums(component)
    for name, path in wanted.items():
        url = binary_url(published.url, component, name)
        sums = checksum_file_url(published, component, name)
        expected = find_file_checksum(url.rpartition("/")[2], download_text_file(sums, patience), sums)
        if pins.get(url, expected) != expected:
            raise ProcessError(
                f"{sums} has the checksum {expected} of {url}, {component.folder / PINS} has {pins[url]}"
            )
        say(f"downloading {url}")
        archive = url.endswith(".tar.gz")
        file = path.with_name(f".{name}.tar.gz") if archive else path
        checksum = http_client.download_url_to_file(url, file, patience, limit)
        if checksum != expected:
            raise ProcessError(f"{url} has the checksum {checksum}, {sums} has {expected}: nothing was kept")
        _record_or_compare_checksum(record, url, checksum)
        if archive:
            untrusted_archives.extract_program_from_archive(file, name, path, url)
            file.unlink()


def download_text_file(url: str, patience: float) -> str:
    """Return the text at ``url``, the first request to a server. Raises AccessError, also HttpRefused."""
    results: list[str | Exception] = []

    def ask() -> None:
        try:
            client = HttpClient(url, policy=HttpPolicy(patience, 2 * patience, max_bytes=MOST_TEXT))
            results.append(client.send("GET", url, what=f"{url} cannot be fetched").text)
        except Exception as error:  # of whatever kind: raised below
            results.append(error)

    # In a thread, because the look-up of a host name has no timeout.
    thread = SignalBlockingThread(target=ask, daemon=True)
    thread.start()
    thread.join(2 * patience)
    result = results[0] if results else AccessError(f"{url} cannot be fetched: no answer after {2 * patience:.0f} s")
    if isinstance(result, Exception):
        raise result
    return result


def find_file_checksum(name: str, text: str, url: str) -> str:
    """Return the SHA-256 of the file ``name`` in a text of checksums. Raises ProcessError if there is none.

    The text has one checksum, or lines of checksum and name, or it is GitHub's description of a release.
    """
    digest = ""
    if text.lstrip().startswith("{"):
        try:
            assets = parse_json(text)["assets"]
            digest = next(str(asset["digest"]) for asset in assets if asset["name"] == name).removeprefix("sha256:")
        except (ValueError, KeyError, TypeError, StopIteration):
            pass
    else:
        lines = [line.split() for line in text.splitlines() if line.strip()]
        digest = next((fields[0] for fields in lines if len(lines) == 1 or fields[-1].lstrip("*./") == name), "")
    if len(digest) != 64:
        raise ProcessError(f"{url} has no SHA-256 checksum of {name}")
    return digest.lower()


def _record_or_compare_checksum(file: Path, url: str, checksum: str) -> None:
    """Record the checksum at first use. Raises OwnershipError if it differs from the recorded one."""
    known: dict[str, Any] = files.read_json(file) if file.exists() else {}
    if known.get(url, checksum) != checksum:
        raise OwnershipError(
            f"{url} has the checksum {checksum}; at its first use here it had {known[url]} ({file})."
            " If the change is intended, remove that line"
        )
    if url not in known:
        files.write_json(file, {**known, url: checksum})

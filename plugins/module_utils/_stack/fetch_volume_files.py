# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fetch files of a volume, such as a trained model, through the log of a pod that prints them.

Module storage_volume calls it. A log needs neither rights nor a network of the pod, and works for pods that have ended.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Self

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.waiting import Say
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client

from . import storage_volume, volume_job
from .volume_job import Event, VolumeJob

#: Pieces that one log has: with 12 kB each less than the 10 MiB that a kubelet keeps.
PIECES = 700
#: Bytes that a piece has at least, but for the last one of each file, and most files.
LEAST_PIECE, MOST_FILES = 8_000, 100_000
#: Runs the program: number of the first piece to print -> its events.
Print = Callable[[int], list[Event]]


@dataclass(frozen=True)
class FetchSpec:
    """Which files, and to where. beginning: of the names of folders in the volume. patterns: of paths in these folders.

    limit: bytes of all files together, beyond which files are left out.
    """

    namespace: str
    claim: str
    run_id: str
    beginning: str
    patterns: tuple[str, ...]
    to: Path
    limit: int
    image: str
    script: str
    timeout: float = 600.0
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    service_account: str = ""

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Self:
        """Return the options of module storage_volume."""
        return cls(
            params["namespace"],
            params["claim"],
            params["run_id"],
            params["beginning"],
            tuple(params["files"]),
            Path(params["dest"]),
            params["limit_bytes"],
            params["image"],
            params["script"],
            params["timeout"],
            params["node_selector"],
            tuple(params["tolerations"]),
            params["service_account"],
        )

    def job(self, first: int) -> VolumeJob:
        """Return the job that prints the pieces from ``first`` on."""
        return VolumeJob(
            f"files of claim {self.claim}",
            volume_job.name_of_job_objects("files", self.claim, self.run_id),
            self.namespace,
            self.claim,
            self.run_id,
            self.image,
            self.script,
            {
                "folder": volume_job.FOLDER,
                "beginning": self.beginning,
                "patterns": list(self.patterns),
                "limit": self.limit,
                "first": first,
                "count": PIECES,
            },
            timeout=self.timeout,
            cpu="0",  # trainings that did not end in time may have all of its node
            node_selector=self.node_selector,
            tolerations=self.tolerations,
            service_account=self.service_account,
            read_only=True,
        )


def check_fetch_spec(spec: FetchSpec) -> None:
    """Raise InputError for a pattern that leads out of a folder, and for a missing image or script."""
    for pattern in spec.patterns:
        if not pattern or pattern.startswith("/") or ".." in PurePosixPath(pattern).parts:
            raise InputError(f"'{pattern}' is no path below the folder of a training: it is relative, without '..'")
    if not spec.image:
        raise InputError("storage_image is empty: set an image with Python 3.9 or later, such as that of the training")
    if not spec.script:
        raise InputError("the script that prints the files is empty")


def fetch_volume_files(client: Client, spec: FetchSpec, say: Say) -> dict[str, Any]:
    """Write the files below ``spec.to``; return whether any changed, their records, and files beyond the limit.

    Raises InputError if there is no such claim, DataError for a file that differs from that in the volume, and the
    errors of volume_job.run_volume_job().
    """
    check_fetch_spec(spec)
    if storage_volume.find_claim(client, spec.namespace, spec.claim) is None:
        raise InputError(f"there is no claim {spec.namespace}/{spec.claim} with files to fetch")
    return receive_files(lambda first: volume_job.run_volume_job(client, spec.job(first), say), spec.to, spec.limit)


def receive_files(printed: Print, to: Path, limit: int) -> dict[str, Any]:
    """Collect the pieces of as many calls as it takes, and write the files below ``to``: at most ``limit`` bytes."""
    pieces: dict[int, bytes] = {}
    while True:
        events = printed(len(pieces))
        before = len(pieces)
        pieces |= {event["number"]: base64.b64decode(event["data"]) for event in events if event["event"] == "piece"}
        total = next((event["pieces"] for event in events if event["event"] == "end"), None)
        if total is not None and total > limit // LEAST_PIECE + MOST_FILES:
            raise DataError(f"the pod prints {total:,} pieces, more than files of {limit:,} bytes have")
        if total is None or len(pieces) - before < min(PIECES, total - before):
            raise DataError(
                "the log of the pod that prints the files lacks a part of them: its node keeps too little of a log"
            )
        if len(pieces) >= total:
            break
    printed_files = [event for event in events if event["event"] == "file"]
    changed = []
    for file in printed_files:
        content = _file_content(file, pieces, limit)
        limit -= len(content)
        changed.append(_write_file_if_changed(file["name"], content, to))
    files = [{key: file[key] for key in ("name", "bytes", "sha256")} for file in printed_files]
    left_out = [{"name": event["name"], "bytes": event["bytes"]} for event in events if event["event"] == "left_out"]
    unmatched = [event["pattern"] for event in events if event["event"] == "unmatched"]
    return {"changed": any(changed), "files": files, "left_out": left_out, "unmatched": unmatched}


def _write_file_if_changed(name: str, content: bytes, to: Path) -> bool:
    """Write a file unless it is there; return whether it was written."""
    path = to / name
    if not path.resolve().is_relative_to(to.resolve()):
        raise DataError(f"{name}: the pod names a file outside of its volume")
    return files.write_bytes_if_changed(path, content)


def _file_content(event: Event, pieces: Mapping[int, bytes], limit: int) -> bytes:
    """Return the content of a file. Raises DataError for a damaged one, and for more than ``limit`` bytes."""
    name = event["name"]
    try:
        packed = b"".join(pieces[event["first"] + number] for number in range(event["pieces"]))
        content = zlib.decompressobj().decompress(packed, limit + 1)
    except (KeyError, zlib.error) as error:
        raise DataError(f"{name}: a part of it is missing in the log of the pod that printed it") from error
    if len(content) > limit:
        raise DataError(f"{name}: the pod prints files of more bytes than were asked for")
    if hashlib.sha256(content).hexdigest() != event["sha256"]:
        raise DataError(f"{name}: its checksum differs after the transfer")
    return content


def format_fetched_files(result: Mapping[str, Any]) -> str:
    """Return what was fetched in one sentence."""
    files, left_out = result["files"], result["left_out"]
    size = sum(file["bytes"] for file in files)
    parts = [f"{formats.format_count(len(files), 'file')}, {size / 2**20:,.1f} MiB"]
    if result["unmatched"]:
        parts.append(f"no file is called {', '.join(result['unmatched'])}")
    if left_out:
        parts.append(f"{len(left_out)} beyond the limit, first: {left_out[0]['name']}")
    return "; ".join(parts)

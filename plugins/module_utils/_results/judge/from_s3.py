# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read past runs from an S3 prefix, as export_s3 uploads them. The manifest, uploaded last, marks a complete run."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signal_blocking_threads import ThreadPool
from ansible_collections.perfscale.seatrial.plugins.module_utils._http import s3

from . import from_folder
from .past_runs import PastRun

#: Timeout of each request in seconds, and attempts at it: a history is worth less than the time of a run.
TIMEOUT, ATTEMPTS = 30.0, 2
#: Requests at a time while the runs are listed.
_PARALLEL = 8
_FIGURES = re.compile(r"(verdict\.json|schedule\.jsonl|points/[0-9]+(-[0-9]+)?/(point\.yml|kpis\.json))")
#: What the labels of figures of an older version are read from.
_SOURCES_OF_LABELS = re.compile(r"(cluster\.yml|points/[0-9]+(-[0-9]+)?/(settings\.yml|ran\.json))")


@dataclass(frozen=True)
class _Uploaded:
    """A complete run: its prefix with a slash at the end, and when its manifest was written."""

    prefix: str
    at: Any


def read(location: s3.S3Location, project: str, notes: list[str]) -> Iterator[PastRun]:
    """Yield the runs of a project below a prefix, at most two levels below it, the newest upload first.

    notes: gets a sentence on each damaged or incomplete run. Raises AccessError, InputError.
    """
    with s3.s3_errors(location):
        connection = s3.client(location, TIMEOUT, ATTEMPTS)
        top = f"{location.prefix}/" if location.prefix else ""
        found = _uploaded(connection, location.bucket, [top], notes)
        for one in sorted(found, key=lambda each: each.at, reverse=True):
            try:
                past = _run(connection, location, one, project, notes)
            except DataError as error:
                notes.append(str(error))
                continue
            if past is not None:
                yield past


def _uploaded(connection: Any, bucket: str, prefixes: list[str], notes: list[str]) -> Iterator[_Uploaded]:
    """Yield the complete runs in these prefixes and below them."""
    for depth in range(from_folder.DEEPEST + 1):
        with ThreadPool(_PARALLEL) as pool:
            listed = pool.map(lambda prefix: (prefix, *_level(connection, bucket, prefix)), prefixes)
        prefixes = []
        for prefix, objects, below in listed:
            if s3.MANIFEST in objects:
                yield _Uploaded(prefix, objects[s3.MANIFEST])
            elif from_folder.RECORD in objects:
                notes.append(f"s3://{bucket}/{prefix.rstrip('/')}: without {s3.MANIFEST}, so its upload did not end")
            elif depth < from_folder.DEEPEST:
                prefixes += below


def _level(connection: Any, bucket: str, prefix: str) -> tuple[dict[str, Any], list[str]]:
    """Return the objects directly below a prefix with their times, and the prefixes below it."""
    objects: dict[str, Any] = {}
    below: list[str] = []
    pages = connection.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix, Delimiter="/")
    for page in pages:
        objects |= {one["Key"][len(prefix) :]: one["LastModified"] for one in page.get("Contents") or []}
        below += [one["Prefix"] for one in page.get("CommonPrefixes") or []]
    return objects, below


def _run(
    connection: Any, location: s3.S3Location, uploaded: _Uploaded, project: str, notes: list[str]
) -> PastRun | None:
    """Return a run, None for one of another project. Raises DataError."""
    address = f"s3://{location.bucket}/{uploaded.prefix.rstrip('/')}"

    def content(name: str) -> bytes:
        return connection.get_object(Bucket=location.bucket, Key=f"{uploaded.prefix}{name}")["Body"].read()

    files = _listed(content(s3.MANIFEST), f"{address}/{s3.MANIFEST}")
    with tempfile.TemporaryDirectory(prefix="seatrial-history-") as scratch:
        top = Path(scratch)
        own: list[str] = []

        def fetch(names: Iterable[str]) -> None:
            for name in names:
                data = content(name)
                if files[name] != base64.b64encode(hashlib.sha256(data).digest()).decode():
                    raise DataError(f"{top / name}: it is not the file that its manifest describes")
                (top / name).parent.mkdir(parents=True, exist_ok=True)
                (top / name).write_bytes(data)

        try:
            fetch(name for name in files if name == from_folder.RECORD)
            record = from_folder.read_record(top)
            if record.get("project") != project:
                return None
            fetch(name for name in files if _FIGURES.fullmatch(name))
            if from_folder.has_old_labels(top):
                fetch(name for name in files if _SOURCES_OF_LABELS.fullmatch(name))
            return from_folder.read_run(top, record, location.address, own)
        except DataError as error:
            raise DataError(str(error).replace(scratch, address)) from error
        finally:
            notes += [one.replace(scratch, address) for one in own]


def _listed(manifest: bytes, where: str) -> Mapping[str, str]:
    """Return the files of a manifest with their checksums. Raises DataError."""
    try:
        return {str(one["name"]): str(one["sha256"]) for one in json.loads(manifest)["files"]}
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{where}: not a manifest of a run") from error

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fetch a run to report on from a directory, an archive, s3://bucket/prefix or https://host/archive.

The input files of the results are copied to a new run directory; the source is never changed.
"""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.http_client import HttpClient, HttpPolicy

from . import schema_migration
from .run_reader import FOREIGN, has_foreign_files

ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".zip")
#: The files to copy; all others are written again or are useless without a cluster.
TOP = (
    "request.yml",
    "settings.yml",
    "provenance.yml",
    "run.yml",
    "cluster.yml",
    "schedule.jsonl",
    "bisection.json",
    "FAILURES",
    "metrics_dump.json",
    "metrics_dump.om.gz",
)
POINT = (
    "point.yml",
    "settings.yml",
    "ran.json",
    "plan.jsonl",
    "ledger.jsonl",
    "observations.jsonl",
    "training.jsonl",
    "metrics.jsonl",
)
#: Limit of the unpacked size of an archive, against archive bombs.
MOST_BYTES = 64 * 2**30


@dataclass(frozen=True)
class FetchedRun:
    """A fetched run directory. ``migrated``: sentences on files that were migrated to a newer schema."""

    path: Path
    source: str
    migrated: list[str]


def fetch_run_directory(
    source: str,
    parent: Path,
    download: Callable[[str, Path], None] | None = None,
    authority: str = "",
    suffix: str = "-replot",
) -> FetchedRun:
    """Copy the run at ``source`` to a new directory below ``parent``, named like the run plus ``suffix``.

    download: fetches s3://bucket/prefix into a folder. authority: PEM file of CAs of an https server.
    Raises InputError, AccessError, DataError.
    """
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".source-", dir=parent) as scratch:
        path = _obtain_local_run_folder(source, Path(scratch), download, authority)
        name = run_name_without_suffixes(source, path)
        target = _unused_directory_path(parent, f"{name}{suffix}")
        half = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=parent))
        try:
            _copy_result_input_files(path, half)
            done = schema_migration.migrate_run_files(half)
            _mark_clusters_released(half)
            half.chmod(0o755)
            os.rename(half, target)
        except BaseException:
            shutil.rmtree(half, ignore_errors=True)
            raise
    return FetchedRun(target, source, done)


def _mark_clusters_released(folder: Path) -> None:
    """Change the records of the clusters of a copied run: only the original may hold a cluster."""
    path = folder / "cluster.yml"
    document = files.read_yaml(path) if path.is_file() else {}
    clusters = document.get("clusters") if isinstance(document, dict) else None
    if isinstance(clusters, dict):
        released = {
            host: {**record, "state": "released"} if isinstance(record, dict) else record
            for host, record in clusters.items()
        }
        files.write_yaml(path, {**document, "clusters": released})


def directory_if_timelines_complete(source: str) -> FetchedRun | None:
    """Return a directory unchanged if all of its points have timelines, None otherwise."""
    path = Path(source).expanduser()
    points = [point for point in (path / "points").glob("[0-9]*") if point.is_dir()] if path.is_dir() else []
    there = points and all((point / "timeline.jsonl").is_file() for point in points)
    return FetchedRun(path.resolve(), source, []) if there else None


def run_name_without_suffixes(source: str, path: Path) -> str:
    """Return the name of the run directory without archive suffixes."""
    name = path.name if Path(source).is_dir() or not path.name.startswith(".") else ""
    if source.startswith("s3://") or name in ("", "unpacked"):
        name = source.rstrip("/").rpartition("/")[2]
    for end in sorted(ARCHIVES, key=len, reverse=True):
        name = name.removesuffix(end)
    return name.removesuffix("-replot") or "run"


def _obtain_local_run_folder(source: str, scratch: Path, download: Any, authority: str) -> Path:
    """Return the local folder of the run. Raises InputError naming what was found instead."""
    scheme = urlsplit(source).scheme
    if scheme == "s3":
        if download is None:
            raise InputError(f"{source}: s3:// sources cannot be read here")
        folder = scratch / "unpacked"
        folder.mkdir()
        download(source, folder)
        only = [path for path in folder.iterdir() if path.name.endswith(ARCHIVES)]
        if only and not is_run(folder):
            return find_run_directory(unpack_archive(only[0], scratch / "inside"), source)
        return find_run_directory(folder, source)
    if scheme in ("http", "https"):
        return find_run_directory(
            unpack_archive(_download_archive(source, scratch, authority), scratch / "unpacked"), source
        )
    path = Path(source).expanduser()
    if path.is_dir():
        return find_run_directory(path, source)
    if path.is_file():
        return find_run_directory(unpack_archive(path, scratch / "unpacked"), source)
    raise InputError(f"source {source}: no such file or directory")


def is_run(folder: Path) -> bool:
    """Return whether a folder is a run directory, possibly of an interrupted run or of another tool."""
    return (folder / "run.yml").is_file() or (folder / "points").is_dir() or has_foreign_files(folder)


def find_run_directory(folder: Path, source: str) -> Path:
    """Return ``folder`` if it is a run directory, else the only one below it. Raises InputError."""
    inner = folder
    for _depth in range(4):
        if is_run(inner):
            return inner
        runs = [path for path in sorted(inner.iterdir()) if path.is_dir() and not path.name.startswith(".")]
        several = [run.name for run in runs if is_run(run)]
        if len(several) > 1:
            names = formats.format_list(several)
            raise InputError(f"source {source}: it contains {len(several)} runs, name one of: {names}")
        if not several and len(runs) != 1:
            break
        inner = inner / several[0] if several else runs[0]
    raise InputError(
        f"source {source}: not a run directory: it contains neither run.yml, points/ nor {' and '.join(FOREIGN)}"
    )


def unpack_archive(archive: Path, folder: Path) -> Path:
    """Unpack an archive; members outside of ``folder``, links and devices are refused. Raises DataError."""
    folder.mkdir()
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as packed:
                _check_size(archive, (member.file_size for member in packed.infolist()))
                packed.extractall(folder)  # drops drives, roots and .. of names
        else:
            with tarfile.open(archive) as tar:
                members = [member for member in tar.getmembers() if not member.issym() and not member.islnk()]
                _check_size(archive, (member.size for member in members))
                tar.extractall(folder, members, filter="data")
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError) as error:
        raise DataError(f"{archive.name}: cannot be unpacked as {' '.join(ARCHIVES)}: {error}") from error
    return folder


def _check_size(archive: Path, sizes: Iterable[int]) -> None:
    total = sum(sizes)
    if total > MOST_BYTES:
        raise DataError(f"{archive.name}: it would unpack to {total / 2**30:.0f} GiB, more than a run can have")


def _download_archive(url: str, scratch: Path, authority: str) -> Path:
    parts = urlsplit(url)
    if parts.scheme == "http":
        raise InputError(f"source {url}: http:// is refused, because it can be tampered with; use https://")
    target = scratch / (Path(parts.path).name or "run.tar")
    client = HttpClient(f"source {url}", authority=authority, policy=HttpPolicy(total=6 * 3600.0, max_bytes=MOST_BYTES))
    client.download(url, target)
    return target


def _unused_directory_path(parent: Path, name: str) -> Path:
    number = 1
    while (target := parent / (name if number == 1 else f"{name}-{number}")).exists():
        number += 1
    return target


def _copy_result_input_files(source: Path, target: Path) -> None:
    """Copy the input files of the results."""
    for name in TOP:
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)
    (target / "points").mkdir()
    if has_foreign_files(source) and not (source / "points").is_dir():
        (target / "points" / "001").mkdir()
        for name in FOREIGN:
            shutil.copyfile(source / name, target / "points" / "001" / name)
    for point in sorted((source / "points").glob("[0-9]*")) if (source / "points").is_dir() else []:
        (target / "points" / point.name).mkdir()
        for name in (*POINT, *FOREIGN):
            if (point / name).is_file():
                shutil.copyfile(point / name, target / "points" / point.name / name)

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fetch a run to report on from a directory, an archive, s3://bucket/prefix or https://host/archive.

The input files of the results are copied to a new run directory; the source is never changed.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats, signals
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.detect_moved_run import recorded_path_and_inode
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import format_utc_timestamp
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_archives import (
    ARCHIVES,
    MOST_BYTES,
    unpack_archive,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.http_client import HttpClient, HttpPolicy
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.http_transport import url_without_secrets

from . import schema_migration
from .run_reader import FOREIGN, Run, has_foreign_files

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
    "findings.json",
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
    "failures.jsonl",
    "requests.jsonl",
    "clocks.jsonl",
    "server.json",
    "deployment.json",
    "scale.jsonl",
    "users/users.json",
)


#: Beginning of the name of a folder in which a source is unpacked; the id of the process follows.
_SCRATCH = ".source-"


@dataclass(frozen=True)
class FetchedRun:
    """A fetched run directory. ``migrated``: sentences on files that were migrated to a newer schema."""

    path: Path
    source: str
    migrated: list[str]

    def replot_entry(self) -> dict[str, Any]:
        """Return the entry ``replot`` of run.yml: from where the run was fetched, when, and to which directory."""
        local = Path(self.source).expanduser()
        return {
            "source": str(local.resolve()) if local.exists() else self.source,
            "at": format_utc_timestamp(),
            "migrated": self.migrated,
            **recorded_path_and_inode(self.path, self.path),
        }


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
    _remove_leftovers(parent)
    with tempfile.TemporaryDirectory(prefix=f"{_SCRATCH}{os.getpid()}-", dir=parent) as scratch:
        path = _obtain_local_run_folder(source, Path(scratch), download, authority)
        name = run_name_without_suffixes(source, path)
        target = _unused_directory_path(parent, f"{name}{suffix}")
        half = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=parent))
        try:
            _copy_result_input_files(path, half)
            try:
                _refuse_unreadable_record(half / "run.yml")
                done = schema_migration.migrate_run_files(half)
                _mark_clusters_released(half)
            except DataError as error:  # names the file of the user, not our copy
                raise DataError(str(error).replace(str(half), source.rstrip("/"))) from error
            half.chmod(files.mode_by_umask(0o775))
            os.rename(half, target)
        except BaseException:
            shutil.rmtree(half, ignore_errors=True)
            raise
    return FetchedRun(target, source, done)


def _remove_leftovers(parent: Path) -> None:
    """Remove what a process that was killed had unpacked."""
    for path in parent.glob(f"{_SCRATCH}[0-9]*-*"):
        pid = path.name.removeprefix(_SCRATCH).partition("-")[0]
        if path.stat().st_uid == os.getuid() and pid.isdecimal() and not signals.does_process_exist(int(pid)):
            shutil.rmtree(path, ignore_errors=True)


def _refuse_unreadable_record(path: Path) -> None:
    """Raise DataError for a run.yml that is no YAML document: the results need its project."""
    if path.is_file() and not isinstance(files.read_yaml(path) or {}, dict):
        raise DataError(f"{path}: not a YAML dictionary")


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


def replace_settings_of_points(run: Run, settings: Mapping[str, Any]) -> None:
    """Write other settings of the evaluation into a copied run, with their source; without any, change nothing.

    Args:
        run: The copy.
        settings: Name -> value.
    """
    if not settings:
        return
    for point in run.points:
        files.write_yaml(point.folder / "settings.yml", {**(point.all_settings or {}), **settings})
    changes = {
        name: [*run.provenance.get(name, ()), {"source": "replot", "value": settings[name]}] for name in settings
    }
    document = {"schema": "provenance/1", "settings": {**run.provenance, **changes}}
    files.write_yaml(run.top / "provenance.yml", document, "provenance/1")


def directory_if_timelines_complete(source: str) -> FetchedRun | None:
    """Return a directory unchanged if all of its points have timelines, None otherwise."""
    path = Path(source).expanduser()
    points = [point for point in (path / "points").glob("[0-9]*") if point.is_dir()] if path.is_dir() else []
    there = points and all((point / "timeline.jsonl").is_file() for point in points)
    if there:
        refuse_symbolic_links_in_run(path)
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
        if only and not is_run_directory(folder):
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


def is_run_directory(folder: Path) -> bool:
    """Return whether a folder is a run directory, possibly of an interrupted run or of another tool."""
    return (folder / "run.yml").is_file() or (folder / "points").is_dir() or has_foreign_files(folder)


def find_run_directory(folder: Path, source: str) -> Path:
    """Return ``folder`` if it is a run directory, else the only one below it. Raises InputError."""
    inner = folder
    for _depth in range(4):
        if is_run_directory(inner):
            return inner
        folders = [path for path in sorted(inner.iterdir()) if path.is_dir() and not path.is_symlink()]
        runs = [path for path in folders if not path.name.startswith(".")]
        several = [run.name for run in runs if is_run_directory(run)]
        if len(several) > 1:
            names = formats.format_list(several)
            raise InputError(f"source {source}: it contains {len(several)} runs, name one of: {names}")
        if not several and len(runs) != 1:
            break
        inner = inner / several[0] if several else runs[0]
    raise InputError(
        f"source {source}: not a run directory: it contains neither run.yml, points/ nor {' and '.join(FOREIGN)}"
    )


def _download_archive(url: str, scratch: Path, authority: str) -> Path:
    parts = urlsplit(url)
    shown = url_without_secrets(url)
    if parts.scheme == "http":
        raise InputError(f"source {shown}: http:// is refused, because it can be tampered with; use https://")
    target = scratch / (Path(parts.path).name or "run.tar")
    client = HttpClient(
        f"source {shown}", authority=authority, policy=HttpPolicy(total=6 * 3600.0, max_bytes=MOST_BYTES)
    )
    client.download(url, target)
    return target


def _unused_directory_path(parent: Path, name: str) -> Path:
    number = 1
    while (target := parent / (name if number == 1 else f"{name}-{number}")).exists():
        number += 1
    return target


def _copy_result_input_files(source: Path, target: Path) -> None:
    """Copy the input files of the results. Raises InputError for a link, which could lead to any file."""
    inputs = _result_input_files(source)
    size, free = sum(file.stat().st_size for file in inputs), shutil.disk_usage(target).free
    if size > free:
        raise InputError(f"source {source}: its files have {size:,} bytes, and {free:,} are free in {target.parent}")
    for file in inputs:
        copy = target / file.relative_to(source)
        if file.parent == source and file.name in FOREIGN:
            copy = target / "points" / "001" / file.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(file, os.O_RDONLY | os.O_NOFOLLOW), "rb") as original, open(copy, "wb") as duplicate:
            shutil.copyfileobj(original, duplicate)
    (target / "points").mkdir(exist_ok=True)
    for point in (source / "points").glob("[0-9]*"):  # one without files, too
        if point.is_dir():
            (target / "points" / point.name).mkdir(exist_ok=True)


def _result_input_files(source: Path) -> list[Path]:
    """Return the input files of the results in a run directory. Raises InputError for a link."""
    files_of_run = [source / name for name in TOP]
    points = source / "points"
    refuse_symbolic_link(points)
    if has_foreign_files(source) and not points.is_dir():
        files_of_run += [source / name for name in FOREIGN]
    for point in sorted(points.glob("[0-9]*")) if points.is_dir() else []:
        refuse_symbolic_link(point)
        refuse_symbolic_link(point / "users")
        files_of_run += [point / name for name in (*POINT, *FOREIGN)]
    for file in files_of_run:
        refuse_symbolic_link(file)
    return [file for file in files_of_run if file.is_file()]


def refuse_symbolic_links_in_run(run_dir: Path) -> None:
    """Raise InputError for a symbolic link among the files of a run directory that are read."""
    for pattern in ("*", "points/*", "points/*/*", "report/*"):
        for file in run_dir.glob(pattern):
            refuse_symbolic_link(file)


def refuse_symbolic_link(path: Path) -> None:
    """Raise InputError for a symbolic link in a run directory."""
    if path.is_symlink():
        raise InputError(
            f"{path} is a symbolic link to {os.readlink(path)}, which is not followed: put the file there, or remove it"
        )

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run as one archive that others can replot and run again: written, and unpacked with every file verified.

It holds the run directory, the files of the user that its settings name, and bundle.json: versions, settings, and each
file with size and checksum.
"""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats, secret_gate
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import format_utc_timestamp
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_archives import unpack_archive
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import (
    fetch_run,
    run_reader,
    setting_file_checksums,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Run

from .export_run import check_run_exportable

MANIFEST, SCHEMA, SUFFIX = "bundle.json", "bundle/1", ".tar.gz"
#: Folder of the user's files in a bundle.
USER_FILES = "bundle_files"


def write_bundle(run_dir: str, dest: str, secrets: Mapping[str, str], kubeconfigs: Iterable[str]) -> dict[str, Any]:
    """Write the bundle of a run; return the result of module run_bundle.

    Raises SecretFound if a file has a secret, InputError if it cannot be written there.
    """
    target = Path(dest)
    if not target.name.endswith(SUFFIX):
        raise InputError(f"{target}: a bundle is a {SUFFIX} file")
    _check_target(target, "name another file, or remove it")
    not_a_run = InputError(f"{run_dir} has no readable run.yml, so it is not the directory of a run")
    if not (Path(run_dir) / "run.yml").is_file():  # before all files of a folder that may be large are searched
        raise not_a_run
    run, (verdict, _status, _why) = check_run_exportable(run_dir, secrets, kubeconfigs, "label")
    if not run.record:
        raise not_a_run
    settings = _settings_that_were_set(run)
    with tempfile.TemporaryDirectory(prefix=".bundle-", dir=target.parent) as scratch:
        top = Path(scratch)
        user_files, left_out = _user_files(run, settings, top)
        copies = {str(path.relative_to(top)): path for path in sorted((top / USER_FILES).glob("*"))}
        secret_gate.create_secret_scanner(secrets, kubeconfigs).check(top, copies.values())
        members = {str(path.relative_to(run.top)): path for path in secret_gate.list_exportable_files(run.top)}
        members = {name: path for name, path in members.items() if name != MANIFEST}
        members |= copies
        if lacking := [entry["file"] for entry in user_files if entry["file"] not in members]:
            raise DataError(f"{run.top / MANIFEST} names {lacking[0]}, and the run has no such file")
        record = run.record
        manifest = {
            "schema": SCHEMA,
            "run": run.id,
            "project": str(record.get("project") or ""),
            "role": str(record.get("role") or record.get("project") or ""),
            "presets": list(record.get("presets") or []),
            "verdict": verdict.get("verdict"),
            "status": str(record.get("status") or "unknown"),
            "written": format_utc_timestamp(),
            "versions": {str(name): str(version) for name, version in (record.get("versions") or {}).items()},
            "revision": (record.get("git") or {}).get("revision"),
            "settings": settings,
            "user_files": user_files,
            "left_out": left_out,
            "files": [
                {"name": name, "bytes": path.stat().st_size, "sha256": files.sha256_of(path)}
                for name, path in sorted(members.items())
            ],
        }
        files.write_json(top / MANIFEST, manifest, SCHEMA)
        members[MANIFEST] = top / MANIFEST
        _write_archive(top / "half", run.top.name, members, manifest["files"])
        os.replace(top / "half", target)
    size = target.stat().st_size
    named = f", with {formats.format_list([entry['path'] for entry in user_files])}" if user_files else ""
    summary = f"{target}: {formats.format_count(len(members), 'file')}, {size / 1e6:.1f} MB{named}"
    return {"changed": True, "path": str(target), "bytes": size, "warnings": left_out, "summary": summary}


def _check_target(target: Path, remedy: str) -> None:
    if target.exists():
        raise InputError(f"{target} exists: {remedy}")
    if not target.parent.is_dir():
        raise InputError(f"{target}: there is no folder {target.parent}")


def _settings_that_were_set(run: Run) -> dict[str, Any]:
    """Return each setting of a run that was set, by dotted name, with its last value."""
    values = {}
    for name, changes in run.provenance.items():
        if isinstance(changes, list) and changes and isinstance(changes[-1], Mapping):
            values[str(name)] = changes[-1].get("value")
    return values


def _user_files(run: Run, settings: Mapping[str, Any], scratch: Path) -> tuple[list[dict[str, str]], list[str]]:
    """Copy the files that settings of the test name by an absolute path; return them, and what is left out.

    A run that came in a bundle keeps the files of that: its settings may name any file of this machine. So may those of
    a run directory that was copied here, which therefore needs the checksum of each. A replotted run has none.
    """
    if (run.top / MANIFEST).exists():
        return read_bundle_manifest(run.top, run.top.name)["user_files"], []
    if run.record.get("replot"):
        return [], []
    folder = scratch / USER_FILES
    known = setting_file_checksums.recorded_checksums(run.provenance)
    copied: dict[str, dict[str, str]] = {}
    left_out = []
    for name, value in settings.items():
        if not setting_file_checksums.is_setting_of_a_test(name, str(run.record.get("project"))):
            continue
        for text in setting_file_checksums.paths_in_value(value):
            path = Path(text)
            if text in copied:
                continue
            if not setting_file_checksums.is_small_text_file(path):
                left_out.append(f"{name}: {path} is not taken along: no text file of at most 1 MiB")
                continue
            if known.get(text) != files.sha256_of(path):
                why = "it has changed since" if text in known else "the run has not recorded its content"
                left_out.append(f"{name}: {path} is not taken along: {why}")
                continue
            folder.mkdir(exist_ok=True)
            inside = f"{USER_FILES}/{len(copied) + 1:02d}-{path.name}"
            shutil.copyfile(path, folder.parent / inside)
            copied[text] = {"setting": name, "path": text, "file": inside}
    return list(copied.values()), left_out


def _write_archive(path: Path, name: str, members: Mapping[str, Path], listed: Iterable[Mapping[str, Any]]) -> None:
    """Write the archive. Raises DataError for a file that has changed since it was searched and listed."""
    sizes = {entry["name"]: entry["bytes"] for entry in listed}
    with tarfile.open(path, "w:gz") as archive:
        for inside, source in sorted(members.items(), key=lambda member: (member[0] != MANIFEST, member[0])):
            info = archive.gettarinfo(source, f"{name}/{inside}")
            info.uid, info.gid, info.uname, info.gname, info.mode = 0, 0, "", "", 0o644
            if inside in sizes and info.size != sizes[inside]:
                raise DataError(f"{source} was changed meanwhile: pack the run when it has ended")
            with source.open("rb") as stream:
                archive.addfile(info, stream)


def unpack_bundle(source: str, dest: str) -> dict[str, Any]:
    """Unpack a bundle into the new folder ``dest``; return the result of module run_bundle.

    Raises InputError, DataError for anything but a whole bundle with exactly the files of its manifest.
    """
    archive, target = Path(source), Path(dest)
    if not archive.is_file():
        raise InputError(f"{archive}: there is no such file")
    _check_target(target, "name a new folder")
    with tempfile.TemporaryDirectory(prefix=".bundle-", dir=target.parent) as scratch:
        top = fetch_run.find_run_directory(unpack_archive(archive, Path(scratch) / "unpacked"), source)
        manifest = read_bundle_manifest(top, archive.name)
        _verify(top, manifest, archive.name)
        os.replace(top, target)
    run = run_reader.read_run_directory(target)
    summary = f"{target}: run {run.id} of {manifest['project']}, {len(manifest['files'])} files verified"
    return {"changed": True, "path": str(target), "manifest": manifest, "warnings": [], "summary": summary}


def read_bundle_manifest(top: Path, name: str) -> dict[str, Any]:
    """Return bundle.json. name: of the archive, in messages. Raises DataError."""
    if not (top / MANIFEST).is_file():
        raise DataError(f"{name}: it has no {MANIFEST}, so it is not a bundle. replot.yml reads archives without one")
    manifest = files.read_json(top / MANIFEST)
    schema = manifest.get("schema") if isinstance(manifest, dict) else None
    if schema != SCHEMA:
        raise DataError(f"{name}: {MANIFEST} has schema {schema!r}, and this version reads {SCHEMA}")
    try:
        for entry in manifest["files"]:
            str(entry["name"]), int(entry["bytes"]), str(entry["sha256"])
        for entry in manifest["user_files"]:
            str(entry["setting"]), str(entry["path"])
            if not _lies_in(top, str(entry["file"])):
                raise DataError(f"{name}: {MANIFEST} names {entry['file']!r}, which is outside of the run directory")
        dict(manifest["settings"]), str(manifest["project"]), str(manifest["role"])
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{name}: {MANIFEST} is damaged: {type(error).__name__} {error}") from error
    return dict(manifest)


def _lies_in(top: Path, name: str) -> bool:
    """Return whether a name leads to something in the folder, also through links."""
    path = Path(name)
    if path.is_absolute() or ".." in path.parts:
        return False
    return (top / path).resolve().is_relative_to(top.resolve())


def _verify(top: Path, manifest: Mapping[str, Any], name: str) -> None:
    """Raise DataError unless exactly the files of the manifest are there, as they were."""
    there = {str(path.relative_to(top)) for path in top.rglob("*") if not path.is_dir()} - {MANIFEST}
    listed = {str(entry["name"]): entry for entry in manifest["files"]}
    if there != listed.keys():
        more, less = sorted(there - listed.keys()), sorted(listed.keys() - there)
        parts = [f"without {formats.format_list(less)}"] if less else []
        parts += [f"with {formats.format_list(more)}, which its manifest does not list"] if more else []
        raise DataError(f"{name}: it is {' and '.join(parts)}")
    for inside, entry in listed.items():
        if files.sha256_of(top / inside) != entry["sha256"]:
            raise DataError(f"{name}: {inside} is not the file that its manifest describes")
    for entry in manifest["user_files"]:
        if entry["file"] not in listed:
            raise DataError(f"{name}: its manifest names {entry['file']}, which it does not list")

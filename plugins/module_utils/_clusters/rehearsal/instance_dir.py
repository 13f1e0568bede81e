# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The folder of one instance: its owner, its users, its files, the lock under which it is changed; its control groups.

The users are runs that use an instance of another run: the last one whose process lives removes it. A record names the
process of the run's ansible-playbook; that of a process that has ended does not count. The functions on users are
called with the lock of the instance held. A real node makes control groups. They are removed when the process that
made them was killed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    DataError,
    InputError,
    OwnershipError,
    ProcessError,
    WaitTimeout,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import boot_id
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.processes import ProcessReference
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import format_utc_timestamp

SCHEMA = "rehearsal-instance/1"
MARKER = "instance.json"
#: Seconds for which a note of an instance's removal is kept. A start under way at that time follows within seconds.
REMOVAL_SECONDS = 600
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?\Z")


def seconds_since_boot() -> float:
    """Return the seconds since this machine was booted, the scale of process start times."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True)
class InstanceMarker:
    """The owner of an instance (a run's id, empty for none), its creation, expiry and components.

    versions, sources: of components that run another release than the one they name, from settings. built: the
    versions that they had when they were started; a checkout may have been edited since.
    """

    name: str
    owner: str
    created: str
    components: list[str]
    expires: str | None = None
    versions: dict[str, str] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    built: dict[str, str] = field(default_factory=dict)
    schema: str = SCHEMA


class InstancePaths:
    """Paths of an instance. The constructor touches no file."""

    def __init__(self, data_dir: str | os.PathLike[str], name: str) -> None:
        if not _NAME.match(name):
            raise InputError(
                f"rehearsal_name: '{name}' can't be the name of an instance"
                " (lower-case letters, digits and dashes, at most 40)",
                setting="rehearsal_name",
            )
        self.name = name
        self.root = Path(os.path.abspath(Path(data_dir).expanduser()))
        self.path = self.root / name
        self.marker_file = self.path / MARKER
        self.ports_file = self.path / "ports.json"
        self.pki = self.path / "pki"
        self.config = self.path / "config"
        self.records = self.path / "pids"
        self.logs = self.path / "logs"
        self.audit_log = self.path / "audit" / "audit.log"
        self.played_logs = self.path / "played" / "pod.log"
        self.kubeconfig = self.kubeconfig_of("admin")

    def kubeconfig_of(self, user: str) -> Path:
        """Return the kubeconfig of one user; that of ``admin``, for people and tests, is at the top."""
        return self.path / "kubeconfig" if user == "admin" else self.path / "kubeconfigs" / user

    def log_of(self, process: str) -> Path:
        """Return the log of one process."""
        return self.logs / f"{process}.log"

    # Owner

    def marker(self) -> InstanceMarker | None:
        """Return the marker, None if the folder does not exist or is empty.

        Raises OwnershipError for a folder that is not an instance of ours.
        """
        if not os.path.lexists(self.path):
            return None
        if self.path.is_symlink() or not self.path.is_dir():
            raise OwnershipError(f"{self.path} is not a folder, so not a rehearsal cluster: nothing was changed")
        _refuse_folder_of_others(self.path, os.geteuid())
        if not self.marker_file.exists():
            if not any(self.path.iterdir()):
                return None
            raise OwnershipError(
                f"{self.path} holds files but no {MARKER}, so it is not a rehearsal cluster: nothing was changed."
                " Move it away, or choose another rehearsal_name or rehearsal_data_dir"
            )
        try:
            marker = InstanceMarker(**files.read_json(self.marker_file))
        except (DataError, TypeError) as error:
            raise OwnershipError(f"{self.marker_file} is not a valid marker: {error}") from error
        if marker.schema != SCHEMA or marker.name != self.name:
            raise OwnershipError(
                f"{self.marker_file} is of '{marker.schema}' named '{marker.name}', not of '{SCHEMA}' named"
                f" '{self.name}': nothing was changed"
            )
        return marker

    def create(self, owner: str, components: list[str], expires: str | None = None) -> InstanceMarker:
        """Create the folder together with its marker, atomically."""
        self.root.mkdir(parents=True, exist_ok=True)
        _refuse_folder_of_others(self.root, os.geteuid(), 0)
        self.sweep()
        marker = InstanceMarker(self.name, owner, format_utc_timestamp(), components, expires)
        fresh = Path(tempfile.mkdtemp(prefix=f".{self.name}.new-", dir=self.root))
        self._write_marker(fresh / MARKER, marker)
        if self.path.is_dir():
            self.path.rmdir()
        os.rename(fresh, self.path)
        return marker

    def create_directories(self) -> None:
        """Create the missing folders."""
        audit, played = self.audit_log.parent, self.played_logs.parent
        for folder in (self.pki, self.config, self.records, self.logs, self.path / "kubeconfigs", audit, played):
            folder.mkdir(mode=0o700, exist_ok=True)

    def update(self, marker: InstanceMarker) -> None:
        """Replace the marker."""
        self._write_marker(self.marker_file, marker)

    @staticmethod
    def _write_marker(path: Path, marker: InstanceMarker) -> None:
        files.write_json(path, dict(marker.__dict__))

    def sweep(self) -> None:
        """Remove what a creation or removal of this instance left when it was killed. Call with the lock held."""
        for left in [*self.root.glob(f".{self.name}.new-*"), *self.root.glob(f".{self.name}.old-*")]:
            with suppress(OSError):
                remove_tree(left)

    # A start that is under way when the instance is removed

    @property
    def _removal_file(self) -> Path:
        return self.root / f".{self.name}.gone"

    def note_removal(self, owner: str) -> None:
        """Record that ``owner`` removed the instance now. Call with the lock held."""
        for old in self.root.glob(".*.gone"):
            if time.time() - old.stat().st_mtime > REMOVAL_SECONDS:
                old.unlink(missing_ok=True)
        files.write_json(self._removal_file, {"owner": owner, "boot": boot_id(), "at": seconds_since_boot()})

    def was_removed_since(self, started: float, owner: str) -> bool:
        """Return whether ``owner`` removed the instance after ``started`` (seconds since boot)."""
        try:
            note = files.read_json(self._removal_file)
            return bool(note["owner"] == owner and note["boot"] == boot_id() and note["at"] > started)
        except (DataError, KeyError, TypeError):
            return False

    def remove(self) -> None:
        """Remove the folder: renamed first, so that half an instance is never found."""
        aside = self.root / f".{self.name}.old-{os.getpid()}"
        os.rename(self.path, aside)
        remove_tree(aside)

    # Locks

    @contextmanager
    def lock(self, timeout: float) -> Iterator[None]:
        """Lock the instance. Raises WaitTimeout, which names the holder, after ``timeout`` seconds."""
        self.root.mkdir(parents=True, exist_ok=True)
        _refuse_folder_of_others(self.root, os.geteuid(), 0)
        with hold_file_lock(self.root / f".{self.name}.lock", timeout, f"rehearsal cluster '{self.name}'"):
            yield

    def others_ports(self) -> set[int]:
        """Return the ports of the other instances in the same folder."""
        taken: set[int] = set()
        for file in self.root.glob("*/ports.json"):
            if file.parent != self.path:
                try:
                    taken.update(int(port) for port in files.read_json(file).values())
                except (DataError, AttributeError, ValueError):
                    continue
        return taken


def _refuse_folder_of_others(folder: Path, *users: int) -> None:
    """Raise OwnershipError unless a folder belongs to one of the users: its owner can replace what is in it.

    A kubeconfig that somebody else has put there would name programs that are run, and servers that get credentials.
    """
    owner = folder.stat().st_uid
    if owner not in users:
        raise OwnershipError(
            f"{folder} belongs to another user (number {owner}), who could replace its files: nothing was changed."
            " Choose another rehearsal_data_dir"
        )


def remove_tree(folder: Path) -> None:
    """Remove a folder of ours with folders that its owner may not enter, such as those of an overlay file system."""

    def open_up(_function: Any, path: str, error: Any) -> None:
        if not isinstance(error[1], PermissionError):
            raise error[1]
        for folder in (os.path.dirname(path), path):
            if os.path.isdir(folder) and not os.path.islink(folder):
                os.chmod(folder, 0o700)
        if os.path.isdir(path) and not os.path.islink(path):
            remove_tree(Path(path))
        else:
            os.unlink(path)

    shutil.rmtree(folder, onerror=open_up)


@contextmanager
def replace_folder_when_complete(target: Path) -> Iterator[Path]:
    """Yield a new folder, which replaces ``target`` at the end of the block, or is removed after an error.

    The caller holds the lock of ``target``. What a killed process left is removed first.
    """
    for left in target.parent.glob(f".{target.name}.new-*"):
        shutil.rmtree(left, ignore_errors=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}.new-", dir=target.parent))
    try:
        yield fresh
        shutil.rmtree(target, ignore_errors=True)
        fresh.chmod(0o755)
        os.rename(fresh, target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


@contextmanager
def hold_file_lock(path: Path, timeout: float, what: str) -> Iterator[None]:
    """Hold a lock on the file ``path``, which is removed afterwards. The lock ends with this process.

    Raises WaitTimeout after ``timeout`` seconds, naming the process that holds ``what``, and ProcessError for a link,
    through which another file would be truncated.
    """
    deadline = time.monotonic() + timeout
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise ProcessError(f"{what}: {path} can't be locked: {error.strerror}") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _same_file(handle, path):
                break
        except BlockingIOError:
            pass
        holder = os.pread(handle, 20, 0).decode("ascii", "replace").strip()
        os.close(handle)
        if time.monotonic() > deadline:
            raise WaitTimeout(
                f"{what}: process {holder or '?'} has been working on it for over {timeout:.0f} s ({path})"
            )
        time.sleep(0.1)
    try:
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        # Removed while locked: a process that waits for the removed file sees that it is no longer at ``path``.
        path.unlink(missing_ok=True)
        os.close(handle)


def _same_file(handle: int, path: Path) -> bool:
    """Return whether an open file is still the one at ``path``."""
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return False
    here = os.fstat(handle)
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)


def list_instance_markers(data_dir: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Return the markers of all instances in ``data_dir``."""
    markers = []
    for file in sorted(Path(data_dir).expanduser().glob(f"*/{MARKER}")):
        try:
            marker = InstancePaths(data_dir, file.parent.name).marker()
        except (OwnershipError, InputError):
            continue
        if marker is not None:
            markers.append({**marker.__dict__, "path": str(file.parent)})
    return markers


CGROUP_ROOT = Path("/sys/fs/cgroup")
#: Seconds that the kernel may take to empty a group after its last process has ended.
EMPTY_TIMEOUT = 10.0


def control_group_name(instance: Path) -> str:
    """Return the name of the control groups of an instance, by which they are found even without its folder."""
    return f"seatrial-{hashlib.sha256(os.fsencode(instance)).hexdigest()[:16]}"


def instance_control_groups(instance: Path) -> list[Path]:
    """Return the control groups of an instance, in every hierarchy."""
    name = control_group_name(instance)
    groups = []
    for folder, below, _files in os.walk(CGROUP_ROOT):
        if name in below:
            groups.append(Path(folder) / name)
            below.remove(name)
    return groups


def remove_control_groups(instance: Path, patience: float = EMPTY_TIMEOUT) -> bool:
    """Remove the control groups of an instance; return whether there were any. Raises ProcessError for one in use."""
    deadline = time.monotonic() + patience
    groups = wanted = instance_control_groups(instance)
    while wanted:
        for group in wanted:
            _remove_tree(group)
        wanted = [group for group in wanted if group.is_dir()]
        if wanted and time.monotonic() > deadline:
            raise ProcessError(f"control groups are still in use after {patience:.0f} s: {', '.join(map(str, wanted))}")
        if wanted:
            time.sleep(0.05)
    return bool(groups)


def _remove_tree(group: Path) -> None:
    """Remove those groups of a tree that are empty, the innermost first. Their files go with them."""
    for folder, _below, _files in os.walk(group, topdown=False):
        try:
            os.rmdir(folder)
        except OSError:
            continue


USERS_FILE = "users.json"


def record_run_using_instance(instance: InstancePaths, run: str, pid: int) -> None:
    """Record that ``run``, whose process is ``pid``, uses the instance."""
    _write_users(instance, {**runs_using_instance(instance), run: ProcessReference.of(pid).record()})


def remove_record_of_user(instance: InstancePaths, run: str) -> None:
    """Remove the record of ``run``, if there is one."""
    _write_users(instance, {name: process for name, process in runs_using_instance(instance).items() if name != run})


def runs_using_instance(instance: InstancePaths) -> dict[str, dict[str, int]]:
    """Return the recorded runs whose process lives, the first to come first; none from a damaged file."""
    try:
        recorded: dict[str, Any] = files.read_json(instance.path / USERS_FILE)
        return {run: process for run, process in recorded.items() if ProcessReference(**process).lives()}
    except (DataError, AttributeError, TypeError, ValueError):
        return {}


def _write_users(instance: InstancePaths, users: dict[str, dict[str, int]]) -> None:
    if users or (instance.path / USERS_FILE).exists():
        files.write_json(instance.path / USERS_FILE, users)

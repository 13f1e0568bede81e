# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clusters that runs of this machine hold, and rehearsal clusters whose run directory no longer exists.

Module held_clusters lists them, and releases those that have expired. A run directory may be a stranger's, or a copy of
one: only what is ours is released, and by a command that its caller has built, never by one from a file.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import extra_vars_arguments, files, processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.detect_moved_run import is_where_run_was_opened
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    DataError,
    ProcessError,
    SeatrialError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory

from .. import clusters_of_run
from ..lock import lock_records
from ..providers import RehearsalProvider
from ..rehearsal import cluster_lifecycle
from ..rehearsal.component_selection import RehearsalOptions
from ..rehearsal.instance_dir import MARKER, list_instance_markers

REHEARSAL = RehearsalProvider.name


@dataclass(frozen=True)
class HeldCluster:
    """A held cluster.

    command: the give-back command, empty if the run directory no longer exists. stays: why we must not release it.
    """

    provider: str
    name: str
    run: str
    owner: str
    purpose: str
    taken: str
    expires: str
    expired: bool
    state: str
    kept: bool
    run_dir: str
    command: tuple[str, ...]
    stays: str = ""

    def summary(self) -> dict[str, Any]:
        """Return the cluster as a module returns it."""
        return {
            **{key: value for key, value in self.__dict__.items() if key != "command"},
            "give_back": self.shell_command,
        }

    @property
    def shell_command(self) -> str:
        """The give-back command, quoted for a shell."""
        return shlex.join(self.command)

    def line(self) -> str:
        """Return the cluster as one line of text."""
        until = f"until {self.expires}" if self.expires else "no expiry"
        kept = ", kept" if self.kept else ""
        expired = " - EXPIRED" if self.expired else ""
        state = "" if self.state == "acquired" else f", {self.state}"
        by_default = f"run {self.run}" if self.run not in ("", self.name) else ""  # the name may be the run's id
        whose = (by_default if self.owner == self.run else self.owner) if self.owner else "no owner"
        why, since = self.purpose and f"for {self.purpose}", self.taken and f"since {self.taken}"
        details = [detail for detail in (whose, why, since) if detail]
        return f"{self.provider} cluster {self.name}: {' '.join(details)}, {until}{kept}{state}{expired}"

    def lines(self) -> list[str]:
        """Return the line; of an expired cluster, also what releases it, or why it stays."""
        if not self.expired:
            return [self.line()]
        if self.stays:
            return [self.line(), f"  stays, because {self.stays}"]
        remove = f"the removal of its processes and of its data, {self.name}"
        return [self.line(), f"  released by {self.shell_command if self.command else remove}"]


def find_held_clusters(
    artifacts: str | Path, rehearsals: str | Path, now: float, commands: Mapping[str, str] | None = None
) -> list[HeldCluster]:
    """Return the held clusters, expired ones first, then by expiry.

    now: in seconds since the epoch. commands: run directory -> the command that gives back what its run holds.
    """
    of_runs = [
        cluster for folder in _run_dirs(artifacts) for cluster in _held_by_run(folder, rehearsals, now, commands or {})
    ]
    known = {cluster.name for cluster in of_runs if cluster.provider == REHEARSAL}
    orphaned = [
        _held_rehearsal_instance(instance, now)
        for instance in list_instance_markers(rehearsals)
        if instance["name"] not in known
    ]
    return sorted(
        [*of_runs, *orphaned], key=lambda holding: (not holding.expired, holding.expires or "9", holding.name)
    )


def list_clusters_and_locks(
    artifacts: str | Path, rehearsals: str | Path, commands: Mapping[str, str] | None = None
) -> tuple[list[HeldCluster], dict[str, Any]]:
    """Return the clusters that are held now, and the same as a module returns it, with the locks: held and lines."""
    held = find_held_clusters(artifacts, rehearsals, time.time(), commands)
    lines = [line for cluster in held for line in cluster.lines()] + format_local_locks(artifacts)
    lines += _format_damaged_records(artifacts)
    return held, {"held": [cluster.summary() for cluster in held], "lines": lines or ["nothing is held"]}


def _run_dirs(artifacts: str | Path) -> Iterable[Path]:
    return sorted(path.parent for path in Path(artifacts).expanduser().glob(f"*/{clusters_of_run.FILE}"))


def _format_damaged_records(artifacts: str | Path) -> list[str]:
    """Return a line for each run whose record of clusters can't be read, so that it may hold what is not listed."""
    lines = []
    for folder in _run_dirs(artifacts):
        try:
            clusters_of_run.clusters_to_release(clusters_of_run.read_cluster_records(folder))
        except (SeatrialError, KeyError) as error:
            why = f"its {clusters_of_run.FILE} has no {error}" if isinstance(error, KeyError) else str(error)
            lines.append(f"what the run of {folder} holds is unknown: {why}")
    return lines


def _held_by_run(folder: Path, rehearsals: str | Path, now: float, commands: Mapping[str, str]) -> list[HeldCluster]:
    """Return the clusters that a run holds; none for a replot, and for another copy of a directory."""
    try:
        clusters = clusters_of_run.read_cluster_records(folder)
        record = files.read_yaml(folder / "run.yml")
        run = str(record["id"])
        to_release = clusters_of_run.clusters_to_release(clusters)
    except (SeatrialError, KeyError, TypeError, AttributeError, ValueError):
        return []
    if "replot" in record or _is_copy_of_existing_run(folder, record):
        return []
    held = []
    for cluster in to_release:
        if cluster["provider"] == REHEARSAL and not _is_instance_of_run(cluster, run):
            continue  # removed, or on the machine that this directory was copied from
        held.append(
            HeldCluster(
                provider=cluster["provider"],
                name=clusters_of_run.cluster_display_name(cluster),
                run=run,
                owner=cluster.get("owner") or run,
                purpose=cluster.get("purpose") or "",
                taken=cluster.get("taken") or "",
                expires=cluster.get("expires") or "",
                expired=has_time_passed(cluster.get("expires"), now),
                state=cluster["state"],
                kept=bool(cluster.get("kept")),
                run_dir=str(folder),
                command=tuple(shlex.split(commands.get(str(folder), ""))),
                stays=_why_not_ours(folder, record, commands, cluster) or _why_not_here(cluster, rehearsals),
            )
        )
    return held


def _is_copy_of_existing_run(folder: Path, record: Mapping[str, Any]) -> bool:
    original = Path(record.get("directory") or folder.resolve())
    return original != folder.resolve() and (original / "run.yml").exists()


def _is_instance_of_run(cluster: Mapping[str, Any], run: str) -> bool:
    """Return whether the folder of a rehearsal cluster is there, belongs to this user and says that the run owns it."""
    if not cluster.get("data_dir"):
        return True  # it is being acquired, so its folder is not known yet
    path = Path(str(cluster["data_dir"])) / MARKER
    try:
        return path.stat().st_uid == os.geteuid() and files.read_json(path).get("owner") == run
    except (OSError, DataError, AttributeError):
        return False


def _why_not_ours(
    folder: Path, record: Mapping[str, Any], commands: Mapping[str, str], cluster: Mapping[str, Any]
) -> str:
    """Return why we must not give back what a run holds; empty if it is a run of this user in this very directory."""
    if folder.stat().st_uid != os.geteuid():
        return f"{folder} belongs to another user"
    releases = "its GIVE_BACK releases it"
    if cluster["provider"] != REHEARSAL:
        named = extra_vars_arguments.extra_vars_shell_text(
            {"cluster_name": str(cluster.get("name") or "").removesuffix("-driver")}
        )
        releases += f", or add {named} to it, if the run is of an older version or was moved"
    if not record.get("directory"):
        return f"{folder} does not say where the run was made (an older version); {releases}"
    if Path(record["directory"]) != folder.resolve():
        return f"its run was made in {record['directory']}, and {folder} is a copy"
    if not is_where_run_was_opened(record, folder):
        return f"{folder} was copied, moved or received, or is of an older version; {releases}"
    return "" if commands.get(str(folder)) else f"the project of {folder} has no playbook here"


def _why_not_here(cluster: Mapping[str, Any], rehearsals: str | Path) -> str:
    """Return why a rehearsal cluster is not one of the folder of this session; empty for another provider."""
    if cluster["provider"] != REHEARSAL or not cluster.get("data_dir"):
        return ""
    folder = Path(cluster["data_dir"]).resolve()
    here = folder == (Path(rehearsals).expanduser() / str(cluster["name"])).resolve()
    selects = extra_vars_arguments.extra_vars_shell_text({"rehearsal_data_dir": str(folder.parent)})
    return "" if here else f"it is in {folder}: {selects} selects that folder"


def _held_rehearsal_instance(marker: Mapping[str, Any], now: float) -> HeldCluster:
    foreign = Path(marker["path"]).stat().st_uid != os.geteuid()
    return HeldCluster(
        provider=REHEARSAL,
        name=marker["name"],
        run=marker["owner"],
        owner=marker["owner"],
        purpose="",
        taken=marker["created"],
        expires=marker.get("expires") or "",
        expired=has_time_passed(marker.get("expires"), now),
        state="acquired",
        kept=not marker["owner"],
        run_dir="",
        command=(),
        stays=f"{marker['path']} belongs to another user" if foreign else "",
    )


def has_time_passed(until: str | None, now: float) -> bool:
    """Return whether a time (see format_utc_timestamp) has passed; False without a time or if it can't be parsed."""
    try:
        return bool(until) and datetime.fromisoformat(str(until)).timestamp() < now
    except ValueError:
        return False


def give_back(command: Iterable[str], log: Path, timeout: float, environment: Mapping[str, str]) -> str:
    """Run the give-back command of a run; return the error, empty on success. Its output goes to ``log``.

    timeout: in seconds.
    """
    words = list(command)
    variables: dict[str, str] = {}
    while words and "=" in words[0] and not words[0].startswith(("-", "/", ".")):
        name, _equals, value = words.pop(0).partition("=")
        variables[name] = value
    if not words:
        return "there is no command to give it back"
    with open(log, "ab") as stream:
        try:
            done = subprocess.run(  # pylint: disable=ansible-bad-function
                words,
                env={**environment, **variables},
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                timeout=timeout,
                check=False,
                start_new_session=True,
            )
        except subprocess.TimeoutExpired:
            return f"its give-back command did not end within {timeout:g} s; see {log}"
        except OSError as error:
            return f"{words[0]} can't be started: {error.strerror}"
    return "" if done.returncode == 0 else f"its give-back command ended with exit code {done.returncode}; see {log}"


def format_local_locks(artifacts: str | Path) -> list[str]:
    """Return a line for each lock that a run of this machine holds."""
    lines = []
    for path in sorted(Path(artifacts).expanduser().glob(f"*/{lock_records.PATTERN}")):
        record = lock_records.read_lock_record(path)
        if record is not None and record["state"] == lock_records.HELD:
            lines.append(
                f"lock on {record['cluster']}: run {record['run']}, until {record['until']} unless it is renewed"
            )
    return lines


def list_and_release_expired(
    params: Mapping[str, Any], step: StepDirectory, say: Callable[[str], None], check: bool
) -> dict[str, Any]:
    """List the held clusters; with release_expired, release each expired one, also after an error with another.

    A command gives back all clusters of its run, so it runs once.

    Raises ProcessError naming those that could not be released.
    """
    held, listed = list_clusters_and_locks(params["artifacts_dir"], params["rehearsal_dir"], params["commands"])
    expired = [cluster for cluster in held if cluster.expired and not cluster.stays]
    failures: list[str] = []
    ran: set[tuple[str, ...]] = set()
    for cluster in expired if params["release_expired"] and not check else []:
        if cluster.command in ran:
            continue
        if cluster.command:
            ran.add(cluster.command)
        say(f"releasing {cluster.line()}")
        error = release_cluster(cluster, params, step)
        if error:
            failures.append(f"{cluster.provider} cluster {cluster.name} of run {cluster.run}: {error}")
    if failures:
        raise ProcessError("could not release " + "; ".join(failures))
    changed = bool(expired) and params["release_expired"]
    return {"changed": changed, **listed, "expired": [cluster.name for cluster in expired]}


def release_cluster(cluster: HeldCluster, params: Mapping[str, Any], step: StepDirectory) -> str:
    """Release a cluster; return the error, empty on success. params: of module held_clusters."""
    if cluster.command:
        folder = step.path or Path(tempfile.mkdtemp(prefix="seatrial-reap-"))
        return give_back(
            cluster.command,
            folder / f"reap-{cluster.run}.log",
            params["timeout"],
            processes.environment_without_ansible(),
        )
    options = {"name": cluster.name, "data_dir": params["rehearsal_dir"], "components_dir": params["components_dir"]}
    options |= {"cache_dir": "", "owner": cluster.owner}  # it is removed only if it still belongs to the same run
    try:
        cluster_lifecycle.remove_instance(RehearsalOptions.of(options), lambda _line: None)
    except SeatrialError as error:
        return str(error)
    return ""

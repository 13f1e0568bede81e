# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A load on another host or in pods, from its start to its files on the controller: the same steps for both.

The load continues without the connection. Calls are retried while it is lost, and ``elsewhere.json`` in the directory
of the point records host and state, so that a later session finds the load. On a host, each step is a call of a module
there; load_in_pods has the steps for pods.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    AccessError,
    DataError,
    InputError,
    ProcessError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import STEP_FILES
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import (
    escape_control_characters,
    without_keys_of_ansible,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.cluster_properties import (
    api_host_without_usual_port,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.lock import lock_records
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.kubeconfig import (
    load_context_access,
    render_standalone_kubeconfig,
)

from . import detached_load

#: Pause between two attempts, seconds.
_PAUSE = 2.0
#: How long a refusal is not believed, seconds.
_REFUSED = 20.0


@dataclass
class ConnectionRetry:
    """The connection to a remote load.

    who: the other end, for messages. run: id of the run. patience: how long to retry, seconds. lost: returns whether an
    error is a lost connection. again: called before each further attempt. refused: returns whether an error is a
    refusal, which an API server that has just started gives until it has read its rules.
    """

    who: str
    run: str
    patience: float
    say: Callable[[str], None]
    lost: Callable[[Exception], bool]
    again: Callable[[], None] = lambda: None
    refused: Callable[[Exception], bool] = lambda _error: False
    _answered: bool = field(default=False, init=False)  # whether a call has succeeded

    def call(self, what: str, do: Callable[[], Any]) -> Any:
        """Call ``do``, and repeat it while the connection is lost. ``what``: for messages, such as "following it".

        Raises AccessError after ``patience`` seconds, and any other error of ``do``; a refusal after _REFUSED seconds.
        """
        began: float | None = None
        refused: float | None = None
        while True:
            try:
                answer = do()
                self._answered = True
                return answer
            except Exception as error:
                now = time.monotonic()
                if self.refused(error) and self._answered:
                    refused = now if refused is None else refused
                    if now - refused > _REFUSED:
                        raise
                elif not self.lost(error):
                    raise
                if began is None:
                    began = now
                    self.say(f"no connection while {what}: the load continues there, retrying ({error})")
                if now - began > self.patience:
                    raise AccessError(
                        f"{self.who} could not be reached again for {now - began:.0f} s while {what}. The load goes on "
                        f"there; the same task finds it again by its run id ({self.run}): {error}"
                    ) from error
                time.sleep(_PAUSE)
                self.again()

    def fetch(self, fetch: Callable[[Path], Any], here: Path, append: bool = False) -> None:
        """Let ``fetch`` write a temporary file, then replace ``here`` with it, or append it to ``here``."""
        aside = here.with_name(f".{here.name}.fetched")
        self.call(f"fetching {here.name}", lambda: fetch(aside))
        if not append:
            aside.replace(here)
            return
        with open(here, "ab") as stream, open(aside, "rb") as fetched:
            shutil.copyfileobj(fetched, stream)
        aside.unlink()


FILE = "elsewhere.json"
SCHEMA = "elsewhere/1"
STARTED, FETCHED = "started", "fetched"

#: Value of ``host`` for a pod of the driver cluster; ``root`` is then its namespace.
DRIVER_POD = "driver_pod"


def path_of_sent_file(folder: Path, name: str, of_step: bool) -> Path:
    """Return the path of a file that a client of a load sends. Raises DataError for another one than a load writes.

    of_step: whether it is appended to one of a role call, beside which are files that others read.
    """
    plain = Path(name).name
    if not (plain in STEP_FILES if of_step else plain.endswith(".jsonl")):
        raise DataError(
            f"a client of the load sent the file {escape_control_characters(plain[:100])!r}, which no load writes"
        )
    return folder / plain


def read_load_record(point_dir: Path) -> dict[str, Any] | None:
    """Return the record, None if there is none."""
    try:
        return dict(files.read_json(point_dir / FILE))
    except DataError:
        return None


def write_load_record(
    point_dir: Path,
    host: str,
    root: str,
    state: str,
    result: Mapping[str, Any] | None = None,
    collect: Mapping[str, Any] | None = None,
    removed: bool = False,
) -> None:
    """Replace the record.

    result: of the load, once its files were fetched. collect: where they are uploaded. removed: whether nothing is left
    of the load elsewhere.
    """
    record: dict[str, Any] = {"schema": SCHEMA, "host": host, "root": root, "state": state}
    record["result"] = dict(result or {})
    if collect:
        record["collect"] = dict(collect)
    if removed:
        record["removed"] = True
    files.write_json(point_dir / FILE, record, SCHEMA)


def delete_unfetched_load_record(point_dir: Path) -> None:
    """Delete the record of a load that no longer runs. The record of fetched files stays."""
    record = read_load_record(point_dir)
    if record is not None and record["state"] != FETCHED:
        (point_dir / FILE).unlink(missing_ok=True)


def renewal_parameters_of_held_lock(run_dir: str | Path | None, cluster: str) -> dict[str, Any] | None:
    """Return the parameters with which the load renews the run's lock on its target, None without such a lock.

    cluster: the target's API host, as in lock files. The driver cluster may have another lock.
    """
    for path in sorted(Path(run_dir).glob(lock_records.PATTERN)) if run_dir else ():
        lock = lock_records.read_lock_record(path)
        if lock and lock["state"] == lock_records.HELD and lock["cluster"] == cluster:
            return cluster_lock_parameters(lock)
    return None


def cluster_lock_parameters(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of cluster_lock for the load, from the run's lock record."""
    names = {"run_id": "run", "owner": "owner", "purpose": "purpose", "namespace": "namespace", "duration": "duration"}
    return {**{ours: record[theirs] for ours, theirs in names.items()}, "timeout": 60, "context": ""}


class RemoteLoad(Protocol):
    """A load on a host or in a pod, as the controller sees it."""

    where: str  # for messages
    host: str  # host and root as the record has them
    root: str
    retry: ConnectionRetry

    @property
    def collect(self) -> Mapping[str, Any] | None:
        """Where its files are uploaded, if they are."""

    def begin(self, recorded: bool) -> bool:
        """Start the load, or find it; return whether it was found. recorded: an earlier session may have started it.

        Raises InputError before anything was created.
        """

    def follow(self) -> Mapping[str, Any]:
        """Show the output of the load until it has ended; return what fetch() needs.

        Raises ProcessError if it ended without a result.
        """

    def fetch(self, ended: Mapping[str, Any], point_dir: Path, step_dir: Path | None) -> Mapping[str, Any]:
        """Fetch the files of the point, and append those of the role call to the ones in ``step_dir``.

        Returns the outcome of the load: ``ok`` and its ``result``, or ``error`` and ``msg``.
        """

    def remove(self) -> bool:
        """End the load and delete its files and objects, in one attempt; return whether there were any."""


def run_remote_load(load: RemoteLoad, point_dir: Path, step_dir: Path | None) -> dict[str, Any]:
    """Run the load, or continue what an earlier session started; return the result of workload_submit and ``found``.

    Raises AccessError if the load found the cluster unreachable, ProcessError with its own error otherwise.
    """
    record = read_load_record(point_dir)
    if record and record["state"] == FETCHED:
        if not record.get("removed"):  # the call that fetched the files was killed since
            _remove_fetched_load(load, point_dir, record["result"])
        return {**without_keys_of_ansible(record["result"]), "changed": False, "found": True}
    point_dir.mkdir(parents=True, exist_ok=True)
    # Written before the start, so that a cleanup knows where to look.
    write_load_record(point_dir, load.host, load.root, STARTED, collect=load.collect)
    try:
        existed = load.begin(bool(record))
    except InputError:
        delete_unfetched_load_record(point_dir)
        raise
    ended = load.follow()
    outcome = load.fetch(ended, point_dir, step_dir)
    if outcome["ok"]:
        write_load_record(point_dir, load.host, load.root, FETCHED, outcome["result"], load.collect)
        _remove_fetched_load(load, point_dir, outcome["result"])
    else:
        load.retry.call("removing it", load.remove)
        delete_unfetched_load_record(point_dir)
        error = AccessError if outcome.get("error") == AccessError.__name__ else ProcessError
        raise error(f"{load.where}: {outcome['msg']}")
    return {**without_keys_of_ansible(outcome["result"]), "found": existed}


def _remove_fetched_load(load: RemoteLoad, point_dir: Path, result: Mapping[str, Any]) -> None:
    """Remove a load whose files are here, and record that."""
    load.retry.call("removing it", load.remove)
    state = FETCHED
    write_load_record(point_dir, load.host, load.root, state, result, load.collect, removed=True)


def end_and_delete_load(load: RemoteLoad, point_dir: Path | None) -> dict[str, Any]:
    """End the load, delete what is left of it, and delete its record."""
    changed = load.remove()
    if point_dir:
        delete_unfetched_load_record(point_dir)
    return {"changed": changed}


#: Options that every call of the module gets.
_NAMES = ("run_on", "elsewhere_dir", "run_id", "point")


class LoadOnHost:
    """The load of one point on another host.

    Args:
        given: the task's arguments.
        request: reads the parameters of workload_submit.
        call: runs module workload_remote on the host once.
        fetch_file: copies a file (path there, path here).
        retry: repeats both while the connection is lost.
    """

    def __init__(
        self,
        params: Mapping[str, Any],
        request: Callable[[], Mapping[str, Any]],
        call: Callable[[dict[str, Any]], Mapping[str, Any]],
        fetch_file: Callable[[str, str], Any],
        retry: ConnectionRetry,
    ) -> None:
        self.where = self.host = retry.who
        self.collect: Mapping[str, Any] | None = None  # ssh has no maximum size
        self.root = str(params.get("elsewhere_dir") or "")
        self._given = params
        self._read_request = request
        self._call_once = call
        self._fetch_file = fetch_file
        self.retry = retry
        self._parent = os.getppid()

    def begin(self, recorded: bool) -> bool:
        """See RemoteLoad. Without a load on the host, the earlier session did not come as far as its start."""
        state = self._lasting("looking for it", state="status")["load_state"] if recorded else detached_load.ABSENT
        if state != detached_load.ABSENT:
            self.retry.say(f"found the load again by its run id, {state}")
            return True
        existed = bool(self._lasting("starting it", state="present", **self._request())["found"])
        self.retry.say("found the load again" if existed else "started the load")
        return existed

    def follow(self) -> Mapping[str, Any]:
        """See RemoteLoad."""
        offset, pause = 0, 1.0
        while True:
            report = self._lasting("following it", state="status", offset=offset)
            for line in report["lines"]:
                self.retry.say(line)
            offset = report["offset"]
            if report["load_state"] == detached_load.ENDED:
                return report
            if report["load_state"] != detached_load.RUNNING:
                raise ProcessError(
                    f"{self.host}: the load of run {self._given['run_id']} {report['load_state']} without a result: "
                    f"{report.get('log') or 'it left no log'}"
                )
            time.sleep(pause)
            pause = min(pause * 2, float(self._given.get("elsewhere_interval", 10)))

    def fetch(self, ended: Mapping[str, Any], point_dir: Path, step_dir: Path | None) -> Mapping[str, Any]:
        """See RemoteLoad."""
        files = [(path, point_dir, False) for path in ended["files"]]
        files += [(path, step_dir, True) for path in ended["step_files"] if step_dir]
        for path, folder, append in files:
            self.retry.fetch(partial(self._fetch, path), path_of_sent_file(folder, path, append), append)
        return dict(ended["outcome"])

    def remove(self) -> bool:
        """See RemoteLoad."""
        return bool(self._call({"state": "absent"})["changed"])

    def _request(self) -> dict[str, Any]:
        request = self._read_request()
        kubeconfig, context = str(self._given["kubeconfig"]), str(self._given.get("context") or "")
        target = api_host_without_usual_port(load_context_access(kubeconfig, context))
        return {
            "request": files.to_plain_types(request),
            "kubeconfig": kubeconfig,
            "kubeconfig_content": render_standalone_kubeconfig(kubeconfig, context),
            "lock": renewal_parameters_of_held_lock(self._given.get("lock_dir"), target),
        }

    def _lasting(self, what: str, **more: Any) -> Mapping[str, Any]:
        return self.retry.call(what, partial(self._call, more))

    def _call(self, more: Mapping[str, Any]) -> Mapping[str, Any]:
        """Run the module on the host once. Raises ProcessError with its message."""
        self._check_run()
        arguments = {name: self._given[name] for name in _NAMES if self._given.get(name) is not None}
        result = self._call_once({**arguments, **more})
        if result.get("failed"):
            raise ProcessError(f"{self.host}: {result.get('msg', 'the module failed')}")
        return result

    def _fetch(self, path: str, aside: Path) -> None:
        self._check_run()
        self._fetch_file(path, str(aside))

    def _check_run(self) -> None:
        """Raise ProcessError if ansible-playbook has ended: a later session of the run takes care of the load."""
        if os.getppid() != self._parent:
            raise ProcessError(f"{self.host}: the run has ended, the load continues")

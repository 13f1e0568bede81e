# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A remote load from its start to its files on the controller: the same steps for a load on a host and in a pod."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    AccessError,
    InputError,
    ProcessError,
)

from . import remote_load_record
from .connection_retry import ConnectionRetry


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


def run(load: RemoteLoad, point_dir: Path, step_dir: Path | None) -> dict[str, Any]:
    """Run the load, or continue what an earlier session started; return the result of workload_submit and ``found``.

    Raises AccessError if the load found the cluster unreachable, ProcessError with its own error otherwise.
    """
    record = remote_load_record.read(point_dir)
    if record and record["state"] == remote_load_record.FETCHED:
        if not record.get("removed"):  # the call that fetched the files was killed since
            _remove(load, point_dir, record["result"])
        return {**record["result"], "changed": False, "found": True}
    point_dir.mkdir(parents=True, exist_ok=True)
    # Written before the start, so that a cleanup knows where to look.
    remote_load_record.write(point_dir, load.host, load.root, remote_load_record.STARTED, collect=load.collect)
    try:
        found = load.begin(bool(record))
    except InputError:
        remote_load_record.remove(point_dir)
        raise
    ended = load.follow()
    outcome = load.fetch(ended, point_dir, step_dir)
    if outcome["ok"]:
        remote_load_record.write(
            point_dir, load.host, load.root, remote_load_record.FETCHED, outcome["result"], load.collect
        )
        _remove(load, point_dir, outcome["result"])
    else:
        load.retry.call("removing it", load.remove)
        remote_load_record.remove(point_dir)
        error = AccessError if outcome.get("error") == AccessError.__name__ else ProcessError
        raise error(f"{load.where}: {outcome['msg']}")
    return {**outcome["result"], "found": found}


def _remove(load: RemoteLoad, point_dir: Path, result: Mapping[str, Any]) -> None:
    """Remove a load whose files are here, and record that."""
    load.retry.call("removing it", load.remove)
    state = remote_load_record.FETCHED
    remote_load_record.write(point_dir, load.host, load.root, state, result, load.collect, removed=True)


def remove(load: RemoteLoad, point_dir: Path | None) -> dict[str, Any]:
    """End the load, delete what is left of it, and delete its record."""
    changed = load.remove()
    if point_dir:
        remote_load_record.remove(point_dir)
    return {"changed": changed}

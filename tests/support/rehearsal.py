"""Rehearsal clusters for tests: programs from the user's cache, data in a folder that the next test run sweeps."""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _proc
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._rehearsal import cluster

ROOT = Path(__file__).parents[2]
COMPONENTS = ROOT / "roles" / "rehearsal" / "files" / "components"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "seatrial"


def base() -> Path:
    """The folder below which all test runs of this user keep their instances."""
    return Path(tempfile.gettempdir()) / f"seatrial-tests-{os.getuid()}"


def folder_of(pid: int) -> Path:
    """The folder of the test run whose main process is ``pid``; its name tells later whether that one still lives."""
    return base() / f"{pid}-{_proc.ticks_of(pid)}"


def options(data_dir: Path, name: str = "tests", **more: Any) -> cluster.Options:
    """What to ask for an instance in ``data_dir``."""
    return cluster.Options(
        name=name, data_dir=str(data_dir), cache_dir=str(CACHE), components_dir=str(COMPONENTS), **more
    )


def quiet(_line: str) -> None:
    """Say nothing."""


def remove_all(data_dir: Path) -> None:
    """Remove every instance in ``data_dir``, then the folder if nothing else is in it."""
    for entry in sorted(data_dir.glob("[!.]*")):
        if entry.is_dir():
            cluster.absent(options(data_dir, entry.name, force=True), quiet)
    for note in data_dir.glob(".*.gone"):
        note.unlink()
    with contextlib.suppress(OSError):
        data_dir.rmdir()


def sweep() -> None:
    """Remove what test runs left that were killed."""
    for left in base().glob("*-*"):
        pid, _dash, ticks = left.name.partition("-")
        if not pid.isdigit() or str(_proc.ticks_of(int(pid))) != ticks:
            remove_all(left)


@dataclass(frozen=True)
class Rehearsal:
    """A cluster that runs. ``info`` is what module rehearsal_cluster returned."""

    kubeconfig: str
    info: dict[str, Any]

    def client(self) -> Client:
        """Return a client of its own for the caller."""
        return Client.from_kubeconfig(self.kubeconfig)

    @property
    def cluster(self) -> dict[str, Any]:
        """Return the record that role cluster would keep."""
        return dict(self.info["cluster"])

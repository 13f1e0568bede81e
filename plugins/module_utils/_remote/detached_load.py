# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A load that runs on another machine than the controller, and goes on when the connection to it is lost.

On that machine each load has a folder ``<root>/<run id>/<point>``: by the run's id it is found again, by whoever asks.
The process in it is nobody's child, writes the files of a point there, and its result when it has ended. The
kubeconfig in the folder goes when the load ends, the folder when its files have been fetched.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _cluster_lock_record, _files, _processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._clock import boot_id
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import DataError, ProcessError, SeatrialError
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.load_spec import LoadSpec
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.submit_load import Load
from ansible_collections.perfscale.seatrial.plugins.module_utils._lock import lock_renewer, lock_session
from ansible_collections.perfscale.seatrial.plugins.module_utils._processes import Process
from ansible_collections.perfscale.seatrial.plugins.module_utils._progress import Progress
from ansible_collections.perfscale.seatrial.plugins.module_utils._step_dir import Step

ABSENT, RUNNING, ENDED, DIED = "absent", "running", "ended", "died"

#: Seconds that a load is given to end in order when it is told to.
PATIENCE = 20.0


class LoadDirectory:
    """The folder of one load."""

    def __init__(self, root: str | Path, run: str, point: str) -> None:
        self.path = Path(root).expanduser().absolute() / run / point
        self.point = self.path / "point"
        self.step = self.path / "step"
        self.kubeconfig = self.path / "kubeconfig"
        self.request = self.path / "request.json"
        self.process = self.path / "process.json"
        self.result = self.path / "result.json"
        self.progress = self.path / "progress"
        self.log = self.path / "log"

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Let nobody else start or remove this load meanwhile."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(self.path.with_suffix(".lock"), "w", encoding="ascii") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            yield

    def state(self) -> str:
        """Return how the load stands."""
        if self.result.exists():
            return ENDED
        if not self.path.exists():
            return ABSENT
        # Between a result's writing and the process' end both are true: the result was looked for first.
        return RUNNING if self.living() else (ENDED if self.result.exists() else DIED)

    def living(self) -> Process | None:
        """Return the load's process, if it lives."""
        try:
            known = _files.read_json(self.process)
        except DataError:
            return None
        found = Process(known["pid"], known["ticks"])
        return found if known["boot"] == boot_id() and found.lives() else None


def start(
    place: LoadDirectory,
    request: Mapping[str, Any],
    kubeconfig: str,
    lock: Mapping[str, Any] | None,
    interpreter: str = "",
) -> bool:
    """Start the load unless it is there already, whatever became of it; return whether it is new.

    request: parameters of module workload_submit. lock: what module cluster_lock was asked, so that the load renews
    the run's lock itself. Raises ProcessError when it does not begin.
    """
    with place.alone():
        if place.state() != ABSENT:
            return False
        place.step.mkdir(parents=True, mode=0o700)
        os.chmod(place.path, 0o700)
        _files.replace_text(place.kubeconfig, kubeconfig, mode=0o600)
        asked = {
            **request,
            "kubeconfig": str(place.kubeconfig),
            "point_dir": str(place.point),
            "lock_dir": str(place.path) if lock else None,
        }
        _files.write_json(place.request, {"request": asked, "lock": dict(lock) if lock else None})
        code = _code(place)
        command = [interpreter or sys.executable, "-m", __name__, str(place.path)]
        child = _processes.started(command, place.path, {**os.environ, "PYTHONPATH": code}, place.log)
        _files.write_json(place.process, {**Process.of(child.pid).record(), "boot": boot_id()})
        if child.poll() not in (None, 0):
            raise ProcessError(f"the load did not begin: {place.log.read_text(errors='replace')[-500:]}")
    return True


def _code(place: LoadDirectory) -> str:
    """Return where the child finds our code. Ansible's archive is removed with the module, so a copy stays."""
    archive = ansible_archive()
    if archive is None:
        return str(Path(__file__).parents[6])
    return str(shutil.copy(archive, place.path / "code.zip"))


def ansible_archive() -> Path | None:
    """Return the archive that Ansible runs this module from, None when it runs from files."""
    return next((Path(one) for one in sys.path if one.endswith(".zip") and Path(one).is_file()), None)


def status(place: LoadDirectory, offset: int) -> dict[str, Any]:
    """Return how the load stands, and what it has said since ``offset`` bytes."""
    state = place.state()
    data = b""
    if place.progress.exists():
        with open(place.progress, "rb") as stream:
            stream.seek(offset)
            data = stream.read()
    whole = data[: data.rfind(b"\n") + 1]
    found: dict[str, Any] = {"state": state, "lines": whole.decode(errors="replace").splitlines()}
    found["offset"] = offset + len(whole)
    if state == ENDED:
        found["outcome"] = _files.read_json(place.result)
        found["files"] = sorted(str(one) for one in place.point.glob("*.jsonl"))
        found["step_files"] = sorted(str(one) for one in place.step.iterdir() if one.is_file())
    if state == DIED:
        found["log"] = place.log.read_text(errors="replace")[-1000:] if place.log.exists() else ""
    return found


def remove(place: LoadDirectory) -> bool:
    """End the load if it runs, and remove its folder; return whether there was one. Safe twice."""
    with place.alone():
        there = place.path.exists()
        end(place)
        shutil.rmtree(place.path, ignore_errors=True)
        place.path.with_suffix(".lock").unlink(missing_ok=True)
    try:
        place.path.parent.rmdir()
    except OSError:
        pass  # another point of the run
    return there


def end(place: LoadDirectory) -> None:
    """TERM to the load, upon which it writes what it knows; KILL to its session when it does not end."""
    found = place.living()
    # It leads its own session, its sampler is in it.
    if found is not None and _processes.end([found], PATIENCE, session=True):
        raise ProcessError(f"the load, process {found.pid}, does not end")


def main(folder: str) -> int:
    """Be the load: take the lock over, run, write the result. Started by start()."""
    path = Path(folder)
    place = LoadDirectory(path.parent.parent, path.parent.name, path.name)
    given = _files.read_json(place.request)
    lock_path = place.path / "lock-elsewhere.json"
    outcome: dict[str, Any] = {"ok": False, "error": "ProcessError", "msg": "the load ended without a result"}
    try:
        if given["lock"]:
            _take_over(given["lock"], place, lock_path)
        load = Load(LoadSpec.of(given["request"]), Step(str(place.step)), Progress(str(place.progress), Step(None)))
        outcome = {"ok": True, "result": load.run()}
    except SeatrialError as error:
        outcome = {"ok": False, "error": type(error).__name__, "msg": str(error)}
    except Exception as error:
        outcome = {"ok": False, "error": type(error).__name__, "msg": f"{type(error).__name__}: {error}"}
        raise
    finally:
        lock_renewer.stop(_cluster_lock_record.read(lock_path))
        place.kubeconfig.unlink(missing_ok=True)
        _files.write_json(place.result, {**outcome, "ended": time.time()})
    return 0


def _take_over(lock: Mapping[str, Any], place: LoadDirectory, path: Path) -> None:
    """Renew the run's lock from here too: it is held as long as either of us lives."""
    asked = {**lock, "kubeconfig": str(place.kubeconfig), "lock_file": str(path), "caller_pid": os.getpid()}
    lock_session.take(lock_session.LockSpec.of(asked, 0), Step(None), _say)


def _say(text: str) -> None:
    """Write a line into what the starter made our output."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _say(json.dumps({"ended": main(sys.argv[1])}))

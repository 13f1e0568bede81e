# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A load as a detached process, on another host or in a pod; it continues without connection to the controller.

Each load has a directory ``<root>/<run id>/<point>`` there, by which every session of the run finds it again. The
process leads its own session, writes the files of the point to this directory, and at its end the result. It deletes
the kubeconfig in the directory when it ends. The directory is deleted after its files were fetched.
"""

from __future__ import annotations

import contextlib
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

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    DataError,
    InputError,
    ProcessError,
    SeatrialError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import boot_id
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.processes import ProcessReference
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import exit_with_parent
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import ProgressLog, StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.lock import lock_records, lock_session

from ..send.load_spec import LoadSpec, parameters_of_remote_load
from ..send.submit_load import LoadRunner
from .inference_client_in_pod import RemoteInferenceClient

PLAN = "plan.jsonl"
ABSENT, RUNNING, ENDED, DIED = "absent", "running", "ended", "died"
#: What a load sends: objects to an API server, or requests to inference servers.
WORKLOADS, REQUESTS = "workloads", "requests"

#: How long to wait after SIGTERM for the load to end, seconds.
GRACE_PERIOD = 20.0


class LoadDirectory:
    """The directory of one load. Raises InputError for a run or point that would lead to another folder."""

    def __init__(self, root: str | Path, run: str, point: str) -> None:
        for name in (run, point):
            if name in ("", ".", "..") or "/" in name:
                raise InputError(f"'{name}' is no name of a run or of a point")
        self.path = Path(root).expanduser().absolute() / run / point
        self.point = self.path / "point"
        self.step = self.path / "step"
        self.kubeconfig = self.path / "kubeconfig"
        self.request = self.path / "request.json"
        self.process = self.path / "process.json"
        self.result = self.path / "result.json"
        self.counts = self.path / "counts.json"
        self.progress = self.path / "progress"
        self.log = self.path / "log"

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lock the load, so that no other process starts or removes it."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(self.path.with_suffix(".lock"), "w", encoding="ascii") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            yield

    def state(self) -> str:
        """Return the state of the load."""
        if self.result.exists():
            return ENDED
        if not self.path.exists():
            return ABSENT
        # The process still lives for a moment after it wrote the result, so the result is checked first.
        return RUNNING if self.living() else (ENDED if self.result.exists() else DIED)

    def living(self) -> ProcessReference | None:
        """Return the process of the load if it is alive."""
        try:
            known = files.read_json(self.process)
        except DataError:
            return None
        process = ProcessReference(known["pid"], known["ticks"])
        return process if known["boot"] == boot_id() and process.lives() else None


def start_load_unless_exists(
    directory: LoadDirectory,
    request: Mapping[str, Any],
    kubeconfig: str,
    lock: Mapping[str, Any] | None,
    interpreter: str = "",
    plan: Path | None = None,
    again: bool = False,
    tied: bool = False,
    sends: str = WORKLOADS,
) -> bool:
    """Start the load unless it exists, in whatever state; return whether it was started.

    sends: WORKLOADS or REQUESTS.
    plan: the part of one client of several. again: whether a load that has died is started again, on its own files.
    request: parameters of module workload_submit. lock: parameters of module cluster_lock, for the load to renew the
    run's lock itself. tied: whether the load ends when this process does. Raises ProcessError if it does not start.
    """
    with directory.alone():
        if directory.state() not in ((ABSENT, DIED) if again else (ABSENT,)):
            return False
        directory.step.mkdir(parents=True, mode=0o700, exist_ok=True)
        directory.point.mkdir(exist_ok=True)
        if plan is not None:
            shutil.copyfile(plan, directory.point / PLAN)
        os.chmod(directory.path, 0o700)
        files.replace_text(directory.kubeconfig, kubeconfig, mode=0o600)
        asked = {
            **request,
            "kubeconfig": str(directory.kubeconfig),
            "point_dir": str(directory.point),
            "lock_dir": str(directory.path) if lock else None,
        }
        settings = {"request": asked, "lock": dict(lock) if lock else None, "tied": tied, "sends": sends}
        files.write_json(directory.request, settings)
        code = _load_process_pythonpath(directory)
        command = [interpreter or sys.executable, "-m", __name__, str(directory.path)]
        child = processes.start_in_new_session(
            command, directory.path, {**os.environ, "PYTHONPATH": code}, directory.log
        )
        files.write_json(directory.process, {**ProcessReference.of(child.pid).record(), "boot": boot_id()})
        if child.poll() not in (None, 0):
            raise ProcessError(f"the load did not start: {directory.log.read_text(errors='replace')[-500:]}")
    return True


def _load_process_pythonpath(directory: LoadDirectory) -> str:
    """Return the PYTHONPATH of the process. It gets a copy of Ansible's archive, which is deleted with the module."""
    archive = path_of_running_module_archive()
    if archive is None:
        return str(Path(__file__).parents[7])
    return str(shutil.copy(archive, directory.path / "code.zip"))


def path_of_running_module_archive() -> Path | None:
    """Return the archive from which Ansible runs this module, None if it runs from files."""
    return next((Path(entry) for entry in sys.path if entry.endswith(".zip") and Path(entry).is_file()), None)


def read_load_status(directory: LoadDirectory, offset: int) -> dict[str, Any]:
    """Return the state of the load, and its progress lines from byte ``offset`` on."""
    state = directory.state()
    data = b""
    if directory.progress.exists():
        with open(directory.progress, "rb") as stream:
            stream.seek(offset)
            data = stream.read()
    whole = data[: data.rfind(b"\n") + 1]
    report: dict[str, Any] = {"state": state, "lines": whole.decode(errors="replace").splitlines()}
    report["offset"] = offset + len(whole)
    if state == ENDED:
        report["outcome"] = files.read_json(directory.result)
        report["files"] = list_point_files(directory)
        report["step_files"] = sorted(str(path) for path in directory.step.iterdir() if path.is_file())
    if directory.counts.exists():
        report["counts"] = files.read_json(directory.counts)
    if state == DIED:
        report["log"] = directory.log.read_text(errors="replace")[-1000:] if directory.log.exists() else ""
    return report


def list_point_files(directory: LoadDirectory) -> list[str]:
    """Return the files of the point; of one client of several without its part of the plan."""
    paths = sorted(directory.point.glob("*.jsonl"))
    several = files.read_json(directory.request)["request"].get("clients", 1) > 1
    return [str(path) for path in paths if not (several and path.name == PLAN)]


def run_remote_load_step(params: Mapping[str, Any], _step: StepDirectory) -> dict[str, Any]:
    """Do one step of module workload_remote on this host: start the load, read its state, or remove it.

    Raises:
        InputError: for parameters that workload_submit would refuse.
        ProcessError: if the load does not start or end.
    """
    directory = LoadDirectory(params["elsewhere_dir"], params["run_id"], params["point"])
    if params["state"] == "absent":
        return {"changed": remove_load_directory(directory)}
    if params["state"] == "status":
        report = read_load_status(directory, params["offset"])
        return {"changed": False, "load_state": report.pop("state"), **report}
    request = parameters_of_remote_load(params["request"], params["run_id"], params["point"])
    new = start_load_unless_exists(directory, request, params["kubeconfig_content"], params["lock"])
    return {"changed": new, "found": not new}


def remove_load_directory(directory: LoadDirectory) -> bool:
    """End the load if it runs, and delete its directory; return whether there was one. Safe to repeat."""
    with directory.alone():
        there = directory.path.exists()
        terminate_load_process(directory)
        shutil.rmtree(directory.path, ignore_errors=True)
        directory.path.with_suffix(".lock").unlink(missing_ok=True)
    try:
        directory.path.parent.rmdir()
    except OSError:
        pass  # another point of the run
    return there


def terminate_load_process(directory: LoadDirectory) -> None:
    """Send SIGTERM to the load, which then writes its result; SIGKILL to its session if it does not end."""
    process = directory.living()
    # Its session includes the sampler.
    if process is not None and processes.terminate_processes([process], GRACE_PERIOD, session=True):
        raise ProcessError(f"the load, process {process.pid}, did not end")


def main(folder: str) -> int:
    """As the process that start_load_unless_exists() starts, take over the lock, apply the load, write the result."""
    path = Path(folder)
    directory = LoadDirectory(path.parent.parent, path.parent.name, path.name)
    settings = files.read_json(directory.request)
    lock_path = directory.path / "lock-elsewhere.json"
    outcome: dict[str, Any] = {"ok": False, "error": "ProcessError", "msg": "the load ended without a result"}
    try:
        if settings["lock"]:
            _take_over(settings["lock"], directory, lock_path)
        progress, step = ProgressLog(str(directory.progress), StepDirectory(None)), StepDirectory(str(directory.step))
        note = _LoadCountsFile(directory.counts).write
        load: LoadRunner | RemoteInferenceClient
        if settings["sends"] == REQUESTS:
            load = RemoteInferenceClient(settings["request"], step, progress, note)
        else:
            load = LoadRunner(LoadSpec.from_params(settings["request"]), step, progress, note)
        with exit_with_parent() if settings["tied"] else contextlib.nullcontext():
            outcome = {"ok": True, "result": load.run()}
    except SeatrialError as error:
        outcome = {"ok": False, "error": error.error_kind, "msg": str(error)}
    except Exception as error:
        outcome = {"ok": False, "error": type(error).__name__, "msg": f"{type(error).__name__}: {error}"}
        raise
    finally:
        lock_session.stop_renewer(lock_records.read_lock_record(lock_path))
        directory.kubeconfig.unlink(missing_ok=True)
        files.write_json(directory.result, {**outcome, "ended": time.time()})
    return 0


class _LoadCountsFile:
    """The counts of the load in a file, replaced at most once a second."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written: dict[str, int] = {}
        self._at = float("-inf")

    def write(self, counts: dict[str, int]) -> None:
        """Write the counts if they have changed."""
        now = time.monotonic()
        if counts != self._written and now - self._at >= 1.0:
            files.write_json(self._path, counts)
            self._written, self._at = counts, now


def _take_over(lock: Mapping[str, Any], directory: LoadDirectory, path: Path) -> None:
    """Renew the run's lock here too: it is held while this process or the controller lives."""
    asked = {**lock, "kubeconfig": str(directory.kubeconfig), "lock_file": str(path), "caller_pid": os.getpid()}
    lock_session.acquire_cluster_lock(lock_session.LockSpec.of(asked, 0), StepDirectory(None), _write_log_line)


def _write_log_line(text: str) -> None:
    """Write a line to stdout, which start() redirected to the log."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _write_log_line(json.dumps({"ended": main(sys.argv[1])}))

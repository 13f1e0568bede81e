# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a playbook of a project as a CI job: the exit status says what the verdict is.

    python -m ansible_collections.perfscale.seatrial.plugins.plugin_utils.ci.ci_run \\
        [--junit PATH] [--timeout 4h] PLAYBOOK

Arguments behind PLAYBOOK are those of ansible-playbook. Exit status 0: pass or improvement, or ci.yml was asked for no
run. 1: regression. 2: inconclusive or invalid. 3: error, or invalid input. The exit status of ansible-playbook does not
distinguish these. A JUnit file is written in every case. PLAYBOOK is that of a project, ci.yml or compare.yml.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    DataError,
    InputError,
    suggest_nearest_file,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import ENDING
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import parse_json
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import junit, overall_verdict
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.write_verdict import VERDICT
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader, schema_migration
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import run_directory
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.project_role import ROOT

PLAYBOOKS = ROOT / "playbooks"
#: How the playbooks of this collection are named without a path.
FULL_NAME = "perfscale.seatrial."
#: What a playbook has that opens a run and judges it. A comparison has a verdict, too.
_OPENS_RUN, _COMPARES = "import_playbook: _project.yml", "compare.yml"


def check_playbook_has_verdict(playbook: str) -> None:
    """Raise InputError for a playbook of this collection that has no verdict, and for a path that leads to nothing.

    What a playbook of somebody else does is seen only when it has run.
    """
    named = playbook.startswith(FULL_NAME) and "/" not in playbook
    path = PLAYBOOKS / f"{playbook.removeprefix(FULL_NAME)}.yml" if named else Path(playbook)
    if not path.is_file():
        if "/" in playbook:
            raise InputError(f"there is no playbook {playbook}{suggest_nearest_file(path)}")
        return
    if path.resolve().parent != PLAYBOOKS.resolve() or path.name == _COMPARES:
        return
    if _OPENS_RUN not in path.read_text(encoding="utf-8"):
        raise InputError(
            f"{playbook} opens no run, whose verdict the exit status would be: only playbooks of projects, bisect.yml,"
            " ci.yml and compare.yml do. Run others with ansible-playbook"
        )


def prepare_junit_file(target: Path) -> None:
    """Create the folder of the JUnit file. Raises InputError if the file could not be written at the end."""
    if target.is_dir():
        raise InputError(f"--junit {target} is a folder: name a file")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=target.parent).close()
    except OSError as error:
        raise InputError(f"--junit {target}: no file can be created in its folder: {error.strerror}") from error


ERROR = 3
#: Instead of a verdict, if the job was asked for no run.
ANSWERED = "no run"
COMPARISON = "comparison.json"
#: Seconds that an interrupted playbook has to give back what it holds.
GRACE = 900.0


@dataclass(frozen=True)
class PlaybookOutcome:
    """How a playbook ended. ``ended_by``: the signal or timeout that ended it; run_dir: None if no run was opened.

    comparison: the folder of a comparison, None if none was made. answer: why no run was asked for.
    """

    code: int
    began: float  # seconds since the epoch
    run_dir: Path | None = None
    error: str = ""  # of the settings
    ended_by: str = ""
    comparison: Path | None = None
    answer: str = ""


def verdict_and_exit_status(outcome: PlaybookOutcome) -> tuple[str, int, str]:
    """Return the verdict, the exit status and a sentence on the reason."""
    if outcome.ended_by:
        return overall_verdict.ERROR, ERROR, f"ended by {outcome.ended_by}"
    if outcome.comparison is not None:
        return _comparison_verdict(outcome, outcome.comparison)
    if outcome.answer and outcome.code == 0:
        return ANSWERED, 0, outcome.answer.splitlines()[0]
    if outcome.run_dir is None:
        text = outcome.error or f"ansible-playbook ended with status {outcome.code} before it opened a run"
        if outcome.code == 0 and not outcome.error:
            text = (
                "the playbook succeeded, and it opened no run, whose verdict this exit status would be: only"
                " playbooks of projects, bisect.yml, ci.yml and compare.yml do. Run others with ansible-playbook"
            )
        return overall_verdict.ERROR, ERROR, text
    path = outcome.run_dir / VERDICT
    try:
        verdict = (
            schema_migration.read_document_migrated(path, "verdict") if _is_written_by_job(path, outcome.began) else {}
        )
    except DataError as error:
        return overall_verdict.ERROR, ERROR, str(error)
    failure = _first_failure(outcome.run_dir)
    if not verdict:
        return overall_verdict.ERROR, ERROR, f"the run was not judged: {failure or 'phase report did not run'}"
    status = int(verdict["exit_status"])
    if status == 0 and outcome.code != 0:
        return overall_verdict.ERROR, ERROR, f"verdict {verdict['verdict']}, but the run failed: {failure}"
    reasons = overall_verdict.reasons_of_verdict(verdict) or verdict.get("answer") or []
    return verdict["verdict"], status, reasons[0] if reasons else "no figure of the run is worse"


def _comparison_verdict(outcome: PlaybookOutcome, folder: Path) -> tuple[str, int, str]:
    """Return the verdict of a comparison, its exit status and reason. The points of one run have no verdict."""
    try:
        comparison = schema_migration.read_document_migrated(folder / COMPARISON, "comparison")
    except DataError as error:
        return overall_verdict.ERROR, ERROR, str(error)
    verdict, status = comparison.get("verdict") or "compared", int(comparison.get("exit_status") or 0)
    if status == 0 and outcome.code != 0 and verdict not in (overall_verdict.PASS, overall_verdict.IMPROVEMENT):
        return overall_verdict.ERROR, ERROR, f"ansible-playbook ended with status {outcome.code}"
    return verdict, status, next(iter(comparison.get("why") or ()), f"see {folder / 'index.html'}")


def _is_written_by_job(path: Path, began: float) -> bool:
    """Return whether a file was written by this job and not by an earlier session of the run."""
    return path.is_file() and path.stat().st_mtime >= began - 1


def _first_failure(run_dir: Path) -> str:
    try:
        lines = files.read_text_begin(run_dir / "FAILURES").splitlines()
    except OSError:
        return ""
    return next((line for line in lines if line.strip()), "")


def copy_or_write_junit(target: Path, outcome: PlaybookOutcome, reason: str, status: int) -> None:
    """Copy the JUnit file of the run; without one that shows an error, write one with the error as its only case."""
    own = outcome.run_dir / "junit.xml" if outcome.run_dir else None
    target.parent.mkdir(parents=True, exist_ok=True)
    if outcome.comparison and status != ERROR:
        comparison = schema_migration.read_document_migrated(outcome.comparison / COMPARISON, "comparison")
        files.replace_text(target, junit.render_comparison_xml(comparison))
        return
    if (
        own
        and _is_written_by_job(own, outcome.began)
        and (status != ERROR or "<error" in own.read_text(encoding="utf-8"))
    ):
        files.replace_text(target, own.read_text(encoding="utf-8"))
        return
    kind = overall_verdict.ERROR if status else junit.SKIPPED
    case = junit.JUnitTestCase("run", kind, reason, _job_error_type(outcome) if status else "")
    files.replace_text(target, junit.render_suite_xml("perfscale.seatrial", [case]))


def _job_error_type(outcome: PlaybookOutcome) -> str:
    """Return the type of the error of a job: the cause that the run recorded, if there is a run."""
    if outcome.ended_by:
        return "Interrupted"
    if outcome.run_dir is None:
        return "InputError"
    phases = run_reader.read_run_directory(outcome.run_dir).record.get("phases") or {}
    causes = [phase["cause"] for phase in phases.values() if phase.get("status") == "failed" and phase.get("cause")]
    return str(causes[0]) if causes else "RunFailed"


def run_ansible_playbook(arguments: Sequence[str], timeout: float | None, grace: float = GRACE) -> PlaybookOutcome:
    """Run ansible-playbook. timeout: in seconds; then, and after a signal to us, it ends in order within ``grace``."""
    beside = Path(sys.executable).parent / "ansible-playbook"
    program = str(beside) if beside.exists() else shutil.which("ansible-playbook")
    if program is None:
        raise InputError("ansible-playbook is not installed")
    with tempfile.TemporaryDirectory(prefix="seatrial-ci-") as folder:
        place = Path(folder) / "session.json"
        began = time.time()
        environment = {**os.environ, run_directory.VARIABLE: str(place)}
        with _record_received_signals() as received:
            # A new session: a terminal's Ctrl-C then reaches it once, through us.
            process = subprocess.Popen([program, *arguments], env=environment, start_new_session=True)
            ended_by = _wait_for_process(process, timeout, grace, received)
        session = _read_session_file(place)
    run_dir, comparison = (Path(session[key]) if session.get(key) else None for key in run_directory.KEYS)
    error, answer = (str(session.get(key) or "") for key in ("error", run_directory.ANSWER))
    return PlaybookOutcome(process.returncode, began, run_dir, error, ended_by, comparison, answer)


def _wait_for_process(
    process: subprocess.Popen[bytes], timeout: float | None, grace: float, received: list[str]
) -> str:
    """Wait for the process; return the signal or timeout that ended it, empty if it ended by itself.

    received: names of the signals to us so far; each is passed on.
    """
    limit = time.monotonic() + timeout if timeout else None
    ended_by, kill_at, passed = "", None, 0
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.2)
            return ended_by or (received[0] if received else "")
        now = time.monotonic()
        for name in received[passed:]:
            process.send_signal(signal.Signals[name])
            passed += 1
        if not ended_by and limit is not None and now >= limit:
            ended_by = f"the timeout of {formats.format_duration(timeout or 0.0)}"
            process.terminate()
        if kill_at is None and (ended_by or received):
            kill_at = now + grace
        if kill_at is not None and now >= kill_at:
            os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def _record_received_signals() -> Iterator[list[str]]:
    """Record signals to us while the body runs; yield their names."""
    received: list[str] = []

    def note(number: int, _frame: Any) -> None:
        received.append(signal.Signals(number).name)

    before = {number: signal.signal(number, note) for number in ENDING}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _read_session_file(place: Path) -> dict[str, Any]:
    try:
        session = parse_json(place.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return session if isinstance(session, dict) else {}


class _NonExitingArgumentParser(argparse.ArgumentParser):
    """A parser that does not end the process with status 2, which means inconclusive or invalid here."""

    def error(self, message: str) -> NoReturn:
        raise InputError(message)


def parse_command_line(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of the command line. Raises InputError."""
    parser = _NonExitingArgumentParser(prog="ci_run", description="Run a playbook; the exit status states the verdict.")
    parser.add_argument("--junit", help="JUnit file to write (default: junit.xml in $ARTIFACT_DIR or artifacts)")
    parser.add_argument("--timeout", help="time after which the run is ended, such as 90 min or 4 h")
    parser.add_argument("playbook")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of ansible-playbook")
    namespace = parser.parse_args(arguments)
    try:
        if namespace.timeout is not None:
            namespace.timeout = formats.parse_number_with_unit(_space_before_duration_unit(namespace.timeout), "s")
    except InputError as error:
        raise InputError(f"--timeout: {error}") from error
    if namespace.timeout is not None and namespace.timeout <= 0:
        raise InputError("--timeout: it must be longer than 0 s")
    return namespace


def _space_before_duration_unit(text: str) -> str:
    """Return a duration with the units of parse_number_with_unit(): 30m is 30 min."""
    return f"{text[:-1]} min" if text[-1:] == "m" and text[:-1].replace(".", "").isdigit() else text


def _junit_path_from_arguments(arguments: Sequence[str]) -> Path:
    """Return the JUnit file to write, also for a command line that is otherwise invalid."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--junit", nargs="?")
    junit_file = parser.parse_known_args(arguments)[0].junit
    return (
        Path(junit_file).expanduser()
        if junit_file
        else Path(os.environ.get("ARTIFACT_DIR") or "artifacts") / "junit.xml"
    )


def main(arguments: Sequence[str]) -> int:
    """Run the playbook, write the JUnit file and print one line; return the exit status."""
    target = _junit_path_from_arguments(arguments)
    writable = False
    try:
        prepare_junit_file(target)
        writable = True
        namespace = parse_command_line(arguments)
        check_playbook_has_verdict(namespace.playbook)
        outcome = run_ansible_playbook([namespace.playbook, *namespace.arguments], namespace.timeout)
    except InputError as error:
        outcome = PlaybookOutcome(ERROR, time.time(), error=str(error))
    verdict, status, reason = verdict_and_exit_status(outcome)
    if writable:
        copy_or_write_junit(target, outcome, reason, status)
    print(f"{verdict} (exit {status}): {' '.join(reason.split())}", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several clients of one load: forked processes, each with its own engine and its share of the conversations.

All are forked by one process of one machine, so they have one clock and count from one start. Each reports what it has
done so far, and appends to its own file, ``clients/<number>.jsonl``. The files become part of requests.jsonl when all
clients have ended, or when a later call continues the load. A client that dies is started again and sends what its file
does not have.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, load_generator_health, processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    OwnershipError,
    ProcessError,
    SeatrialError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.files import JsonlAppender
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import MonotonicWallClock
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.processes import ProcessReference
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import (
    ENDING,
    Interrupt,
    Interrupted,
    unblock_signals,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import parse_json

from .inference_request import FAILED, LOST, REFUSED, SECOND, SUCCEEDED
from .planned_and_past_requests import SCHEMA
from .request_engine import RequestEngine


@dataclass
class ClientReport:
    """What a client has done. first_token: median of the latest ones; cpu: processor time; seconds.

    lag, lateness: in seconds, None before the end. stopped: why it gave up; error: why it ended without a result.
    """

    sent: int = 0
    open: int = 0
    open_max: int = 0
    most_open: int = 0
    tokens: int = 0
    cpu: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    first_token: float | None = None
    lag: dict[str, float] | None = None
    lateness: dict[str, float] | None = None
    stopped: str = ""
    error: str = ""

    @classmethod
    def of_engine(cls, engine: RequestEngine, first_tokens: Iterable[int], ended: bool = False) -> ClientReport:
        """Return the report of an engine. first_tokens: the latest, in nanoseconds; ended: with lag and lateness."""
        latest = sorted(first_tokens)
        return cls(
            sent=engine.submitted,
            open=len(engine.open),
            open_max=engine.open_max,
            most_open=engine.most_open,
            tokens=engine.tokens,
            outcomes=engine.outcomes.copy(),
            first_token=load_generator_health.quantile(latest, 0.5) / SECOND if latest else None,
            lag=_seconds_summary(engine.lags) if ended else None,
            lateness=_seconds_summary(engine.lateness) if ended else None,
            stopped=engine.stopped,
        )

    def end_line(
        self, clock: MonotonicWallClock, reason: str, wall: float, machine: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the last line of a call in requests.jsonl. wall: its duration in seconds. machine: that sent them."""
        return {
            "type": "end",
            "at": round(clock.now(), 6),
            "reason": reason,
            "cpu": round(self.cpu, 6),
            "wall": round(wall, 6),
            "cpus": os.cpu_count() or 0,
            "sent": self.sent,
            "tokens": self.tokens,
            "open_max": self.open_max,
            "lag": self.lag,
            "lateness": self.lateness,
            "machine": dict(machine),
        }

    def progress_line(self, point: str, sent_before: int, total: int, seconds: float) -> str:
        """Return the progress in one line.

        Args:
            point: Of the run.
            sent_before: Requests that earlier calls have sent.
            total: Requests of the load, 0 if their number is not known.
            seconds: Time since the call began.
        """
        of = f"/{total:,}" if total else ""
        bad = [f"{self.outcomes[name]:,} {name}" for name in (FAILED, REFUSED, LOST) if self.outcomes[name]]
        first = [] if self.first_token is None else [f"first token after {self.first_token * 1000:.0f} ms (median)"]
        done = [f"{self.sent + sent_before:,}{of} sent", f"{self.outcomes[SUCCEEDED]:,} succeeded"]
        seconds = max(seconds, 0.001)
        rate = f"{sum(self.outcomes.values()) / seconds:.1f}/s"
        words = [*done, *bad, f"{self.open:,} open", *first, rate, f"{seconds:.0f} s"]
        return f"requests {point}: {', '.join(words)}"

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> ClientReport:
        """Return the report that ``vars`` of another one describes."""
        return cls(**{**record, "outcomes": Counter(record["outcomes"])})


def join_reports(reports: Sequence[ClientReport]) -> ClientReport:
    """Return what clients have done together. Of lag and lateness it has those of the worst client."""
    first = sorted(report.first_token for report in reports if report.first_token is not None)
    return ClientReport(
        sent=sum(report.sent for report in reports),
        open=sum(report.open for report in reports),
        open_max=sum(report.open_max for report in reports),
        most_open=sum(report.most_open for report in reports),
        tokens=sum(report.tokens for report in reports),
        cpu=sum(report.cpu for report in reports),
        outcomes=sum((report.outcomes for report in reports), Counter()),
        first_token=load_generator_health.quantile(first, 0.5) if first else None,
        lag=_worst(report.lag for report in reports),
        lateness=_worst(report.lateness for report in reports),
        stopped=next((report.stopped for report in reports if report.stopped), ""),
        error=next((report.error for report in reports if report.error), ""),
    )


def _worst(summaries: Iterable[dict[str, float] | None]) -> dict[str, float] | None:
    known = [summary for summary in summaries if summary]
    return {name: max(summary[name] for summary in known) for name in known[0]} if known else None


def _seconds_summary(nanoseconds: Iterable[int]) -> dict[str, float] | None:
    return load_generator_health.percentile_summary([value / SECOND for value in nanoseconds])


FOLDER = "clients"
#: Seconds between two looks at the clients; deaths of one client that end the load.
_LOOK, _DEATHS = 0.2, 3
#: Seconds that clients get to end, and that those of an earlier call get to notice the death of their parent.
_GRACE = 10.0
#: Lines that are joined at a time.
_LINES_AT_ONCE = 1000

#: Takes the reports of a client. Runs one in its process: its number, its file, what interrupts it, its reports.
SendReport = Callable[[ClientReport], None]
RunClient = Callable[[int, JsonlAppender, Interrupt, SendReport], None]


@dataclass
class _ClientProcess:
    """A running client. ``text``: what it has written since its last whole report."""

    reference: ProcessReference
    reports: int
    end: int
    text: bytes = b""
    report: ClientReport = field(default_factory=ClientReport)

    def read(self) -> None:
        """Take the reports that have arrived."""
        while select.select([self.reports], [], [], 0)[0] and (data := os.read(self.reports, 1 << 16)):
            *lines, self.text = (self.text + data).split(b"\n")
            if lines:
                self.report = ClientReport.from_record(parse_json(lines[-1]))

    def close(self) -> None:
        """Close the pipes."""
        os.close(self.reports)
        os.close(self.end)


class SeveralClients:
    """The clients of a load. ``ended``: reports of those that have ended, with their processor time."""

    def __init__(self, point_dir: Path, count: int, run_client: RunClient, close_in_child: Callable[[], None]) -> None:
        """Prepare the clients.

        Args:
            point_dir: Directory of the test point.
            count: Number of clients.
            run_client: Runs one in its process.
            close_in_child: Closes what the clients must not keep open: the locked file of requests.
        """
        self._folder = point_dir / FOLDER
        self._count = count
        self._run_client = run_client
        self._close_in_child = close_in_child
        self._running: dict[int, _ClientProcess] = {}
        self.ended: list[ClientReport] = []

    def run(self, look: Callable[[ClientReport], None]) -> None:
        """Start the clients, and wait for their end.

        Args:
            look: Called several times a second with what they have done so far. May raise; the clients end then.

        Raises:
            ProcessError: A client can't go on, or has died several times.
        """
        self._folder.mkdir(exist_ok=True)
        deaths = [0] * self._count
        try:
            for number in range(self._count):
                self._start(number)
            while self._running:
                time.sleep(_LOOK)
                for number, status in self._reap():
                    if status == 0:
                        continue
                    if error := self.ended[-1].error:
                        raise ProcessError(f"client {number} of {self._count}: {error}")
                    deaths[number] += 1
                    if deaths[number] == _DEATHS:
                        raise ProcessError(f"client {number} of {self._count} died {_DEATHS} times, last by {status}")
                    self._start(number)
                report = self.report
                look(report)
                if report.stopped:
                    break
        finally:
            self._end()

    @property
    def report(self) -> ClientReport:
        """What all clients have done so far."""
        return join_reports([*self.ended, *(client.report for client in self._running.values())])

    def _start(self, number: int) -> None:
        parent = os.getpid()

        def run(report: int, _end: int) -> int:
            return self._run_child(number, report, parent)

        pid, reports, end = processes.fork_reporting_process(run, self._close_in_child)
        self._running[number] = _ClientProcess(ProcessReference.of(pid), reports, end)

    def _run_child(self, number: int, report: int, parent: int) -> int:
        """Run a client in the child; return the exit status. Nothing is printed: stdout is for the parent's result."""
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        stop = Interrupt(lambda: "" if os.getppid() == parent else "the process that started this client has ended")
        for ending in ENDING:  # Ctrl-C is for the parent, which ends its clients
            signal.signal(ending, stop.note if ending == signal.SIGTERM else signal.SIG_IGN)
        unblock_signals()

        def send(state: ClientReport) -> None:
            try:
                os.write(report, json.dumps(vars(state)).encode() + b"\n")
            except OSError as error:
                raise Interrupted("the process that started this client has ended") from error

        try:
            log = JsonlAppender(self._folder / f"{number:03d}.jsonl", SCHEMA, "client")
            try:
                self._run_client(number, log, stop, send)
            finally:
                log.close()
        except Interrupted:
            return 0
        except (SeatrialError, OSError) as error:
            send(ClientReport(error=str(error)))
            return 1
        return 0

    def _reap(self) -> list[tuple[int, int]]:
        """Return number and exit status of clients that have ended since the last look; a negative one is a signal."""
        found = []
        for number, client in list(self._running.items()):
            client.read()
            pid, status, used = os.wait4(client.reference.pid, os.WNOHANG)
            if pid:
                client.read()
                client.close()
                del self._running[number]
                self.ended.append(replace(client.report, open=0, cpu=used.ru_utime + used.ru_stime))
                found.append((number, os.waitstatus_to_exitcode(status)))
        return found

    def _end(self) -> None:
        """End the clients that still run: each records its open requests."""
        for number, deadline in ((signal.SIGTERM, _GRACE), (signal.SIGKILL, processes.KILLED)):
            for client in self._running.values():
                os.kill(client.reference.pid, number)
            until = time.monotonic() + deadline
            while self._running and time.monotonic() < until:
                self._reap()
                time.sleep(0.01)


def join_client_files(point_dir: Path, log: JsonlAppender, take: Callable[[dict[str, Any]], None]) -> None:
    """Append what clients have recorded to requests.jsonl, and delete their files.

    A call that dies meanwhile is no harm: the next one appends the same lines again, which say the same.

    Args:
        point_dir: Directory of the test point.
        log: Its file of requests.
        take: Called with each record.

    Raises:
        OwnershipError: A client of an earlier call still writes after some seconds.
    """
    folder = point_dir / FOLDER
    if not folder.is_dir():
        return
    for path in sorted(folder.glob("*.jsonl")):
        _await_free(path)
        append_client_file(path, log, take)
    log.sync()
    for path in folder.glob("*.jsonl"):
        path.unlink()
    folder.rmdir()


def append_client_file(path: Path, log: JsonlAppender, take: Callable[[dict[str, Any]], None]) -> None:
    """Append the records of a client to requests.jsonl.

    Args:
        path: File of the client. Its last line may be torn.
        log: File of the requests of the point.
        take: Called with each record.

    Raises:
        DataError: Another line than the last one is damaged.
    """
    rows: list[str] = []
    for record in files.read_json_lines(path):
        take(record)
        rows.append(files.encode(record))
        if len(rows) == _LINES_AT_ONCE:
            log.write_rows(rows)
            rows = []
    log.write_rows(rows)


def _await_free(path: Path) -> None:
    """Wait until no client has a file open, and cut off a torn last line."""
    deadline = time.monotonic() + _GRACE
    while True:
        try:
            JsonlAppender(path, SCHEMA, "client").close()
            return
        except OwnershipError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_LOOK)

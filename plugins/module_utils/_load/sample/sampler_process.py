# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sampler as a forked process, so that parsing events never delays a request.

Two pipes connect it to its parent. Through one it reports "watching" and its counts. The end of the other one tells it
to end, also if the parent was killed, because the kernel closes the pipes of a dead process.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ProcessError, SeatrialError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import MonotonicWallClock
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.processes import fork_reporting_process
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import (
    ENDING,
    SignalBlockingThread,
    SignalEvent,
    unblock_signals,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import parse_json
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.api_server_access import ApiServerAccess
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client

from ..kinds.sampling_spec import SamplingSpec
from .sampler import Sampler

#: Minimum interval between two reports to the parent, seconds.
_REPORT = 0.1


class SamplerProcess:
    """A forked sampler. Fork it before any thread is started."""

    def __init__(
        self, access: ApiServerAccess, spec: SamplingSpec, clock: MonotonicWallClock, close_in_child: Callable[[], None]
    ) -> None:
        """Fork. ``close_in_child`` closes what the child must not keep open: the submitter's locked ledger."""
        self.state: dict[str, Any] = {}
        self.completed: list[tuple[int, float]] = []  # (index, since when); whoever takes them removes them
        self.reached: list[tuple[int, str]] = []  # (index, stage to report or outcome); the same
        self.watching = False
        self.ended = False
        self._pending = b""
        self._end: int | None
        self.pid, self._report, self._end = fork_reporting_process(
            lambda report, ending: _run_child_sampler(access, spec, clock, report, ending), close_in_child
        )

    def poll(self, timeout: float) -> bool:
        """Take reports; wait up to ``timeout`` seconds for the first. Return whether the state changed.

        Raises ProcessError with the sampler's error, or if it ended unexpectedly.
        """
        if self.ended:
            return False
        ready, _out, _err = select.select([self._report], [], [], timeout)
        if not ready:
            return False
        data = os.read(self._report, 65536)
        if not data:
            self.ended = True
            self._reap()
            if self._end is not None:
                raise ProcessError("the sampler ended unexpectedly; the load was stopped")
            return False
        *lines, self._pending = (self._pending + data).split(b"\n")
        for line in lines:
            message = parse_json(line)
            if "error" in message:
                raise ProcessError(f"the sampler failed: {message['error']}")
            self.watching = self.watching or bool(message.get("watching"))
            self.completed += message.pop("completed", ())
            self.reached += message.pop("reached", ())
            self.state.update(message)
        return True

    def finish(self, patience: float = 15.0) -> None:
        """Let the sampler write its last line and end; kill it if it does not end within ``patience`` seconds."""
        if self._end is not None:
            os.close(self._end)
            self._end = None
        deadline = time.monotonic() + patience
        while not self.ended and time.monotonic() < deadline:
            with contextlib.suppress(ProcessError):
                self.poll(max(0.0, deadline - time.monotonic()))
        if not self.ended:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self.ended = True
            self._reap()
        os.close(self._report)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def _run_child_sampler(
    access: ApiServerAccess, spec: SamplingSpec, clock: MonotonicWallClock, report: int, end: int
) -> int:
    """Run the sampler in the child; return the exit status. Nothing is printed: stdout is for the parent's result."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    stop = SignalEvent()
    reason = ["done"]

    def on_signal(number: int, _frame: Any) -> None:
        reason[0] = f"interrupted by {signal.Signals(number).name}"
        stop.set()

    for number in ENDING:
        signal.signal(number, on_signal)
    unblock_signals()
    # Garbage collection of the parent's objects would copy their pages.
    gc.freeze()

    def report_state(message: dict[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError):
            os.write(report, json.dumps(message).encode() + b"\n")

    signal.signal(signal.SIGPIPE, signal.SIG_IGN)

    def await_end() -> None:
        os.read(end, 1)  # the parent never writes; it closes the pipe, or dies
        stop.set()

    SignalBlockingThread(target=await_end, name="end", daemon=True).start()
    sampler = None
    try:
        client = Client(access)
        sampler = Sampler(client, spec, clock)
        sampler.start()
        sampler.watching(stop.is_set)
        report_state({"watching": True, **_sampler_state_report(sampler)})
        _sample_until_stopped(sampler, stop, report_state)
        sampler.close(reason[0])
        report_state(
            {**_sampler_state_report(sampler), "waiting": sampler.tally.waiting(10), "sampling": sampler.sampling()}
        )
    except SeatrialError as error:
        report_state({"error": str(error)})
        return 1
    except Exception as error:
        report_state({"error": f"{type(error).__name__}: {error} ({_error_source_location(error)})"})
        return 1
    finally:
        if sampler is not None:
            with contextlib.suppress(Exception):
                sampler.close("failed")
    return 0


def _sample_until_stopped(sampler: Sampler, stop: SignalEvent, report_state: Callable[[dict[str, Any]], None]) -> None:
    reported: dict[str, Any] = {}
    next_report = 0.0
    while not stop.is_set():
        sampler.process_events(_REPORT)
        now = time.monotonic()
        if now >= next_report:
            next_report = now + _REPORT
            state = _sampler_state_report(sampler)
            if state != reported:
                reported = state
                report_state(state)


def _sampler_state_report(sampler: Sampler) -> dict[str, Any]:
    state: dict[str, Any] = {"events": sampler.events, "gaps": sampler.gaps, "notes": sampler.notes()}
    if sampler.tally.completed:
        state["completed"], sampler.tally.completed = sampler.tally.completed, []
    if sampler.tally.reached:
        state["reached"], sampler.tally.reached = sampler.tally.reached, []
    return {**sampler.tally.counts(), **state, "reasons": sampler.tally.reasons()}


def _error_source_location(error: Exception) -> str:
    """Return file and line that raised ``error``."""
    trace = error.__traceback__ or sys.exc_info()[2]
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}" if trace is not None else "?"

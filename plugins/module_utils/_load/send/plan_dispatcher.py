# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sends a plan on time: one thread sleeps until the next workload is due, others send.

The schedule is absolute. A slow API server keeps sending threads busy, never the dispatcher. A workload is sent late
only if all of them are busy (the in-flight limit), and its lateness shows it. In a closed loop there are no due times:
a batch waits for the previous one, or a workload for another one to end.
"""

from __future__ import annotations

import contextlib
import gc
import os
import queue
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import SignalBlockingThread

from ..plan.rendered_workload_templates import RenderedTemplate
from ..plan.workload_plan import PlannedWorkload
from .creation_ledger import ALREADY_MINE, CREATED, REFUSED, ResumeState
from .object_creator import LoadHaltedError, ObjectSender, SenderSettings

#: Time from start() to the first workload, seconds: by then the threads are running.
START_LEAD = 0.05
#: How long (seconds) a thread may hold the interpreter lock while others wait for it.
_SWITCH_INTERVAL = 0.0005
#: Niceness that raise_priority() sets. With autogroup, Linux weighs sessions first and a process's niceness only
#: within its session (sched(7)); Ansible starts each task in its own session.
_NICE = -10
_AUTOGROUP = "/proc/self/autogroup"
#: Keys of a closed loop that determine when the next workload may be sent.
LOOP_KEYS = ("batch", "delay", "at_once")


def raise_priority(timed: bool) -> None:
    """Raise the scheduling priority of this thread and those that it starts, until the process ends.

    This is for a generator on the machine of the cluster under load: it needs little processor time, but on time.
    Without permission nothing changes, and the lateness shows the effect. In addition, a thread that wakes up waits
    less for the interpreter lock (by default up to 5 ms; only for ``timed`` loads, because switching costs), and the
    garbage collector no longer scans the plan.
    """
    gc.freeze()
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, min(os.getpriority(os.PRIO_PROCESS, 0), _NICE))
    if timed:
        sys.setswitchinterval(_SWITCH_INTERVAL)
        with contextlib.suppress(OSError), open(_AUTOGROUP, "w", encoding="ascii") as stream:
            stream.write(str(_NICE))


class ObjectSendDispatcher:
    """Sends the missing objects of ``todo``. Any thread may read the counters."""

    def __init__(
        self,
        settings: SenderSettings,
        templates: dict[str, RenderedTemplate],
        todo: Sequence[PlannedWorkload],
        past: ResumeState,
        in_flight: int,
        loop: Mapping[str, Any] | None = None,
    ) -> None:
        """``loop``: batch, delay and at_once of a closed loop, from the arrival in the plan's header."""
        self.halt = threading.Event()
        self.error: Exception | None = None
        self.submitted = 0  # workloads that a sender has started
        self.outcomes: dict[str, int] = {}  # final outcome -> number of workloads
        self.lost = 0  # number of workloads that were sent, and whose outcome is unknown
        self.blocked = 0  # workloads that were not sent because a related object was refused
        self.held_back = 0  # workloads that were due while all senders were busy
        self.lateness: list[float] = []
        self.first_answered = 0.0
        self.last_answered = 0.0
        self.access = settings.access
        self._settings = settings
        self._templates = templates
        self._todo = todo
        self._past = past
        self._loop = loop or {}
        self._finished = 0  # workloads of this session that were answered, or cannot be sent
        self._ended = 0  # workloads of all sessions that the sampler saw end
        self.before = 0  # workloads that earlier sessions created; set before start()
        self._queue: queue.SimpleQueue[tuple[PlannedWorkload, float | None] | None] = queue.SimpleQueue()
        self._count = threading.Condition()
        self._senders = [
            ObjectSender(settings, number, self.halt) for number in range(max(1, min(in_flight, len(todo))))
        ]
        self._threads: list[SignalBlockingThread] = []
        self._left = len(self._senders)
        self.done = threading.Event()

    @property
    def retries(self) -> int:
        """Number of attempts that had to be repeated."""
        return sum(self.repeats_by_status.values())

    @property
    def repeats_by_status(self) -> Counter[int]:
        """HTTP status (0: no response) -> number of attempts that had to be repeated after it."""
        return sum((sender.repeats_by_status for sender in self._senders), Counter())

    def open(self) -> None:
        """Open all connections concurrently. Raises AccessError if the first one cannot be opened."""
        self._senders[0].warm()
        threads = [SignalBlockingThread(target=self._warm, args=(sender,), daemon=True) for sender in self._senders[1:]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def start(self, at: float | None = None) -> float:
        """Start sending; return the time (time.monotonic()) to which the offsets of the schedule are relative.

        Without ``at``, a resumed schedule continues where it was interrupted: the first missing workload is due now.
        """
        first = self._todo[0].offset if self._todo and self._past.outcomes else None
        start = time.monotonic() + START_LEAD - (first or 0.0) if at is None else at
        self._threads = [
            SignalBlockingThread(target=self._serve, args=(sender,), daemon=True) for sender in self._senders
        ]
        self._threads.append(SignalBlockingThread(target=self._dispatch, args=(start,), daemon=True))
        for thread in self._threads:
            thread.start()
        return start

    def note_ended(self, number: int) -> None:
        """Set the number of workloads, of all sessions, that have ended: a closed loop with at_once then sends more."""
        if number != self._ended:
            with self._count:
                self._ended = number
                self._count.notify_all()

    def _there(self) -> int:
        """Return the number of workloads that were created and are not known to have ended."""
        created = self.outcomes.get(CREATED, 0) + self.outcomes.get(ALREADY_MINE, 0)
        return self.before + created - self._ended

    def stop(self, patience: float) -> None:
        """Send nothing more; wait up to ``patience`` seconds for the responses to requests in flight."""
        self.halt.set()
        with self._count:
            self._count.notify_all()
        deadline = time.monotonic() + patience
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        for sender in self._senders:
            sender.connection.interrupt()

    def _warm(self, sender: ObjectSender) -> None:
        try:
            sender.warm()
        except Exception:  # it is opened, or the error raised, when there is something to send
            sender.connection.close()

    def _may_go(self, number: int) -> bool:
        """Wait until the closed loop permits the workload ``number`` of this session; return whether to send it."""
        batch, at_once = self._loop.get("batch"), self._loop.get("at_once")
        if batch and number and number % batch == 0:
            with self._count:
                self._count.wait_for(lambda: self._finished >= number or self.halt.is_set())
            if self.halt.wait(self._loop.get("delay") or 0.0):
                return False
        if at_once:
            with self._count:
                # Requests in flight are not counted among the existing workloads.
                self._count.wait_for(lambda: self._there() + number - self._finished < at_once or self.halt.is_set())
        return not self.halt.is_set()

    def _dispatch(self, start: float) -> None:
        for number, planned in enumerate(self._todo):
            if self._loop and not self._may_go(number):
                break
            due = None
            if planned.offset is not None:
                due = start + planned.offset
                wait = due - time.monotonic()
                if wait > 0 and self.halt.wait(wait):
                    break
            if self.halt.is_set():
                break
            if due is not None and number - self._finished >= len(self._senders):
                self.held_back += 1
            self._queue.put((planned, due))
        for _sender in self._senders:
            self._queue.put(None)

    def _serve(self, sender: ObjectSender) -> None:
        try:
            while (job := self._queue.get()) is not None and not self.halt.is_set():
                self._send(sender, *job)
                with self._count:
                    self._finished += 1
                    if self._loop:
                        self._count.notify_all()
        except LoadHaltedError:
            pass
        except Exception as error:
            if not self.halt.is_set():
                self.error = self.error or error
                self.halt.set()
        finally:
            with self._count:
                self._left -= 1
                self._count.notify_all()
                if not self._left:
                    self.done.set()

    def _send(self, sender: ObjectSender, planned: PlannedWorkload, due: float | None) -> None:
        """Create a workload's related objects, then the workload itself."""
        with self._count:
            self.submitted += 1
        rendered = self._templates[planned.template]
        past = self._past.outcomes
        first = True
        for document in rendered.documents:
            outcome = past.get((document.kind, document.name(planned.index))) if past else None
            if outcome is None:
                try:
                    outcome, sent = sender.create(document, planned.index, due)
                except (LoadHaltedError, AccessError):
                    if document is rendered.workload and sender.attempt is not None and sender.attempt.attempts:
                        with self._count:
                            self.lost += 1
                    raise
                if first and due is not None:
                    self.lateness.append(sent - due)
                first = False
            if document is rendered.workload:
                self._note_outcome(outcome)
            elif outcome == REFUSED:
                with self._count:
                    self.blocked += 1
                return

    def _note_outcome(self, outcome: str) -> None:
        with self._count:
            self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
            self.last_answered = time.monotonic()
            self.first_answered = self.first_answered or self.last_answered

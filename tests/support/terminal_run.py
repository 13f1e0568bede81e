"""A playbook on a terminal of its own, and moments at which it is asked to end or killed."""

from __future__ import annotations

import contextlib
import os
import pty
import random
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from playbook import PROGRAM, ROOT, environment

#: Phase -> what its first line contains, and its seconds on an idle machine.
PHASES = {
    "start": ("", 2.0),
    "settings": ("Settings that were set", 1.5),
    "cluster": ("== cluster", 15.0),
    "prepare": ("== prepare", 8.0),
    "test": ("== test", 15.0),
    "report": ("== report", 10.0),
    "cleanup": ("== cleanup", 5.0),
    "release": ("== release", 4.0),
}


@dataclass(frozen=True)
class Moment:
    """When and how a run is ended. to: process, group or terminal. again: seconds until a second signal, if any."""

    phase: str
    delay: float
    number: signal.Signals
    to: str
    again: float | None
    busy: bool

    @classmethod
    def drawn(cls, seed: int, numbers: tuple[signal.Signals, ...]) -> Moment:
        """Draw a moment; half of all seeds keep the machine busy."""
        draw = random.Random(seed)
        phase = draw.choice(list(PHASES))
        number = draw.choice(numbers)
        by_terminal = number in (signal.SIGINT, signal.SIGHUP)
        to = draw.choice(["process", "group", "terminal"] if by_terminal else ["process", "group"])
        again = draw.choice([None, draw.uniform(0.0, 3.0)])
        return cls(phase, draw.uniform(0.0, PHASES[phase][1]), number, to, again, seed % 2 == 1)

    def __str__(self) -> str:
        twice = "" if self.again is None else f"-twice-{self.again:.1f}s"
        busy = "-busy" if self.busy else ""
        return f"{self.number.name}-{self.to}-{self.phase}-{self.delay:.1f}s{twice}{busy}"


class TerminalRun:
    """A run of a playbook whose standard streams are a terminal; its output is in ``log``."""

    def __init__(self, words: list[str], artifacts: Path, log: Path, project: str = "fine_tuning") -> None:
        self.log = log
        self.code: int | None = None
        self.log.touch()
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # a shell may have had us ignore them
                signal.signal(number, signal.SIG_DFL)
            os.chdir(ROOT)
            command = [str(PROGRAM), str(ROOT / "playbooks" / f"{project}.yml"), *words]
            os.execve(command[0], command, environment(artifacts))
        self._closed = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with open(self.log, "ab", buffering=0) as log, contextlib.suppress(OSError):
            while not self._closed.is_set():
                if select.select([self._terminal], [], [], 0.1)[0]:
                    log.write(os.read(self._terminal, 65536))
        os.close(self._terminal)

    def output(self) -> str:
        """Everything that was printed so far."""
        return self.log.read_text(encoding="utf-8", errors="replace").replace("\r\n", "\n")

    def ended(self) -> bool:
        """Whether ansible-playbook has ended."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code is not None

    def await_end(self, seconds: float) -> bool:
        """Wait for the end; return whether it came in time."""
        deadline = time.monotonic() + seconds
        while not self.ended() and time.monotonic() < deadline:
            time.sleep(0.05)
        return self.ended()

    def await_text(self, text: str, seconds: float) -> None:
        """Wait until ``text`` was printed, or the end."""
        deadline = time.monotonic() + seconds
        while text not in self.output() and not self.ended():
            assert time.monotonic() < deadline, f"{text!r} was not printed:\n{self.output()[-3000:]}"
            time.sleep(0.05)

    def send(self, number: signal.Signals, to: str) -> None:
        """Send a signal to the process, its group, or as the terminal sends it: Ctrl-C, or its end."""
        if self.ended():
            return
        with contextlib.suppress(OSError):
            if to == "terminal" and number == signal.SIGINT and not self._closed.is_set():
                os.write(self._terminal, b"\x03")
            elif to == "terminal" and number == signal.SIGHUP:
                self._closed.set()
                self._reader.join()
            elif to == "group":
                os.killpg(self.pid, number)
            else:
                os.kill(self.pid, number)

    def end(self, moment: Moment) -> None:
        """End the run at a moment."""
        self.await_text(PHASES[moment.phase][0], 600)
        self.await_end(moment.delay)
        self.send(moment.number, moment.to)
        if moment.again is not None:
            self.await_end(moment.again)
            # A terminal vanishes once.
            self.send(moment.number, "process" if moment.number == signal.SIGHUP else moment.to)

    def stop(self) -> None:
        """Kill what a failed test has left."""
        if not self.ended():
            os.kill(self.pid, signal.SIGKILL)
            self.await_end(60)
        self._closed.set()
        self._reader.join()


@contextlib.contextmanager
def busy_machine(busy: bool) -> Iterator[None]:
    """Keep every processor busy twice during the body."""
    number = 2 * (os.cpu_count() or 1) if busy else 0
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _one in range(number)]
    try:
        yield
    finally:
        for one in burners:
            one.kill()
            one.wait()

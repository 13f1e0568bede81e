"""A signal handler may set a SignalEvent at any moment, also while another handler sets it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import SignalEvent

#: Receives pairs of signals, up to 80 µs apart as Ctrl-C and Ansible's own signal are, in the midst of short waits.
PAIRS = """
import faulthandler, os, random, signal, time
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import Interrupt

current, over = Interrupt(), []
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, frame: current.note(number, frame))
signal.signal(signal.SIGHUP, lambda number, frame: over.append(number))
receiver = os.getpid()
faulthandler.dump_traceback_later(300, exit=True)
if not (sender := os.fork()):
    for _ in range(3000):
        os.kill(receiver, signal.SIGINT)
        end = time.perf_counter() + random.random() * 80e-6
        while time.perf_counter() < end:
            pass
        os.kill(receiver, signal.SIGTERM)
        time.sleep(0.0002)
    os.kill(receiver, signal.SIGHUP)
    os._exit(0)
noted = 0
while not over:
    for _ in range(20):
        current.event.wait(0)
    if current.name:
        assert current.event.wait(120)
        current, noted = Interrupt(), noted + 1
os.waitpid(sender, 0)
print(noted)
"""


def test_two_signals_that_arrive_together_never_block_each_other() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PAIRS],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 100, "hardly any signal arrived between two waits"


def test_all_threads_that_wait_are_woken() -> None:
    event, woken = SignalEvent(), []
    threads = [threading.Thread(target=lambda: woken.append(event.wait(120))) for _ in range(5)]
    for one in threads:
        one.start()
    event.set()
    for one in threads:
        one.join(120)
    assert woken == [True] * 5


@pytest.mark.parametrize("times", [1, 2, 3])
def test_it_stays_set(times: int) -> None:
    event = SignalEvent()
    assert not event.is_set()
    assert not event.wait(0)
    for _ in range(times):
        event.set()
    assert event.is_set()
    assert [event.wait(0), event.wait(), event.wait(0.0)] == [True] * 3

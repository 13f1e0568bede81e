"""BMCs for tests: sushy-tools' Redfish emulator with its fake machines, one port for each, and faults.

The emulator is the real one: power, virtual media (it fetches the image) and boot override change in it. What is ours
is in front of it: every machine has a BMC of its own, which may be dead, busy, or have a job queue as a Dell's.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Emulator:
    """Emulated BMCs that run. machines: name -> address, mac."""

    steer_url: str
    ca: Path
    machines: dict[str, dict[str, str]]
    user: str
    password: str

    def state(self) -> dict[str, Any]:
        """State of each machine: power, boot, media (device -> image), and the requests that changed it."""
        with urllib.request.urlopen(self.steer_url, timeout=30) as answer:
            return json.load(answer)

    def steer(self, **given: Any) -> None:
        """Set faults: ``faults={name: {busy: 3, jobs: True, image_only: True, several: True}}``, ``dead=[name]``,
        ``alive=[name]``.
        """
        request = urllib.request.Request(self.steer_url, json.dumps(given).encode(), method="POST")
        urllib.request.urlopen(request, timeout=30).close()

    def bmcs(self) -> list[dict[str, str]]:
        """The machines as module redfish_machines takes them."""
        who = {"user": self.user, "password": self.password}
        return [{"name": name, "address": one["address"], **who} for name, one in self.machines.items()]


@contextlib.contextmanager
def emulator(folder: Path, macs: dict[str, str], password: str = "made-up", limit: float = 180.0) -> Iterator[Emulator]:
    """Run BMCs for these machines (name -> MAC) while the body does."""
    folder.mkdir(parents=True, exist_ok=True)
    words = [f"--machine={name}={mac}" for name, mac in macs.items()]
    command = [sys.executable, str(HERE), f"--folder={folder}", f"--password={password}", *words]
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        end = time.monotonic() + limit
        while not (folder / "emulator.json").exists():
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError((folder / "log").read_text(errors="replace")[-3000:])
            time.sleep(0.1)
        yield attach(folder)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(120)


def attach(folder: Path) -> Emulator:
    """The emulator that runs in this folder."""
    state = json.loads((folder / "emulator.json").read_text(encoding="utf-8"))
    return Emulator(state["steer"], Path(state["ca"]), state["machines"], state["user"], state["password"])

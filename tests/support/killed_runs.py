"""Ending a run at any moment, and giving back what it holds with the command that it has printed."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from playbook import environment


def end(process: subprocess.Popen[bytes], how: str) -> None:
    """kill: SIGKILL to ansible-playbook alone; interrupt: Ctrl-C to its whole group; term: SIGTERM to it alone."""
    if process.poll() is not None:
        return
    if how == "interrupt":
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.send_signal(signal.SIGKILL if how == "kill" else signal.SIGTERM)
    process.wait(timeout=1800)  # all but a killed one give back


def give_back(run_dir: Path) -> subprocess.CompletedProcess[str]:
    """Run the command that the run directory holds."""
    command = (run_dir / "GIVE_BACK").read_text(encoding="utf-8")
    return subprocess.run(
        ["bash", "-c", command],
        env=environment(run_dir.parent),
        timeout=1800,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )

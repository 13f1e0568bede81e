"""One run that wants a cluster's lock, as a process: lock_run.py KUBECONFIG NAMESPACE RUN FOLDER DURATION HOLD [kill]

It writes ``<run> begin`` and ``<run> end`` with its clock's reading into FOLDER/story when it has the lock and just
before it gives it back. With ``kill`` it kills itself in between.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.lock import lock_session


def main(kubeconfig: str, namespace: str, run: str, folder: str, duration: str, hold: str, kill: str = "") -> None:
    """Take the lock, hold it, give it back."""

    def write(what: str) -> None:
        story = os.open(Path(folder) / "story", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(story, f"{time.monotonic()} {run} {what}\n".encode())
        os.close(story)

    wish = lock_session.LockSpec.of(
        {
            "kubeconfig": kubeconfig,
            "context": "",
            "namespace": namespace,
            "lock_file": f"{folder}/lock-{run}.json",
            "run_id": run,
            "owner": "tests",
            "purpose": "",
            "duration": int(duration),
            "timeout": 280.0,
            "caller_pid": os.getpid(),
        },
        0,
    )
    lock_session.acquire_cluster_lock(wish, StepDirectory(None), lambda text: print(text, flush=True))
    write("begin")
    time.sleep(float(hold))
    if kill:
        write("killed")
        os.kill(os.getpid(), signal.SIGKILL)
    write("end")
    lock_session.release_cluster_lock(wish)


if __name__ == "__main__":
    main(*sys.argv[1:])

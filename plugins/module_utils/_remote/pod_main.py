# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Entry point in a pod of the driver cluster: starts the load, reports its state, sends its files.

It communicates only with the API server of the driver cluster: one ConfigMap has the state of the load, others have its
files (chunked_transfer). The Secret with the request is deleted as soon as it was read.
"""

from __future__ import annotations

import gzip
import json
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import AccessError, ApiError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.connection import Broken
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import Kind
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.kubeconfig import service_account
from ansible_collections.perfscale.seatrial.plugins.module_utils._remote import chunked_transfer, detached_load
from ansible_collections.perfscale.seatrial.plugins.module_utils._signal_event import SignalEvent

SECRET = Kind("v1", "Secret", "secrets", True)

#: Keys of the Secret.
REQUEST, KUBECONFIG = "request.json.gz", "kubeconfig"

#: Polling interval for the load, and maximum interval between two heartbeats, seconds.
LOOK, BEAT = 1.0, 20.0

#: Maximum number of lines in the ConfigMap.
LINES = 200

#: How long to retry without a response from the API server, and after a refusal, seconds.
PATIENCE, REFUSED = 900.0, 20.0


class StateConfigMap:
    """The ConfigMap ``<name>-state``: state, last lines and their total number, heartbeat, result."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self.client = client
        self.path = chunked_transfer.CONFIG_MAP.path(namespace, f"{name}-state")
        self.lines: list[str] = []
        self.count = 0
        self.written = float("-inf")

    def add(self, lines: Sequence[str]) -> None:
        """Add lines of the load."""
        self.lines = [*self.lines, *lines][-LINES:]
        self.count += len(lines)

    def write(self, state: str, **more: Any) -> None:
        """Write the state. Raises AccessError, ApiError."""
        data = {"state": state, "lines": json.dumps(self.lines), "count": str(self.count), "beat": f"{time.time():.0f}"}
        data |= {name: json.dumps(value) for name, value in more.items()}
        self.client.request("PATCH", self.path, {"data": data}, content_type=MERGE_PATCH)
        self.written = time.monotonic()


def retry(do: Callable[[], Any], over: SignalEvent) -> Any:
    """Call ``do``, and repeat it while the API server cannot be reached or is overloaded.

    A refusal is retried for REFUSED seconds, because an API server that has just started refuses until it has read the
    RBAC objects. After ``over`` it is not retried: deleting the Job deletes our rights.
    """
    began = time.monotonic()
    while True:
        try:
            return do()
        except (AccessError, ApiError) as error:
            passing = error.busy if isinstance(error, ApiError) else isinstance(error, Broken)
            patience = PATIENCE if passing else 0.0 if over.is_set() else REFUSED
            if time.monotonic() - began >= patience:
                raise
            time.sleep(1.0)


def main(arguments: Sequence[str]) -> int:
    """Run the load of the Secret that is mounted in ``given``; return the exit code of the pod."""
    name, namespace, given, access, work = arguments
    over = SignalEvent()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: over.set())
    ours = json.dumps(service_account(Path(access), "driver", namespace))
    kubeconfig = Path(work) / "driver-kubeconfig"
    _files.replace_text(kubeconfig, ours, mode=0o600)
    asked = json.loads(gzip.decompress((Path(given) / REQUEST).read_bytes()))
    target = Path(given) / KUBECONFIG
    with Client.from_kubeconfig(kubeconfig) as client:
        directory = detached_load.LoadDirectory(
            Path(work) / "loads", asked["request"]["run_id"], asked["request"]["point"]
        )
        detached_load.start(
            directory, asked["request"], target.read_text(encoding="utf-8") if target.exists() else ours, asked["lock"]
        )
        retry(lambda: client.delete(SECRET, name, namespace), over)
        status = StateConfigMap(client, namespace, name)
        found = _follow(directory, status, over)
        if found["state"] != detached_load.ENDED:
            retry(lambda: status.write(detached_load.DIED, log=found.get("log", "")), over)
            return 1
        files = [("point", Path(one)) for one in found["files"]] + [("step", Path(one)) for one in found["step_files"]]
        sent = retry(lambda: chunked_transfer.send(client, namespace, name, files, asked["metadata"]), over)
        retry(lambda: status.write(detached_load.ENDED, result={"outcome": found["outcome"], "parcels": sent}), over)
    return 0


def _follow(directory: detached_load.LoadDirectory, status: StateConfigMap, over: SignalEvent) -> dict[str, Any]:
    """Report the state of the load until it has ended; end it on ``over``."""
    offset, ending = 0, False
    while True:
        if over.is_set() and not ending:
            ending = True
            detached_load.end(directory)
        found = detached_load.status(directory, offset)
        offset = found["offset"]
        status.add(found["lines"])
        if found["state"] != detached_load.RUNNING:
            return found
        if found["lines"] or time.monotonic() - status.written >= BEAT:
            _try(lambda: status.write(detached_load.RUNNING))
        over.wait(LOOK) if not ending else time.sleep(LOOK)


def _try(do: Callable[[], None]) -> None:
    """Call ``do``; after an error, the next call reports the same."""
    try:
        do()
    except (AccessError, ApiError) as error:
        sys.stderr.write(f"{error}\n")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

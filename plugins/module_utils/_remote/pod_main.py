# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs in a pod of the driver cluster: it starts the load, tells how it stands, sends its files, and ends.

Nothing but the API server of the driver cluster is spoken to: how the load stands is in one ConfigMap, its files are in
others (parcels). The Secret with what the load needs is deleted as soon as it has been read.
"""

from __future__ import annotations

import gzip
import json
import signal
import sys
import threading
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

SECRET = Kind("v1", "Secret", "secrets", True)

#: Names in the Secret.
REQUEST, KUBECONFIG = "request.json.gz", "kubeconfig"

#: Seconds between two looks at the load, and the longest without a sign of life from us.
LOOK, BEAT = 1.0, 20.0

#: Lines that are kept in the ConfigMap.
LINES = 200

#: How long (seconds) sending is tried again at the end while there is no answer, and after a refusal.
PATIENCE, REFUSED = 900.0, 20.0


class StateConfigMap:
    """The ConfigMap ``<name>-state``: state, the last lines and how many there were, a sign of life, the result."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self.client = client
        self.path = chunked_transfer.CONFIG_MAP.path(namespace, f"{name}-state")
        self.lines: list[str] = []
        self.count = 0
        self.told = float("-inf")

    def hear(self, lines: Sequence[str]) -> None:
        """Take what the load has said."""
        self.lines = [*self.lines, *lines][-LINES:]
        self.count += len(lines)

    def tell(self, state: str, **more: Any) -> None:
        """Write it down. Raises AccessError, ApiError."""
        data = {"state": state, "lines": json.dumps(self.lines), "count": str(self.count), "beat": f"{time.time():.0f}"}
        data |= {name: json.dumps(value) for name, value in more.items()}
        self.client.request("PATCH", self.path, {"data": data}, content_type=MERGE_PATCH)
        self.told = time.monotonic()


def lasting(do: Callable[[], Any], over: threading.Event) -> Any:
    """Do it again and again while the API server can't be reached or is in trouble.

    A refusal counts after a moment: a server that has just started refuses until it has read who may what. Once we are
    to end it counts at once: whoever deletes the Job deletes our rights.
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
    """Run the load that the Secret in folder ``given`` asks for; return the pod's exit code."""
    name, namespace, given, access, work = arguments
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: over.set())
    ours = json.dumps(service_account(Path(access), "driver", namespace))
    kubeconfig = Path(work) / "driver-kubeconfig"
    _files.replace_text(kubeconfig, ours, mode=0o600)
    asked = json.loads(gzip.decompress((Path(given) / REQUEST).read_bytes()))
    target = Path(given) / KUBECONFIG
    with Client.from_kubeconfig(kubeconfig) as client:
        place = detached_load.LoadDirectory(Path(work) / "loads", asked["request"]["run_id"], asked["request"]["point"])
        detached_load.start(
            place, asked["request"], target.read_text(encoding="utf-8") if target.exists() else ours, asked["lock"]
        )
        lasting(lambda: client.delete(SECRET, name, namespace), over)
        desk = StateConfigMap(client, namespace, name)
        found = _follow(place, desk, over)
        if found["state"] != detached_load.ENDED:
            lasting(lambda: desk.tell(detached_load.DIED, log=found.get("log", "")), over)
            return 1
        files = [("point", Path(one)) for one in found["files"]] + [("step", Path(one)) for one in found["step_files"]]
        sent = lasting(lambda: chunked_transfer.send(client, namespace, name, files, asked["metadata"]), over)
        lasting(lambda: desk.tell(detached_load.ENDED, result={"outcome": found["outcome"], "parcels": sent}), over)
    return 0


def _follow(place: detached_load.LoadDirectory, desk: StateConfigMap, over: threading.Event) -> dict[str, Any]:
    """Tell how the load stands until it has ended; end it when we are told to."""
    offset, ending = 0, False
    while True:
        if over.is_set() and not ending:
            ending = True
            detached_load.end(place)
        found = detached_load.status(place, offset)
        offset = found["offset"]
        desk.hear(found["lines"])
        if found["state"] != detached_load.RUNNING:
            return found
        if found["lines"] or time.monotonic() - desk.told >= BEAT:
            _try(lambda: desk.tell(detached_load.RUNNING))
        over.wait(LOOK) if not ending else time.sleep(LOOK)


def _try(do: Callable[[], None]) -> None:
    """What could not be told now is told with the next."""
    try:
        do()
    except (AccessError, ApiError) as error:
        sys.stderr.write(f"{error}\n")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

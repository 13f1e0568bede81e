# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes to etcd while requests are sent, so that the clocks of the controller and of clients in pods can be compared.

Each writes to another object, as the canary of the sampler does. The resourceVersions order the writes of all, and
each knows on its own clock between which moments its write was made (_results/timeline/request_clocks.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, ApiError, DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.files import JsonlAppender, session_line
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import MonotonicWallClock
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client

from ..sample.canary_lease import CanaryObjectWriter

FILE, SCHEMA = "clocks.jsonl", "clocks/1"
#: Seconds for the end of the writes.
_PATIENCE = 5.0


@contextmanager
def probe_clock(
    client: Client,
    run: str,
    point: str,
    namespace: str,
    rate: float,
    path: Path,
    say: Callable[[str], None],
    number: int | None = None,
) -> Iterator[None]:
    """Write while the body runs, and append when each write was sent and answered to the file at ``path``.

    Args:
        client: Of the cluster whose etcd relates the clocks.
        run: Id of the run.
        point: Number of the point.
        namespace: Of the object.
        rate: Writes a second; 0: none.
        path: The file.
        say: Gets the reason if this process can't write: its clock is less known then.
        number: Of the client; None: the controller.
    """
    if rate <= 0:
        yield
        return
    clock = MonotonicWallClock.start()
    log = JsonlAppender(path, SCHEMA, "client")

    def report(sent: float, answered: float, version: str) -> None:
        moments = {"sent": clock.from_monotonic(sent), "answered": clock.from_monotonic(answered)}
        rounded = {name: round(moment, 6) for name, moment in moments.items()}
        try:
            log.write({"type": "canary", **rounded, "resource_version": version})
        except (DataError, OSError) as error:
            say(f"the file for the comparison of clocks can't be written: {error}")

    canary = CanaryObjectWriter(client, run, point, namespace, rate, report, number)
    try:
        log.write(session_line(SCHEMA, run, point, clock, number))
        try:
            canary.create()
            canary.begin(time.monotonic())
        except (AccessError, ApiError) as error:
            say(f"clocks are compared less well: {error}")
        yield
    finally:
        canary.close(_PATIENCE)
        log.close()

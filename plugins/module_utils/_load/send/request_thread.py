# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A thread that sends requests at their times beside the senders of a load, such as deletions or releases."""

from __future__ import annotations

import threading
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signal_blocking_threads import Thread
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client, api_error
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.connection import Reply

from .sender import TRANSIENT, SenderSettings


class RequestThread:
    """Base class: a subclass calls _begin(), which runs its _serve() in the thread."""

    def __init__(self, settings: SenderSettings, name: str) -> None:
        self._settings = settings
        self._title = name
        self._client = Client(settings.access, settings.request_timeout)
        self._changed = threading.Condition()
        self._halt = False
        self._error: Exception | None = None
        self._thread: Thread | None = None

    def check(self) -> None:
        """Raise the error that ended the thread, if any."""
        if self._error is not None:
            raise self._error

    def close(self, patience: float) -> None:
        """Send nothing more; wait up to ``patience`` seconds for a request in flight."""
        with self._changed:
            self._halt = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(patience)
        self._client.close()

    def _begin(self) -> None:
        self._thread = Thread(target=self._run, name=self._title, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._serve()
        except Exception as error:
            if not self._halt:
                self._error = error

    def _serve(self) -> None:
        raise NotImplementedError

    def _may_repeat(self, status: int, seconds: float) -> bool:
        """Return whether a request that was first sent ``seconds`` ago may succeed later. status: 0 without a reply."""
        return (not status or status in TRANSIENT) and seconds <= self._settings.retry_time

    def _failure(self, what: str, reply: Reply | None, broken: str) -> Exception:
        """Return the error of a request that is not repeated. broken: why there is no reply."""
        if reply is None:
            return AccessError(f"{what}: {broken}; tried for {self._settings.retry_time:g} s")
        return api_error(reply, what, self._settings.access)

    def _record(self, row: dict[str, Any], intended: float, sent: float, answered: float) -> None:
        """Write a row of the ledger with these moments (time.monotonic())."""
        for key, moment in (("intended", intended), ("sent", sent), ("answered", answered)):
            row[key] = round(self._settings.clock.from_monotonic(moment), 6)
        self._settings.write(files.encode(row))

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests to the web API of a service that limits their rate: sent again after the time that it asks for."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._http import https_request
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.https_request import HttpRefused

#: Timeout of one request, and the first wait after an error of the server, in seconds.
REQUEST, FIRST_WAIT = 15.0, 1.0
#: Seconds for all requests and waits together.
TIMEOUT = 60.0


@dataclass
class WebApi:
    """A service at ``base``, an https address; http is for this machine only.

    name: the service in messages. timeout: seconds for all requests and waits together. The clocks are parameters for
    tests. Raises InputError for another address.
    """

    name: str
    base: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    authority: str = ""
    timeout: float = TIMEOUT
    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        parts = urlsplit(self.base)
        local = parts.hostname in ("127.0.0.1", "localhost", "::1")
        if not parts.hostname or parts.username or not (parts.scheme == "https" or (parts.scheme == "http" and local)):
            raise InputError(
                f"{self.name}: the address needs the form https://host; http is allowed for this machine only"
            )
        self._context = https_request.tls_context(self.authority) if parts.scheme == "https" else None
        self._end = self.clock() + self.timeout

    def call(self, method: str, path: str, body: Any = None, shown: str | None = None) -> Any:
        """Send a request and return the answer, JSON if it is that. path: below the base. shown: path in messages.

        A request that the service refuses for now is sent again while time is left. One without an answer is sent
        again unless it creates something: it may have arrived. Raises AccessError.
        """
        what = f"{self.name}: {method} {path if shown is None else shown}"
        wait = FIRST_WAIT
        while True:
            try:
                return self._once(method, path, body, what)
            except HttpRefused as error:
                pause = self._pause(error, wait)
                if pause is None:
                    raise AccessError(f"{error}{_reason(error.body)}") from error
                why: AccessError = error
            except AccessError as error:
                if method == "POST":
                    raise AccessError(f"{error}; it is unknown whether it arrived") from error
                pause, why = wait, error
            if self.clock() + pause >= self._end:
                raise AccessError(f"{why}; it asks to wait {pause:.0f} s, and the time for messages is over") from why
            self.sleep(pause)
            wait *= 2

    def _once(self, method: str, path: str, body: Any, what: str) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base.rstrip("/") + path, data=data, method=method)
        for name, value in {"Content-Type": "application/json; charset=utf-8", **self.headers}.items():
            request.add_unredirected_header(name, value)
        left = max(0.1, min(REQUEST, self._end - self.clock()))
        with https_request.opened(request, self._context, what, left) as answer:
            raw = answer.read().decode("utf-8", "replace")
        try:
            return json.loads(raw)
        except ValueError:
            return raw

    def _pause(self, error: HttpRefused, wait: float) -> float | None:
        """Return the seconds after which the request may be sent again, None if another attempt would fail again."""
        if error.status >= 500:
            return wait
        asked = error.headers.get("retry-after", "")
        if error.status in (403, 429) and asked.isdigit():
            return float(asked)
        if error.status in (403, 429) and error.headers.get("x-ratelimit-remaining") == "0":
            reset = error.headers.get("x-ratelimit-reset", "")
            return max(1.0, float(reset) - self.wall()) if reset.isdigit() else 60.0
        return 60.0 if error.status == 429 else None


def _reason(body: str) -> str:
    """Return ": <message>" of the body of an error, empty if there is none."""
    try:
        found = json.loads(body)
    except ValueError:
        return f": {body.strip()[:200]}" if body.strip() else ""
    text = found.get("message") or found.get("error") if isinstance(found, dict) else ""
    return f": {str(text)[:200]}" if text else ""

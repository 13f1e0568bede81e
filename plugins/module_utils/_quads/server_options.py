# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the modules share: the options of the server, and a client made from them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._interrupt import noticed
from ansible_collections.perfscale.seatrial.plugins.module_utils._quads.http_request import sender
from ansible_collections.perfscale.seatrial.plugins.module_utils._quads.http_session import (
    QuadsAccount,
    RetryTiming,
    base_url,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._quads.quads_client import QuadsClient

#: Options of the doc fragment _quads.server.
SERVER: dict[str, Any] = {
    "api_url": {"type": "str", "required": True},
    "username": {"type": "str", "default": ""},
    "validate_certs": {"type": "bool", "default": True},
    "ca_path": {"type": "path"},
    "timeout": {"type": "float", "default": 60},
}
#: Options of the doc fragments _quads and _quads.server: what every module has.
OPTIONS: dict[str, Any] = {
    **SERVER,
    "password": {"type": "str", "no_log": True},
    "api_token": {"type": "str", "no_log": True},
    "retry_time": {"type": "float", "default": 300},
    "utc_offset": {"type": "int"},
}
#: Which lease is meant: one of these.
NAMED: dict[str, Any] = {"lease_id": {"type": "str"}, "assignment_id": {"type": "int"}, "cloud": {"type": "str"}}
ONE = tuple(NAMED)
#: Options of the doc fragment _quads.which.
WHICH: dict[str, Any] = {**NAMED, "lease_file": {"type": "path"}}


def account(options: Mapping[str, Any], secret: bool) -> QuadsAccount:
    """Return who asks, checked. secret: credentials are needed. Raises InputError before a request is sent."""
    base_url(options["api_url"])
    username = options.get("username") or ""
    if options.get("password") and options.get("api_token"):
        raise InputError("password and api_token are both given: one of them is enough")
    if secret and not (options.get("password") or options.get("api_token")):
        raise InputError(
            "taking and giving back machines needs credentials: give password, or api_token where the server knows "
            "such tokens"
        )
    if secret and "@" not in username:
        raise InputError(f"username '{username}': give the full e-mail address with which you log in")
    if secret and options["api_url"].strip().startswith("http://") and options.get("validate_certs", True):
        raise InputError(
            f"api_url {options['api_url']}: credentials don't go over http://. Use https://, or say with "
            "validate_certs=false that anybody may read them"
        )
    return QuadsAccount(
        api_url=options["api_url"],
        username=username,
        password=options.get("password") or "",
        api_token=options.get("api_token") or "",
        timeout=float(options.get("timeout") or 60),
        retry_time=float(options.get("retry_time") or 0),
    )


def client(options: Mapping[str, Any], secret: bool = False, say: Callable[[str], None] | None = None) -> QuadsClient:
    """Return a client for a module's options."""
    send = sender(options.get("validate_certs", True), options.get("ca_path"))
    made = QuadsClient(account(options, secret), send, say=say)
    if options.get("utc_offset") is not None:
        made.ahead = options["utc_offset"] * 60.0
    return made


@contextmanager
def heeding_signals(one: QuadsClient) -> Iterator[None]:
    """End waits of a client at once on Ctrl-C or a kill: then Interrupted is raised, and what was taken given back."""
    with noticed() as interrupt:

        def sleep(seconds: float) -> None:
            interrupt.event.wait(max(0.0, seconds))
            interrupt.check()

        one.heed(RetryTiming(time.monotonic, time.time, sleep), interrupt.check)
        yield

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of the QUADS server that the modules share, and a client for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.interrupt import noticed

from .http_request import sender
from .http_session import QuadsAccount, RetryTiming, base_url
from .quads_client import QuadsClient

#: Options of the doc fragment _quads.server.
SERVER: dict[str, Any] = {
    "api_url": {"type": "str", "required": True},
    "username": {"type": "str", "default": ""},
    "validate_certs": {"type": "bool", "default": True},
    "ca_path": {"type": "path"},
    "timeout": {"type": "float", "default": 60},
}
#: Options of the doc fragments _quads and _quads.server, of every module.
OPTIONS: dict[str, Any] = {
    **SERVER,
    "password": {"type": "str", "no_log": True},
    "api_token": {"type": "str", "no_log": True},
    "retry_time": {"type": "float", "default": 300},
    "utc_offset": {"type": "int"},
}
#: Options that identify a lease; exactly one is required.
NAMED: dict[str, Any] = {"lease_id": {"type": "str"}, "assignment_id": {"type": "int"}, "cloud": {"type": "str"}}
ONE = tuple(NAMED)
#: Options of the doc fragment _quads.which.
WHICH: dict[str, Any] = {**NAMED, "lease_file": {"type": "path"}}


def account(options: Mapping[str, Any], secret: bool) -> QuadsAccount:
    """Return the account in the options. secret: credentials are required. Raises InputError."""
    base_url(options["api_url"])
    username = options.get("username") or ""
    if options.get("password") and options.get("api_token"):
        raise InputError("password and api_token are both set: omit one")
    if secret and not (options.get("password") or options.get("api_token")):
        raise InputError(
            "acquiring and releasing machines requires credentials: set password, or api_token if the server supports "
            "API tokens"
        )
    if secret and "@" not in username:
        raise InputError(f"username '{username}': set the full e-mail address with which you log in")
    if secret and options["api_url"].strip().startswith("http://") and options.get("validate_certs", True):
        raise InputError(
            f"api_url {options['api_url']}: credentials are not sent over http://. Use https://, or allow it with "
            "validate_certs=false"
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
    created = QuadsClient(account(options, secret), send, say=say)
    if options.get("utc_offset") is not None:
        created.ahead = options["utc_offset"] * 60.0
    return created


@contextmanager
def heeding_signals(one: QuadsClient) -> Iterator[None]:
    """Raise Interrupted in a waiting client at once on Ctrl-C or a kill, so that acquired machines are released."""
    with noticed() as interrupt:

        def sleep(seconds: float) -> None:
            interrupt.event.wait(max(0.0, seconds))
            interrupt.check()

        one.heed(RetryTiming(time.monotonic, time.time, sleep), interrupt.check)
        yield

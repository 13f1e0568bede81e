# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests to one API server, from several threads: each uses an idle connection or opens one."""

from __future__ import annotations

import json
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import parse_json

from .api_errors import api_error
from .api_server_access import ApiServerAccess
from .connection import JSON, ApiReply, ApiServerConnection, Broken, format_request_head, request_bytes
from .kubeconfig import load_context_access
from .missing_resources import unconfirmed_absence, why_it_may_exist

#: How often a request is sent that the server rejects for now (429, 503), and the longest pause between, seconds.
_TRIES = 5
_LONGEST_PAUSE = 5.0

_Requests = TypeVar("_Requests", bound="ApiRequests")


class ApiRequests:
    """Requests to the API server of one kubeconfig, and to no other host."""

    def __init__(self, access: ApiServerAccess, timeout: float = 60.0) -> None:
        self.access = access
        self.timeout = timeout
        self._idle: list[ApiServerConnection] = []
        self._lock = threading.Lock()

    @classmethod
    def from_kubeconfig(cls: type[_Requests], path: str | Path, context: str = "", timeout: float = 60.0) -> _Requests:
        """Read a kubeconfig; nothing is sent yet. Raises InputError."""
        return cls(load_context_access(path, context), timeout)

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def __enter__(self: _Requests) -> _Requests:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def raw(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        content_type: str = JSON,
        accept: str = JSON,
        query: dict[str, Any] | None = None,
    ) -> ApiReply:
        """Send one request and return its reply, whatever its status.

        A GET request whose connection broke is sent again; others are not, because their outcome is unknown.
        Refused credentials (401) are read again once. Raises Broken, AccessError.
        """
        head = format_request_head(self.access, method, append_query_to_path(path, query), accept)
        connection = self._take()
        try:
            shown = self.access.authorization
            reply = self._once(connection, head, body, content_type, method == "GET")
            if reply.status == 401 and self.access.refresh(shown):
                connection.close()  # a client certificate is presented when a connection is opened
                reply = self._once(connection, head, body, content_type, method == "GET")
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._idle.append(connection)
        return reply

    def _take(self) -> ApiServerConnection:
        with self._lock:
            return self._idle.pop() if self._idle else ApiServerConnection(self.access, self.timeout)

    def _once(
        self, connection: ApiServerConnection, head: bytes, body: bytes, content_type: str, again: bool
    ) -> ApiReply:
        request = request_bytes(self.access, head, body, content_type)
        try:
            return connection.exchange(request)
        except Broken as error:
            if not error.sent or not again:
                raise
            return connection.exchange(request)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: dict[str, Any] | None = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> Any:
        """Send one request and return the JSON of the reply (None if it has no body).

        ``body``: bytes as they are, anything else as JSON. 429 and 503 with Retry-After are repeated a few times.
        Raises ApiError for a status of 300 and above, AccessError when credentials are refused.
        """
        data = (
            body
            if isinstance(body, bytes)
            else b""
            if body is None
            else json.dumps(body, separators=(",", ":")).encode()
        )
        for attempt in range(1, _TRIES + 1):
            reply = self.raw(method, path, data, content_type, accept, query)
            wait = reply.header("retry-after") if reply.status in (429, 503) else None
            if wait is None or attempt == _TRIES:
                break
            time.sleep(min(1.0 if (seconds := formats.parse_whole_number(wait)) is None else seconds, _LONGEST_PAUSE))
        document = self.parsed(reply, method, path)
        if document is not None and not isinstance(document, dict):
            raise ApiError(f"{method} {path}: the reply of {self.access.server} is no list and no object")
        return document

    def parsed(self, reply: ApiReply, method: str, path: str) -> Any:
        """Return the JSON of ``reply``. Raises ApiError, AccessError for a status of 300 and above.

        An API server redirects nowhere. A proxy in front of it does, such as to the page of a login. Status 404 of an
        ApiError means that nothing is there: it is 0 if that is not certain.
        """
        what = f"{method} {path}"
        if reply.status == 404 and (doubt := why_it_may_exist(partial(self.request, "GET"), method, path, reply)):
            raise unconfirmed_absence(what, self.access, doubt)
        if reply.status >= 300:
            raise api_error(reply, what, self.access)
        if not reply.body:
            return None
        try:
            return parse_json(reply.body)
        except ValueError as error:
            raise ApiError(
                f"{what}: {self.access.server} returned status {reply.status} without JSON", reply.status
            ) from error

    def text(self, path: str, query: dict[str, Any] | None = None) -> str:
        """GET a resource that is not JSON, such as a pod's log or /readyz."""
        reply = self.raw("GET", path, accept="*/*", query=query)
        if reply.status >= 300:
            raise api_error(reply, f"GET {path}", self.access)
        return reply.body.decode("utf-8", "replace")


def append_query_to_path(path: str, query: dict[str, Any] | None) -> str:
    """Return ``path`` with the non-empty entries of the query."""
    params = {key: value for key, value in (query or {}).items() if value not in (None, "")}
    return f"{path}?{urlencode(params)}" if params else path

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An OpenSearch server: its address and credentials, and one request. The server's certificate is always verified."""

from __future__ import annotations

import base64
import json
import urllib.request
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, InputError

from . import https_request


@dataclass(frozen=True)
class OpenSearchServer:
    """Address and credentials. Raises InputError for an address that is not usable or not secure."""

    url: str
    prefix: str = "seatrial"
    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    authority: str = ""

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"OpenSearch address '{self.url}' is not https://host:port")
        if parts.scheme == "http" and parts.hostname not in ("127.0.0.1", "localhost", "::1"):
            raise InputError(f"OpenSearch address '{self.url}': http is allowed for this machine only; use https")
        if parts.username:
            raise InputError("OpenSearch address: it contains a user name; give user and password as settings")


class OpenSearchClient:
    """Requests to one server. timeout: of each request, in seconds. Raises InputError for an unusable authority."""

    def __init__(self, server: OpenSearchServer, timeout: float = https_request.TIMEOUT) -> None:
        self.server = server
        self.timeout = timeout
        self._context = https_request.tls_context(server.authority) if server.url.startswith("https") else None

    def call(self, method: str, path: str, body: bytes = b"", kind: str = "application/json") -> dict[str, Any]:
        """Send one request and return the answer. Raises AccessError."""
        request = urllib.request.Request(self.server.url.rstrip("/") + path, data=body or None, method=method)
        request.add_header("Content-Type", kind)
        if self.server.token:
            request.add_header("Authorization", f"Bearer {self.server.token}")
        elif self.server.user:
            pair = base64.b64encode(f"{self.server.user}:{self.server.password}".encode()).decode()
            request.add_header("Authorization", f"Basic {pair}")
        name = f"OpenSearch {self.server.url}"
        try:
            with https_request.opened(request, self._context, name, self.timeout) as answer:
                found = json.loads(answer.read())
        except https_request.HttpRefused as error:
            raise AccessError(f"{name}{path}: {error.status} {error.body[:2000]}") from error
        if not isinstance(found, dict):
            raise AccessError(f"{name}{path}: the answer is not a JSON object")
        return found

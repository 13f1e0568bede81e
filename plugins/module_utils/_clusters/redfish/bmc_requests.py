# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Redfish requests to one BMC: JSON documents, basic authentication, errors with the BMC's own message."""

from __future__ import annotations

import base64
import json
import time
import urllib.request
from collections.abc import Mapping
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._http import https_request
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.https_request import HttpRefused

#: The only path that the standard fixes; all others are read from documents. It needs no credentials.
SERVICE_ROOT = "/redfish/v1/"

#: Attempts to read a document while the BMC answers with a server error (5xx), and seconds between them.
ATTEMPTS = 4
PAUSE = 1.0


class BmcRequests:
    """Requests to the BMC at ``root`` (a URL without a path).

    Each raises HttpRefused with the BMC's message if the BMC refuses, AccessError without a complete response.
    """

    def __init__(self, root: str, user: str, password: str, given: Mapping[str, Any]) -> None:
        """given: validate_certs, ca_path, timeout in seconds. Raises InputError for an unusable ca_path."""
        self.root = root
        self.timeout = float(given.get("timeout") or 30)
        self._credentials = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode("ascii")
        self._context = https_request.tls_context(
            str(given.get("ca_path") or ""), insecure=not given.get("validate_certs", True)
        )

    def get(self, path: str) -> dict[str, Any]:
        """Return the document at ``path``."""
        return self._read(path)[0]

    def post(self, path: str, document: Mapping[str, Any]) -> None:
        """Start an action."""
        self._send("POST", path, document)

    def patch(self, path: str, document: Mapping[str, Any]) -> None:
        """Change properties of a resource, if it did not change since it was read."""
        found, tag = self._read(path)
        self._send("PATCH", path, document, tag or str(found.get("@odata.etag") or ""))

    def _read(self, path: str) -> tuple[dict[str, Any], str]:
        """Return the document at ``path`` and its ETag. A busy BMC answers with 5xx now and then: it is asked again."""
        for _attempt in range(ATTEMPTS - 1):
            try:
                return self._send("GET", path)
            except HttpRefused as error:
                if error.status < 500:
                    raise
            time.sleep(PAUSE)
        return self._send("GET", path)

    def _send(
        self, method: str, path: str, document: Mapping[str, Any] | None = None, only_if: str = ""
    ) -> tuple[dict[str, Any], str]:
        """Return the document that was read ({} unless method is GET) and its ETag ("" if it has none)."""
        name = f"{method} {path}"
        if not path.startswith("/"):  # or the credentials would be sent to a host of the BMC's choice
            raise AccessError(f"{name}: the path in its response does not begin with /")
        body = None if document is None else json.dumps(document).encode()
        request = urllib.request.Request(self.root + path, data=body, method=method)
        request.add_header("Accept", "application/json")
        request.add_header("OData-Version", "4.0")
        if body is not None:
            request.add_header("Content-Type", "application/json")
        if only_if:
            request.add_header("If-Match", only_if)
        if path != SERVICE_ROOT:
            request.add_unredirected_header("Authorization", self._credentials)
        try:
            with https_request.opened(request, self._context, name, self.timeout) as answer:
                content = answer.read()
                found = json.loads(content) if method == "GET" else {}  # others may answer without a document
                tag = str(answer.headers.get("ETag") or "")
        except HttpRefused as error:
            reason = _message(error.body)
            raise HttpRefused(f"{error}: {reason}" if reason else str(error), error.status, error.body) from error
        if not isinstance(found, dict):
            raise AccessError(f"{name}: the response is not a JSON object")
        return found, tag


def _message(body: str) -> str:
    """Return the message of an error response, "" if it has none."""
    try:
        error = json.loads(body)["error"]
        details = error.get("@Message.ExtendedInfo") or []
        texts = [one.get("Message") for one in ([details] if isinstance(details, dict) else details)]
        return "; ".join(str(text) for text in texts if text) or str(error.get("message") or "")
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An OpenSearch server: its address and credentials, and one request. The server's certificate is always verified."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import require_json_object

from .http_client import HttpClient, HttpPolicy
from .http_transport import HttpRefused, basic_authorization_header, check_url_usable_and_secure, url_without_secrets

#: Prefixes of names of indexes. Other characters are refused by the server, or mean several indexes.
_PREFIX = re.compile(r"[a-z0-9][a-z0-9._-]{0,199}")


def check_index_prefix(prefix: str) -> None:
    """Raise InputError for a prefix with which no index can be named."""
    if not _PREFIX.fullmatch(prefix):
        raise InputError(
            f"'{prefix}' is no prefix of an OpenSearch index: it needs lower-case letters, digits, '.', '_' and '-', "
            "at most 200 of them, and begins with a letter or a digit"
        )


@dataclass(frozen=True)
class OpenSearchServer:
    """Address and credentials. Raises InputError for an address that is not usable or not secure, or a wrong prefix."""

    url: str
    prefix: str = "seatrial"
    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    authority: str = ""

    def __post_init__(self) -> None:
        check_url_usable_and_secure(f"OpenSearch {url_without_secrets(self.url)}", self.url, https_only=True)
        check_index_prefix(self.prefix)


class OpenSearchClient:
    """Requests to one server. Raises InputError for an unusable authority.

    timeout: of each request, in seconds. retry_time: seconds in which a request is repeated while the server is busy.
    """

    def __init__(
        self, server: OpenSearchServer, timeout: float = HttpPolicy.timeout, retry_time: float = HttpPolicy.retry_time
    ) -> None:
        self.server = server
        secret = basic_authorization_header(server.user, server.password) if server.user else ""
        self._name = f"OpenSearch {server.url}"
        self._http = HttpClient(
            self._name,
            server.url,
            f"Bearer {server.token}" if server.token else secret,
            server.authority,
            policy=HttpPolicy.of_query(timeout, retry_time),
        )

    def call(self, method: str, path: str, body: bytes = b"", kind: str = "application/json") -> dict[str, Any]:
        """Send a request that may be repeated, and return the answer. Raises AccessError."""
        try:
            answer = self._http.json(
                method, path, body or None, headers={"Content-Type": kind}, what=self._name, repeat="always"
            )
        except HttpRefused as error:
            raise AccessError(f"{self._name}{path}: {error.status} {error.reply.text[:2000]}") from error
        return require_json_object(f"{self._name}{path}", answer)

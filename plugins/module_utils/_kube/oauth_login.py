# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""User name and password: a login at the OAuth server of an OpenShift API server.

The API server publishes the address of its OAuth server (RFC 8414), which answers a challenging client with a redirect
whose fragment contains the token (RFC 6749, 4.2.2). An API server without one gets a basic authorization header.
"""

from __future__ import annotations

import base64
import json
import time
from dataclasses import replace
from urllib.parse import parse_qs, urlencode, urlsplit

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError

from .api_credentials import Access, Credentials
from .connection import Connection, Reply, request_head

WELL_KNOWN = "/.well-known/oauth-authorization-server"
#: OpenShift's OAuth client for programs.
CLIENT = "openshift-challenging-client"
_TIMEOUT = 30.0


def login(access: Access, user: str, password: str) -> Credentials:
    """Return a token of the cluster's OAuth server, or a basic header where there is none.

    Raises AccessError if the server refuses the login or returns no token, Broken if it can't be reached.
    """
    # Requests for credentials are sent without credentials.
    access = replace(access, held="", reader=None, expires=None)
    basic = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
    found = _exchange(access, request_head(access, "GET", WELL_KNOWN))
    address = _endpoint(found)
    if not address:
        return Credentials(basic)
    at = _server_of(address, access)
    query = urlencode({"response_type": "token", "client_id": CLIENT})
    head = request_head(at, "GET", f"?{query}")
    reply = _exchange(at, head + f"Authorization: {basic}\r\nX-CSRF-Token: 1\r\n".encode("latin-1"))
    if reply.status == 401:
        raise AccessError(f"{access.source}: {at.server} refuses user '{user}' and the password")
    fragment = parse_qs(urlsplit(reply.header("location") or "").fragment)
    token = (fragment.get("access_token") or [""])[0]
    if reply.status != 302 or not token:
        raise AccessError(
            f"{access.source}: {at.server} answered the login of '{user}' with status {reply.status} and no token"
        )
    lasts = (fragment.get("expires_in") or [""])[0]
    return Credentials(f"Bearer {token}", expires=time.time() + int(lasts) if lasts.isdigit() else None)


def _exchange(access: Access, head: bytes) -> Reply:
    connection = Connection(access, _TIMEOUT)
    try:
        return connection.exchange(head + b"\r\n")
    finally:
        connection.close()


def _endpoint(reply: Reply) -> str:
    if reply.status != 200:
        return ""
    try:
        return str(json.loads(reply.body).get("authorization_endpoint") or "")
    except (ValueError, AttributeError):
        return ""


def _server_of(address: str, access: Access) -> Access:
    """Return the OAuth server, verified against the API server's CA and the system's."""
    parts = urlsplit(address)
    if not parts.hostname or parts.scheme not in ("https", "http"):
        raise AccessError(f"{access.server} names '{address}' as its OAuth server, which is not a URL")
    if parts.scheme == "http" and access.context is not None:
        raise AccessError(
            f"{access.server} names '{address}' as its OAuth server; a password is not sent over plain http"
        )
    if access.context is not None and not access.insecure:
        access.context.load_default_certs()
    return Access(
        server=f"{parts.scheme}://{parts.netloc}",
        host=parts.hostname,
        port=parts.port or (443 if parts.scheme == "https" else 80),
        prefix=parts.path,
        source=access.source,
        proxy=access.proxy,
        context=access.context if parts.scheme == "https" else None,
        insecure=access.insecure,
    )

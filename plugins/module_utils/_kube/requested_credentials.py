# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Credentials that must be requested: from a program in a kubeconfig, or by a login with user name and password.

A program has the exec form (client.authentication.k8s.io, ExecCredential). What it prints is a secret, so nothing of it
is ever part of an error.

For a login, the API server publishes the address of its OAuth server (RFC 8414), which answers a challenging client
with a redirect whose fragment contains the token (RFC 6749, 4.2.2). An API server without one gets a basic
authorization header.
"""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import unblock_signals
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import parse_json

from .api_server_access import ApiServerAccess, ServerCredentials
from .connection import ApiReply, ApiServerConnection, format_request_head
from .tls import make_tls_context

MODES = ("Never", "IfAvailable", "Always")
VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
#: Timeout of the program, in seconds.
_EXEC_TIMEOUT = 60.0


def exec_plugin_reader(
    entry: dict[str, Any], cluster: dict[str, Any], where: Path, source: str
) -> Callable[[], ServerCredentials]:
    """Return a function that runs the program of the exec entry of a user. ``cluster``: passed on if it asks for it.

    Raises InputError for an entry that can't be used; the function raises AccessError without credentials.
    """
    version, command = entry.get("apiVersion") or "", entry.get("command") or ""
    if version not in VERSIONS or not command:
        raise InputError(f"{source}: 'exec' requires command and apiVersion, one of {', '.join(VERSIONS)}")
    mode = entry.get("interactiveMode") or ("" if version == VERSIONS[0] else "IfAvailable")
    if mode not in MODES:
        raise InputError(f"{source}: 'exec' requires interactiveMode, one of {', '.join(MODES)}")
    if mode == "Always":
        raise InputError(f"{source}: 'exec' has interactiveMode Always, but its program can ask nobody here")
    variables = [variable or {} for variable in entry.get("env") or []]
    if not all(variable.get("name") for variable in variables):
        raise InputError(f"{source}: 'exec' has an environment variable without a name")
    return partial(_run_exec_plugin, entry, variables, cluster, where, source)


def _run_exec_plugin(
    entry: dict[str, Any], variables: list[dict[str, Any]], cluster: dict[str, Any], where: Path, source: str
) -> ServerCredentials:
    import subprocess  # here, since most users have no such program

    version, command = entry["apiVersion"], entry["command"]
    if "/" in command:
        command = str(where.parent / command)  # relative to the kubeconfig, as in kubectl
    spec: dict[str, Any] = {"interactive": False}
    if entry.get("provideClusterInfo"):
        spec["cluster"] = cluster
    asked = {"apiVersion": version, "kind": "ExecCredential", "spec": spec}
    entry_variables = {variable["name"]: variable.get("value") or "" for variable in variables}
    arguments = [argument or "" for argument in entry.get("args") or []]
    environment = {**os.environ, **entry_variables, "KUBERNETES_EXEC_INFO": json.dumps(asked)}
    try:
        done = subprocess.run(  # pylint: disable=ansible-bad-function
            [command, *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_EXEC_TIMEOUT,
            check=False,
            preexec_fn=unblock_signals,  # called from any thread
        )
    except FileNotFoundError as error:
        hint = f". {entry['installHint']}" if entry.get("installHint") else ""
        raise AccessError(f"{source}: 'exec' returned no credentials: there is no program '{command}'{hint}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        why = f"it did not end within {_EXEC_TIMEOUT:g} s" if isinstance(error, subprocess.TimeoutExpired) else error
        raise AccessError(f"{source}: 'exec' returned no credentials: {command}: {why}") from error
    if done.returncode:
        raise AccessError(f"{source}: 'exec' returned no credentials: {command} ended with {done.returncode}")
    return _parse_exec_credential(done.stdout, version, f"{source}: 'exec' returned no credentials: {command}")


def _parse_exec_credential(printed: bytes, version: str, what: str) -> ServerCredentials:
    try:
        document = parse_json(printed)
        status = document["status"]
        written = document.get("apiVersion")
        token, certificate, key = (status.get(name) for name in ("token", "clientCertificateData", "clientKeyData"))
        until = status.get("expirationTimestamp")
        expires = datetime.fromisoformat(until.replace("Z", "+00:00")).timestamp() if until else None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise AccessError(f"{what} printed no ExecCredential with a status") from None
    if written != version:
        raise AccessError(f"{what} returned an ExecCredential of another version than {version}, which its entry names")
    if bool(certificate) != bool(key) or not (token or certificate):
        raise AccessError(f"{what} returned neither a token nor a certificate with its key")
    if not str(token or "").isprintable():
        raise AccessError(f"{what} returned a token with a control character")
    return ServerCredentials(
        authorization=f"Bearer {token}" if token else "",
        certificate=certificate.encode() if certificate else None,
        key=key.encode() if key else None,
        expires=expires,
    )


WELL_KNOWN = "/.well-known/oauth-authorization-server"
#: OpenShift's OAuth client for programs.
OAUTH_CLIENT = "openshift-challenging-client"
_OAUTH_TIMEOUT = 30.0


def log_in_with_password(
    access: ApiServerAccess, authority: bytes | None, user: str, password: str
) -> ServerCredentials:
    """Return a token of the cluster's OAuth server, or a basic header where there is none. authority: of the cluster.

    Raises AccessError if the server refuses the login or returns no token, Broken if it can't be reached.
    """
    # Requests for credentials are sent without credentials.
    access = replace(access, held="", reader=None, expires=None, impersonation=())
    basic = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
    metadata = _send_oauth_request(access, format_request_head(access, "GET", WELL_KNOWN))
    address = _authorization_endpoint_of_reply(metadata)
    if not address:
        return ServerCredentials(basic)
    at = _verified_oauth_server(address, access, authority)
    query = urlencode({"response_type": "token", "client_id": OAUTH_CLIENT})
    head = format_request_head(at, "GET", f"?{query}")
    reply = _send_oauth_request(at, head + f"Authorization: {basic}\r\nX-CSRF-Token: 1\r\n".encode("latin-1"))
    if reply.status == 401:
        raise AccessError(f"{access.source}: {at.server} refuses user '{user}' and the password")
    fragment = parse_qs(urlsplit(reply.header("location") or "").fragment)
    token = (fragment.get("access_token") or [""])[0]
    if reply.status != 302 or not token:
        raise AccessError(
            f"{access.source}: {at.server} answered the login of '{user}' with status {reply.status} and no token"
        )
    seconds = formats.parse_whole_number((fragment.get("expires_in") or [""])[0])
    return ServerCredentials(f"Bearer {token}", expires=None if seconds is None else time.time() + seconds)


def _send_oauth_request(access: ApiServerAccess, head: bytes) -> ApiReply:
    connection = ApiServerConnection(access, _OAUTH_TIMEOUT)
    try:
        return connection.exchange(head + b"\r\n")
    finally:
        connection.close()


def _authorization_endpoint_of_reply(reply: ApiReply) -> str:
    if reply.status != 200:
        return ""
    try:
        return str(parse_json(reply.body).get("authorization_endpoint") or "")
    except (ValueError, AttributeError):
        return ""


def _verified_oauth_server(address: str, access: ApiServerAccess, authority: bytes | None) -> ApiServerAccess:
    """Return the OAuth server, verified against the API server's CA and the system's, which gets no certificate."""
    parts = urlsplit(address)
    if not parts.hostname or parts.scheme not in ("https", "http"):
        raise AccessError(f"{access.server} names '{address}' as its OAuth server, which is not a URL")
    if parts.scheme == "http" and access.context is not None:
        raise AccessError(
            f"{access.server} names '{address}' as its OAuth server; a password is not sent over plain http"
        )
    context = None
    if parts.scheme == "https":
        context = make_tls_context(authority, None, None, access.insecure, access.source)
        if not access.insecure:
            context.load_default_certs()
    return ApiServerAccess(
        server=f"{parts.scheme}://{parts.netloc}",
        host=parts.hostname,
        port=parts.port or (443 if parts.scheme == "https" else 80),
        prefix=parts.path,
        source=access.source,
        proxy=access.proxy,
        context=context,
        insecure=access.insecure,
    )

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading a kubeconfig: the address of the API server and our credentials.

The fields that have an effect are listed in docs/load.md; any other one of the entries that are used is refused.
The auth-provider form is left to the ``kubernetes`` package, which is imported only for it. Values of credentials never
appear in an error.
"""

from __future__ import annotations

import base64
import json
import os
import re
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, quote, urlsplit

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, InputError

from . import http1_replies, kubeconfig_document, requested_credentials
from .api_server_access import ApiServerAccess, ServerCredentials, parse_proxy_url, proxy_of_environment
from .kubeconfig_document import (
    ChosenEntries,
    describe_error_cause,
    entries_of_context,
    impersonation_headers,
    read_kubeconfig_document,
)
from .tls import make_tls_context

#: Instead of the path of a kubeconfig: the service account of the pod in which this process runs.
IN_CLUSTER = "in-cluster"
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def load_context_access(path: str | Path, context: str = "") -> ApiServerAccess:
    """Read the kubeconfig at ``path`` and return the access of ``context`` (its current one if empty).

    ``path`` may be ``in-cluster``. Raises InputError naming the file and the missing or invalid entry, AccessError if a
    program in the kubeconfig returns no credentials.
    """
    if str(path) == IN_CLUSTER:
        return load_in_cluster_access()
    where = Path(path).expanduser()
    return _access_from_entries(where, entries_of_context(read_kubeconfig_document(where), context, where))


def _access_from_entries(where: Path, chosen: ChosenEntries) -> ApiServerAccess:
    source = f"kubeconfig {where}, context '{chosen.name}'"
    cluster, user = chosen.cluster, chosen.user
    parts, port = _server_address(cluster, source)
    host = parts.hostname or ""
    access = ApiServerAccess(
        server=f"{parts.scheme}://{parts.netloc}",
        host=host,
        port=port,
        prefix=quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=~"),
        source=source,
        namespace=chosen.context.get("namespace") or "default",
        proxy=parse_proxy_url(cluster.get("proxy-url") or "", source) or proxy_of_environment(parts.scheme, host, port),
        server_name=cluster.get("tls-server-name") or "",
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        impersonation=impersonation_headers(user),
    )
    first = _read_user_credentials(access, user, cluster, where, chosen.name)
    if parts.scheme == "https":
        authority = _read_data_or_file(cluster, "certificate-authority", where, source)
        access.make_context = partial(_create_tls_context, authority, access.insecure, source)
        access.context = _create_tls_context(authority, access.insecure, source, first.certificate, first.key)
    access.held, access.expires = first.authorization, first.expires
    if access.reader is not None and user.get("username"):
        access.held = None  # a login is made on first use
    return access


def _server_address(cluster: dict[str, Any], source: str) -> tuple[SplitResult, int]:
    """Return the parts of the server's URL, and its port. Raises InputError."""
    server = cluster.get("server") or ""
    wrong = InputError(f"{source}: server '{server.rpartition('@')[2]}' is not an http(s) URL")
    if re.fullmatch(r"[^/]+:\d+", server):  # as in kubectl
        secure = any(cluster.get(key) for key in ("certificate-authority", "certificate-authority-data"))
        server = f"{'https' if secure or cluster.get('insecure-skip-tls-verify') else 'http'}://{server}"
    try:
        parts = urlsplit(server)
        port = parts.port
    except ValueError as error:
        raise wrong from error
    if parts.username is not None:
        raise InputError(f"{source}: server has a user name in its URL: set username and password of the user instead")
    if parts.scheme not in ("https", "http") or not parts.hostname or not parts.netloc.isascii():
        raise wrong
    return parts, port or (443 if parts.scheme == "https" else 80)


def render_standalone_kubeconfig(path: str | Path, context: str = "") -> str:
    """Return a self-contained kubeconfig (JSON, which is YAML) with one context, for use on another machine.

    Raises InputError for credentials that only this machine can get.
    """
    where = Path(path).expanduser()
    chosen = entries_of_context(read_kubeconfig_document(where), context, where)
    cluster, user = dict(chosen.cluster), dict(chosen.user)
    source = f"kubeconfig {where}, context '{chosen.name}'"
    local = next((name for name in ("exec", "auth-provider") if user.get(name) and _runs_program(user)), None)
    if local:
        raise InputError(
            f"{source}: its credentials come from '{local}', which exists on this machine only: use a kubeconfig "
            "with a token or a client certificate"
        )
    for name in ("exec", "auth-provider", "extensions"):
        user.pop(name, None)
    if user.get("tokenFile"):
        user["token"] = _token_reader(user, where, source)().authorization.partition(" ")[2]
        del user["tokenFile"]
    for holder, key in ((cluster, "certificate-authority"), (user, "client-certificate"), (user, "client-key")):
        data = _read_data_or_file(holder, key, where, source)
        holder.pop(key, None)
        if data is not None:
            holder[f"{key}-data"] = base64.b64encode(data).decode()
    return json.dumps(single_context_kubeconfig("target", cluster, user, chosen.context.get("namespace") or "default"))


def single_context_kubeconfig(
    name: str, cluster: dict[str, Any], user: dict[str, Any], namespace: str = "default", user_name: str = ""
) -> dict[str, Any]:
    """Return a kubeconfig with one context, named like its cluster. ``user_name``: by default ``name``."""
    user_entry = user_name or name
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": user_entry, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user_entry, "namespace": namespace}}],
    }


def api_server_address_in_pod() -> tuple[str, str]:
    """Return host and port of the API server in a pod; the host is empty outside a pod."""
    return os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")


def kubeconfig_of_pod(access: Path, name: str, namespace: str) -> dict[str, Any]:
    """Return a kubeconfig of the pod's service account. ``access``: folder with token and ca.crt, both renewed."""
    cluster = {
        "server": f"https://{http1_replies.format_host_and_port(*api_server_address_in_pod())}",
        "certificate-authority": str(access / "ca.crt"),
    }
    return single_context_kubeconfig(name, cluster, {"tokenFile": str(access / "token")}, namespace)


def load_in_cluster_access() -> ApiServerAccess:
    """Return the access of the pod's service account, as the kubelet mounts it. Raises InputError outside a pod."""
    host, port = api_server_address_in_pod()
    token = SERVICE_ACCOUNT / "token"
    if not host or not token.exists():
        raise InputError(
            f"kubeconfig '{IN_CLUSTER}': not in a pod with a service account (KUBERNETES_SERVICE_HOST is "
            f"{'set' if host else 'not set'}, {token} {'exists' if token.exists() else 'does not exist'})"
        )
    source = f"the service account in {SERVICE_ACCOUNT}"
    named = SERVICE_ACCOUNT / "namespace"
    access = ApiServerAccess(
        server=f"https://{http1_replies.format_host_and_port(host, port)}",
        host=host,
        port=int(port),
        prefix="",
        source=source,
        namespace=named.read_text(encoding="utf-8").strip() if named.exists() else "default",
        proxy=proxy_of_environment("https", host, int(port)),
    )
    authority = SERVICE_ACCOUNT / "ca.crt"
    access.context = _create_tls_context(authority.read_bytes() if authority.exists() else None, False, source)
    access.reader = partial(_credentials_from_token_file, token, source)
    access.take(access.reader())
    return access


def _create_tls_context(
    authority: bytes | None, insecure: bool, source: str, certificate: bytes | None = None, key: bytes | None = None
) -> Any:
    return make_tls_context(authority, certificate, key, insecure, source)


def _runs_program(user: dict[str, Any]) -> bool:
    """Return whether exec or auth-provider is used: a user who has other credentials needs neither."""
    others = ("token", "tokenFile", "username", "client-certificate", "client-certificate-data")
    return not any(user.get(key) for key in others)


def _read_user_credentials(
    access: ApiServerAccess, user: dict[str, Any], cluster: dict[str, Any], where: Path, chosen: str
) -> ServerCredentials:
    """Return the first credentials, and set the access's reader; a readable token file has precedence over a token."""
    program = None
    if way := next((key for key in ("exec", "auth-provider") if user.get(key)), None):
        kubeconfig_document.refuse_program_of_run_directory(where, access.source, way)
    if user.get("exec"):  # checked also where it is not run
        told = _cluster_for_program(cluster, where, access.source)
        program = requested_credentials.exec_plugin_reader(user["exec"], told, where, access.source)
    if _runs_program(user):
        if program is not None:
            access.reader = program
        elif user.get("auth-provider"):
            access.reader = partial(_credentials_from_kubernetes_package, where, chosen, access.source)
        return access.reader() if access.reader is not None else ServerCredentials()
    certificate = _read_data_or_file(user, "client-certificate", where, access.source)
    key = _read_data_or_file(user, "client-key", where, access.source)
    authorization = f"Bearer {user['token']}" if user.get("token") else ""
    if user.get("tokenFile"):
        access.reader = _token_reader(user, where, access.source)
        authorization = access.reader().authorization
    elif user.get("username"):
        authority = _read_data_or_file(cluster, "certificate-authority", where, access.source)
        access.reader = partial(
            requested_credentials.log_in_with_password, access, authority, user["username"], user.get("password") or ""
        )
    return ServerCredentials(authorization, certificate, key)


def _cluster_for_program(cluster: dict[str, Any], where: Path, source: str) -> dict[str, Any]:
    """Return the entry of a cluster as a program gets it, with the authority instead of the name of its file."""
    known = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url", "disable-compression")
    told = {key: cluster[key] for key in known if cluster.get(key)}
    authority = _read_data_or_file(cluster, "certificate-authority", where, source)
    if authority is not None:
        told["certificate-authority-data"] = base64.b64encode(authority).decode()
    for entry in cluster.get("extensions") or []:
        if isinstance(entry, dict) and entry.get("name") == "client.authentication.k8s.io/exec":
            told["config"] = entry.get("extension")
    return told


def _token_reader(user: dict[str, Any], where: Path, source: str) -> partial[ServerCredentials]:
    file = kubeconfig_document.find_named_file(where, "tokenFile", user["tokenFile"], source)
    return partial(_credentials_from_token_file, file, source, user.get("token") or "")


def _credentials_from_token_file(file: Path, source: str, token: str = "") -> ServerCredentials:
    """Return the token in a file; ``token`` if the file can't be read."""
    try:
        read = kubeconfig_document.read_named_file(file).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        if not token:
            why = describe_error_cause(error)
            raise AccessError(f"{source}: token file {file} can't be read: {why}") from error
        read = token
    if not read.isprintable():
        raise AccessError(f"{source}: token file {file} has more than one line or a control character")
    return ServerCredentials(f"Bearer {read or token}" if read or token else "")


def _credentials_from_kubernetes_package(where: Path, chosen: str, source: str) -> ServerCredentials:
    """Let the ``kubernetes`` package resolve an auth-provider entry."""
    try:
        from kubernetes import client, config
    except ImportError as error:
        raise AccessError(
            f"{source}: its user entry has 'auth-provider', which needs the Python package kubernetes"
        ) from error
    settings: Any = client.Configuration()
    try:
        config.load_kube_config(str(where), context=chosen, client_configuration=settings, persist_config=False)
    except Exception as error:  # any exception of the package; its text may contain a credential
        raise AccessError(f"{source}: 'auth-provider' returned no credentials ({type(error).__name__})") from error
    token = settings.get_api_key_with_prefix("authorization") or settings.get_api_key_with_prefix("BearerToken")
    pair = [Path(path).read_bytes() if path else None for path in (settings.cert_file, settings.key_file)]
    if not token and not pair[0]:
        raise AccessError(f"{source}: 'auth-provider' returned neither a token nor a certificate")
    return ServerCredentials(str(token or ""), pair[0], pair[1])


def _read_data_or_file(holder: dict[str, Any], key: str, where: Path, source: str) -> bytes | None:
    """Return the content of ``<key>-data`` (base64), else of the file ``<key>``, in kubectl's order."""
    data = holder.get(f"{key}-data")
    if data:
        return base64.b64decode(data)
    if not holder.get(key):
        return None
    file = kubeconfig_document.find_named_file(where, key, holder[key], source)
    try:
        return kubeconfig_document.read_named_file(file)
    except OSError as error:
        raise InputError(f"{source}: {key} {file} can't be read: {describe_error_cause(error)}") from error

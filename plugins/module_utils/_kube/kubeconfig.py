# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading a kubeconfig: the address of the API server and our credentials.

Client certificates (data or files), token, tokenFile, username and password, exec, tls-server-name, proxy-url and
insecure-skip-tls-verify are read here, and the service account of the pod that we run in. The auth-provider form is
left to the ``kubernetes`` package, which is imported only for it. Values of credentials never appear in an error.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    AccessError,
    DataError,
    InputError,
    suggest_similar_name,
)

from . import http1, login
from .server import ApiServerAccess, ServerCredentials, parse_proxy_url
from .tls import make_context

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
    try:
        config = files.read_yaml(where)
    except DataError as error:
        raise InputError(f"kubeconfig {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"kubeconfig {where}: can't be read: {_describe_error_cause(error)}") from error
    if not isinstance(config, dict):
        raise InputError(f"kubeconfig {where}: not a kubeconfig: the document is not a dictionary")
    chosen = context or config.get("current-context") or ""
    if not chosen:
        raise InputError(f"kubeconfig {where}: it has no current-context: set a context")
    entry = _find_named_entry(config, "contexts", "context", chosen, where)
    cluster = _find_named_entry(config, "clusters", "cluster", str(entry.get("cluster", "")), where)
    user = _find_named_entry(config, "users", "user", str(entry["user"]), where) if entry.get("user") else {}
    return _access_from_entries(where, chosen, entry, cluster, user)


def _find_named_entry(config: dict[str, Any], plural: str, singular: str, name: str, where: Path) -> dict[str, Any]:
    entries = {str(entry.get("name")): entry for entry in config.get(plural) or [] if isinstance(entry, dict)}
    if name not in entries:
        raise InputError(f"kubeconfig {where}: no {singular} '{name}' in {plural}{suggest_similar_name(name, entries)}")
    return entries[name].get(singular) or {}


def _access_from_entries(
    where: Path, chosen: str, entry: dict[str, Any], cluster: dict[str, Any], user: dict[str, Any]
) -> ApiServerAccess:
    source = f"kubeconfig {where}, context '{chosen}'"
    parts = urlsplit(str(cluster.get("server") or ""))
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise InputError(f"{source}: server '{cluster.get('server')}' is not an http(s) URL")
    access = ApiServerAccess(
        server=f"{parts.scheme}://{parts.netloc}",
        host=parts.hostname,
        port=parts.port or (443 if parts.scheme == "https" else 80),
        prefix=parts.path.rstrip("/"),
        source=source,
        namespace=str(entry.get("namespace") or "default"),
        proxy=parse_proxy_url(str(cluster.get("proxy-url") or ""), source),
        server_name=str(cluster.get("tls-server-name") or ""),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
    )
    first = _read_user_credentials(access, user, cluster, where, chosen)
    if parts.scheme == "https":
        authority = _read_data_or_file(cluster, "certificate-authority", where, source)
        access.make_context = partial(_create_tls_context, authority, access.insecure, source)
        access.context = _create_tls_context(authority, access.insecure, source, first.certificate, first.key)
    access.held, access.expires = first.authorization, first.expires
    if access.reader is not None and user.get("username") and not user.get("token") and not user.get("tokenFile"):
        access.held = None  # a login is made on first use
    return access


def render_standalone_kubeconfig(path: str | Path, context: str = "") -> str:
    """Return a self-contained kubeconfig (JSON, which is YAML) with one context, for use on another machine.

    The kubeconfig must be valid for load(). Raises InputError for credentials that only this machine can get.
    """
    where = Path(path).expanduser()
    config = files.read_yaml(where)
    chosen = context or config["current-context"]
    entry = _find_named_entry(config, "contexts", "context", chosen, where)
    cluster = dict(_find_named_entry(config, "clusters", "cluster", str(entry.get("cluster", "")), where))
    user = dict(_find_named_entry(config, "users", "user", str(entry["user"]), where)) if entry.get("user") else {}
    source = f"kubeconfig {where}, context '{chosen}'"
    local = next((name for name in ("exec", "auth-provider") if user.get(name)), None)
    if local:
        raise InputError(
            f"{source}: its credentials come from '{local}', which exists on this machine only: use a kubeconfig "
            "with a token or a client certificate"
        )
    if user.get("tokenFile") and not user.get("token"):
        user["token"] = _path_relative_to_kubeconfig(where, user["tokenFile"]).read_text(encoding="ascii").strip()
    user.pop("tokenFile", None)
    for holder, key in ((cluster, "certificate-authority"), (user, "client-certificate"), (user, "client-key")):
        data = _read_data_or_file(holder, key, where, source)
        holder.pop(key, None)
        if data is not None:
            holder[f"{key}-data"] = base64.b64encode(data).decode()
    return json.dumps(single_context_kubeconfig("target", cluster, user, str(entry.get("namespace") or "default")))


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


def service_address() -> tuple[str, str]:
    """Return host and port of the API server in a pod; the host is empty outside a pod."""
    return os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")


def service_account(access: Path, name: str, namespace: str) -> dict[str, Any]:
    """Return a kubeconfig of the pod's service account. ``access``: folder with token and ca.crt, both renewed."""
    cluster = {
        "server": f"https://{http1.format_host_and_port(*service_address())}",
        "certificate-authority": str(access / "ca.crt"),
    }
    return single_context_kubeconfig(name, cluster, {"tokenFile": str(access / "token")}, namespace)


def load_in_cluster_access() -> ApiServerAccess:
    """Return the access of the pod's service account, as the kubelet mounts it. Raises InputError outside a pod."""
    host, port = service_address()
    token = SERVICE_ACCOUNT / "token"
    if not host or not token.exists():
        raise InputError(
            f"kubeconfig '{IN_CLUSTER}': not in a pod with a service account (KUBERNETES_SERVICE_HOST is "
            f"{'set' if host else 'not set'}, {token} {'exists' if token.exists() else 'does not exist'})"
        )
    source = f"the service account in {SERVICE_ACCOUNT}"
    named = SERVICE_ACCOUNT / "namespace"
    access = ApiServerAccess(
        server=f"https://{http1.format_host_and_port(host, port)}",
        host=host,
        port=int(port),
        prefix="",
        source=source,
        namespace=named.read_text(encoding="utf-8").strip() if named.exists() else "default",
    )
    authority = SERVICE_ACCOUNT / "ca.crt"
    access.context = _create_tls_context(authority.read_bytes() if authority.exists() else None, False, source)
    access.reader = partial(_credentials_from_token_file, token, source)
    access.take(access.reader())
    return access


def _create_tls_context(
    authority: bytes | None, insecure: bool, source: str, certificate: bytes | None = None, key: bytes | None = None
) -> Any:
    return make_context(authority, certificate, key, insecure, source)


def _read_user_credentials(
    access: ApiServerAccess, user: dict[str, Any], cluster: dict[str, Any], where: Path, chosen: str
) -> ServerCredentials:
    """Return the first credentials, and set the access's reader; a token has precedence over a token file."""
    if user.get("exec"):
        access.reader = partial(login.run_exec_plugin, user["exec"], cluster, where, access.source)
        return access.reader()
    if user.get("auth-provider"):
        access.reader = partial(_credentials_from_kubernetes_package, where, chosen, access.source)
        return access.reader()
    certificate = _read_data_or_file(user, "client-certificate", where, access.source)
    key = _read_data_or_file(user, "client-key", where, access.source)
    authorization = ""
    if user.get("token"):
        authorization = f"Bearer {user['token']}"
    elif user.get("tokenFile"):
        access.reader = partial(
            _credentials_from_token_file, _path_relative_to_kubeconfig(where, user["tokenFile"]), access.source
        )
        authorization = access.reader().authorization
    elif user.get("username"):
        access.reader = partial(
            login.log_in_with_password, access, str(user["username"]), str(user.get("password") or "")
        )
    return ServerCredentials(authorization, certificate, key)


def _credentials_from_token_file(file: Path, source: str) -> ServerCredentials:
    try:
        return ServerCredentials(f"Bearer {file.read_text(encoding='ascii').strip()}")
    except (OSError, UnicodeDecodeError) as error:
        raise AccessError(f"{source}: token file {file} can't be read: {_describe_error_cause(error)}") from error


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
        try:
            return base64.b64decode("".join(str(data).split()), validate=True)
        except (binascii.Error, ValueError) as error:
            raise InputError(f"{source}: {key}-data is not base64") from error
    if not holder.get(key):
        return None
    file = _path_relative_to_kubeconfig(where, holder[key])
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"{source}: {key} {file} can't be read: {_describe_error_cause(error)}") from error


def _path_relative_to_kubeconfig(where: Path, name: Any) -> Path:
    """Return a path in a kubeconfig, which is relative to the kubeconfig."""
    return where.parent / Path(str(name)).expanduser()


def _describe_error_cause(error: Exception) -> str:
    return getattr(error, "strerror", None) or type(error).__name__

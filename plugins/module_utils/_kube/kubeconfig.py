# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading a kubeconfig: where the API server is and what we show it.

Client certificates (data or files), token, tokenFile, username and password, tls-server-name, proxy-url and
insecure-skip-tls-verify are read here. The exec and auth-provider forms are left to the ``kubernetes`` package,
which is imported only for them. Values of credentials never appear in an error.
"""

from __future__ import annotations

import base64
import binascii
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ansible_collections.perfscale.seatrial.plugins.module_utils import _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import (
    AccessError,
    DataError,
    InputError,
    nearest,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.tls import make_context

#: Forms of a user entry that the ``kubernetes`` package resolves for us.
FOREIGN = ("exec", "auth-provider")


@dataclass
class Access:
    """One API server and our credentials for it. ``repr`` shows no credential."""

    server: str
    host: str
    port: int
    prefix: str  # path below which the API lies, without a trailing slash; mostly empty
    source: str  # which kubeconfig and context, for errors
    namespace: str = "default"
    proxy: tuple[str, int] | None = None
    server_name: str = ""
    context: ssl.SSLContext | None = field(default=None, repr=False)  # None: plain HTTP
    insecure: bool = False
    authorization: str = field(default="", repr=False)
    reader: Any = field(default=None, repr=False)  # called for a new value of ``authorization``

    def refresh(self) -> bool:
        """Read the credentials anew (a token file, an exec plugin); return whether they changed."""
        if self.reader is None:
            return False
        fresh = self.reader()
        changed = fresh != self.authorization
        self.authorization = fresh
        return changed


def load(path: str | Path, context: str = "") -> Access:
    """Read the kubeconfig at ``path`` and return the access of ``context`` (its current one if empty).

    Raises InputError naming the file and the entry that is missing or can't be used.
    """
    where = Path(path).expanduser()
    try:
        config = _files.read_yaml(where)
    except DataError as error:
        raise InputError(f"kubeconfig {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"kubeconfig {where}: can't be read: {_reason(error)}") from error
    if not isinstance(config, dict):
        raise InputError(f"kubeconfig {where}: not a kubeconfig: the document is no dictionary")
    chosen = context or config.get("current-context") or ""
    if not chosen:
        raise InputError(f"kubeconfig {where}: it has no current-context; name a context")
    entry = _named(config, "contexts", "context", chosen, where)
    cluster = _named(config, "clusters", "cluster", str(entry.get("cluster", "")), where)
    user = _named(config, "users", "user", str(entry["user"]), where) if entry.get("user") else {}
    return _access(where, chosen, entry, cluster, user)


def _named(config: dict[str, Any], plural: str, singular: str, name: str, where: Path) -> dict[str, Any]:
    entries = {str(one.get("name")): one for one in config.get(plural) or [] if isinstance(one, dict)}
    if name not in entries:
        raise InputError(f"kubeconfig {where}: no {singular} '{name}' in {plural}{nearest(name, entries)}")
    return entries[name].get(singular) or {}


def _access(where: Path, chosen: str, entry: dict[str, Any], cluster: dict[str, Any], user: dict[str, Any]) -> Access:
    source = f"kubeconfig {where}, context '{chosen}'"
    parts = urlsplit(str(cluster.get("server") or ""))
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise InputError(f"{source}: server '{cluster.get('server')}' is no http(s) address")
    access = Access(
        server=f"{parts.scheme}://{parts.netloc}",
        host=parts.hostname,
        port=parts.port or (443 if parts.scheme == "https" else 80),
        prefix=parts.path.rstrip("/"),
        source=source,
        namespace=str(entry.get("namespace") or "default"),
        proxy=_proxy(cluster.get("proxy-url"), source),
        server_name=str(cluster.get("tls-server-name") or ""),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
    )
    foreign = next((form for form in FOREIGN if user.get(form)), None)
    certificate = key = None
    if foreign:
        certificate, key = _adopt_foreign(access, where, chosen, foreign)
    else:
        certificate = _bytes_of(user, "client-certificate", where, source)
        key = _bytes_of(user, "client-key", where, source)
        _read_authorization(access, user, where)
    if parts.scheme == "https":
        authority = _bytes_of(cluster, "certificate-authority", where, source)
        access.context = make_context(authority, certificate, key, access.insecure, source)
    return access


def _read_authorization(access: Access, user: dict[str, Any], where: Path) -> None:
    """Set the Authorization header's value; a token wins over a token file, as in kubectl."""
    if user.get("token"):
        access.authorization = f"Bearer {user['token']}"
    elif user.get("tokenFile"):
        token_file = _beside(where, user["tokenFile"])

        def read() -> str:
            try:
                return f"Bearer {token_file.read_text(encoding='ascii').strip()}"
            except (OSError, UnicodeDecodeError) as error:
                raise AccessError(
                    f"{access.source}: token file {token_file} can't be read: {_reason(error)}"
                ) from error

        access.reader = read
        access.authorization = read()
    elif user.get("username"):
        pair = f"{user['username']}:{user.get('password') or ''}"
        access.authorization = "Basic " + base64.b64encode(pair.encode()).decode()


def _adopt_foreign(access: Access, where: Path, chosen: str, form: str) -> tuple[bytes | None, bytes | None]:
    """Let the ``kubernetes`` package run an exec or auth-provider entry; return its client certificate and key."""
    try:
        from kubernetes import client, config
    except ImportError as error:
        raise AccessError(
            f"{access.source}: its user entry has '{form}', which needs the Python package kubernetes"
        ) from error

    def ask() -> Any:
        settings = client.Configuration()
        try:
            config.load_kube_config(str(where), context=chosen, client_configuration=settings, persist_config=False)
        except Exception as error:  # whatever the package or the plugin raises; its text may quote a credential
            raise AccessError(f"{access.source}: '{form}' gave no credentials ({type(error).__name__})") from error
        return settings

    settings = ask()

    def token_of(settings: Any) -> str:
        found = settings.get_api_key_with_prefix("authorization") or settings.get_api_key_with_prefix("BearerToken")
        return str(found or "")

    access.authorization = token_of(settings)
    access.reader = lambda: token_of(ask())
    if not access.authorization and not settings.cert_file:
        raise AccessError(f"{access.source}: '{form}' gave neither a token nor a certificate")
    pair = [Path(one).read_bytes() if one else None for one in (settings.cert_file, settings.key_file)]
    return pair[0], pair[1]


def _proxy(url: Any, source: str) -> tuple[str, int] | None:
    if not url:
        return None
    parts = urlsplit(str(url))
    if parts.scheme != "http" or not parts.hostname:
        raise InputError(f"{source}: proxy-url has scheme '{parts.scheme}', only http (a CONNECT proxy) is known")
    if parts.username:
        raise InputError(f"{source}: proxy-url carries a user name, which isn't supported")
    return parts.hostname, parts.port or 80


def _bytes_of(holder: dict[str, Any], key: str, where: Path, source: str) -> bytes | None:
    """Return what ``<key>-data`` (base64) or the file ``<key>`` holds; data wins, as in kubectl."""
    data = holder.get(f"{key}-data")
    if data:
        try:
            return base64.b64decode("".join(str(data).split()), validate=True)
        except (binascii.Error, ValueError) as error:
            raise InputError(f"{source}: {key}-data is not base64") from error
    if not holder.get(key):
        return None
    file = _beside(where, holder[key])
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"{source}: {key} {file} can't be read: {_reason(error)}") from error


def _beside(where: Path, name: Any) -> Path:
    """A relative path in a kubeconfig is relative to the kubeconfig."""
    return where.parent / Path(str(name)).expanduser()


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or type(error).__name__

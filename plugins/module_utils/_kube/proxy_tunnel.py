# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A tunnel to an API server through the proxy of a kubeconfig: HTTP CONNECT (RFC 9110) or SOCKS 5 (RFC 1928)."""

from __future__ import annotations

import base64
import contextlib
import ipaddress
import socket
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError

from .http1_codec import authority

#: Schemes and their default ports. With both socks5 and socks5h the proxy resolves the name, as in kubectl.
_PORTS = {"http": 80, "socks5": 1080, "socks5h": 1080}
#: Reply codes of a SOCKS proxy (RFC 1928, 6).
_REFUSALS = (
    "",
    "general failure",
    "not allowed by its rules",
    "network unreachable",
    "host unreachable",
    "connection refused",
    "time to live expired",
    "CONNECT not supported",
    "address type not supported",
)


@dataclass(frozen=True)
class Proxy:
    """The address of a proxy and our credentials for it."""

    scheme: str
    host: str
    port: int
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)


def proxy_of(url: str, source: str) -> Proxy | None:
    """Return the proxy of a proxy-url, None for an empty one. Raises InputError, without the password."""
    if not url:
        return None
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise InputError(f"{source}: proxy-url has scheme '{parts.scheme}'; supported: http, socks5")
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return Proxy(parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme], user, password)


def tunnel(plain: socket.socket, proxy: Proxy, host: str, port: int) -> None:
    """Let the proxy at the other end of ``plain`` connect to ``host``. Raises OSError."""
    try:
        if proxy.scheme == "http":
            _connect(plain, proxy, host, port)
        else:
            _socks(plain, proxy, host, port)
    except ConnectionResetError as error:  # as ssh -D does if it can't reach the target
        raise ConnectionResetError(f"the proxy closed the connection instead of connecting to {host}:{port}") from error


def _connect(plain: socket.socket, proxy: Proxy, host: str, port: int) -> None:
    target = authority(host, port)
    shown = ""
    if proxy.user:
        pair = base64.b64encode(f"{proxy.user}:{proxy.password}".encode()).decode()
        shown = f"Proxy-Authorization: Basic {pair}\r\n"
    plain.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{shown}\r\n".encode("ascii"))
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += _exactly(plain, 1)  # not a byte more than the reply: TLS follows
    if answer.split(b" ", 2)[1:2] != [b"200"]:
        raise ConnectionRefusedError(f"the proxy answered {answer.splitlines()[0].decode('latin-1')}")


def _socks(plain: socket.socket, proxy: Proxy, host: str, port: int) -> None:
    plain.sendall(b"\x05\x02\x00\x02" if proxy.user else b"\x05\x01\x00")
    version, method = _exactly(plain, 2)
    if version != 5:
        raise ConnectionRefusedError("the server is not a SOCKS 5 proxy")
    if method == 2 and proxy.user:
        user, password = proxy.user.encode(), proxy.password.encode()
        plain.sendall(b"\x01%c%b%c%b" % (len(user), user, len(password), password))  # RFC 1929
        if _exactly(plain, 2)[1] != 0:
            raise ConnectionRefusedError("the proxy does not accept user name and password")
    elif method != 0:
        wants = "supports no known authentication method" if proxy.user else "requires a user name and a password"
        raise ConnectionRefusedError(f"the proxy {wants}")
    plain.sendall(b"\x05\x01\x00" + _address(host) + port.to_bytes(2, "big"))
    _version, refusal, _reserved, kind = _exactly(plain, 4)
    if refusal:
        reason = _REFUSALS[refusal] if refusal < len(_REFUSALS) else f"code {refusal}"
        raise ConnectionRefusedError(f"the proxy can't reach {host}:{port}: {reason}")
    _exactly(plain, (_exactly(plain, 1)[0] if kind == 3 else 4 if kind == 1 else 16) + 2)


def _address(host: str) -> bytes:
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(host)
        return (b"\x01" if address.version == 4 else b"\x04") + address.packed
    name = host.encode("idna")
    return b"\x03%c%b" % (len(name), name)


def _exactly(plain: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = plain.recv(size - len(data))
        if not more:
            raise ConnectionResetError
        data += more
    return data

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server: its address, the proxy on the way to it, and our credentials, which may have to be renewed.

The tunnel through a proxy is HTTP CONNECT (RFC 9110) or SOCKS 5 (RFC 1928). The proxy of the environment is chosen as
kubectl does (golang.org/x/net/http/httpproxy): HTTPS_PROXY or https_proxy for a server with TLS, HTTP_PROXY or
http_proxy for one without; NO_PROXY or no_proxy lists hosts that are reached without one: names with their subdomains,
.names, addresses, networks, each with or without a port, or * for all. This machine itself is always reached without
one.
"""

from __future__ import annotations

import base64
import contextlib
import ipaddress
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import unquote, urlsplit

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.loopback_hosts import is_loopback_host

from .http1_replies import format_host_and_port

#: Most seconds and bytes of what a proxy says before the tunnel is open.
MOST_OPENING, MOST_PROXY_HEAD = 120.0, 1 << 16
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
class ProxyAddress:
    """The address of a proxy and our credentials for it."""

    scheme: str
    host: str
    port: int
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)


def parse_proxy_url(url: str, source: str, what: str = "proxy-url") -> ProxyAddress | None:
    """Return the proxy of a URL, None for an empty one. Raises InputError, without the password."""
    if not url:
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InputError(f"{source}: {what} is not a URL, such as http://proxy.example.com:3128") from None
    if parts.scheme not in _PORTS or not parts.hostname:
        raise InputError(f"{source}: {what} has scheme '{parts.scheme}'; supported: http, socks5")
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return ProxyAddress(parts.scheme, parts.hostname, port or _PORTS[parts.scheme], user, password)


def open_proxy_tunnel(plain: socket.socket, proxy: ProxyAddress, host: str, port: int) -> None:
    """Let the proxy at the other end of ``plain`` connect to ``host``. Raises OSError."""
    receive = partial(_receive_exact_bytes, plain, time.monotonic() + MOST_OPENING)
    try:
        if proxy.scheme == "http":
            _open_http_connect_tunnel(plain, receive, proxy, host, port)
        else:
            _open_socks5_tunnel(plain, receive, proxy, host, port)
    except ConnectionResetError as error:  # as ssh -D does if it can't reach the target
        raise ConnectionResetError(f"the proxy closed the connection instead of connecting to {host}:{port}") from error


def _open_http_connect_tunnel(
    plain: socket.socket, receive: Callable[[int], bytes], proxy: ProxyAddress, host: str, port: int
) -> None:
    target = format_host_and_port(host, port)
    shown = ""
    if proxy.user:
        pair = base64.b64encode(f"{proxy.user}:{proxy.password}".encode()).decode()
        shown = f"Proxy-Authorization: Basic {pair}\r\n"
    plain.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{shown}\r\n".encode("ascii"))
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += receive(1)  # not a byte more than the reply: TLS follows
        if len(answer) > MOST_PROXY_HEAD:
            raise ConnectionRefusedError(f"the proxy answered with more than {MOST_PROXY_HEAD} bytes")
    if answer.split(b" ", 2)[1:2] != [b"200"]:
        raise ConnectionRefusedError(f"the proxy answered {answer.splitlines()[0].decode('latin-1')}")


def _open_socks5_tunnel(
    plain: socket.socket, receive: Callable[[int], bytes], proxy: ProxyAddress, host: str, port: int
) -> None:
    plain.sendall(b"\x05\x02\x00\x02" if proxy.user else b"\x05\x01\x00")
    version, method = receive(2)
    if version != 5:
        raise ConnectionRefusedError("the server is not a SOCKS 5 proxy")
    if method == 2 and proxy.user:
        user, password = proxy.user.encode(), proxy.password.encode()
        plain.sendall(b"\x01%c%b%c%b" % (len(user), user, len(password), password))  # RFC 1929
        if receive(2)[1] != 0:
            raise ConnectionRefusedError("the proxy does not accept user name and password")
    elif method != 0:
        wants = "supports no known authentication method" if proxy.user else "requires a user name and a password"
        raise ConnectionRefusedError(f"the proxy {wants}")
    plain.sendall(b"\x05\x01\x00" + _encode_socks5_address(host) + port.to_bytes(2, "big"))
    _version, refusal, _reserved, kind = receive(4)
    if refusal:
        reason = _REFUSALS[refusal] if refusal < len(_REFUSALS) else f"code {refusal}"
        raise ConnectionRefusedError(f"the proxy can't reach {host}:{port}: {reason}")
    receive((receive(1)[0] if kind == 3 else 4 if kind == 1 else 16) + 2)


def _encode_socks5_address(host: str) -> bytes:
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(host)
        return (b"\x01" if address.version == 4 else b"\x04") + address.packed
    name = host.encode("idna")
    return b"\x03%c%b" % (len(name), name)


def _receive_exact_bytes(plain: socket.socket, until: float, size: int) -> bytes:
    data = b""
    while len(data) < size:
        if time.monotonic() > until:
            raise ConnectionAbortedError(f"the proxy has opened no tunnel within {MOST_OPENING:g} s")
        more = plain.recv(size - len(data))
        if not more:
            raise ConnectionResetError
        data += more
    return data


#: Seconds before its end at which a credential is renewed.
_EARLY = 10.0


@dataclass(frozen=True)
class ServerCredentials:
    """Credentials from a source. ``expires``: seconds since the epoch, None if unknown."""

    authorization: str = field(default="", repr=False)  # value of the header
    certificate: bytes | None = field(default=None, repr=False)
    key: bytes | None = field(default=None, repr=False)
    expires: float | None = None


class Broken(AccessError):
    """A connection failed, or we have no credentials now; another attempt may succeed.

    ``sent`` is False if the server certainly did not receive the request.
    """

    def __init__(self, message: str, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent

    @property
    def error_kind(self) -> str:
        """The kind of the error: whether the request was sent matters only to its sender."""
        return AccessError.__name__


@dataclass
class ApiServerAccess:
    """One API server and our credentials for it, for use by many threads. ``repr`` shows no credential."""

    server: str
    host: str
    port: int
    prefix: str  # path below which the API lies, without a trailing slash; mostly empty
    source: str  # which kubeconfig and context, for errors
    namespace: str = "default"
    proxy: ProxyAddress | None = None
    server_name: str = ""
    context: ssl.SSLContext | None = field(default=None, repr=False)  # None: plain HTTP
    insecure: bool = False
    impersonation: tuple[tuple[str, str], ...] = ()  # headers by which we act as another user
    #: Called for dynamic credentials: at the first request if ``held`` is None, and to renew them.
    reader: Callable[[], ServerCredentials] | None = field(default=None, repr=False)
    held: str | None = field(default="", repr=False)
    expires: float | None = None
    #: Creates a TLS context with another client certificate.
    make_context: Callable[[bytes, bytes], ssl.SSLContext] | None = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    @property
    def authorization(self) -> str:
        """The value of the Authorization header, requested on first use."""
        if self.held is None:
            with self._lock:
                if self.held is None:
                    self._read()
        return self.held or ""

    def refresh(self, used: str | None = None) -> bool:
        """Read the credentials again (a token file, a program, a login); return whether they may have changed.

        Raises Broken if there are none now, for example because the program fails.

        ``used``: the refused authorization. If another thread has renewed it since, nothing is read.
        """
        with self._lock:
            if used is not None and self.held is not None and used != self.held:
                return True
            if self.reader is None:
                return False
            before = self.held
            return self._read() or self.held != before

    def renew(self) -> None:
        """Read the credentials again if they are about to expire. Call before opening a connection."""
        if self.expires is not None and time.time() > self.expires - _EARLY and self.reader is not None:
            with self._lock:
                if time.time() > self.expires - _EARLY:
                    self._read()

    def take(self, credentials: ServerCredentials) -> bool:
        """Use these credentials from now on; return whether they include a client certificate."""
        self.held, self.expires = credentials.authorization, credentials.expires
        if credentials.certificate and credentials.key and self.make_context is not None and self.context is not None:
            self.context = self.make_context(credentials.certificate, credentials.key)
            return True
        return False

    def insecure_warning(self) -> str:
        """Return a warning about the unverified server certificate."""
        return (
            f"{self.source}: insecure-skip-tls-verify is set: {self.server} is not authenticated, so an attacker may "
            f"read credentials and forge results. Set certificate-authority instead"
        )

    def _read(self) -> bool:
        if self.reader is None:
            raise AssertionError("credentials without a reader can't be read")
        try:
            return self.take(self.reader())
        except Broken:
            raise
        except AccessError as error:
            raise Broken(str(error), sent=False) from error


def proxy_of_environment(
    scheme: str, host: str, port: int, environment: Mapping[str, str] | None = None
) -> ProxyAddress | None:
    """Return the proxy for a server, None for none. Raises InputError naming the variable of an unsupported one."""
    held = os.environ if environment is None else environment
    name = f"{scheme}_proxy"
    variable = next((spelled for spelled in (name.upper(), name) if held.get(spelled)), "")
    exceptions = next((held[spelled] for spelled in ("NO_PROXY", "no_proxy") if held.get(spelled)), "")
    if not variable or _is_excepted(host.rstrip(".").lower(), port, exceptions):
        return None
    url = held[variable]
    return parse_proxy_url(url if "://" in url else f"http://{url}", "environment", variable)


def _is_excepted(host: str, port: int, exceptions: str) -> bool:
    """Return whether a host is reached without a proxy."""
    if is_loopback_host(host):
        return True
    address = None
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(host)
    return any(_matches(entry.strip().lower(), host, port, address) for entry in exceptions.split(","))


def _matches(entry: str, host: str, port: int, address: ipaddress.IPv4Address | ipaddress.IPv6Address | None) -> bool:
    """Return whether an entry of NO_PROXY is about a host."""
    if not entry:
        return False
    if entry == "*":
        return True
    if address is not None:
        with contextlib.suppress(ValueError):
            return address in ipaddress.ip_network(entry, strict=False)
    name, colon, wanted = entry.rpartition(":")
    number = formats.parse_whole_number(wanted)
    if colon and number is not None and (name.count(":") == 0 or name.startswith("[")):
        if number != port:
            return False
        entry = name.strip("[]")
    if address is not None:
        with contextlib.suppress(ValueError):
            return address == ipaddress.ip_address(entry)
    entry = entry.removeprefix("*")
    return host.endswith(entry) if entry.startswith(".") else host == entry or host.endswith(f".{entry}")

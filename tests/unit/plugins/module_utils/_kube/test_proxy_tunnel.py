# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is said to proxies, byte by byte, and what their answers mean."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import api_server_access
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.api_server_access import (
    ProxyAddress,
    open_proxy_tunnel,
    parse_proxy_url,
)

OPEN = ProxyAddress("socks5", "p", 1080)
NAMED = ProxyAddress("socks5", "p", 1080, "me", "p@ss")
GREETING, NAMED_GREETING = b"\x05\x01\x00", b"\x05\x02\x00\x02"
LOGIN = b"\x01\x02me\x04p@ss"
BY_NAME = b"\x05\x01\x00\x03\x07api.lab\x19\x2b"
DONE = b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x00"


def talk(proxy: ProxyAddress, script: Sequence[tuple[bytes, bytes]], host: str = "api.lab") -> bytes:
    """Let a peer expect and answer as scripted; return what is left unread after the tunnel stands."""
    near, far = socket.socketpair()
    heard: list[bytes] = []

    def serve() -> None:
        for expected, answer in script:
            data = b""
            while len(data) < len(expected):
                more = far.recv(len(expected) - len(data))
                if not more:
                    break
                data += more
            heard.append(data)
            for one in answer:  # one by one, as a network may
                far.sendall(bytes([one]))
        far.close()

    peer = threading.Thread(target=serve)
    peer.start()
    near.settimeout(10)
    try:
        open_proxy_tunnel(near, proxy, host, 6443)
        return near.recv(100)
    finally:
        near.close()
        peer.join(120)
        assert heard == [expected for expected, _answer in script][: len(heard)]


def test_socks_leads_to_a_name_that_the_proxy_looks_up_and_takes_not_a_byte_of_what_follows() -> None:
    assert talk(OPEN, [(GREETING, b"\x05\x00"), (BY_NAME, DONE + b"T")]) == b"T"


@pytest.mark.parametrize(
    ("host", "asked", "bound"),
    [
        ("127.0.0.1", b"\x05\x01\x00\x01\x7f\x00\x00\x01\x19\x2b", b"\x05\x00\x00\x03\x04host\x00\x00"),
        ("::1", b"\x05\x01\x00\x04" + b"\x00" * 15 + b"\x01\x19\x2b", b"\x05\x00\x00\x04" + b"\x00" * 18),
    ],
)
def test_socks_with_addresses_of_every_type(host: str, asked: bytes, bound: bytes) -> None:
    assert talk(OPEN, [(GREETING, b"\x05\x00"), (asked, bound + b"+")], host) == b"+"


def test_socks_logs_in_where_it_is_asked_to() -> None:
    script = [(NAMED_GREETING, b"\x05\x02"), (LOGIN, b"\x01\x00"), (BY_NAME, DONE + b"+")]
    assert talk(NAMED, script) == b"+"
    assert talk(NAMED, [(NAMED_GREETING, b"\x05\x00"), (BY_NAME, DONE + b"+")]) == b"+", "it may not care"


@pytest.mark.parametrize(
    ("proxy", "script", "words"),
    [
        (OPEN, [(GREETING, b"HT")], "not a SOCKS 5 proxy"),
        (OPEN, [(GREETING, b"\x05\xff")], "requires a user name and a password"),
        (NAMED, [(NAMED_GREETING, b"\x05\xff")], "supports no known authentication method"),
        (NAMED, [(NAMED_GREETING, b"\x05\x02"), (LOGIN, b"\x01\x01")], "does not accept user name and password"),
        (OPEN, [(GREETING, b"\x05\x00"), (BY_NAME, b"\x05\x05\x00\x01")], "can't reach api.lab:6443: connection ref"),
        (OPEN, [(GREETING, b"\x05\x00"), (BY_NAME, b"\x05\x63\x00\x01")], "can't reach api.lab:6443: code 99"),
        (OPEN, [(GREETING, b"\x05")], "the proxy closed the connection instead of connecting to api.lab:6443"),
        (ProxyAddress("http", "p", 80), [(b"CONNECT api.lab:6443 HTTP/1.1\r\n", b"HTTP/1.1 403 No\r\n\r\n")], "403 No"),
    ],
)
def test_what_a_proxy_refuses_is_told(proxy: ProxyAddress, script: list[tuple[bytes, bytes]], words: str) -> None:
    with pytest.raises(OSError, match=words):
        talk(proxy, script)


def test_http_shows_user_and_password() -> None:
    asked = b"CONNECT api.lab:6443 HTTP/1.1\r\nHost: api.lab:6443\r\nProxy-Authorization: Basic bWU6cEBzcw==\r\n\r\n"
    assert talk(ProxyAddress("http", "p", 80, "me", "p@ss"), [(asked, b"HTTP/1.1 200 OK\r\n\r\n+")]) == b"+"


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("", None),
        ("http://p.lab", ProxyAddress("http", "p.lab", 80)),
        ("http://p.lab:3128", ProxyAddress("http", "p.lab", 3128)),
        ("socks5://[::1]", ProxyAddress("socks5", "::1", 1080)),
        ("socks5h://me:p%40ss@p.lab:9", ProxyAddress("socks5h", "p.lab", 9, "me", "p@ss")),
    ],
)
def test_a_proxy_url_is_read(url: str, proxy: ProxyAddress | None) -> None:
    assert parse_proxy_url(url, "here") == proxy


def test_an_unknown_scheme_is_told_without_the_password() -> None:
    with pytest.raises(InputError, match="^here: proxy-url has scheme 'https'; supported: http, socks5$"):
        parse_proxy_url("https://me:secret@p.lab", "here")


@pytest.mark.parametrize(
    ("limit", "value", "words"),
    [("MOST_OPENING", -1.0, "no tunnel within"), ("MOST_PROXY_HEAD", 20, "more than 20 bytes")],
)
def test_a_proxy_that_talks_without_an_end_is_left(
    limit: str, value: float, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_server_access, limit, value)
    asked = b"CONNECT api.lab:6443 HTTP/1.1\r\nHost: api.lab:6443\r\n\r\n"
    with pytest.raises(OSError, match=words):
        talk(ProxyAddress("http", "p", 3128), [(asked, b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100)])

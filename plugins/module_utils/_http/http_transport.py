# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One HTTP request with its redirects: addresses, TLS, proxies, and limits on time and size."""

from __future__ import annotations

import base64
import io
import math
import re
import socket
import ssl
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.error import URLError
from urllib.parse import urljoin, urlsplit

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.loopback_hosts import is_loopback_host
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.mask_sent_credentials import (
    mask_sent_credentials,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import (
    escape_control_characters,
    parse_json,
)

MOST_REDIRECTS = 5
#: Bytes that are kept of an error's answer, and characters of it in a message.
ERROR_BYTES, QUOTED = 1 << 16, 300
#: What http.client refuses in an address and in a header, with a message that quotes the whole of it.
_NOT_IN_URL, _NOT_IN_HEADER = re.compile(r"[\x00-\x20\x7f]"), re.compile(r"[^\t\x20-\x7e\x80-\xff]")


@dataclass(frozen=True)
class HttpRequest:
    """A request. timeout and total: seconds, as in HttpPolicy. max_bytes: of its answer. follow: redirects of a GET."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = None
    timeout: float = 60.0
    total: float = 600.0
    max_bytes: int = 256 << 20
    follow: bool = True


@dataclass(frozen=True)
class HttpReply:
    """A complete answer. Names of headers are in lower case."""

    status: int
    content: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The content as text."""
        return self.content.decode("utf-8", "replace")

    @property
    def body(self) -> Any:
        """The content parsed as JSON, else as text."""
        try:
            return parse_json(self.content)
        except ValueError:
            return self.text

    @property
    def date(self) -> float | None:
        """Time of the answer by the server's clock, in seconds since the epoch; None if it does not say."""
        return parse_http_date(self.headers.get("date", ""))

    @property
    def explanation(self) -> str:
        """The server's message in one line: that of a JSON body, or the text of a page without markup and status."""
        body = self.body
        if isinstance(body, Mapping):
            parts = [str(body[name]) for name in ("message", "error") if body.get(name)]
            # After a general message (status 5xx) the error is the cause; otherwise it is the name of the status.
            text = ": ".join(parts) if self.status >= 500 else (parts or [self.text])[0]
        else:
            # Only the begin: matching takes quadratic time for pages that are made to delay it.
            text = re.sub(r"<(title|style|script)\b.*?</\1>", " ", self.text[:4096], flags=re.DOTALL | re.IGNORECASE)
            text = re.sub(r"<[^>]*>", " ", text)
        text = " ".join(text.split()).removeprefix(str(self.status)).lstrip()
        return text[:QUOTED] + "…" if len(text) > QUOTED else text


class HttpRefused(AccessError):
    """The server answered with an error: its ``status``, the ``reply``, and what it told in one line."""

    def __init__(self, message: str, reply: HttpReply, explanation: str) -> None:
        super().__init__(message)
        self.reply = reply
        self.status = reply.status
        self.explanation = explanation


class NoAnswer(AccessError):
    """A request without a complete answer.

    ``sent``: whether the server may have received it. ``permanent``: whether another attempt would fail too.
    """

    def __init__(self, message: str, sent: bool = True, permanent: bool = False) -> None:
        super().__init__(message)
        self.sent = sent
        self.permanent = permanent


class TooLarge(NoAnswer):
    """The answer has more bytes than the request accepts."""


def parse_http_date(text: str) -> float | None:
    """Parse an RFC 1123 date as seconds since the epoch, None if it is not a date. A date without a zone is in UTC."""
    try:
        moment = parsedate_to_datetime(text)
        return (moment if moment.tzinfo else parsedate_to_datetime(f"{text} +0000")).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None


def basic_authorization_header(user: str, password: str) -> str:
    """Return the value of the header Authorization for a user and a password."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode("ascii")


def url_without_secrets(url: str) -> str:
    """Return an address without credentials, query and fragment."""
    parts = urlsplit(url)
    try:
        known = parts.hostname and (parts.port or True)
    except ValueError:  # no number of a port: a password, if it has a slash
        known = False
    if not known:
        return url.rpartition("@")[2]
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}{parts.path.rstrip('/')}"


def check_url_usable_and_secure(name: str, url: str, https_only: bool) -> None:
    """Raise InputError for an address that is unusable, contains credentials, or is not protected.

    name: the server in messages; the address itself may be a secret. https_only: http is for this machine only.
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise InputError(f"{name}: the address is not https://host:port")
    if parts.username or parts.password:
        raise InputError(f"{name}: the address contains a user name; give user and password as settings")
    if https_only and parts.scheme == "http" and not is_this_machine(url):
        raise InputError(f"{name}: http is allowed for this machine only; use https")


def is_this_machine(url: str) -> bool:
    """Return whether an address leads to this machine."""
    return is_loopback_host(urlsplit(url).hostname)


def secrets_of_proxies() -> list[str]:
    """Return users with passwords, and passwords, in the addresses of proxies, which an error about them may quote."""
    proxies = [address for name, address in urllib.request.getproxies().items() if name != "no"]
    pairs = [address.rpartition("@")[0].rpartition("://")[2] for address in proxies]
    return [secret for pair in pairs for secret in (pair, pair.partition(":")[2]) if secret]


def tls_context(authority: str = "", insecure: bool = False) -> ssl.SSLContext:
    """Return a context for the client.

    Args:
        authority: File of the CA certificates to trust, or their PEM text. Empty means those of the system.
        insecure: Whether to trust anyone.

    Raises:
        InputError: The certificates are unusable.
    """
    pem = authority.lstrip().startswith("-----BEGIN")
    try:
        context = ssl.create_default_context(
            cafile=None if pem else authority or None, cadata=authority if pem else None
        )
    except (OSError, ssl.SSLError, ValueError) as error:
        source = "its text" if pem else f"file {authority}"
        raise InputError(f"the CA certificates can't be read as PEM from {source}: {error}") from error
    # The default since Python 3.13; the CAs of many laboratories lack the extensions that it requires.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


class HttpTransport:
    """Sends requests, one after the other or from several threads. context: of its TLS connections."""

    def __init__(self, context: ssl.SSLContext) -> None:
        #: Whether a server has answered.
        self.contacted = False
        self._context = context

    def __call__(self, request: HttpRequest) -> HttpReply:
        """Return the answer, whatever its status. Raises NoAnswer."""
        with self.open(request) as answer:
            return read_limited_reply(answer, request.max_bytes)

    @contextmanager
    def open(self, request: HttpRequest) -> Iterator[HTTPResponse]:
        """Send a request and those of its redirects; yield the answer, whatever its status. Raises NoAnswer."""
        end = time.monotonic() + request.total
        try:
            for _hop in range(MOST_REDIRECTS + 1):
                with self._opener(request.url, end).open(
                    _to_urllib_request(request), timeout=request.timeout
                ) as answer:
                    target = answer.headers.get("Location") or ""
                    follow = request.follow and request.method == "GET"
                    if answer.status not in (301, 302, 303, 307, 308) or not target or not follow:
                        self.contacted = True
                        yield answer
                        return
                request = _request_to_redirect_target(request, urljoin(request.url, target))
            raise NoAnswer(f"more than {MOST_REDIRECTS} redirects", permanent=True)
        except NoAnswer:
            raise
        except (OSError, ValueError, HTTPException) as error:
            raise self._no_answer(error, time.monotonic() > end, request.total) from error

    def _opener(self, url: str, end: float) -> urllib.request.OpenerDirector:
        """Return an opener without urllib's own redirects, error handling and other schemes than http and https.

        What is sent to this machine, also credentials over plain HTTP, leaves it through no proxy.
        """
        opener = urllib.request.OpenerDirector()
        for handler in (
            urllib.request.ProxyHandler({} if is_this_machine(url) else None),
            _HttpHandlerWithDeadline(end),
            _HttpsHandlerWithDeadline(end, self._context),
        ):
            opener.add_handler(handler)
        return opener

    def _no_answer(self, error: Exception, late: bool, total: float) -> NoAnswer:
        reason = error.reason if isinstance(error, URLError) and isinstance(error.reason, Exception) else error
        if isinstance(reason, ssl.SSLCertVerificationError):
            return NoAnswer(f"{reason}; configure the CA that signed its certificate", sent=False, permanent=True)
        if isinstance(reason, TimeoutError):
            return NoAnswer(f"timed out{f': not complete after {formats.format_duration(total)}' if late else ''}")
        unknown = isinstance(reason, socket.gaierror) and reason.errno == socket.EAI_NONAME
        unsent = isinstance(reason, (ConnectionRefusedError, socket.gaierror, ssl.SSLError))
        text = str(getattr(reason, "strerror", "") or reason or type(reason).__name__)
        text = mask_sent_credentials(text.encode("utf-8", "replace"), "", *secrets_of_proxies()).decode()
        text = " ".join(escape_control_characters(text[:QUOTED]).split())  # it may quote what the server sent
        # The name of a server that has answered before is known: its look-up fails for now.
        return NoAnswer(text, sent=not unsent, permanent=unknown and not self.contacted)


def error_for_refused_request(what: str, reply: HttpReply, explanation: str = "") -> HttpRefused:
    """Return the error for an answer that refuses a request. explanation: instead of that of the reply."""
    try:
        phrase = f" {HTTPStatus(reply.status).phrase}"
    except ValueError:
        phrase = ""
    told = explanation or reply.explanation
    ending = "" if told in ("", phrase.strip()) else f": {told}"
    return HttpRefused(f"{what}: {reply.status}{phrase}{ending}", reply, told)


def read_limited_reply(answer: HTTPResponse, most: int) -> HttpReply:
    """Return a complete answer of at most ``most`` bytes, that of a refusal cut. Raises NoAnswer for a longer one."""
    refused = answer.status >= 300
    limit = min(most, ERROR_BYTES) if refused else most
    content = answer.read(limit + 1)
    if len(content) > limit and not refused:
        raise TooLarge(f"the answer has more than {most} bytes", permanent=True)
    if answer.length and not refused:
        raise NoAnswer(f"the answer ended {answer.length} bytes early")
    return HttpReply(answer.status, content[:limit], {name.lower(): value for name, value in answer.headers.items()})


def _to_urllib_request(request: HttpRequest) -> urllib.request.Request:
    """Return the request. Raises NoAnswer for what can't be sent, without the value: it may be a secret."""
    if _NOT_IN_URL.search(request.url.strip()):
        raise NoAnswer("the address has a blank or a control character", sent=False, permanent=True)
    for name, value in request.headers.items():
        if _NOT_IN_HEADER.search(value):
            why = f"the value of header {name} has a line break or another character that no header can have"
            raise NoAnswer(why, sent=False, permanent=True)
    return urllib.request.Request(request.url, request.body, dict(request.headers), method=request.method)


def url_origin(url: str) -> tuple[str, str, int]:
    """Return the server of an address: its scheme, host and port."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def _request_to_redirect_target(request: HttpRequest, url: str) -> HttpRequest:
    """Return the request to the address of a redirect: without credentials if it is another server's."""
    before, after = url_origin(request.url), url_origin(url)
    if after[0] not in ("http", "https") or not after[1] or (before[0] == "https" and after[0] == "http"):
        raise NoAnswer(f"it redirects to {url_without_secrets(url)}, which is not https", permanent=True)
    headers = {name: value for name, value in request.headers.items() if before == after or name != "Authorization"}
    return replace(request, url=url, headers=headers)


# The total duration of a request: each read gets what is left of it as its timeout.


class _DeadlineReader(io.RawIOBase):
    def __init__(self, raw: io.RawIOBase, connection: socket.socket, end: float, most: float = math.inf) -> None:
        self._raw, self._socket, self._end, self._most = raw, connection, end, most
        self._timeout = connection.gettimeout() or math.inf

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(min(self._timeout, left))
        size = self._raw.readinto(buffer)
        self._most -= size or 0
        if self._most < 0:
            raise OSError("the answer is larger than permitted")
        return size

    def close(self) -> None:
        self._raw.close()
        super().close()


class _DeadlineResponse(HTTPResponse):
    def __init__(self, end: float, most: float, sock: socket.socket, *more: Any, **named: Any) -> None:
        super().__init__(sock, *more, **named)
        self.fp = io.BufferedReader(_DeadlineReader(self.fp.detach(), sock, end, most))

    def _read_next_chunk_size(self) -> int:
        """Refuse a negative size, which the base class takes for a body without an end, whatever its size."""
        size: int = super()._read_next_chunk_size()  # type: ignore[misc]  # typeshed has no private methods
        if size < 0:
            raise HTTPException("a chunk of the answer has a negative size")
        return size


def response_with_deadline(end: float, most: float, sock: socket.socket, *more: Any, **named: Any) -> HTTPResponse:
    """Return a response of http.client that is read until a time of the monotonic clock, and up to ``most`` bytes."""
    return _DeadlineResponse(end, most, sock, *more, **named)


def _create_connection_with_deadline(
    end: float, connection: type[HTTPConnection], *arguments: Any, **named: Any
) -> HTTPConnection:
    made = connection(*arguments, **named)
    made.response_class = partial(_DeadlineResponse, end, math.inf)  # type: ignore[assignment]  # it is called only
    return made


class _HttpHandlerWithDeadline(urllib.request.HTTPHandler):
    def __init__(self, end: float) -> None:
        super().__init__()
        self._end = end

    def http_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(partial(_create_connection_with_deadline, self._end, HTTPConnection), req)


class _HttpsHandlerWithDeadline(urllib.request.HTTPSHandler):
    def __init__(self, end: float, context: ssl.SSLContext) -> None:
        super().__init__(context=context)
        self._end, self._tls = end, context

    def https_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(
            partial(_create_connection_with_deadline, self._end, HTTPSConnection), req, context=self._tls
        )

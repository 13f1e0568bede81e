# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTTP client for every server beside the API servers of clusters, with one policy for all of them.

* Certificates are verified against the system's CAs or those of the caller. Credentials are sent to the server for
  which they were given and to no other, and over plain HTTP only to this machine. Nothing reads ``.netrc``.
* Only GET and HEAD follow redirects, a few of them, and never from https to http.
* An answer has a maximum size, and a request a maximum duration, however slowly the server sends.
* A request is sent again only if that can't do harm, with a growing pause or after the time in ``Retry-After``.
* Proxies are those of the environment (``https_proxy``, ``no_proxy``), and none for this machine.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import random
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, ProcessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.mask_sent_credentials import (
    mask_sent_credentials,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import parse_json

from .http_transport import (
    ERROR_BYTES,
    HttpRefused,
    HttpReply,
    HttpRequest,
    HttpTransport,
    NoAnswer,
    check_url_usable_and_secure,
    error_for_refused_request,
    parse_http_date,
    read_limited_reply,
    tls_context,
    url_origin,
    url_without_secrets,
)

#: Bytes of a file in memory at a time.
CHUNK = 1 << 20
#: Pauses before further attempts, in seconds; the last one repeats. The pause if a server sets a limit but no time.
BACKOFF, RATE_LIMIT_PAUSE = (1.0, 2.0, 4.0, 8.0, 15.0), 60.0
#: Most digits of a time in seconds since the epoch.
_EPOCH_DIGITS = 11
#: Pages of a list that are read at most.
MOST_PAGES = 1000

#: When a request may be sent again: always; if the server answered that it failed; if it certainly got no request.
Repeat = Literal["always", "refused", "unsent"]
Page = TypeVar("Page")


@dataclass(frozen=True)
class HttpPolicy:
    """Limits. timeout: seconds without any data. total: seconds of one request with its redirects and its answer.

    retry_time: seconds for all attempts at a request; 0: one attempt. first_contact: the longest retry_time while the
    server has never answered, since a wrong address should be reported soon. budget: seconds for all requests of a
    client. max_bytes: of an answer.
    """

    timeout: float = 60.0
    total: float = 600.0
    retry_time: float = 0.0
    first_contact: float = 10.0
    budget: float = math.inf
    max_bytes: int = 256 << 20

    @classmethod
    def of_query(cls, timeout: float = 60.0, retry_time: float = 0.0) -> HttpPolicy:
        """Return the limits of a server that answers questions, which are short beside files and archives."""
        return cls(timeout, 2 * timeout, retry_time)

    @classmethod
    def within(cls, budget: float, timeout: float) -> HttpPolicy:
        """Return the limits of a client whose requests and pauses together end within ``budget`` seconds: messages."""
        return cls(timeout, timeout, retry_time=budget, first_contact=budget, budget=budget, max_bytes=32 << 20)


@dataclass(frozen=True)
class HttpClock:
    """The clocks of a client, replaceable in tests. jitter: a number from 0 to 1, so that clients do not keep step."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random


Exchange = Callable[[HttpRequest], HttpReply]


def limit_number_of_pages(what: str, pages: Iterable[Page], most: int = MOST_PAGES) -> Iterator[Page]:
    """Yield the pages of a list. Raises AccessError if there are more than ``most``."""
    for number, page in enumerate(pages):
        if number == most:
            raise AccessError(f"{what}: the list has more than {most} pages")
        yield page


class HttpClient:
    """Requests to one server."""

    def __init__(
        self,
        name: str,
        url: str = "",
        authorization: str = "",
        authority: str = "",
        insecure: bool = False,
        https_only: bool = False,
        headers: Mapping[str, str] | None = None,
        secrets: Sequence[str] = (),
        policy: HttpPolicy | None = None,
        clock: HttpClock | None = None,
        report: Callable[[str], None] = lambda _line: None,
    ) -> None:
        """Make a client.

        Args:
            name: The server in messages, without secrets.
            url: Its address, to which paths are appended. Empty: each request has a whole address, and no credentials.
            authorization: Value of the header Authorization.
            authority: CA certificates, see tls_context.
            insecure: Whether to trust anyone, and to send credentials over plain HTTP.
            https_only: Whether plain HTTP is refused even without credentials, except to this machine.
            headers: Headers of all requests, without secrets.
            secrets: Secrets in the address, as that of a webhook; they and the credentials are masked in refusals.
            policy: Limits of the requests.
            clock: Clocks, for tests.
            report: Called with a line before the first pause of a request.

        Raises:
            InputError: The address or the CA certificates are unusable.
        """
        if url:
            check_url_usable_and_secure(name, url, https_only=https_only or bool(authorization) and not insecure)
        self.name = name
        self.url = url.rstrip("/")
        self.authorization = authorization
        self.headers = dict(headers or {})
        self._secrets = tuple(secrets)
        self.policy = policy or HttpPolicy()
        self.clock = clock or HttpClock()
        self.report = report
        self._insecure = insecure
        self._transport = HttpTransport(tls_context(authority, insecure))
        #: Sends one request; tests replace it.
        self.exchange: Exchange = self._transport
        self._contacted = False
        self._end = self.clock.monotonic() + self.policy.budget

    def send(
        self,
        method: str,
        path: str,
        body: bytes | Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        authorization: str | None = None,
        repeat: Repeat | None = None,
        accept: Container[int] = (),
        retry_time: float | None = None,
        max_bytes: int = 0,
        what: str = "",
        exchange: Exchange | None = None,
    ) -> HttpReply:
        """Send a request until it is answered, refused for good, or the time is over.

        Args:
            method: The method.
            path: Appended to the address of the server, with its query; or a whole address.
            body: Bytes, or a document that is sent as JSON.
            headers: Headers of this request.
            authorization: Instead of that of the client; empty: the request has no credentials.
            repeat: When it may be sent again; by default ``refused`` for POST, else ``always``.
            accept: Statuses of 300 and above that are returned instead of raised.
            retry_time: Instead of that of the policy.
            max_bytes: Instead of that of the policy; a larger answer raises TooLarge.
            what: The request in messages, by default server, method and path.
            exchange: Sends it once, instead of the client's.

        Raises:
            HttpRefused: The server refused it.
            NoAnswer: There is no complete answer.
        """
        repeat = repeat or ("refused" if method == "POST" else "always")
        what = what or f"{self.name}: {method} {path}"
        limit = self.policy.retry_time if retry_time is None else retry_time
        began = self.clock.monotonic()
        for tries in itertools.count():
            request = self._request(method, path, body, headers or {}, authorization, max_bytes)
            pause, asked = self._backoff(tries), False
            problem: AccessError
            try:
                reply = self._masked((exchange or self.exchange)(request), request)
                self._contacted = True
                if reply.status < 300 or reply.status in accept:
                    return reply
                problem = error_for_refused_request(what, reply)
                pause, asked = self._pause_after(reply, pause, repeat)
            except NoAnswer as error:
                again = not error.permanent and (repeat == "always" or not error.sent)
                doubt = not again and error.sent and method not in ("GET", "HEAD")
                text = f"{what}: {error}{'; it is unknown whether it arrived' if doubt else ''}"
                problem = type(error)(text, error.sent, error.permanent)
                if not again:
                    raise problem from error
            if pause < 0:
                raise problem
            spent = self.clock.monotonic() - began
            end = min(began + (limit if self._contacted else min(limit, self.policy.first_contact)), self._end)
            if self.clock.monotonic() + pause >= end:
                raise self._given_up(problem, pause if asked else 0.0, spent, end - began)
            if tries == 0:
                self.report(f"{problem}; retrying for up to {formats.format_duration(end - began)}")
            self.clock.sleep(pause)
        raise AssertionError("not reached")

    def json(self, method: str, path: str, body: bytes | Mapping[str, Any] | None = None, **more: Any) -> Any:
        """Send a request as send() does and return the document of its answer. Raises AccessError for another one."""
        reply = self.send(method, path, body, **more)
        try:
            return parse_json(reply.content)
        except ValueError as error:
            raise AccessError(f"{self.name}: {method} {path.partition('?')[0]}: the answer is not JSON") from error

    def download(self, path: str, file: Path) -> str:
        """Write the content at ``path`` to a file, in chunks; return its SHA-256 in hexadecimal. Sent once.

        Raises HttpRefused, NoAnswer, ProcessError if the file can't be written.
        """
        digest, size = hashlib.sha256(), 0
        request = self._request("GET", path, None, {}, None)
        what = f"{url_without_secrets(request.url)} cannot be fetched"
        try:
            with self._transport.open(request) as answer:
                if answer.status >= 300:
                    raise error_for_refused_request(
                        what, self._masked(read_limited_reply(answer, ERROR_BYTES), request)
                    )
                with open(file, "wb") as stream:
                    while chunk := answer.read1(CHUNK):
                        size += len(chunk)
                        if size > self.policy.max_bytes:
                            raise NoAnswer(f"it has more than {self.policy.max_bytes} bytes", permanent=True)
                        digest.update(chunk)
                        _write_chunk_to_file(stream, chunk)
                if answer.length:
                    raise NoAnswer(f"it ended {answer.length} bytes early")
        except NoAnswer as error:
            raise NoAnswer(f"{what}: {error}", error.sent, error.permanent) from error
        return digest.hexdigest()

    def _request(
        self,
        method: str,
        path: str,
        body: bytes | Mapping[str, Any] | None,
        headers: Mapping[str, str],
        authorization: str | None,
        max_bytes: int = 0,
    ) -> HttpRequest:
        whole = path.startswith(("http://", "https://"))
        url = path if whole else self.url + path
        secret = self.authorization if authorization is None else authorization
        if whole and self.url and url_origin(url) != url_origin(self.url):
            secret = ""
        check_url_usable_and_secure(self.name, url, https_only=bool(secret) and not self._insecure)
        if not whole and url_origin(url) != url_origin(self.url):
            raise AccessError(f"{self.name}: {method} {path}: the path leads to another server")
        sent = {"User-Agent": "perfscale.seatrial", **self.headers, **headers}
        if body is not None and not isinstance(body, bytes):
            sent = {"Content-Type": "application/json", **sent}
            body = json.dumps(body).encode()
        if secret:
            sent["Authorization"] = secret
        left = max(0.1, self._end - self.clock.monotonic())
        timeout, total = min(self.policy.timeout, left), min(self.policy.total, left)
        return HttpRequest(method, url, sent, body, timeout, total, max_bytes or self.policy.max_bytes)

    def _masked(self, reply: HttpReply, request: HttpRequest) -> HttpReply:
        if reply.status < 300:
            return reply
        content = mask_sent_credentials(reply.content, request.headers.get("Authorization", ""), *self._secrets)
        return replace(reply, content=content)

    # Attempts

    def _backoff(self, tries: int) -> float:
        return BACKOFF[min(tries, len(BACKOFF) - 1)] * (0.75 + 0.5 * self.clock.jitter())

    def _pause_after(self, reply: HttpReply, pause: float, repeat: Repeat) -> tuple[float, bool]:
        """Return the seconds after which a refused request may be sent again, and whether the server has set them.

        They are negative if it may not.
        """
        asked = reply.headers.get("retry-after", "")
        # A proxy answers with 503 if it has lost the server after it sent the request there.
        if asked and (reply.status in (403, 429) or (reply.status == 503 and repeat != "unsent")):
            seconds, until = formats.parse_whole_number(asked), parse_http_date(asked)
            if seconds is not None:
                return max(1.0, seconds), True
            if until is not None:
                return max(1.0, until - self.clock.wall()), True
        if reply.status in (403, 429) and reply.headers.get("x-ratelimit-remaining") == "0":
            reset = formats.parse_whole_number(reply.headers.get("x-ratelimit-reset"), _EPOCH_DIGITS)
            return (RATE_LIMIT_PAUSE if reset is None else max(1.0, reset - self.clock.wall())), True
        if reply.status == 429:
            return RATE_LIMIT_PAUSE, True
        return (pause if reply.status >= 500 and repeat != "unsent" else -1.0), False

    @staticmethod
    def _given_up(problem: AccessError, asked: float, spent: float, limit: float) -> AccessError:
        if asked and limit > 0:
            text = f"{problem}; rate-limited for {asked:.0f} s, which exceeds the {limit:.0f} s budget"
        elif spent > 0.1 and limit > 0:
            text = f"{problem}; it was tried for {formats.format_duration(spent)}"
        else:
            return problem
        if isinstance(problem, HttpRefused):
            return HttpRefused(text, problem.reply, problem.explanation)
        return NoAnswer(text, getattr(problem, "sent", True))


def _write_chunk_to_file(stream: Any, chunk: bytes) -> None:
    try:
        stream.write(chunk)
    except OSError as error:
        raise ProcessError(f"{stream.name} cannot be written: {error.strerror}") from error


#: Limits of a download that a user waits for, such as a program: seconds in all, and bytes.
DOWNLOAD_TIME, MOST_DOWNLOADED = 3600.0, 4 << 30


def download_url_to_file(
    url: str, path: Path, timeout: float = HttpPolicy.timeout, total: float = DOWNLOAD_TIME
) -> str:
    """Write the content of ``url`` to ``path``; return its SHA-256 in hexadecimal.

    Args:
        url: The address.
        path: The file.
        timeout: Seconds without any data.
        total: Seconds in all.

    Raises:
        ProcessError: It is not there, not complete, or too large.
    """
    try:
        return HttpClient("download", policy=HttpPolicy(timeout, total, max_bytes=MOST_DOWNLOADED)).download(url, path)
    except AccessError as error:
        raise ProcessError(str(error)) from error

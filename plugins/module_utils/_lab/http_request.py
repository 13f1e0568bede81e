# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One HTTP request through ansible.module_utils.urls, and its reply.

Many errors of a QUADS server are JSON sent as text/html, others are plain text or HTML pages. So a body is parsed by
trial, not by its content type.
"""

from __future__ import annotations

import json
import re
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError

from ansible.module_utils import urls
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError

#: Maximum length of an answer quoted in a message.
QUOTED = 300


@dataclass(frozen=True)
class QuadsCall:
    """A request. ``timeout`` in seconds."""

    method: str
    url: str
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    data: bytes | None = None
    timeout: float = 60.0


@dataclass(frozen=True)
class QuadsReply:
    """A reply. Header names are in lower case."""

    status: int
    text: str
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def body(self) -> Any:
        """The body parsed as JSON, else the text itself."""
        try:
            return json.loads(self.text)
        except ValueError:
            return self.text

    @property
    def date(self) -> float | None:
        """Time of the reply by the server's clock: seconds since the epoch, UTC."""
        return http_date(self.headers.get("date", ""))

    @property
    def said(self) -> str:
        """The server's message in one line: that of a JSON body, or the text of a page without markup and status."""
        body = self.body
        if isinstance(body, Mapping):
            parts = [str(body[name]) for name in ("message", "error") if body.get(name)]
            # After a general message (status 5xx) the error is the cause; otherwise it is the name of the status.
            text = ": ".join(parts) if self.status >= 500 else (parts or [self.text])[0]
        else:
            text = re.sub(r"<(title|style|script)\b.*?</\1>", " ", self.text, flags=re.DOTALL | re.IGNORECASE)
            text = re.sub(r"<[^>]*>", " ", text)
        text = " ".join(text.split()).removeprefix(str(self.status)).lstrip()
        return text[:QUOTED] + "…" if len(text) > QUOTED else text


class NoAnswer(Exception):
    """The request failed without a reply. ``sent``: the server may have received it."""

    def __init__(self, message: str, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


Send = Callable[[QuadsCall], QuadsReply]


def http_date(text: str) -> float | None:
    """Parse an RFC 1123 date as seconds since the epoch, None if it is not a date."""
    try:
        moment = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()


def stamp(moment: float) -> str:
    """Return epoch seconds as UTC text, whole seconds: 2026-11-21T04:41:18Z."""
    return datetime.fromtimestamp(moment, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def sender(validate_certs: bool = True, ca_path: str | None = None) -> Send:
    """Return a function that sends requests. It raises NoAnswer, or AccessError for a permanent error.

    Proxies are taken from the environment, as Ansible does. A POST is never redirected.
    """

    def send(call: QuadsCall) -> QuadsReply:
        try:
            with urls.open_url(
                call.url,
                data=call.data,
                headers=call.headers,
                method=call.method,
                timeout=call.timeout,
                validate_certs=validate_certs,
                ca_path=ca_path,
                follow_redirects="safe",
                http_agent="perfscale.seatrial",
            ) as answer:
                return _reply(answer.status, answer)
        except HTTPError as error:
            return _reply(error.code, error)
        except (ssl.SSLError, urls.SSLValidationError) as error:
            raise _tls(call, error) from error
        except URLError as error:
            if isinstance(error.reason, ssl.SSLError):
                raise _tls(call, error.reason) from error
            never = isinstance(error.reason, (ConnectionRefusedError, socket.gaierror))
            raise NoAnswer(_text_of(error.reason), sent=not never) from error
        except (OSError, HTTPException) as error:
            raise NoAnswer(_text_of(error), sent=not isinstance(error, ConnectionRefusedError)) from error

    return send


def _reply(status: int, answer: Any) -> QuadsReply:
    headers = {name.lower(): value for name, value in answer.headers.items()}
    return QuadsReply(status, answer.read().decode("utf-8", "replace"), headers)


def _text_of(error: object) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(getattr(error, "strerror", "") or error or type(error).__name__)


def _tls(call: QuadsCall, error: Exception) -> AccessError:
    return AccessError(
        f"{call.url}: TLS: {error}. Set ca_path to the lab's certificate authority; "
        "validate_certs=false disables server authentication"
    )

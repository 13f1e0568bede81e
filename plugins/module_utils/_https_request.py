# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One request to a server that is neither an API server nor a lab, and what to say when it fails; fetching of files."""

from __future__ import annotations

import hashlib
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import AccessError, ProcessError

#: Seconds without a sign of life.
TIMEOUT = 60.0
#: How much of what a server says about an error is kept, bytes.
_TOLD = 2000
#: Bytes of a file that are held at once.
_CHUNK = 1 << 20


class HttpRefused(AccessError):
    """The server answered, with an error: its ``status`` and what it ``told``."""

    def __init__(self, message: str, status: int, told: str) -> None:
        super().__init__(message)
        self.status = status
        self.told = told


@contextmanager
def opened(
    request: urllib.request.Request, context: ssl.SSLContext | None, name: str, timeout: float = TIMEOUT
) -> Iterator[HTTPResponse]:
    """Send a request and give the answer to be read.

    context: who vouches for the server; None for the system's. name: the server in messages, without secrets.
    Raises HttpRefused for an answer of 400 and above, AccessError when there is no (whole) answer.
    """
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(request, timeout=timeout) as answer:
            yield answer
    except urllib.error.HTTPError as error:
        told = error.read(_TOLD).decode("utf-8", "replace")
        raise HttpRefused(f"{name}: {error.code} {error.reason}", error.code, told) from error
    except (OSError, ValueError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        hint = "; name who signed its certificate" if isinstance(reason, ssl.SSLCertVerificationError) else ""
        raise AccessError(f"{name}: {reason}{hint}") from error


@contextmanager
def _fetching(url: str) -> Iterator[HTTPResponse]:
    try:
        with opened(urllib.request.Request(url), None, f"{url} can't be fetched") as answer:
            yield answer
    except AccessError as error:
        raise ProcessError(str(error)) from error


def fetch(url: str) -> bytes:
    """Return what is at ``url``. Raises ProcessError saying why it can't be had."""
    with _fetching(url) as answer:
        return answer.read()


def download(url: str, path: Path) -> str:
    """Write what is at ``url`` to ``path``, whatever its size; return its SHA-256 in hexadecimal digits.

    Raises ProcessError saying why it can't be had.
    """
    digest = hashlib.sha256()
    with _fetching(url) as answer, open(path, "wb") as stream:
        while chunk := answer.read(_CHUNK):
            digest.update(chunk)
            stream.write(chunk)
    return digest.hexdigest()

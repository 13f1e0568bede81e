# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HTTPS requests and downloads from servers other than API servers and QUADS labs, with one error per failure."""

from __future__ import annotations

import hashlib
import math
import shutil
import ssl
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    AccessError,
    InputError,
    ProcessError,
)

#: Socket timeout in seconds.
TIMEOUT = 60.0
#: Bytes kept of the body of an error response; a BMC's has several messages.
_BODY = 1 << 16
#: Bytes of a file in memory at a time.
_CHUNK = 1 << 20


class HttpRefused(AccessError):
    """The server answered with an error: its ``status``, ``body`` and ``headers``, whose names are in small letters."""

    def __init__(self, message: str, status: int, body: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = body
        self.headers = {name.lower(): value for name, value in (headers or {}).items()}


def tls_context(authority: str = "", insecure: bool = False) -> ssl.SSLContext:
    """Return a context that trusts the CA certificates in file ``authority`` ("": the system's), or anyone if insecure.

    Raises InputError for an unusable file.
    """
    try:
        context = ssl.create_default_context(cafile=authority or None)
    except (OSError, ssl.SSLError) as error:
        raise InputError(f"authority {authority} cannot be read as PEM certificates: {error}") from error
    # The default since Python 3.13; the CAs of many laboratories lack the extensions that it requires.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


@contextmanager
def opened(
    request: urllib.request.Request, context: ssl.SSLContext | None, name: str, timeout: float = TIMEOUT
) -> Iterator[HTTPResponse]:
    """Send a request; yield the response.

    context: TLS context, None for the system's CAs. name: the server in messages, without secrets.
    Raises HttpRefused for an answer of 400 and above, AccessError without a complete answer.
    """
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(request, timeout=timeout) as answer:
            yield answer
    except urllib.error.HTTPError as error:
        body = error.read(_BODY).decode("utf-8", "replace")
        raise HttpRefused(f"{name}: {error.code} {error.reason}", error.code, body, dict(error.headers)) from error
    except (OSError, ValueError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        hint = (
            "; configure the CA that signed its certificate" if isinstance(reason, ssl.SSLCertVerificationError) else ""
        )
        raise AccessError(f"{name}: {reason}{hint}") from error


@contextmanager
def _fetching(url: str, timeout: float) -> Iterator[HTTPResponse]:
    try:
        with opened(urllib.request.Request(url), None, f"{url} cannot be fetched", timeout) as answer:
            yield answer
    except AccessError as error:
        raise ProcessError(str(error)) from error


def fetch(url: str) -> bytes:
    """Return the content of ``url``. Raises ProcessError."""
    with _fetching(url, TIMEOUT) as answer:
        return answer.read()


def download(url: str, path: Path, timeout: float = TIMEOUT, limit: float = math.inf) -> str:
    """Write the content of ``url`` to ``path`` in chunks; return its SHA-256 in hexadecimal.

    timeout: seconds without any data. limit: seconds in all. Raises ProcessError.
    """
    digest = hashlib.sha256()
    deadline = time.monotonic() + limit
    with _fetching(url, timeout) as answer, open(path, "wb") as stream:
        while chunk := answer.read1(_CHUNK):
            digest.update(chunk)
            stream.write(chunk)
            if time.monotonic() > deadline:
                raise ProcessError(f"{url} cannot be fetched: not complete after {limit:.0f} s")
        if answer.length:
            raise ProcessError(f"{url} cannot be fetched: it ended {answer.length} bytes early")
    return digest.hexdigest()


def unpack(file: Path, name: str, path: Path, url: str) -> None:
    """Write the program ``name`` of the archive ``file``, which ``url`` provided, to ``path``. Raises ProcessError."""
    try:
        with tarfile.open(file) as archive:
            member = next((one for one in archive.getmembers() if one.isfile() and Path(one.name).name == name), None)
            stream = archive.extractfile(member) if member else None
            if stream is None:
                raise ProcessError(f"{url} does not contain {name}")
            with open(path, "wb") as out:
                shutil.copyfileobj(stream, out)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise ProcessError(f"{url} cannot be unpacked: {error}") from error

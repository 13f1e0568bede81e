# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Uploads a file from a pod to an S3 server with a presigned URL.

Role users mounts this file into the pods of users, so it needs nothing but the standard library of Python 3.9 or later.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import re
import ssl
from pathlib import Path
from urllib.parse import urlsplit

#: Timeout of the connection, seconds.
_TIMEOUT = 300.0


class Refused(Exception):
    """The S3 server refused the upload; another attempt with the same URL is refused as well."""


def put_file(url: str, path: Path, authority: str = "") -> None:
    """Upload a file; the server verifies it by its MD5. authority: certificate in PEM, empty for those of the image.

    Raises Refused, OSError, http.client.HTTPException. No message contains the URL, with which anybody could write.
    """
    parts = urlsplit(url)
    context = ssl.create_default_context(cadata=authority or None) if parts.scheme == "https" else None
    host, port = parts.hostname or "", parts.port
    connection = (
        http.client.HTTPSConnection(host, port, timeout=_TIMEOUT, context=context)
        if context
        else http.client.HTTPConnection(host, port, timeout=_TIMEOUT)
    )
    size = path.stat().st_size
    headers = {"Content-Length": str(size), "Content-MD5": _file_md5_base64(path)}
    try:
        with open(path, "rb") as body:
            # A server that refuses may answer, and close the connection, before it has read everything.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request("PUT", f"{parts.path}?{parts.query}", body, headers)
            reply = connection.getresponse()
            text = reply.read(4096).decode(errors="replace")
    finally:
        connection.close()
    if reply.status >= 500 or reply.status in (408, 429):
        raise OSError(f"HTTP {reply.status} {_parse_s3_error_code(text)}")
    if reply.status >= 300:
        raise Refused(f"HTTP {reply.status} {_parse_s3_error_code(text)}")


def _file_md5_base64(path: Path) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    with open(path, "rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return base64.b64encode(digest.digest()).decode()


def _parse_s3_error_code(text: str) -> str:
    """Return the code of an S3 error: its other fields may repeat parts of the request."""
    match = re.search(r"<Code>(\w+)</Code>", text)
    return match.group(1) if match else "without a reason"

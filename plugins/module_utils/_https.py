# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One request to a server that is neither an API server nor a lab, and what to say when it fails."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPResponse

from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import AccessError

#: Seconds without a sign of life.
TIMEOUT = 60.0
#: How much of what a server says about an error is kept, bytes.
_TOLD = 2000


class Refused(AccessError):
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
    Raises Refused for an answer of 400 and above, AccessError when there is no (whole) answer.
    """
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(request, timeout=timeout) as answer:
            yield answer
    except urllib.error.HTTPError as error:
        told = error.read(_TOLD).decode("utf-8", "replace")
        raise Refused(f"{name}: {error.code} {error.reason}", error.code, told) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        hint = "; name who signed its certificate" if isinstance(reason, ssl.SSLCertVerificationError) else ""
        raise AccessError(f"{name}: {reason}{hint}") from error

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mask the credentials of a request in the answer that refuses it.

A proxy, a debugging page or a hostile server may repeat what it was sent, and the text of a refusal goes to the
terminal, the files of the run and messages.
"""

from __future__ import annotations

import base64
import binascii
import functools
import re
from collections.abc import Iterator

from .secret_encodings import WORD, encodings_of_secrets
from .secret_names import MASK


def mask_sent_credentials(content: bytes, authorization: str, *others: str) -> bytes:
    """Return an answer without the credentials of its request, in any of the encodings in which text is quoted.

    Args:
        content: The answer.
        authorization: Value of the header Authorization; empty if the request has none.
        others: Further secrets of the request, such as the path of a webhook.
    """
    secrets = (*_parts_of_authorization(authorization), *filter(None, others))
    return _pattern(secrets).sub(MASK.encode(), content) if secrets else content


def _parts_of_authorization(authorization: str) -> Iterator[str]:
    scheme, _blank, value = authorization.strip().partition(" ")
    yield from filter(None, (value.strip() or scheme,))
    if scheme.lower() == "basic":
        try:
            pair = base64.b64decode(value, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            return
        yield from filter(None, (pair, pair.partition(":")[2]))


@functools.lru_cache(maxsize=64)
def _pattern(secrets: tuple[str, ...]) -> re.Pattern[bytes]:
    encoded = encodings_of_secrets({str(number): secret for number, secret in enumerate(secrets)})
    words = sorted({*encoded, *(secret.encode() for secret in secrets)}, key=len, reverse=True)
    return re.compile(
        b"|".join(rb"(?<!\w)" + re.escape(word) + rb"(?!\w)" if len(word) < WORD else re.escape(word) for word in words)
    )

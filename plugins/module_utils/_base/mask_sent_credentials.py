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
import html
import json
import re
from collections.abc import Iterator
from urllib.parse import quote

from .secret_names import MASK

#: Shorter secrets are masked as whole words only.
_WORD = 8


def mask_sent_credentials(content: bytes, authorization: str, *others: str) -> bytes:
    """Return an answer without the credentials of its request, plain, in JSON, HTML or an address.

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
    """Return a pattern of the encodings of secrets, the longest first."""
    # Without the many encodings of _base/secret_encodings.py, whose imports pods would carry along.
    encoded = {word.encode() for secret in secrets for word in _quoted(secret)}
    longest_first = sorted(encoded, key=len, reverse=True)
    whole = [rb"(?<!\w)" + re.escape(word) + rb"(?!\w)" for word in longest_first if len(word) < _WORD]
    return re.compile(b"|".join([*(re.escape(word) for word in longest_first if len(word) >= _WORD), *whole]))


def _quoted(secret: str) -> Iterator[str]:
    plain = (secret, html.escape(secret), html.escape(secret, quote=False), quote(secret, safe=""))
    for text in plain:
        yield from (text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits of duration and size for the replies of an S3 server, which boto3 does not have."""

from __future__ import annotations

import time
from http.client import HTTPResponse
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError

from .http_transport import response_with_deadline

#: Seconds of one reply with its body: of a list, or of the 8 MiB of an object that boto3 asks for at a time.
REPLY_SECONDS = 300.0
#: Most bytes of a reply that is read as a document: 1,000 entries of a list have at most 4 MB.
DOCUMENT_BYTES = 16 << 20
#: Most bytes of any reply; callers have lower limits for objects.
REPLY_BYTES = (256 << 20) + (1 << 20)


def limit_replies(client: Any) -> None:
    """Give the replies that a client of boto3 reads a deadline and a maximum size."""
    from botocore.awsrequest import AWSHTTPConnection, AWSHTTPSConnection

    def reply(sock: Any, *more: Any, **named: Any) -> HTTPResponse:
        return response_with_deadline(time.monotonic() + REPLY_SECONDS, REPLY_BYTES, sock, *more, **named)

    session = client._endpoint.http_session
    pools = session._manager.pool_classes_by_scheme
    limited = {
        scheme: type(
            f"Limited{pool.__name__}",
            (pool,),
            {"ConnectionCls": type(connection.__name__, (connection,), {"response_class": staticmethod(reply)})},
        )
        for scheme, connection in (("http", AWSHTTPConnection), ("https", AWSHTTPSConnection))
        for pool in [pools[scheme]]
    }
    # Its proxies use the same dictionary.
    pools.update(limited)
    client.meta.events.register("before-parse.s3", _refuse_large_document)


def _refuse_large_document(response_dict: dict[str, Any], **_more: Any) -> None:
    body = response_dict.get("body")
    if isinstance(body, bytes) and len(body) > DOCUMENT_BYTES:
        raise DataError(f"the S3 server answered with more than {DOCUMENT_BYTES} bytes")

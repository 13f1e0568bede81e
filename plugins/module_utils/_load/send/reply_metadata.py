# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Extracts the fields for the ledger from the API server's reply to a create request."""

from __future__ import annotations

import json


def identity(body: bytes) -> tuple[str | None, str | None]:
    """Return uid and resourceVersion of a created object's metadata."""
    if b'"PartialObjectMetadata"' in body[:60]:
        # The server writes the fields of this kind in a fixed order, these two before the owner references.
        uid, version = exact_text(body, b'"uid":"'), exact_text(body, b'"resourceVersion":"')
        if uid and version:
            return uid, version
    metadata = json.loads(body).get("metadata") or {}
    return metadata.get("uid"), metadata.get("resourceVersion")


def priority(head: bytes) -> dict[str, str | None]:
    """Return flow schema and priority level (UIDs) from the response headers; empty if the server sends none."""
    schema = exact_header(head, b"X-Kubernetes-Pf-Flowschema-Uid: ")
    if not schema:
        return {}
    return {"flow_schema": schema, "priority_level": exact_header(head, b"X-Kubernetes-Pf-Prioritylevel-Uid: ")}


def exact_text(body: bytes, before: bytes) -> str | None:
    """Return the text between ``before`` and the next quotation mark, None if ``before`` is missing."""
    start = body.find(before)
    if start < 0:
        return None
    start += len(before)
    return body[start : body.index(b'"', start)].decode()


def exact_header(head: bytes, before: bytes) -> str | None:
    """Return a header's value; ``before`` is its name as Go's servers write it. None if it is missing."""
    start = head.find(before)
    if start < 0:
        return None
    end = head.find(b"\r\n", start)
    return head[start + len(before) : end if end >= 0 else len(head)].decode("latin-1")

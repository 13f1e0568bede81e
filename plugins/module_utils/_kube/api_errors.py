# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of an API server: the exception for a reply with a Status object."""

from __future__ import annotations

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, ApiError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import parse_json

from .api_server_access import ApiServerAccess
from .connection import ApiReply


def is_status_object(reply: ApiReply) -> bool:
    """Return whether a reply has a Kubernetes Status object, which a proxy does not send."""
    try:
        document = parse_json(reply.body)
    except ValueError:
        return False
    return isinstance(document, dict) and document.get("kind") == "Status"


def status_of_api_server(reply: ApiReply) -> int:
    """Return the status of a reply, 0 for a 404 without a Status object: something else than the API server sent it."""
    return 0 if reply.status == 404 and not is_status_object(reply) else reply.status


def reply_reason_and_message(reply: ApiReply) -> tuple[str, str]:
    """Return reason and message of a reply with a Status object (or any other body)."""
    try:
        status = parse_json(reply.body)
        return str(status.get("reason") or ""), str(status.get("message") or "")
    except (ValueError, AttributeError):
        return "", reply.body[:300].decode("utf-8", "replace").strip()


def api_error(reply: ApiReply, what: str, access: ApiServerAccess) -> ApiError | AccessError:
    """Return the error for a reply with a status of 300 and above."""
    reason, message = reply_reason_and_message(reply)
    if reply.status < 400:
        message = f"{access.server} leads elsewhere: is a proxy in front of it, which asks for a login?"
    if reply.status == 401:
        return unauthorized_error(access)
    text = f"{what}: {reply.status} {reason}: {message}".rstrip(": ")
    resource, name = _reply_resource_and_name(reply)
    return ApiError(text, reply.status, reason, resource=resource, name=name)


def unauthorized_error(access: ApiServerAccess) -> AccessError:
    """Return the error for a reply with status 401."""
    return AccessError(f"{access.server} refuses our credentials (401) from {access.source}", permanent=True)


def _reply_resource_and_name(reply: ApiReply) -> tuple[str, str]:
    """Return resource and name of the object that a reply with a Status object is about."""
    try:
        details = parse_json(reply.body)["details"]
        return str(details.get("kind") or ""), str(details.get("name") or "")
    except (ValueError, KeyError, TypeError, AttributeError):
        return "", ""

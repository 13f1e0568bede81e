# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a QUADS server refuses, one exception type per cause."""

from __future__ import annotations

from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import SeatrialError


class QuadsRefused(SeatrialError):
    """The server answered with an error. ``status``: HTTP status, ``said``: its message, without markup."""

    def __init__(self, message: str, status: int = 0, said: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.said = said
        #: What a module returns beside the message.
        self.facts: dict[str, Any] = {}


class Unsure(QuadsRefused):
    """No answer, or one that doesn't say whether the request was carried out. ``over``: nothing more comes of it."""

    def __init__(self, message: str, status: int = 0, said: str = "", over: bool = False) -> None:
        super().__init__(message, status, said)
        self.over = over


class BadCredentials(QuadsRefused):
    """The server doesn't know this user, password or token."""


class ServiceDisabled(QuadsRefused):
    """The administrators have turned self-scheduling off."""


class QuotaReached(QuadsRefused):
    """This user holds as many self-scheduled clouds as one may."""


class RoleRefused(QuadsRefused):
    """This user's role may not do this."""


class NotOwner(QuadsRefused):
    """The assignment is somebody else's."""


class TicketNeeded(QuadsRefused):
    """The server makes no tickets and wants the number of one."""


class TicketRefused(QuadsRefused):
    """The server wants a ticket, and its version can't take one: it can't self-schedule at all."""


class TicketSystemDown(QuadsRefused):
    """The server could not make a ticket, so it made no assignment."""


class CloudFull(QuadsRefused):
    """The cloud holds as many hosts as one may."""


class HostTaken(QuadsRefused):
    """The host is not free for the time of the lease."""


class HostRefused(QuadsRefused):
    """The host can't be had at all: unknown, or not for self-scheduling."""


class DeadlinePassed(QuadsRefused):
    """This week's leases have ended; the server gives out no new ones before the next week."""


class LeaseError(SeatrialError):
    """A lease could not be had, or is no longer what it was.

    ``facts`` are returned by a module beside the message: what was refused and why, what is still held.
    """

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.facts = facts


class NotEnoughHosts(LeaseError):
    """Fewer hosts than asked for can be had."""


class LeaseTooShort(LeaseError):
    """The lease ends, or would end, before it is of use."""


class LeaseLost(LeaseError):
    """The lease was terminated or has expired underneath us."""


class LeaseDiffers(LeaseError):
    """The lease that is there was taken with other options, which can't be changed."""


class InventoryStale(LeaseError):
    """The inventory that the server publishes is not, or not yet, that of this lease."""


#: What the server says -> what it means. The first text that is found in the message decides.
MEANING: tuple[tuple[int, str, type[QuadsRefused]], ...] = (
    (403, "Service not enabled", ServiceDisabled),
    (403, "Self scheduling limit reached", QuotaReached),
    (403, "permission to terminate", NotOwner),
    (403, "permission", RoleRefused),
    (400, "Missing Jira ticket", TicketNeeded),
    (400, "icket creation failed", TicketSystemDown),
    (400, "maximum number of hosts", CloudFull),
    (400, "not available for the specified", HostTaken),
    (400, "not allowed to self-schedule", HostRefused),
    (400, "Host not found", HostRefused),
    (400, "Invalid date range", DeadlinePassed),
    (400, "No active assignment for cloud", QuadsRefused),
)


def meaning(status: int, said: str) -> type[QuadsRefused]:
    """Return the exception type for an answer."""
    for code, text, kind in MEANING:
        if code == status and text in said:
            return kind
    return BadCredentials if status == 401 else QuadsRefused

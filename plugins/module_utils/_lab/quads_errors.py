# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of a QUADS server, one exception type per cause."""

from __future__ import annotations

from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import SeatrialError


class QuadsRefused(SeatrialError):
    """The server returned an error. ``status``: HTTP status, ``explanation``: its message, without markup."""

    def __init__(self, message: str, status: int = 0, explanation: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.explanation = explanation
        #: Results of the module beside the message.
        self.facts: dict[str, Any] = {}


class Unsure(QuadsRefused):
    """No answer, or one that leaves the outcome of the request open. ``over``: the server has ended its work."""

    def __init__(self, message: str, status: int = 0, explanation: str = "", over: bool = False) -> None:
        super().__init__(message, status, explanation)
        self.over = over


class BadCredentials(QuadsRefused):
    """The server rejects this user, password or token."""


class ServiceDisabled(QuadsRefused):
    """The administrators have disabled self-scheduling."""


class QuotaReached(QuadsRefused):
    """This user has reached the quota of self-scheduled clouds."""


class RoleRefused(QuadsRefused):
    """This user's role lacks the permission."""


class NotOwner(QuadsRefused):
    """The assignment belongs to another user."""


class TicketNeeded(QuadsRefused):
    """The server creates no tickets and requires the number of one."""


class TicketRefused(QuadsRefused):
    """The server requires a ticket, but its version accepts none: it can't self-schedule at all."""


class TicketSystemDown(QuadsRefused):
    """The server could not create a ticket, so it created no assignment."""


class CloudFull(QuadsRefused):
    """The cloud has the maximum number of hosts."""


class HostTaken(QuadsRefused):
    """The host is not free for the time of the lease."""


class HostRefused(QuadsRefused):
    """The host can't be leased at all: unknown, or not for self-scheduling."""


class DeadlinePassed(QuadsRefused):
    """This week's leases have ended; the server grants no new ones before the next week."""


class LeaseError(SeatrialError):
    """A lease could not be acquired, or has changed.

    ``facts``: results of the module beside the message, such as rejected hosts and what is still leased.
    """

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.facts = facts


class NotEnoughHosts(LeaseError):
    """Fewer hosts than requested are available."""


class LeaseTooShort(LeaseError):
    """The lease ends, or would end, too early."""


class LeaseLost(LeaseError):
    """The lease was terminated or has expired."""


class LeaseDiffers(LeaseError):
    """The existing lease has other options, which can't be changed."""


class InventoryStale(LeaseError):
    """The inventory that the server publishes is not, or not yet, that of this lease."""


#: Status and text of a message -> its meaning. The first match decides.
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


def exception_type_for_answer(status: int, explanation: str) -> type[QuadsRefused]:
    """Return the exception type for an answer."""
    for code, text, kind in MEANING:
        if code == status and text in explanation:
            return kind
    return BadCredentials if status == 401 else QuadsRefused

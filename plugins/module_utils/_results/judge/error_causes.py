# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Causes of failures that lie in the infrastructure at any time of a run: neither product nor load is at fault.

A cause is the name of an error's class, as phases and points record it. A failure before the first test point is an
error of the infrastructure whatever its cause; see overall_verdict.
"""

from __future__ import annotations

#: The cluster or its machines are unreachable, or do not belong to the run any more.
INFRASTRUCTURE = frozenset(
    {
        "AccessError",
        "Broken",
        "FleetError",
        "LockLost",
        # leases of machines
        "BadCredentials",
        "CloudFull",
        "DeadlinePassed",
        "HostRefused",
        "HostTaken",
        "InventoryStale",
        "LeaseDiffers",
        "LeaseError",
        "LeaseLost",
        "LeaseTooShort",
        "NotEnoughHosts",
        "NotOwner",
        "QuadsRefused",
        "QuotaReached",
        "RoleRefused",
        "ServiceDisabled",
        "TicketNeeded",
        "TicketRefused",
        "TicketSystemDown",
        "Unsure",
    }
)
#: Everything else. During a test the product itself may cause some of these: a timeout, a refused request.
OTHER = frozenset(
    {
        "SeatrialError",
        "ApiError",
        "CleanupTimeout",
        "DataError",
        "EndedMeanwhile",
        "HttpRefused",  # a server beside the cluster
        "InputError",
        "InstallError",
        "Interrupted",
        "OwnershipError",
        "PathError",
        "PortTaken",
        "ProcessError",
        "QueryError",  # metrics
        "SecretFound",
        "SettingsError",
        "WaitTimeout",
    }
)


def is_infrastructure(cause: str | None) -> bool:
    """Return whether a failure with this cause is an error of the infrastructure at any time of a run."""
    return cause in INFRASTRUCTURE

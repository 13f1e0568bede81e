# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cut a plan into the parts of several clients.

Workload ``index`` belongs to client ``index % clients``, so that every part has the same rate at any time. The plan
itself does not depend on the number of clients.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, InputError

from . import workload_plan
from .workload_plan import Plan


@dataclass(frozen=True)
class Part:
    """The part of one client, of ``clients``. Raises InputError for a client that does not exist."""

    client: int = 0
    clients: int = 1

    def __post_init__(self) -> None:
        if self.clients < 1:
            raise InputError(f"clients is {self.clients}, it must be 1 or more")
        if not 0 <= self.client < self.clients:
            raise InputError(
                f"client is {self.client}, it must be 0 to {self.clients - 1}, as clients is {self.clients}"
            )

    @property
    def whole(self) -> bool:
        """Whether there is only one client."""
        return self.clients == 1

    def has(self, index: int) -> bool:
        """Return whether a workload belongs to this part."""
        return index % self.clients == self.client

    def size(self, count: int) -> int:
        """Return the number of workloads of this part in a plan of ``count``."""
        return len(range(self.client, count, self.clients))


def cut(plan: Plan, part: Part) -> Plan:
    """Return the part of a plan: its header and the workloads of the client."""
    return plan if part.whole else Plan(plan.header, plan.workloads[part.client :: part.clients])


def read(path: Path, part: Part) -> Plan:
    """Read a part of a plan. Raises DataError if it is missing, of another version, or not this part."""
    plan = workload_plan.read_rows(path)
    wanted = part.size(plan.header["count"])
    if len(plan.workloads) != wanted or not all(part.has(one.index) for one in plan.workloads):
        raise DataError(
            f"{path}: not the part of client {part.client} of {part.clients}, which has {wanted} of "
            f"{plan.header['count']} workloads"
        )
    return plan


def require_schedule(plan: Plan, clients: int) -> None:
    """Check that several clients can send a plan independently of each other.

    Raises InputError for a closed loop in which a workload waits for others: those of other clients.
    """
    arrival = plan.header["arrival"]
    waits = next((name for name in ("batch", "at_once") if arrival.get(name)), None)
    if clients > 1 and waits:
        raise InputError(
            f"an arrival with {waits} is a loop of one client, in which a workload waits for others: it cannot be "
            f"sent by {clients} clients"
        )
    if clients > max(1, plan.header["count"]):
        raise InputError(f"clients is {clients}, but there are only {plan.header['count']} workloads to send")

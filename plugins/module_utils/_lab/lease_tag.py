# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tag of a lease in the description of its assignments.

It contains the lease's id (``lease=<id>``), the part (``part=1/2``) and the time of the request in UTC
(``at=20261121T0801Z``). So a lease is found by its id alone, from any machine, and its age does not depend on the
server's time zone.
"""

from __future__ import annotations

import calendar
import re
import time
from dataclasses import dataclass

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError

LEASE_ID = r"[a-z0-9][a-z0-9-]{5,39}"
_FORM = re.compile(
    rf"(?:^|\s)lease=(?P<id>{LEASE_ID}) part=(?P<part>\d+)/(?P<parts>\d+) at=(?P<at>\d{{8}}T\d{{4}}Z)(?=\s|$)"
)
_AT = "%Y%m%dT%H%MZ"


@dataclass(frozen=True)
class LeaseTag:
    """One part (from 1) of ``parts`` of a lease; ``at`` in epoch seconds, whole minutes."""

    lease_id: str
    part: int
    parts: int
    at: float

    def description(self, text: str) -> str:
        """Return the description of an assignment: the user's text, then the tag."""
        at = time.strftime(_AT, time.gmtime(self.at))
        tag = f"lease={self.lease_id} part={self.part}/{self.parts} at={at}"
        return f"{' '.join(text.split())} {tag}".strip()


def read(description: str) -> LeaseTag | None:
    """Return the tag in a description, None without one. Of several the last counts: ours is at the end."""
    tags = list(_FORM.finditer(description or ""))
    if not tags:
        return None
    found = tags[-1]
    try:
        at = float(calendar.timegm(time.strptime(found["at"], _AT)))
    except ValueError:
        return None
    return LeaseTag(found["id"], int(found["part"]), int(found["parts"]), at)


def words(description: str) -> str:
    """Return a description without the tag."""
    return " ".join(_FORM.sub(" ", description or "").split())


def check_id(lease_id: str) -> str:
    """Return the lease id. Raises InputError for an invalid one."""
    if not re.fullmatch(LEASE_ID, lease_id):
        raise InputError(
            f"lease_id '{lease_id}' is invalid: it needs 6 to 40 characters of a-z, 0-9 and -, without a leading -"
        )
    return lease_id

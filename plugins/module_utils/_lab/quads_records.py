# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a QUADS server has: assignments, schedules of hosts, and the leases of this collection; and its times.

Up to version 2.2.6 a server returns its *local* time labelled GMT. Its offset from UTC is a multiple of a quarter of
an hour, as time zones are. It is derived from the start of a schedule, which the web server writes by the same clock as
the end, compared with the HTTP header ``Date`` of the same answer, which is correct, or with the time of the request
for the lease. Creation times can't be used: the database writes them, possibly in another time zone.
"""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import (
    expect_documented_form,
    require_json_object,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.http_transport import parse_http_date

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
QUARTER = 900.0
#: Range of time zones.
WEST, EAST = -12 * 3600.0, 14 * 3600.0
#: Seconds by which the recorded time of a request may be late, because the clocks of two machines differ.
SLACK = 60.0


def parse_duration(text: str | float, name: str) -> float:
    """Return seconds of ``90``, ``90s``, ``30m``, ``4h`` or ``2d``. Raises InputError naming the option."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd]?)", str(text).strip())
    if not match:
        message = f"{name}: '{text}' is not a duration: write a number followed by s, m, h or d, such as 4h"
        raise InputError(message, setting=name)
    return float(match[1]) * UNITS[match[2] or "s"]


def server_utc_offset(written: str, date: float | None) -> float | None:
    """Return the server's offset (s) from UTC, from a time that it wrote at ``date`` (epoch, UTC)."""
    moment = parse_http_date(written)
    return None if moment is None or date is None else round((moment - date) / QUARTER) * QUARTER


def utc_offset_from_request_times(starts: Iterable[tuple[str, float]]) -> float | None:
    """Return the offset (s) from pairs: a schedule's start as the server wrote it, and the request time of its cloud.

    A schedule starts up to a quarter of an hour after the request, so the shortest difference is the offset plus that
    delay. None without a pair, and for a value outside all time zones: then the lease was completed much later.
    """
    distances = [start - asked for written, asked in starts if (start := parse_http_date(written)) is not None]
    rounded = (min(distances) + SLACK) // QUARTER * QUARTER if distances else None
    return rounded if rounded is not None and WEST <= rounded <= EAST else None


def parse_server_time(written: str, ahead: float) -> float:
    """Return a time of the server as epoch seconds, UTC; 0.0 if it is not a time."""
    seconds = parse_http_date(written)
    return 0.0 if seconds is None else seconds - ahead


def format_utc_timestamp(when: float) -> str:
    """Return epoch seconds as UTC text, whole seconds: 2026-11-21T04:41:18Z."""
    return datetime.fromtimestamp(when, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def describe_end_of_lease(stamp: str | None) -> str:
    """Return an end of a lease for people; one without a zone (see Lease.view) is called that."""
    if stamp is None or stamp.endswith("Z"):
        return str(stamp)
    return f"{stamp} by the server's clock, whose time zone is unknown (quads_lease_utc_offset sets it)"


def format_server_local_time(when: float, ahead: float) -> str:
    """Return a time (epoch, UTC) in the format of GET /available: YYYY-MM-DDTHH:MM, the server's local time."""
    return datetime.fromtimestamp(when + ahead, timezone.utc).strftime("%Y-%m-%dT%H:%M")


def format_approximate_duration(seconds: float) -> str:
    """Return a duration for people: 3 d 4 h, 2 h 5 min, 45 s."""
    whole = int(max(seconds, 0))
    days, hours, minutes = whole // 86400, whole // 3600 % 24, whole // 60 % 60
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"


LEASE_ID = r"[a-z0-9][a-z0-9-]{5,39}"
_FORM = re.compile(
    rf"(?:^|\s)lease=(?P<id>{LEASE_ID}) part=(?P<part>\d{{1,4}})/(?P<parts>\d{{1,4}}) "
    r"at=(?P<at>\d{8}T\d{4}Z)(?=\s|$)"
)
#: Names become those of an inventory, and arguments of ssh.
_HOST_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")
#: Parts of a host, in its record.
HOST_PARTS = ("interfaces", "disks", "memory", "processors")
#: Numbers of parts, which are compared and added up.
NUMBERS = ("count", "cores", "size_gb", "threads")
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


def read_tag(description: str) -> LeaseTag | None:
    """Return the tag in a description, None without one. Of several the last counts: ours is at the end."""
    tags = list(_FORM.finditer(description or ""))
    if not tags:
        return None
    last = tags[-1]
    try:
        at = float(calendar.timegm(time.strptime(last["at"], _AT)))
    except ValueError:
        return None
    return LeaseTag(last["id"], int(last["part"]), int(last["parts"]), at)


def without_tag(description: str) -> str:
    """Return a description without the tag."""
    return " ".join(_FORM.sub(" ", description or "").split())


def check_lease_id(lease_id: str) -> str:
    """Return the lease id. Raises InputError for an invalid one."""
    if not re.fullmatch(LEASE_ID, lease_id):
        raise InputError(
            f"quads_lease_id '{lease_id}' is invalid: it needs 6 to 40 characters of a-z, 0-9 and -, without a leading "
            "-"
        )
    return lease_id


@dataclass(frozen=True)
class CloudAssignment:
    """The assignment of a cloud to an owner."""

    id: int
    cloud: str
    owner: str
    description: str
    active: bool
    ticket: str = ""
    wipe: bool = False
    qinq: int = 0
    provisioned: bool = False
    validated: bool = False
    self_schedule: bool = False
    vlan: dict[str, Any] | None = None

    @property
    def tag(self) -> LeaseTag | None:
        """The tag of a lease in the description."""
        return read_tag(self.description)

    @property
    def vlan_number(self) -> int | None:
        """The number of the public VLAN; ``vlan_id`` of the assignment itself is a key of the database."""
        return self.vlan["vlan_id"] if self.vlan else None

    @classmethod
    def from_json(cls, view: Mapping[str, Any]) -> CloudAssignment:
        """Read the server's JSON."""
        return cls(
            id=int(view["id"]),
            cloud=str((view.get("cloud") or {}).get("name", "")),
            owner=str(view.get("owner") or ""),
            description=str(view.get("description") or ""),
            active=bool(view.get("active")),
            ticket=str(view.get("ticket") or ""),
            wipe=bool(view.get("wipe")),
            qinq=int(view.get("qinq") or 0),
            provisioned=bool(view.get("provisioned")),
            validated=bool(view.get("validated")),
            self_schedule=bool(view.get("is_self_schedule")),
            vlan={**view["vlan"], "vlan_id": int(view["vlan"]["vlan_id"])} if view.get("vlan") else None,
        )


@dataclass(frozen=True)
class HostSchedule:
    """The schedule of one host in one assignment; ``start`` and ``end`` as the server wrote them."""

    id: int
    host: str
    assignment_id: int
    cloud: str = ""
    owner: str = ""
    active: bool = True
    start: str = ""
    end: str = ""

    @classmethod
    def from_json(cls, view: Mapping[str, Any]) -> HostSchedule:
        """Read the server's JSON."""
        assignment = view.get("assignment") or {}
        return cls(
            id=int(view["id"]),
            host=_checked_host_name(str((view.get("host") or {}).get("name", ""))),
            assignment_id=int(view.get("assignment_id") or assignment.get("id") or 0),
            cloud=str((assignment.get("cloud") or {}).get("name", "")),
            owner=str(assignment.get("owner") or ""),
            active=bool(assignment.get("active", True)),
            start=str(view.get("start") or ""),
            end=str(view.get("end") or ""),
        )


def _checked_host_name(name: str) -> str:
    """Return the name of a host. Raises ValueError for one that ssh would take for an option, or Ansible for more."""
    if name and not _HOST_NAME.fullmatch(name):
        raise ValueError("the name of a host has other characters than letters, digits, '.', '_' and '-'")
    return name


def checked_host_record(what: str, record: Any) -> dict[str, Any]:
    """Return the lab's record of a host; interfaces have a name and an address. Raises AccessError for another one."""
    require_json_object(what, record, HOST_PARTS)
    with expect_documented_form(what, record):
        for interface in record.get("interfaces") or ():
            interface.update(name=str(interface["name"]), mac_address=str(interface["mac_address"]))
        for part in (part for kind in HOST_PARTS for part in record.get(kind) or ()):
            part.update({key: int(part[key]) for key in NUMBERS if part.get(key)})
    return dict(record)


def first_created_active_schedule(rows: Iterable[HostSchedule]) -> HostSchedule | None:
    """Return the schedule that a host belongs to: of several current ones the first that was created.

    The server checks first and inserts later, so two tenants may both get a positive answer. All readers of the
    schedules find the same lowest id afterwards.
    """
    return min((row for row in rows if row.active), key=lambda row: row.id, default=None)


@dataclass(frozen=True)
class LeasePart:
    """One assignment of a lease with our schedules, without those that other tenants requested."""

    assignment: CloudAssignment
    rows: tuple[HostSchedule, ...] = ()

    @property
    def hosts(self) -> list[str]:
        """Names, each once, in order."""
        return sorted({row.host for row in self.rows})


@dataclass(frozen=True)
class Lease:
    """All assignments of one lease at one time. ``ahead`` and ``now`` in seconds, see quads_records.py."""

    parts: tuple[LeasePart, ...]
    now: float
    ahead: float | None = None
    lease_id: str = ""
    adopted: bool = False
    lost_hosts: tuple[str, ...] = ()
    other_hosts: tuple[str, ...] = field(default=())

    @property
    def hosts(self) -> list[str]:
        """Our hosts of all parts, without those that an earlier schedule of another tenant has."""
        return sorted({host for part in self.parts for host in part.hosts} - set(self.lost_hosts))

    @property
    def rows(self) -> list[HostSchedule]:
        """Schedules of our hosts."""
        return [row for part in self.parts for row in part.rows if row.host not in self.lost_hosts]

    @property
    def active(self) -> bool:
        """Whether every part is active."""
        return bool(self.parts) and all(part.assignment.active for part in self.parts)

    @property
    def expires(self) -> float | None:
        """End of the first of our schedules: epoch seconds, UTC. None without a schedule."""
        ends = [parse_server_time(row.end, self.ahead or 0.0) for row in self.rows]
        return min(ends, default=None)

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the end of the lease, by the server's clock."""
        return None if self.expires is None else self.expires - self.now

    def _stamp(self, when: float | None) -> str | None:
        """Return a time as text: without the Z of UTC while the zone of the server is unknown."""
        if when is None:
            return None
        text = format_utc_timestamp(when)
        return text if self.ahead is not None else text.removesuffix("Z")

    def view(self) -> dict[str, Any]:
        """Return the lease as modules return it; assignment and cloud are those of the first part."""
        first = self.parts[0].assignment
        starts = [parse_server_time(row.start, self.ahead or 0.0) for row in self.rows]
        left = self.seconds_left
        return {
            "lease_id": self.lease_id,
            "adopted": self.adopted,
            "active": self.active,
            "owner": first.owner,
            "description": without_tag(first.description),
            "assignment_id": first.id,
            "cloud": first.cloud,
            "ticket": first.ticket,
            "hosts": self.hosts,
            "lost_hosts": list(self.lost_hosts),
            "other_hosts": list(self.other_hosts),
            "schedule_ids": sorted(row.id for row in self.rows),
            "starts_at": self._stamp(min(starts, default=None)),
            "expires_at": self._stamp(self.expires),
            "seconds_left": int(left) if left is not None else None,
            "utc_offset_known": self.ahead is not None,
            "vlan": first.vlan,
            "qinq": first.qinq,
            "wipe": first.wipe,
            "provisioned": all(part.assignment.provisioned for part in self.parts),
            "validated": all(part.assignment.validated for part in self.parts),
            "parts": [_part_view(part, self.lost_hosts) for part in self.parts],
        }


def _part_view(part: LeasePart, lost: tuple[str, ...]) -> dict[str, Any]:
    assignment = part.assignment
    return {
        "assignment_id": assignment.id,
        "cloud": assignment.cloud,
        "ticket": assignment.ticket,
        "hosts": [host for host in part.hosts if host not in lost],
        "vlan": assignment.vlan,
        "active": assignment.active,
        "provisioned": assignment.provisioned,
        "validated": assignment.validated,
    }

"""The content of the server's database."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any


def rfc1123(moment: float) -> str:
    """Return a time (epoch seconds) in the server's format."""
    return datetime.fromtimestamp(moment, timezone.utc).strftime("%a, %d %b %Y %H:%M:%S GMT")


@dataclass
class User:
    """Somebody with a password."""

    email: str
    password: str
    role: str = "user"

    @property
    def name(self) -> str:
        """The part before the @."""
        return self.email.split("@")[0]


@dataclass
class Assignment:
    """A cloud in somebody's hands. ``description`` with the server's prefix. Moments in epoch seconds, UTC."""

    id: int
    cloud: str
    owner: str
    description: str
    ticket: str
    wipe: bool
    created: float
    qinq: int = 0
    ccuser: list[str] = field(default_factory=list)
    vlan: dict[str, Any] | None = None
    self_schedule: bool = True
    active: bool = True
    provisioned: bool = False
    validated: bool = False
    provisioned_at: float = 0.0


@dataclass
class Schedule:
    """One host in one assignment for a time."""

    id: int
    assignment: Assignment
    host: str
    start: float
    end: float
    created: float

    def current(self, now: float) -> bool:
        """True while the schedule runs."""
        return self.start <= now < self.end


WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def deadline(now: float, day: str, hour: int, offset_minutes: int) -> float:
    """Return this week's deadline in local time, as epoch seconds; it may be in the past."""
    local = datetime.fromtimestamp(now, timezone.utc) + timedelta(minutes=offset_minutes)
    monday = local.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=local.weekday())
    moment = monday + timedelta(days=WEEKDAYS.index(day), hours=hour)
    return moment.timestamp() - offset_minutes * 60

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of modules and of the inventory plugin: the server, which lease, and what is requested."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import record_termination_signals
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.http_client import HttpClock

from . import host_search, lease_file, quads_records
from .quads_client import QuadsClient
from .quads_connection import QuadsAccount, quads_api_url
from .quads_records import check_lease_id

#: Options of the doc fragment _quads.server.
SERVER: dict[str, Any] = {
    "api_url": {"type": "str", "required": True},
    "username": {"type": "str", "default": ""},
    "validate_certs": {"type": "bool", "default": True},
    "ca_path": {"type": "path"},
    "timeout": {"type": "float", "default": 60},
}
#: Options of the doc fragments _quads and _quads.server, of every module.
OPTIONS: dict[str, Any] = {
    **SERVER,
    "password": {"type": "str", "no_log": True},
    "api_token": {"type": "str", "no_log": True},
    "retry_time": {"type": "float", "default": 300},
    "utc_offset": {"type": "int"},
}
#: Options that identify a lease; exactly one is required.
NAMED: dict[str, Any] = {"lease_id": {"type": "str"}, "assignment_id": {"type": "int"}, "cloud": {"type": "str"}}
#: Options of the doc fragments _quads.which and _quads.search.
SELECTION: dict[str, Any] = {**NAMED, "lease_file": {"type": "path"}}
SEARCH: dict[str, Any] = {
    "model": {"type": "list", "elements": "str", "default": []},
    "filters": {"type": "dict", "default": {}},
    "prefer": {"type": "list", "elements": "dict", "default": []},
    "exclude": {"type": "list", "elements": "str", "default": []},
}


def account_from_params(params: Mapping[str, Any], secret: bool) -> QuadsAccount:
    """Return the account in the options. secret: credentials are required. Raises InputError."""
    quads_api_url(params["api_url"])
    username = params.get("username") or ""
    if params.get("password") and params.get("api_token"):
        raise InputError("quads_lease_password and quads_lease_api_token are both set: omit one")
    if secret and not (params.get("password") or params.get("api_token")):
        raise InputError(
            "acquiring and releasing machines requires credentials: set quads_lease_password, or "
            "quads_lease_api_token if the server supports API tokens"
        )
    if secret and "@" not in username:
        raise InputError(f"quads_lease_username '{username}': set the full e-mail address with which you log in")
    if secret and params["api_url"].strip().startswith("http://") and params.get("validate_certs", True):
        raise InputError(
            f"quads_lease_api_url {params['api_url']}: credentials are not sent over http://. Use https://, or allow "
            "it with quads_lease_validate_certs=false"
        )
    return QuadsAccount(
        api_url=params["api_url"],
        username=username,
        password=params.get("password") or "",
        api_token=params.get("api_token") or "",
        validate_certs=params.get("validate_certs", True),
        ca_path=params.get("ca_path") or "",
        timeout=float(params.get("timeout") or 60),
        retry_time=float(params.get("retry_time") or 0),
    )


def client_from_params(
    params: Mapping[str, Any], secret: bool = False, report: Callable[[str], None] = lambda _line: None
) -> QuadsClient:
    """Return a client for a module's options. secret: credentials are required."""
    created = QuadsClient(account_from_params(params, secret), report=report)
    if params.get("utc_offset") is not None:
        created.ahead = params["utc_offset"] * 60.0
    return created


@contextmanager
def interrupted_by_signals(client: QuadsClient) -> Iterator[None]:
    """Raise Interrupted in a waiting client at once on Ctrl-C or a kill, so that acquired machines are released."""
    with record_termination_signals() as interrupt:

        def sleep(seconds: float) -> None:
            interrupt.event.wait(max(0.0, seconds))
            interrupt.check()

        client.use_interruptible_clock(HttpClock(time.monotonic, time.time, sleep), interrupt.check)
        yield


@dataclass(frozen=True)
class LeaseSelector:
    """Which lease: exactly one of ``lease_id``, ``assignment_id`` and ``cloud``, and what its lease file says."""

    lease_id: str = ""
    assignment_id: int = 0
    cloud: str = ""
    #: Content of the lease file, empty without one.
    remembered: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> LeaseSelector:
        """Read the options of the doc fragment _quads.which. Raises DataError for an unreadable lease file."""
        path = params.get("lease_file")
        remembered = lease_file.read_lease_file(path) if path and Path(path).exists() else {}
        return cls(
            str(params.get("lease_id") or ""),
            int(params.get("assignment_id") or 0),
            str(params.get("cloud") or ""),
            remembered,
        )

    @property
    def requested_hosts_in_lease_file(self) -> set[str] | None:
        """The requested hosts, None if they are unknown or the lease was adopted."""
        return None if not self.remembered or self.adopted else set(self.remembered["asked_hosts"])

    @property
    def adopted(self) -> bool:
        """Whether the lease is an allocation that others made."""
        return bool(self.remembered.get("adopted"))

    def __str__(self) -> str:
        if self.lease_id:
            return f"lease_id {self.lease_id}"
        return f"assignment_id {self.assignment_id}" if self.assignment_id else f"cloud {self.cloud}"


@dataclass(frozen=True)
class LeaseSpec:
    """A requested lease. Times in seconds.

    ``count`` hosts (at least ``min_count``) that meet the preferences, or exactly ``hosts``. ``settle``: how long an
    unanswered request may still succeed, which is the time that the server waits for its ticket system.
    """

    lease_id: str
    count: int = 0
    hosts: tuple[str, ...] = ()
    min_count: int = 0
    prefer: tuple[dict[str, str], ...] = ({},)
    exclude: tuple[str, ...] = ()
    description: str = ""
    cloud: str = ""
    vlan: int | None = None
    qinq: int = 0
    wipe: bool = True
    cc_users: tuple[str, ...] = ()
    ticket: str = ""
    min_lifetime: float = 0.0
    max_hosts: int = 10
    split: bool = False
    rollback: bool = True
    settle: float = 300.0

    @property
    def wanted(self) -> int:
        """Number of hosts."""
        return len(self.hosts) or self.count

    @property
    def enough(self) -> int:
        """The least acceptable number of hosts."""
        return self.wanted if self.hosts or not self.min_count else self.min_count

    @property
    def sizes(self) -> list[int]:
        """Number of hosts of each part."""
        full, rest = divmod(self.wanted, self.max_hosts)
        return [self.max_hosts] * full + ([rest] if rest else [])

    def part_of(self, host: str) -> int:
        """Return the part (from 1) that a host of an exact list belongs to."""
        return self.hosts.index(host) // self.max_hosts + 1

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> LeaseSpec:
        """Check the options of module quads_lease. Raises InputError."""
        hosts = tuple(dict.fromkeys(params.get("hosts") or ()))
        preferences = host_search.conditions_by_preference(
            params.get("model") or (), params.get("filters") or {}, params.get("prefer") or ()
        )
        spec = cls(
            lease_id=check_lease_id(params["lease_id"]),
            count=int(params.get("count") or 0),
            hosts=hosts,
            min_count=int(params.get("min_count") or 0),
            prefer=tuple(preferences),
            exclude=tuple(params.get("exclude") or ()),
            description=str(params.get("description") or ""),
            cloud=str(params.get("cloud") or ""),
            vlan=int(params["vlan"]) if params.get("vlan") else None,
            qinq=int(params.get("qinq") or 0),
            wipe=bool(params.get("wipe", True)),
            cc_users=tuple(params.get("cc_users") or ()),
            ticket=str(params.get("ticket") or ""),
            min_lifetime=quads_records.parse_duration(params.get("min_lifetime") or 0, "quads_lease_min_lifetime"),
            max_hosts=int(params.get("max_hosts") or 10),
            split=bool(params.get("split", False)),
            rollback=bool(params.get("rollback", True)),
            settle=float(params.get("settle", 300.0)),
        )
        spec.check()
        return spec

    def check(self) -> None:
        """Raise InputError for options that no server can fulfil."""
        if self.hosts and self.count and self.count != len(self.hosts):
            raise InputError(
                f"quads_lease_count is {self.count}, but quads_lease_hosts has {len(self.hosts)} names: omit the count"
            )
        if not self.wanted:
            raise InputError("set quads_lease_count, the number of machines, or quads_lease_hosts, their names")
        if self.min_count > self.wanted:
            raise InputError(f"quads_lease_min_count {self.min_count} is more than the {self.wanted} requested hosts")
        if min(self.count, self.min_count) < 0 or self.max_hosts < 1:
            raise InputError("quads_lease_count, _min_count and _max_hosts can't be negative, and _max_hosts not 0")
        both = sorted(set(self.hosts) & set(self.exclude))
        if both:
            raise InputError(f"{', '.join(both)}: named in quads_lease_hosts and in quads_lease_exclude")
        if self.wanted > self.max_hosts and not self.split:
            raise InputError(
                f"{self.wanted} hosts don't fit into one assignment: the server accepts at most {self.max_hosts} "
                f"(quads_lease_max_hosts). Request fewer, or let quads_lease_split=true distribute them over "
                f"{len(self.sizes)} assignments, each of which is a cloud with separate networks and counts "
                "towards your quota"
            )
        if len(self.sizes) > 1 and (self.cloud or self.vlan):
            raise InputError(
                f"quads_lease_cloud and quads_lease_vlan can't apply to {len(self.sizes)} assignments: omit them"
            )

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lease file, written before anything is requested, so that a lease of a killed run can be released."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, state_file
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import OwnershipError

from . import quads_records
from .quads_records import CloudAssignment, Lease

_HEAD = "A lease of bare-metal machines. The command in release releases it from any machine, with the credentials."


class LeaseFile:
    """The record of a lease, in memory only if it has no path."""

    def __init__(self, path: str | None, lease_id: str, api_url: str, owner: str, release: str = "") -> None:
        self.path = Path(path) if path else None
        self.known: dict[str, Any] = {
            "schema": "lease/1",
            "lease_id": lease_id,
            "api_url": api_url,
            "owner": owner,
            "state": "asking",
            "adopted": False,
            "pending": None,
            "parts": [],
            "asked_hosts": [],
            "hosts": [],
            "lost_hosts": [],
            "expires_at": None,
            "utc_offset": None,
            "release": release,
            "updated": "",
        }
        #: Whether there is a record of earlier calls; without one, requests may be in flight that we do not know.
        self.remembers = False
        if self.path and self.path.exists():
            self._resume(lease_id, release)

    def _resume(self, lease_id: str, release: str) -> None:
        earlier = read_lease_file(self.path)
        if earlier["lease_id"] == lease_id:
            self.known.update(earlier)
            self.known["release"] = release or earlier["release"]
            self.remembers = True
        elif earlier["state"] not in ("released", "adopted"):
            raise OwnershipError(
                f"{self.path} records lease {earlier['lease_id']}, which was not released: release it first, "
                "or use another run directory"
            )

    @property
    def pending(self) -> dict[str, Any] | None:
        """The unanswered request for a cloud: its part, ``at`` and ``sent`` (epoch seconds)."""
        return self.known["pending"]

    @property
    def asked(self) -> set[str] | None:
        """The requested hosts, None without a record of earlier calls."""
        return set(self.known["asked_hosts"]) if self.remembers else None

    @property
    def adopted(self) -> bool:
        """Whether the lease was adopted."""
        return bool(self.known["adopted"])

    def ask(self, part: int, at: float, sent: float) -> None:
        """Record that a cloud is about to be requested. Times in epoch seconds."""
        self.remembers = True
        fresh: dict[str, Any] = (
            {"parts": [], "asked_hosts": [], "hosts": []} if self.known["state"] == "released" else {}
        )
        self.write(state="asking", pending={"part": part, "at": int(at), "sent": round(sent, 1)}, **fresh)

    def add_part(self, assignment: CloudAssignment) -> None:
        """Record an acquired cloud."""
        known = [part for part in self.known["parts"] if part["assignment_id"] != assignment.id]
        part = {"assignment_id": assignment.id, "cloud": assignment.cloud, "ticket": assignment.ticket}
        self.write(state="asking", pending=None, parts=[*known, part])

    def answered(self) -> None:
        """Record that the last request for a cloud failed."""
        self.write(pending=None)

    def learned(self, ahead: float | None) -> None:
        """Record the server's offset (s) from UTC, from which later calls compute the end of the lease."""
        if ahead is not None:
            self.write(utc_offset=int(ahead // 60))

    def want(self, hosts: Iterable[str]) -> None:
        """Record hosts that are about to be requested."""
        self.remembers = True
        self.write(asked_hosts=sorted({*self.known["asked_hosts"], *hosts}))

    def held(self, lease: Lease) -> None:
        """Record the present state of the lease."""
        view = lease.view()
        self.write(
            state="adopted" if lease.adopted else "held",
            adopted=lease.adopted,
            pending=None,
            parts=[{key: part[key] for key in ("assignment_id", "cloud", "ticket")} for part in view["parts"]],
            hosts=view["hosts"],
            lost_hosts=view["lost_hosts"],
            expires_at=view["expires_at"],
        )
        self.learned(lease.ahead)

    def released(self) -> None:
        """Record that the lease was released."""
        if self.path and self.path.exists():
            self.write(state="released", pending=None)

    def write(self, **values: Any) -> None:
        """Change the record and the file."""
        import yaml

        before = {**self.known}
        self.known.update(values)
        if self.path and ({**self.known, "updated": ""} != {**before, "updated": ""} or not self.path.exists()):
            self.known["updated"] = quads_records.format_utc_timestamp(time.time())
            files.validate_schema_if_enabled("lease/1", self.known)
            # The command must stay on one line to be copied.
            text = yaml.safe_dump(files.to_plain_types(self.known), sort_keys=False, width=10_000)
            files.replace_text(self.path, f"---\n# {_HEAD}\n{text}")


def read_lease_file(path: str | Path | None) -> dict[str, Any]:
    """Read a lease file. Raises DataError if there is none, or a damaged one."""
    return state_file.read_state_file(Path(str(path)), "lease_id", "state")

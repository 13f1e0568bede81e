# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lease file: what is written down before anything is taken, so that a killed run can be given back."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import OwnershipError
from ansible_collections.perfscale.seatrial.plugins.module_utils._quads.api_records import Assignment, Lease
from ansible_collections.perfscale.seatrial.plugins.module_utils._quads.http_request import stamp

HEAD = "A lease of bare metal. release is the command that gives it back from any machine; it needs the credentials."


class LeaseRecord:
    """What is known of a lease. Without a path it is kept in memory only."""

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
        #: Whether there is a record of earlier calls; without one nobody knows what may be under way.
        self.remembers = False
        if self.path and self.path.exists():
            self._resume(lease_id, release)

    def _resume(self, lease_id: str, release: str) -> None:
        earlier = read(self.path)
        if earlier["lease_id"] == lease_id:
            self.known.update(earlier)
            self.known["release"] = release or earlier["release"]
            self.remembers = True
        elif earlier["state"] not in ("released", "adopted"):
            raise OwnershipError(
                f"{self.path} is of lease {earlier['lease_id']}, which was not given back: release that one first, "
                "or use a run directory of its own"
            )

    @property
    def pending(self) -> dict[str, Any] | None:
        """The request for a cloud that was sent and got no answer: its part, ``at`` and ``sent`` (epoch seconds)."""
        return self.known["pending"]

    @property
    def asked(self) -> set[str] | None:
        """The hosts that were asked for, None when nothing is remembered."""
        return set(self.known["asked_hosts"]) if self.remembers else None

    @property
    def adopted(self) -> bool:
        """True when the lease is somebody's that we only use."""
        return bool(self.known["adopted"])

    def ask(self, part: int, at: float, sent: float) -> None:
        """Note that a cloud is about to be asked for. Times in epoch seconds."""
        self.remembers = True
        fresh: dict[str, Any] = (
            {"parts": [], "asked_hosts": [], "hosts": []} if self.known["state"] == "released" else {}
        )
        self.write(state="asking", pending={"part": part, "at": int(at), "sent": round(sent, 1)}, **fresh)

    def made(self, one: Assignment) -> None:
        """Note a cloud that is ours."""
        known = [part for part in self.known["parts"] if part["assignment_id"] != one.id]
        part = {"assignment_id": one.id, "cloud": one.cloud, "ticket": one.ticket}
        self.write(state="asking", pending=None, parts=[*known, part])

    def answered(self) -> None:
        """Note that the last request for a cloud came to nothing."""
        self.write(pending=None)

    def learned(self, ahead: float | None) -> None:
        """Note the server's offset (s) from UTC, by which the end of the lease is known later and elsewhere."""
        if ahead is not None:
            self.write(utc_offset=int(ahead // 60))

    def want(self, hosts: Iterable[str]) -> None:
        """Note hosts that are about to be asked for."""
        self.remembers = True
        self.write(asked_hosts=sorted({*self.known["asked_hosts"], *hosts}))

    def held(self, lease: Lease) -> None:
        """Note a lease as it is returned."""
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
        """Note that nothing is held any more."""
        if self.path and self.path.exists():
            self.write(state="released", pending=None)

    def write(self, **values: Any) -> None:
        """Change the record and the file."""
        import time

        import yaml

        before = {**self.known}
        self.known.update(values)
        if self.path and ({**self.known, "updated": ""} != {**before, "updated": ""} or not self.path.exists()):
            self.known["updated"] = stamp(time.time())
            _files.check("lease/1", self.known)
            # The command stays on one line, to be copied.
            text = yaml.safe_dump(_files.plain(self.known), sort_keys=False, width=10_000)
            _files.replace_text(self.path, f"---\n# {HEAD}\n{text}")


def read(path: str | Path | None) -> dict[str, Any]:
    """Read a lease file. Raises DataError when there is none."""
    return _files.read_yaml(str(path))

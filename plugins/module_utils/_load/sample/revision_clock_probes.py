# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The readings of the revision clock while a load is sampled: canary writes, revision probes, comparison of stores."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.clock import Clock
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.needed_fields import ANY, decoder

from ..kinds.sampling_spec import SamplingSpec
from . import kind_follower
from .canary_lease import LEASE, VERSION, Canary
from .revision_probe import RevisionProbes
from .watch_multiplexer import WatchMultiplexer

#: Number of the follower that watches the canary.
CANARY = -1


class RevisionClockProbes:
    """Created by the thread that samples, which starts the watch. Any thread calls ``write`` with rows."""

    def __init__(
        self,
        client: Client,
        spec: SamplingSpec,
        clock: Clock,
        reader: WatchMultiplexer,
        write: Callable[[dict[str, Any]], None],
    ) -> None:
        """Create the canary and watch it. Raises ApiError and AccessError."""
        self._clock = clock
        self._reader = reader
        self._write = write
        self._rate = spec.canary_rate
        self._canary = Canary(
            client, spec.run, spec.point, spec.canary_namespace, spec.canary_rate, self._report_canary, spec.client
        )
        self._canary.create()
        name, namespace = self._canary.object_name, self._canary.namespace
        self._probes = RevisionProbes(client.access, name, namespace, spec.canary_rate, self._report_probe)
        self._stores: dict[str, tuple[float, str]] = {}  # kind of unknown etcd -> time of its list, revision
        # The time until its writes arrive as events is the lag of the sampler.
        self.follower = kind_follower.KindFollower(
            CANARY, client, LEASE, namespace, self._canary.selector, reader, decoder({"type": ANY, "object": VERSION})
        )
        self.follower.start()

    def start(self) -> None:
        """Start writing, and probing halfway between two writes."""
        now = time.monotonic()
        self._canary.begin(now)
        self._probes.begin(now + 0.5 / self._rate)

    def received(self, at: float, event: dict[str, Any]) -> None:
        """Take an event of the canary that its watch received at ``at`` (time.monotonic())."""
        self._canary.received(at, event["object"]["metadata"]["resourceVersion"])

    def listed(self, kind: str, at: float, version: str) -> None:
        """Take the resourceVersion of a kind's first list, received at ``at`` (time.monotonic())."""
        self._stores[kind] = (at, version)

    def notes(self) -> list[str]:
        """Return remarks for the user."""
        found = [f"the canary could not always write: {self._canary.failure}"] if self._canary.failure else []
        return found + ([self._probes.failure] if self._probes.failure else [])

    def close(self, deadline: float) -> dict[str, Any]:
        """Stop and delete the canary; return the cost of canary and probes and the lag of the sampler, seconds."""
        self._probes.stop(max(0.1, deadline - time.monotonic()))
        self._canary.close(max(0.1, deadline - time.monotonic()))
        found = {"lag": self._canary.lag(), "canary": self._canary.cost(), "soundings": self._probes.cost()}
        return {name: value for name, value in found.items() if value}

    def _report_canary(self, sent: float, answered: float, version: str) -> None:
        self._reader.answered_within(answered - sent)
        if self._stores:
            self._compare_stores(sent, version)
        self._probes.wrote(sent, int(version))
        self._record("canary", sent, answered, version)

    def _report_probe(self, sent: float, answered: float, version: str) -> None:
        self._record("sounding", sent, answered, version)

    def _record(self, what: str, sent: float, answered: float, version: str) -> None:
        moments = {"sent": self._clock.from_monotonic(sent), "answered": self._clock.from_monotonic(answered)}
        rounded = {name: round(moment, 6) for name, moment in moments.items()}
        self._write({"type": what, **rounded, "resource_version": version})

    def _compare_stores(self, sent: float, version: str) -> None:
        """Determine whether kinds that were listed before ``sent`` are stored in the canary's etcd.

        If so, the resourceVersion of the list lies between those of the canary before and after it. In another etcd
        that would be a coincidence. API servers can store kinds in separate etcds (--etcd-servers-overrides), whose
        revisions are unrelated.
        """
        for kind, (listed, revision) in list(self._stores.items()):
            if listed < sent:
                del self._stores[kind]
                same = _number(self._canary.version) <= _number(revision) <= _number(version)
                at = round(self._clock.from_monotonic(sent), 6)
                self._write({"type": "store", "at": at, "kind": kind, "ruler": same})


def _number(version: str) -> int:
    return int(version) if version.isdecimal() else -1

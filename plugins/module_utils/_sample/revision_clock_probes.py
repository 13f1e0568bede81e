# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The marks of the ruler while a load is sampled: the canary's writes, soundings between them, whom they hold for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._clock import Clock
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._sample import kind_follower
from ansible_collections.perfscale.seatrial.plugins.module_utils._sample.canary_lease import LEASE, Canary
from ansible_collections.perfscale.seatrial.plugins.module_utils._sample.revision_probe import RevisionProbes
from ansible_collections.perfscale.seatrial.plugins.module_utils._sample.watch_multiplexer import WatchMultiplexer
from ansible_collections.perfscale.seatrial.plugins.module_utils._stages.sampling_spec import SamplingSpec

#: The canary's place among the followers.
BEAT = -1


class RevisionClockProbes:
    """Made, and so begun, by the thread that samples; ``write`` gets rows and may be called by any thread."""

    def __init__(
        self,
        client: Client,
        task: SamplingSpec,
        clock: Clock,
        reader: WatchMultiplexer,
        write: Callable[[dict[str, Any]], None],
    ) -> None:
        """Make the canary's object and follow it. Raises ApiError and AccessError."""
        self._clock = clock
        self._write = write
        self._rate = task.canary_rate
        self._canary = Canary(client, task.run, task.point, task.canary_namespace, task.canary_rate, self._tell_canary)
        self._canary.make()
        name, namespace = self._canary.object_name, self._canary.namespace
        self._soundings = RevisionProbes(client.access, name, namespace, task.canary_rate, self._tell_sounding)
        self._stores: dict[str, tuple[float, str]] = {}  # kinds whose store is not known yet: listed when, version
        # How long its writes take to come back is the sampler's own lag.
        self.beat = kind_follower.KindFollower(BEAT, client, LEASE, namespace, self._canary.selector, reader)
        self.beat.start()

    def start(self) -> None:
        """Begin to write, and halfway between two writes to sound."""
        now = time.monotonic()
        self._canary.begin(now)
        self._soundings.begin(now + 0.5 / self._rate)

    def received(self, at: float, line: bytes) -> None:
        """Take a write of the canary as its watch showed it at ``at`` (time.monotonic())."""
        self._canary.received(at, line)

    def listed(self, kind: str, at: float, version: str) -> None:
        """Take note of the resourceVersion of a kind's first list, received at ``at`` (time.monotonic())."""
        self._stores[kind] = (at, version)

    def notes(self) -> list[str]:
        """Return what a user should know."""
        found = [f"the canary could not always write: {self._canary.failure}"] if self._canary.failure else []
        return found + ([self._soundings.failure] if self._soundings.failure else [])

    def close(self, deadline: float) -> dict[str, Any]:
        """Stop, remove the canary; return what it cost and how far the sampler lagged behind, seconds."""
        self._soundings.stop(max(0.1, deadline - time.monotonic()))
        self._canary.close(max(0.1, deadline - time.monotonic()))
        found = {"lag": self._canary.lag(), "canary": self._canary.cost(), "soundings": self._soundings.cost()}
        return {name: value for name, value in found.items() if value}

    def _tell_canary(self, sent: float, answered: float, version: str) -> None:
        if self._stores:
            self._compare_stores(sent, version)
        self._soundings.wrote(sent, int(version))
        self._mark("canary", sent, answered, version)

    def _tell_sounding(self, sent: float, answered: float, version: str) -> None:
        self._mark("sounding", sent, answered, version)

    def _mark(self, what: str, sent: float, answered: float, version: str) -> None:
        moments = {"sent": self._clock.from_monotonic(sent), "answered": self._clock.from_monotonic(answered)}
        rounded = {name: round(moment, 6) for name, moment in moments.items()}
        self._write({"type": what, **rounded, "resource_version": version})

    def _compare_stores(self, sent: float, version: str) -> None:
        """See whether kinds that were listed before ``sent`` are kept in the canary's etcd.

        There a list's resourceVersion lies between those of the canary before and after it. In another etcd it would
        do so by chance only; an operator may keep kinds apart (--etcd-servers-overrides), and their resourceVersions
        tell nothing about ours.
        """
        for kind, (listed, held) in list(self._stores.items()):
            if listed < sent:
                del self._stores[kind]
                same = _number(self._canary.version) <= _number(held) <= _number(version)
                at = round(self._clock.from_monotonic(sent), 6)
                self._write({"type": "store", "at": at, "kind": kind, "ruler": same})


def _number(version: str) -> int:
    return int(version) if version.isdecimal() else -1

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Follow a load in pods until each of its clients has ended or is lost, and show its progress."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ProcessError, WaitTimeout

from . import client_results
from .driver_pod import LOOK, DriverPod
from .pod_main import FREQUENT
from .pod_states import PodsState

#: Minimum interval between two renewals of URLs, seconds.
RENEW = 20.0
#: Reasons of a container that waits for something that nobody will change, and how long it may give them, seconds: a
#: registry may be unavailable for a moment.
HOPELESS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError")
HOPING = 60.0


class PodsFollower:
    """Follows the load of ``pod`` with ``planned`` workloads. start_timeout: for its pods to start, seconds.

    has_started: asks whether the common start was released.
    """

    def __init__(self, pod: DriverPod, planned: int, start_timeout: float, has_started: Callable[[], bool]) -> None:
        self._pod = pod
        self._has_started = has_started
        self._started = False  # as last asked; asked only if a client is missing
        self._hopeless: dict[int, float] = {}  # client -> since when its pod waits in vain
        self._planned = planned
        self._start_timeout = start_timeout
        self._began = time.monotonic()
        self._heard = [self._began] * pod.spec.clients
        self._beats = [""] * pod.spec.clients
        self._shown = 0  # lines of the only client
        self._line = ""
        self._waiting = ""
        self._holding = ""
        self._renewed = float("-inf")

    def run(self) -> PodsState:
        """Return the state of the load at its end.

        After the error of a client, or the loss of one before the common start, the others are ended.

        Raises ProcessError if the load was deleted, WaitTimeout if a pod does not start or shows no sign of life.
        """
        spec, retry = self._pod.spec, self._pod.retry
        while True:
            found = retry.call("following it", self._pod.status)
            if not found.there:
                raise ProcessError(f"the load of run {spec.run} was deleted")
            self._show(found)
            if found.over:
                return found
            if any(one.failed for one in found.clients):
                # The others would wait for it, or measure another load.
                retry.call("ending the other clients", self._pod.stop)
                return retry.call("following it", self._pod.status)
            unstarted = self._unstarted(found)
            if unstarted:
                retry.call("ending the other clients", self._pod.stop)
                return replace(found, unstarted=unstarted)
            self._collect(found)
            self._check_signs(found)
            time.sleep(LOOK * max(1.0, spec.clients / FREQUENT))

    def _unstarted(self, found: PodsState) -> dict[int, str]:
        """Return the clients that are lost, if the others wait for them, and why they are."""
        now = time.monotonic()
        vain = {
            number: found.words(number)
            for number, one in enumerate(found.clients)
            if not one.beat and found.words(number).partition(":")[0] in HOPELESS
        }
        self._hopeless = {number: self._hopeless.get(number, now) for number in vain}
        given_up = {number: why for number, why in vain.items() if now - self._hopeless[number] >= HOPING}
        gone = {**given_up, **found.lost}
        if gone and not self._started:
            self._started = self._pod.retry.call("looking for the common start", self._has_started)
        return {} if self._started else gone

    def _show(self, found: PodsState) -> None:
        if len(found.clients) == 1:
            (one,) = found.clients
            new = one.count - self._shown
            for line in one.lines[-new:] if new > 0 else ():
                self._pod.say(line)
            self._shown = max(self._shown, one.count)
        elif any(one.beat for one in found.clients):
            counts = [one.counts for one in found.clients]
            seconds = time.monotonic() - self._began
            line = client_results.progress(self._pod.spec.point, self._planned, counts, len(counts), seconds)
            if line.rpartition(",")[0] != self._line:
                self._line = line.rpartition(",")[0]
                self._pod.say(line)
        waiting = "; ".join(
            f"client {number}: {found.words(number)}"
            for number, one in enumerate(found.clients)
            if not one.ended and found.words(number) != "Running"
        )
        if waiting != self._waiting:
            self._waiting = waiting
            self._pod.say(f"waits for its pods: {waiting}" if waiting else "all pods run")

    def _collect(self, found: PodsState) -> None:
        """Replace the URLs of clients that hold their files. Raises ProcessError if no S3 server is set."""
        holding = {number: one.holds for number, one in enumerate(found.clients) if one.holds and not one.ended}
        if not holding:
            return
        number, why = min(holding.items())
        words = f"{formats.count(len(holding), 'client')} cannot send all files, client {number}: {why}"
        if self._pod.store is None:
            raise ProcessError(
                f"{words}. The pods keep the files; set workload_collect_s3 and call the same task again, which finds "
                f"the load by its run id ({self._pod.spec.run})"
            )
        if words != self._holding:
            self._holding = words
            self._pod.say(words)
        if time.monotonic() - self._renewed > RENEW:
            self._renewed = time.monotonic()
            self._pod.retry.call("renewing the URLs of the uploads", self._pod.renew)

    def _check_signs(self, found: PodsState) -> None:
        now, spec = time.monotonic(), self._pod.spec
        for number, one in enumerate(found.clients):
            if one.beat != self._beats[number]:
                self._beats[number], self._heard[number] = one.beat, now
            if one.ended or number in found.lost:
                continue
            words = found.words(number)
            if not one.beat and now - self._began > self._start_timeout:
                raise WaitTimeout(
                    f"the pod of client {number} of {spec.name} did not start within {self._start_timeout:g} s: {words}"
                )
            if one.beat and now - self._heard[number] > self._pod.retry.patience:
                silent = now - self._heard[number]
                raise WaitTimeout(f"no sign of life of client {number} of {spec.name} for {silent:.0f} s: {words}")

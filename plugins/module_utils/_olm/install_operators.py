# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Operators installed side by side: checked together, begun together, waited for together."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError, SeatrialError, WaitTimeout
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_fields import at
from ansible_collections.perfscale.seatrial.plugins.module_utils._olm import existing_state, failure_causes, manifests
from ansible_collections.perfscale.seatrial.plugins.module_utils._olm.desired_state import Operator
from ansible_collections.perfscale.seatrial.plugins.module_utils._olm.installer_state import OperatorInstallation
from ansible_collections.perfscale.seatrial.plugins.module_utils._olm.live_view import LiveView
from ansible_collections.perfscale.seatrial.plugins.module_utils._olm.object_writer import Say
from ansible_collections.perfscale.seatrial.plugins.module_utils._step_dir import Step

#: Seconds between two looks at what no watch tells (package manifests, kinds that are not served yet).
_LOOK = 2.0

#: Seconds between two lines that say what is waited for.
_TELL = 10.0


class InstallError(SeatrialError):
    """Not all operators could be installed. ``result`` is what became of each."""

    def __init__(self, message: str, result: list[dict[str, Any]]) -> None:
        super().__init__(message)
        self.result = result


def install(
    client: Client,
    operators: Sequence[Operator],
    run_id: str,
    timeout: float,
    step: Step,
    say: Say,
    check: bool = False,
    pull_secrets: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Install operators and wait for all; return what there is of each.

    Everything is checked before the first object is made. With ``check`` nothing is changed. Raises InputError,
    OwnershipError, InstallError (with the cause of every operator that is not there in time). pull_secrets: name ->
    dockerconfigjson, for the operators that name one.
    """
    _check_secrets(operators, pull_secrets or {})
    began = time.monotonic()
    with LiveView(client) as view:
        existing_state.follow(view)
        ways = [_checked(client, view, one, run_id, say, operators) for one in operators]
        for way in ways:
            way.writer.pull_secret = (pull_secrets or {}).get(way.one.catalog_pull_secret, "")
        if check:
            return {"changed": any(_would_change(way) for way in ways), "operators": [described(way) for way in ways]}
        failures = _go(ways, view, timeout, say)
        if failures:
            _fail(client, view, ways, failures, timeout, step)
        result = [described(way) for way in ways]
    changed = any(way.writer.changes for way in ways)
    if changed:
        say(f"{len(ways)} operators are installed after {time.monotonic() - began:.0f} s")
    return {"changed": changed, "operators": result}


def _check_secrets(operators: Sequence[Operator], given: Mapping[str, str]) -> None:
    """Raise InputError for a pull secret that is missing or can't be one; what is in it is not quoted."""
    for one in operators:
        name = one.catalog_pull_secret
        if not name:
            continue
        if not given.get(name):
            raise InputError(f"operators: {one.package}: catalog_pull_secret '{name}' is not in pull_secrets, or empty")
        try:
            fits = isinstance(json.loads(given[name])["auths"], dict)
        except (ValueError, TypeError, KeyError):
            fits = False
        if not fits:
            raise InputError(f"pull_secrets: '{name}' is no dockerconfigjson: it must be JSON with a dictionary auths")


def _checked(
    client: Client, view: LiveView, one: Operator, run_id: str, say: Say, operators: Sequence[Operator]
) -> OperatorInstallation:
    """Look at everything that could be in the way of one operator."""
    there = existing_state.existing_subscription(view, one, run_id)
    if there is None or there.ours:
        existing_state.check_catalog(view, one, run_id)
    offer = existing_state.offer_of(client, view, one) if there is None or there.ours or one.version else None
    if there is not None:
        existing_state.check_standing(one, there, offer)
    else:
        if offer is not None:
            existing_state.check_rivals(view, one, offer)
        existing_state.check_namespace(view, one, offer, run_id)
    return OperatorInstallation(client, view, one, run_id, say, {each.package for each in operators}, there, offer)


def _would_change(way: OperatorInstallation) -> bool:
    """Tell in check mode whether anything would be made or changed."""
    if way.foreign:
        return False
    if way.there is None or way.offer is None:
        return True
    wanted = manifests.subscription(way.one, way.offer, way.run_id)
    if manifests.differences(way.there.subscription, wanted):
        return True
    return at(way.csv(), "status.phase") != "Succeeded"


def _go(ways: Sequence[OperatorInstallation], view: LiveView, timeout: float, say: Say) -> dict[str, str]:
    """Step all until each has ended or the time is over; return package -> why it failed."""
    deadline = time.monotonic() + timeout
    told = time.monotonic()
    failures: dict[str, str] = {}
    left = list(ways)
    while True:
        generation = view.generation
        for way in list(left):
            try:
                waits = way.step()
            except SeatrialError as error:
                failures[way.one.package] = str(error)
                left.remove(way)
                continue
            if not waits:
                left.remove(way)
                if way.writer.changes:
                    say(f"{way.one.package}: {at(way.csv(), 'metadata.name')} is installed")
        if not left:
            return failures
        if time.monotonic() >= deadline:
            for way in left:
                failures[way.one.package] = f"{way.one.package}: after {timeout:g} s it still waits for {way.waits}"
            return failures
        if time.monotonic() - told >= _TELL:
            told = time.monotonic()
            for way in left:
                say(f"{way.one.package}: waiting for {way.waits}")
        view.wait(generation, min(_LOOK, deadline - time.monotonic()))


def _fail(
    client: Client,
    view: LiveView,
    ways: Sequence[OperatorInstallation],
    failures: dict[str, str],
    timeout: float,
    step: Step,
) -> None:
    """Say of every operator that failed why, and keep what tells more in the step's directory."""
    lines = []
    for way in ways:
        if way.one.package not in failures:
            continue
        causes = failure_causes.causes(client, view, way, step)
        lines.append(". ".join(one.rstrip(". ") for one in [failures[way.one.package], *causes]))
    kept = f" (objects, events and pod logs: {step.path}/artifacts)" if step.path is not None else ""
    text = "\n".join(lines) + kept
    if all(": after " in one for one in failures.values()):
        raise WaitTimeout(text)
    raise InstallError(text, [described(way) for way in ways])


def described(way: OperatorInstallation) -> dict[str, Any]:
    """Return what there is of one operator."""
    csv = way.csv()
    return {
        "package": way.one.package,
        "namespace": way.namespace,
        "channel": at(
            way.there.subscription if way.there else None, "spec.channel", way.offer.channel if way.offer else ""
        ),
        "catalog": at(
            way.there.subscription if way.there else None, "spec.source", way.offer.catalog if way.offer else ""
        ),
        "csv": at(csv, "metadata.name", ""),
        "version": at(csv, "spec.version", ""),
        "phase": at(csv, "status.phase", ""),
        "foreign": way.foreign,
        "created": list(way.writer.created),
        "changes": list(way.writer.changes),
        "operand": at(way.operand, "metadata.name", ""),
    }

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Install operators in parallel: check all, then start all, then wait for all."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    InputError,
    SeatrialError,
    WaitTimeout,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import parse_json
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import field_at_path
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.server_side_apply import ObjectDiff
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.watch import WatchCache

from . import existing_olm_objects, installation_diagnosis
from .installation_state_machine import OperatorInstallation
from .operator_objects import Say
from .operator_specs import OperatorSpec

#: Seconds between two polls of what cannot be watched (package manifests, kinds that are not served yet).
POLL_INTERVAL = 2.0

#: Seconds between two progress lines.
REPORT_INTERVAL = 10.0


class InstallError(SeatrialError):
    """Not all operators could be installed. ``result``: the state of each."""

    def __init__(self, message: str, result: list[dict[str, Any]]) -> None:
        super().__init__(message)
        self.result = result


def install_operators(
    client: Client,
    operators: Sequence[OperatorSpec],
    run_id: str,
    timeout: float,
    step: StepDirectory,
    say: Say,
    check: bool = False,
    pull_secrets: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Install operators and wait for all, up to ``timeout`` seconds; return the state of each.

    Everything is checked before the first object is created. With ``check`` nothing is changed. pull_secrets: name ->
    dockerconfigjson, for the operators that name one. Raises InputError, OwnershipError, WaitTimeout, InstallError;
    the last two give the causes for every operator that is not installed.
    """
    _check_secrets(operators, pull_secrets or {})
    began, diff = time.monotonic(), ObjectDiff()
    with WatchCache(client) as cache:
        existing_olm_objects.watch_olm_kinds(cache)
        installations = [_check_conflicts(client, cache, operator, run_id, say, operators) for operator in operators]
        for installation in installations:
            writer = installation.writer
            writer.pull_secret = (pull_secrets or {}).get(installation.operator.catalog_pull_secret, "")
            writer.check, writer.diff = check, diff
        if check:
            changes = [installation.predict() for installation in installations]
            result = [installation_state_record(installation) for installation in installations]
            return {"changed": any(changes), "operators": result, "diff": diff.shown()}
        failures = _advance_all(installations, cache, timeout, say)
        if failures:
            _raise_failures(client, cache, installations, failures, timeout, step)
        result = [installation_state_record(installation) for installation in installations]
    changed = any(installation.writer.changes for installation in installations)
    if changed:
        say(f"{len(installations)} operators are installed after {time.monotonic() - began:.0f} s")
    return {"changed": changed, "operators": result, "diff": diff.shown()}


def _check_secrets(operators: Sequence[OperatorSpec], secrets: Mapping[str, str]) -> None:
    """Raise InputError for a pull secret that is missing or malformed, without quoting its content."""
    for operator in operators:
        name = operator.catalog_pull_secret
        if not name:
            continue
        if not secrets.get(name):
            raise InputError(
                f"operators: {operator.package}: catalog_pull_secret '{name}' is missing or empty in pull_secrets"
            )
        try:
            fits = isinstance(parse_json(secrets[name])["auths"], dict)
        except (ValueError, TypeError, KeyError):
            fits = False
        if not fits:
            raise InputError(
                f"pull_secrets: '{name}' is not a dockerconfigjson: it must be JSON with a dictionary auths"
            )


def _check_conflicts(
    client: Client, cache: WatchCache, operator: OperatorSpec, run_id: str, say: Say, operators: Sequence[OperatorSpec]
) -> OperatorInstallation:
    """Check one operator for conflicts with existing objects; return its installation, not started yet."""
    existing = existing_olm_objects.existing_subscription(cache, operator, run_id)
    if existing is None or existing.ours:
        existing_olm_objects.existing_catalog_source(cache, operator, run_id)
    offer = None
    if existing is None or existing.ours or operator.version:
        offer = existing_olm_objects.find_offer_in_catalog(client, cache, operator)
    if existing is not None:
        existing_olm_objects.check_existing_operators(operator, existing, offer)
    else:
        if offer is not None:
            existing_olm_objects.refuse_kinds_of_other_operators(cache, operator, offer)
        existing_olm_objects.existing_operator_group(cache, operator, offer, run_id)
    return OperatorInstallation(
        client, cache, operator, run_id, say, {each.package for each in operators}, existing, offer
    )


def _advance_all(
    installations: Sequence[OperatorInstallation], cache: WatchCache, timeout: float, say: Say
) -> dict[str, str]:
    """Advance all installations until each has ended or the timeout; return package -> reason of its failure."""
    deadline = time.monotonic() + timeout
    reported = time.monotonic()
    failures: dict[str, str] = {}
    left = list(installations)
    while True:
        generation = cache.generation
        for installation in list(left):
            try:
                waits = installation.step()
            except SeatrialError as error:
                failures[installation.operator.package] = str(error)
                left.remove(installation)
                continue
            if not waits:
                left.remove(installation)
                if installation.writer.changes:
                    say(
                        f"{installation.operator.package}:"
                        f" {field_at_path(installation.csv(), 'metadata.name')} is installed"
                    )
        if not left:
            return failures
        if time.monotonic() >= deadline:
            for installation in left:
                package = installation.operator.package
                failures[package] = f"{package}: after {timeout:g} s it still waits for {installation.waits}"
            return failures
        if time.monotonic() - reported >= REPORT_INTERVAL:
            reported = time.monotonic()
            for installation in left:
                say(f"{installation.operator.package}: waiting for {installation.waits}")
        cache.wait(generation, min(POLL_INTERVAL, deadline - time.monotonic()))


def _raise_failures(
    client: Client,
    cache: WatchCache,
    installations: Sequence[OperatorInstallation],
    failures: dict[str, str],
    timeout: float,
    step: StepDirectory,
) -> None:
    """Raise WaitTimeout or InstallError with the causes for every failed operator; save the objects they come from."""
    lines = []
    for installation in installations:
        if installation.operator.package not in failures:
            continue
        causes = installation_diagnosis.causes_of_failed_installation(client, cache, installation, step)
        lines.append(". ".join(cause.rstrip(". ") for cause in [failures[installation.operator.package], *causes]))
    kept = f" (objects, events and pod logs: {step.path}/artifacts)" if step.path is not None else ""
    text = "\n".join(lines) + kept
    if all(": after " in failure for failure in failures.values()):
        raise WaitTimeout(text)
    raise InstallError(text, [installation_state_record(installation) for installation in installations])


def installation_state_record(installation: OperatorInstallation) -> dict[str, Any]:
    """Return the state of one operator, as the module does."""
    csv, offer = installation.csv(), installation.offer
    subscription = installation.existing.subscription if installation.existing else None
    return {
        "package": installation.operator.package,
        "namespace": installation.namespace,
        "channel": field_at_path(subscription, "spec.channel", offer.channel if offer else ""),
        "catalog": field_at_path(subscription, "spec.source", offer.catalog if offer else ""),
        "csv": field_at_path(csv, "metadata.name", ""),
        "version": field_at_path(csv, "spec.version", ""),
        "phase": field_at_path(csv, "status.phase", ""),
        "foreign": installation.foreign,
        "created": list(installation.writer.created),
        "changes": list(installation.writer.changes),
        "operand": field_at_path(installation.operand, "metadata.name", ""),
    }

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The failures of a load before it begins: those that a killed session left, and what the load can't have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.lock import lock_records
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client

from ..failures import failure_actions, failure_ledger
from ..failures.failure_schedule import API_AWAY, OF_CONTROL_PLANE, PlannedFailure, schedule_failures
from ..plan.workload_plan import PlannedWorkload
from .load_spec import LoadSpec

#: Share of a lock's duration that may pass unrenewed: it is renewed each quarter, and given up after two thirds.
_RENEWED_BEFORE = 5 / 12


def prepare_failures(
    client: Client,
    request: LoadSpec,
    workloads: Sequence[PlannedWorkload],
    say: Callable[[str], None] | None = None,
) -> list[PlannedFailure]:
    """Undo the failures that a killed session left, and return those of a load.

    Args:
        client: Client of the cluster.
        request: The load.
        workloads: Of the plan.
        say: Prints what is undone. Without it nothing is undone.

    Returns:
        The failures in the order of their times.

    Raises:
        InputError: The cluster can't have such failures, nobody would see what they hit, or they differ from those of
            an earlier session.
    """
    seed = request.seed or 1
    if say is not None:
        failure_ledger.undo_open_failures(client, request.point_dir, say)
    planned = schedule_failures(request.failures, seed)
    if planned:
        if not (request.lifetime or request.release.get("stage")):  # else the last workload is created when others end
            check_failures_fit_in_load(request.failures, [workload.offset for workload in workloads], request.timeout)
        check_pods_are_followed(request.stages, [failure.kind for failure in planned])
        _check_outages(request, planned)
        failure_ledger.check_schedule_is_unchanged(request.point_dir, planned, seed)
        failure_actions.check_failures_are_possible(client, planned)
    return planned


def check_failures_fit_in_load(
    failures: Sequence[Mapping[str, Any]], offsets: Sequence[float | None], timeout: float
) -> None:
    """Raise InputError for failures that are due when the load is over in any case.

    Args:
        failures: Entries of the setting.
        offsets: When the workloads are created; None in a closed loop, whose end is not known.
        timeout: Seconds after the last workload until the load ends.
    """
    known = [offset for offset in offsets if offset is not None]
    if len(known) < len(offsets):
        return
    end = max(known, default=0.0) + timeout
    for place, failure in enumerate(failures):
        last = max(failure["at"], default=failure["since"])
        if last >= end:
            option = "at" if failure["at"] else "since"
            raise InputError(
                f"failures[{place}] ({failure['kind']}): {option} is {last:g} s, and the load is over after {end:g} s,"
                f" {timeout:g} s (timeout) after its last workload"
            )


def check_pods_are_followed(stages: Sequence[Mapping[str, Any]], kinds: Sequence[str]) -> None:
    """Raise InputError for failures that end pods of a load whose pods are not followed: no recovery would be seen.

    Args:
        stages: Definitions of the kinds that are followed.
        kinds: Kinds of the failures.
    """
    ending = [kind for kind in kinds if kind not in OF_CONTROL_PLANE]
    if ending and "Pod" not in (followed := [str(definition["kind"]) for definition in stages]):
        raise InputError(
            f"failures: {ending[0]} ends pods, but stages follows only {formats.join_with_and(followed)}, so no"
            " recovery would be seen: add Pod, and for a wrapper the kind that it wraps"
        )


def _check_outages(request: LoadSpec, planned: list[PlannedFailure]) -> None:
    """Raise InputError for an API server that is away for longer than requests are repeated, or a lock lasts."""
    away = max((failure.duration for failure in planned if failure.kind == API_AWAY), default=0.0)
    if away > request.retry_time:
        raise InputError(
            f"failures: api_away for {away:g} s, but requests are repeated for {request.retry_time:g} s only: raise"
            " workload_retry_time"
        )
    for path in sorted(request.lock_dir.glob(lock_records.PATTERN)) if request.lock_dir else ():
        lock = lock_records.read_lock_record(path)
        if lock and lock["state"] == lock_records.HELD and away > lock["duration"] * _RENEWED_BEFORE:
            raise InputError(
                f"failures: api_away for {away:g} s, but the lock on {lock['cluster']} would be lost meanwhile: set"
                " cluster_exclusive=true, or a longer cluster_lock_duration"
            )

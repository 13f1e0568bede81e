# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pools of machines that take over a changed configuration, one machine after the other."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats, waiting
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, ProcessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.fields import (
    conditions,
    field_at,
    is_condition_true,
    title,
)

VERSION, KIND = "machineconfiguration.openshift.io/v1", "MachineConfigPool"
#: Seconds between two looks at the pools.
PAUSE = 5.0


def refuse_unable(client: Client) -> None:
    """Raise ProcessError if a pool could not take over a change, InputError on a cluster without pools."""
    for one in _pools(client):
        _refuse_degraded(one)
        if field_at(one, "spec.paused", False):
            raise ProcessError(f"{title(one)} is paused: its machines would not take over a changed configuration")


def wait(client: Client, timeout: float, settle: float, say: waiting.Say) -> None:
    """Wait until every pool has its configuration on all machines, at least ``settle`` seconds.

    Within these seconds the operator makes a new configuration of what was changed; it makes none if nothing of the
    configuration depends on it. timeout: in seconds, after these. Raises ProcessError for a degraded pool, WaitTimeout.
    """
    began = time.monotonic()

    def look() -> tuple[bool | None, str]:
        pools = _pools(client)
        if time.monotonic() - began < settle:
            return None, "waiting for new configurations of the MachineConfigPools"
        for one in pools:
            _refuse_degraded(one)
        late = [_progress(one) for one in pools if not _updated(one)]
        return (None, f"waiting for {formats.format_list(late)}") if late else (True, "")

    limit = settle + timeout
    waiting.wait_until(look, limit, say, lambda text: f"after {limit:g} s still {text}", PAUSE)


def _pools(client: Client) -> list[dict[str, Any]]:
    try:
        return [{**one, "kind": KIND} for one in client.list(client.kind(VERSION, KIND))[0]]
    except InputError as error:
        raise InputError(f"credentials and mirrors can only be added to a cluster of OpenShift: {error}") from error


def _refuse_degraded(pool: Mapping[str, Any]) -> None:
    if is_condition_true(pool, "Degraded"):
        why = conditions(pool)["Degraded"].get("message") or "its condition gives no reason"
        raise ProcessError(f"{title(pool)} is degraded: {why}")


def _updated(pool: Mapping[str, Any]) -> bool:
    """Return whether all machines have the configuration: the condition alone may be that of the last one."""
    wanted, reached = (field_at(pool, f"{part}.configuration.name", "") for part in ("spec", "status"))
    return is_condition_true(pool, "Updated") and wanted == reached


def _progress(pool: Mapping[str, Any]) -> str:
    done, count = (field_at(pool, f"status.{name}", 0) for name in ("updatedMachineCount", "machineCount"))
    why = conditions(pool).get("Updating", {}).get("message") or (
        "it is paused" if field_at(pool, "spec.paused") else ""
    )
    return f"{title(pool)} ({done} of {count} machines updated{f': {why}' if why else ''})"

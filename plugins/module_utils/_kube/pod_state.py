# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a pod waits, or how it ended, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def waits(pod: Mapping[str, Any]) -> str:
    """Return why a pod waits, or how it ended: the message of its container, else of the scheduler.

    An init container that waits or has failed comes first: its pod's containers only say that it is not done.
    """
    status = pod.get("status") or {}
    for one in status.get("initContainerStatuses") or []:
        state = one.get("state") or {}
        ended = state.get("terminated") or {}
        if (state.get("waiting") or {}).get("reason") not in (None, "PodInitializing"):
            return f"init container {one.get('name')}: {_waiting(state['waiting'])}"
        if ended.get("exitCode"):
            return f"init container {one.get('name')}: exit code {ended['exitCode']}, {_joined(ended)}"
    for one in status.get("containerStatuses") or []:
        state = one.get("state") or {}
        if state.get("waiting"):
            return _waiting(state["waiting"])
        if state.get("terminated"):
            ended = state["terminated"]
            return f"exit code {ended.get('exitCode')}, {_joined(ended)}"
    for one in status.get("conditions") or []:
        if one.get("type") == "PodScheduled" and one.get("status") == "False":
            return _joined(one)
    return _joined(status) or str(status.get("phase") or "Pending")


def _waiting(one: Mapping[str, Any]) -> str:
    """Return why a container waits: the same text for an image between two pulls as after a pull that failed."""
    words = _joined(one)
    between, pull, why = words.partition("ErrImagePull: ")
    return pull + why if pull and between.startswith("ImagePullBackOff") else words


def _joined(one: Mapping[str, Any]) -> str:
    return ": ".join(str(one[name]).strip() for name in ("reason", "message") if one.get(name))

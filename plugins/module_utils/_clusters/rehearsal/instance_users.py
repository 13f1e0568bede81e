# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs that use an instance of another run, and which run removes it: the last one whose process lives.

The folder of the instance has a record for each of them, with the process of its ansible-playbook. The record of a
process that has ended does not count. All functions are called with the lock of the instance held.
"""

from __future__ import annotations

from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.processes import ProcessReference

from .instance_dir import InstancePaths

FILE = "users.json"


def record_user(instance: InstancePaths, run: str, pid: int) -> None:
    """Record that ``run``, whose process is ``pid``, uses the instance."""
    _write(instance, {**live_users(instance), run: ProcessReference.of(pid).record()})


def forget_user(instance: InstancePaths, run: str) -> None:
    """Remove the record of ``run``, if there is one."""
    _write(instance, {name: process for name, process in live_users(instance).items() if name != run})


def live_users(instance: InstancePaths) -> dict[str, dict[str, int]]:
    """Return the recorded runs whose process lives, the first to come first; none from a damaged file."""
    try:
        recorded: dict[str, Any] = files.read_json(instance.path / FILE)
        return {run: process for run, process in recorded.items() if ProcessReference(**process).lives()}
    except (DataError, AttributeError, TypeError, ValueError):
        return {}


def _write(instance: InstancePaths, users: dict[str, dict[str, int]]) -> None:
    if users or (instance.path / FILE).exists():
        files.write_json(instance.path / FILE, users)

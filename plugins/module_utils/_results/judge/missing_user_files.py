# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Warn of files of users in pods that were not fetched: those beyond the limit, and those that could not be sent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import point_reader
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point


def warnings(points: Iterable[Point]) -> list[str]:
    """Return a sentence for each test point at which files of users are missing; empty if there is none."""
    found = []
    for point in points:
        why = _why(point_reader.users_of(point.folder, []).get("files") or {})
        if why:
            found.append(f"Files of users are missing at test point {point.number}: {'; '.join(why)}.")
    return found


def _why(files: dict[str, Any]) -> list[str]:
    why = []
    if files.get("left_out"):
        users = formats.count(files["left_out_users"], "user")
        why.append(f"{formats.count(files['left_out'], 'file')} of {users} exceeded the limit ({files['limit']})")
    if files.get("failed_users"):
        users = formats.count(files["failed_users"], "user")
        why.append(f"{users} could not send files ({files['first_error']})")
    return why

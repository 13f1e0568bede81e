# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An object in the events of a point: the workload it belongs to, and what was seen of it so far."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class SeenObject:
    """One object by kind, namespace and name. There are millions of them, hence the slots.

    row: of its workload in the table. stages: one bit for each stage that it has reached. version: its latest
    resourceVersion, 0 before one was seen.
    """

    row: int
    stages: int = 0
    version: int = 0

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rows of a timeline each client of a load sent: workload i is that of client i modulo their number."""

from __future__ import annotations

from .timeline_table import Table


def rows_by_client(table: Table) -> dict[int, list[int]]:
    """Return client -> numbers of its rows, also of clients without any; empty for a load by one client."""
    clients = int(table.header.get("clients") or 0)
    found: dict[int, list[int]] = {client: [] for client in range(clients)}
    for row, index in enumerate(table.index if clients else ()):
        found[index % clients].append(row)
    return found

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads a recorded trace of arrivals.

A trace is a CSV file with a column ``offset`` (seconds), and perhaps ``template`` (without a header, the first column
is used), or JSON lines, each a number or an object with these keys. Other columns and keys are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import parse_json


@dataclass(frozen=True)
class TraceArrival:
    """One arrival: seconds after the start, and the name of its template if the trace has one."""

    offset: float
    template: str = ""


def read_arrival_trace(text: str, where: str) -> list[TraceArrival]:
    """Return the arrivals of a trace by time. Raises InputError naming ``where`` and the line."""
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1)]
    lines = [(number, line) for number, line in lines if line and not line.startswith("#")]
    if not lines:
        raise InputError(f"{where}: it contains no arrivals")
    rows = _parse_json_trace(lines, where) if lines[0][1].startswith("{") else _parse_csv_trace(lines, where)
    # Stable: arrivals at the same time keep their order.
    return sorted(rows, key=lambda row: row.offset)


def _parse_json_trace(lines: list[tuple[int, str]], where: str) -> list[TraceArrival]:
    rows = []
    for number, line in lines:
        try:
            entry = parse_json(line)
        except ValueError as error:
            raise InputError(f"{where}, line {number}: not JSON: {error}") from error
        if not isinstance(entry, dict):
            entry = {"offset": entry}
        if "offset" not in entry:
            raise InputError(f"{where}, line {number}: it has no offset{suggest_similar_name('offset', entry)}")
        rows.append(_parse_trace_arrival(entry["offset"], entry.get("template"), where, number))
    return rows


def _parse_csv_trace(lines: list[tuple[int, str]], where: str) -> list[TraceArrival]:
    import csv

    cells = list(csv.reader(line for _number, line in lines))
    head = [cell.strip() for cell in cells[0]]
    at, named = 0, None
    if not _is_number(head[0]):
        if "offset" not in head:
            raise InputError(
                f"{where}, line {lines[0][0]}: no column has the name offset{suggest_similar_name('offset', head)}"
            )
        at, named = head.index("offset"), head.index("template") if "template" in head else None
        cells, lines = cells[1:], lines[1:]
    rows = []
    for (number, _line), row in zip(lines, cells, strict=True):
        if len(row) <= max(at, named or 0):
            raise InputError(f"{where}, line {number}: it has {len(row)} columns only")
        rows.append(_parse_trace_arrival(row[at], row[named] if named is not None else "", where, number))
    return rows


def _parse_trace_arrival(offset: Any, template: Any, where: str, number: int) -> TraceArrival:
    if isinstance(offset, bool) or not _is_number(offset) or not isfinite(float(offset)) or float(offset) < 0:
        raise InputError(f"{where}, line {number}: offset '{offset}' is not a number of seconds, 0 or more")
    return TraceArrival(float(offset), str(template or "").strip())


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True

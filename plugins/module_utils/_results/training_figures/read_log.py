# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the figures in the log of a training, whatever else the log contains."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from .log_format import LogFormat, first_of

#: Terminal colours and cursor movements (ECMA-48 control sequences).
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_DICTIONARY = re.compile(r"\{[^{}]*\}")
#: nan and inf, which are no Python literals.
_NOT_FINITE = re.compile(r"(?<=[\s:,])(nan|-?inf)(?=\s*[,}])")
#: A line of a table of names and values, and the last line of a table.
_TABLE_LINE = re.compile(r"[│|]\s*(?P<name>[\w./-]+)\s+(?P<value>\S+)\s*[│|]$")
_TABLE_END = re.compile(r"[╰└+][─-]+[╯┘+]$")

#: A line longer than this is a progress bar or a dump; a summary has a few hundred characters.
_LONGEST = 16_384
#: Points of a loss curve that are kept. Between them, regularly chosen points are left out.
CURVE_POINTS = 200


@dataclass
class LogFigures:
    """Figures of one log: ``values`` by name, or ``error``, the reason why there are none.

    loss: (step or epoch, loss) during the training; over: what the first of the two is.
    """

    values: dict[str, float] = field(default_factory=dict)
    error: str | None = None
    loss: list[tuple[float, float]] = field(default_factory=list)
    over: str = ""


def parse(lines: Iterable[str], given: LogFormat) -> LogFigures:
    """Return the figures of one log. Of several summaries, the last one counts; without a summary, the steps.

    Never raises for the content of a log: a log without figures has an ``error``.
    """
    summary: dict[str, float] = {}
    steps: list[dict[str, float]] = []
    losses: dict[str, list[tuple[float, float]]] = {}
    printed: dict[str, float] = {}
    trouble = _Trouble()
    for record in _records(_noting(lines, given, printed), given.records, trouble):
        found = numbers(record)
        named = {given.names.get(name, name): value for name, value in found.items()}
        if any(name in named for name in given.summary):
            summary = named
            continue
        if any(name in found for name in given.steps):
            steps.append(found)
        over = next((one for one in given.over if one in found), None)
        loss = first_of(given.loss, found)
        if over and loss is not None:
            losses.setdefault(over, []).append((found[over], loss))
    over, curve = max(losses.items(), key=lambda one: len(one[1]), default=("", []))
    if summary or steps:
        values = summary or {
            name: value for name, one in given.figures.items() if (value := one.over(steps)) is not None
        }
        return LogFigures({**printed, **values}, loss=_thinned(curve), over=over)
    return LogFigures(error=trouble.text())


def _noting(lines: Iterable[str], given: LogFormat, printed: dict[str, float]) -> Iterator[str]:
    """Yield the lines; put figures that stand alone in one into ``printed``."""
    for raw in lines:
        for name, pattern in given.lines.items():
            if found := pattern.search(raw):
                printed.update(numbers({name: found[1].replace(",", "")}))
        yield raw


@dataclass
class _Trouble:
    """Why a log has no figures, as far as its lines show."""

    line: str = ""
    empty: bool = True

    def see(self, text: str) -> None:
        self.empty = False
        if "Traceback (most recent call last)" in text or "OutOfMemoryError" in text:
            self.line = text

    def text(self) -> str:
        if self.empty:
            return "the log is empty, as those of simulated nodes are"
        return f"the log reports: {self.line[:200]}" if self.line else "no line with training figures"


def _thinned(curve: list[tuple[float, float]]) -> list[tuple[float, float]]:
    stride = math.ceil(len(curve) / CURVE_POINTS)
    return curve[:: stride or 1] + (curve[-1:] if stride > 1 and (len(curve) - 1) % stride else [])


def plain(line: str) -> str:
    """Return a log line without colours and end of line; of a progress bar, only its last state."""
    text = _CONTROL.sub("", line.rstrip("\r\n"))
    text = text.rsplit("\r", 1)[-1].strip()
    return "" if len(text) > _LONGEST else text


def _records(lines: Iterable[str], kinds: tuple[str, ...], trouble: _Trouble) -> Iterator[dict[Any, Any]]:
    table: dict[str, str] = {}
    for raw in lines:
        text = plain(raw)
        if not text:
            continue
        trouble.see(text)
        if "dictionary" in kinds and "{" in text:
            yield from _dictionaries(text)
        if "table" in kinds:
            if row := _TABLE_LINE.search(text):
                table[row["name"]] = row["value"]
            elif table and _TABLE_END.search(text):
                yield table
                table = {}


def _dictionaries(text: str) -> Iterator[dict[Any, Any]]:
    """Yield the dictionaries (Python or JSON) in a line."""
    for found in _DICTIONARY.finditer(text):
        body = found.group()
        for read in (json.loads, _literal):
            try:
                record = read(body)
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                continue
            if isinstance(record, dict):
                yield record
            break


def _literal(body: str) -> Any:
    return ast.literal_eval(_NOT_FINITE.sub("None", body))


def numbers(record: dict[Any, Any]) -> dict[str, float]:
    """Return the finite numbers of a record by name, including numbers as text."""
    found: dict[str, float] = {}
    for name, value in record.items():
        if isinstance(value, bool):
            continue
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            continue
        if math.isfinite(number):
            found[str(name)] = number
    return found

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a training program prints its figures (``log_format`` of a flavour, docs/fine_tuning.md), and reading its log.

A record is a Python or JSON dictionary within a line, or a table of names and values. A *summary* is a record of the
whole training, a *step* one of several. Figures have the names of the Hugging Face Trainer, so that KPIs do not depend
on the program. Units are seconds, bytes, and items per second.
"""

from __future__ import annotations

import ast
import math
import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import parse_json

Record = Mapping[str, float]

#: Statistics over the values of all steps. rate: values per second, if they are durations.
STATISTICS: dict[str, Callable[[Sequence[float]], float]] = {
    "median": statistics.median,
    "mean": statistics.fmean,
    "min": min,
    "max": max,
    "sum": sum,
    "last": lambda values: values[-1],
    "count": lambda values: float(len(values)),
    "rate": lambda values: len(values) / sum(values),
}
RECORDS = ("dictionary", "table")
_FORMULA = re.compile(r"[\w.-]+( [*/] [\w.-]+)*")
_NUMBER = re.compile(r"\d+(\.\d+)?")
_OPTIONAL = ("names", "per_process")
_PARTS = {"summary": ("has", "names", "per_process"), "steps": ("has", "figures"), "loss": ("of", "over")}
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


@dataclass(frozen=True)
class StepFigure:
    """A figure over the steps of a training.

    of: formulas such as ``samples / seconds``, of which the first counts that a step has all names of. without_first:
    leave out the first step, which compiles and fills caches, if there is another.
    """

    of: tuple[str, ...]
    statistic: str
    without_first: bool = False

    def over(self, steps: Sequence[Record]) -> float | None:
        """Return the figure, None if no step has it."""
        chosen = steps[1:] or steps if self.without_first else steps
        values = [value for step in chosen if (value := first_computable_formula_value(self.of, step)) is not None]
        try:
            result = STATISTICS[self.statistic](values) if values else math.nan
        except (ZeroDivisionError, OverflowError):
            return None
        return result if math.isfinite(result) else None


@dataclass(frozen=True)
class LogFormat:
    """The format of a log.

    records: kinds of records. summary: a record with one of these names is a summary; names: other names of its
    figures, and ours; per_process: figures, by our names, that count what one process did. steps: a record with one of
    these names is a step; figures: their figures. loss, over: names of the loss in records during the training, and of
    their position (step or epoch). lines: figures that stand alone in a line, found by the group of a regular
    expression. derived: formulas of further figures. expected: formulas of what a figure must be, by the settings.
    """

    records: tuple[str, ...] = ("dictionary",)
    summary: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    per_process: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    figures: Mapping[str, StepFigure] = field(default_factory=dict)
    loss: tuple[str, ...] = ()
    over: tuple[str, ...] = ()
    lines: Mapping[str, re.Pattern[str]] = field(default_factory=dict)
    derived: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    expected: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, description: Mapping[str, Any]) -> LogFormat:
        """Return the format that ``log_format`` describes. Raises InputError for a wrong description."""
        _check_keys(description, ("records", "summary", "steps", "loss", "lines", "derived", "expected"), "log_format")
        summary, steps, loss = (_read_format_section(description, name, keys) for name, keys in _PARTS.items())
        if not summary and not steps:
            raise InputError("log_format describes neither a summary nor steps")
        for record in description.get("records", ()):
            if record not in RECORDS:
                raise InputError(
                    f"log_format.records: '{record}' is none of"
                    f" {', '.join(RECORDS)}{suggest_similar_name(record, RECORDS)}"
                )
        return cls(
            tuple(description.get("records", cls.records)),
            tuple(summary.get("has", ())),
            dict(summary.get("names", {})),
            tuple(summary.get("per_process", ())),
            tuple(steps.get("has", ())),
            {name: _read_step_figure(name, figure) for name, figure in steps.get("figures", {}).items()},
            tuple(loss.get("of", ())),
            tuple(loss.get("over", ())),
            {name: _compile_line_pattern(name, pattern) for name, pattern in description.get("lines", {}).items()},
            *(
                {
                    name: _check_formulas(f"log_format.{part}.{name}", formulas)
                    for name, formulas in description.get(part, {}).items()
                }
                for part in ("derived", "expected")
            ),
        )

    def expected_of(self, settings: Record) -> dict[str, float]:
        """Return what figures must be, of those whose formula has all its names in ``settings``."""
        return _evaluate_formulas(self.expected, settings)

    def derived_of(self, figures: Record) -> dict[str, float]:
        """Return the derived figures whose formula has all its names in ``figures``."""
        return _evaluate_formulas(self.derived, figures)


def _evaluate_formulas(formulas: Mapping[str, tuple[str, ...]], record: Record) -> dict[str, float]:
    values = {name: first_computable_formula_value(alternatives, record) for name, alternatives in formulas.items()}
    return {name: value for name, value in values.items() if value is not None}


def first_computable_formula_value(formulas: Sequence[str], record: Record) -> float | None:
    """Return the value of the first formula whose names are all in the record; None without one, or beyond numbers."""
    for formula in formulas:
        terms = formula.split(" ")
        values = [record.get(term) if not _NUMBER.fullmatch(term) else float(term) for term in terms[::2]]
        if None in values:
            continue
        result = float(values[0] or 0.0)
        for sign, value in zip(terms[1::2], values[1:], strict=True):
            if sign == "/" and not value:
                return None
            result = result * float(value or 0.0) if sign == "*" else result / float(value or 0.0)
        return result if math.isfinite(result) else None
    return None


def _read_format_section(description: Mapping[str, Any], name: str, keys: Sequence[str]) -> Mapping[str, Any]:
    part = description.get(name) or {}
    _check_keys(part, keys, f"log_format.{name}")
    for key in keys if part else ():
        if key not in _OPTIONAL and not part.get(key):
            raise InputError(f"log_format.{name}: '{key}' is missing")
    return part


def _read_step_figure(name: str, description: Mapping[str, Any]) -> StepFigure:
    where = f"log_format.steps.figures.{name}"
    _check_keys(description, ("of", "statistic", "without_first"), where)
    formulas, statistic = _check_formulas(where, description.get("of", ())), description.get("statistic", "")
    if statistic not in STATISTICS:
        raise InputError(
            f"{where}: statistic '{statistic}' is none of"
            f" {', '.join(STATISTICS)}{suggest_similar_name(statistic, STATISTICS)}"
        )
    if not formulas:
        raise InputError(f"{where}: 'of' is missing")
    return StepFigure(formulas, statistic, bool(description.get("without_first", False)))


def _check_formulas(where: str, formulas: Sequence[str]) -> tuple[str, ...]:
    for formula in formulas:
        if not _FORMULA.fullmatch(formula):
            raise InputError(
                f"{where}: '{formula}' is not a valid formula such as 'samples / seconds': names, ' * ' and ' / '"
            )
    return tuple(formulas)


def _compile_line_pattern(name: str, text: str) -> re.Pattern[str]:
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise InputError(f"log_format.lines.{name}: '{text}' is not a valid regular expression: {error}") from error
    if pattern.groups != 1:
        raise InputError(f"log_format.lines.{name}: '{text}' has {pattern.groups} groups, and one must be the figure")
    return pattern


def _check_keys(description: Any, known: Sequence[str], where: str) -> None:
    if not isinstance(description, Mapping):
        raise InputError(f"{where} is a {type(description).__name__}, and it must be a dictionary")
    for key in description:
        if key not in known:
            raise InputError(
                f"{where}: unknown key '{key}'{suggest_similar_name(key, known)}; known: {', '.join(known)}"
            )


@dataclass
class LogFigures:
    """Figures of one log: ``values`` by name, or ``error``, the reason why there are none.

    loss: (step or epoch, loss) during the training; over: what the first of the two is.
    """

    values: dict[str, float] = field(default_factory=dict)
    error: str | None = None
    loss: list[tuple[float, float]] = field(default_factory=list)
    over: str = ""


def parse_log_figures(lines: Iterable[str], log_format: LogFormat) -> LogFigures:
    """Return the figures of one log. Of several summaries, the last one counts; without a summary, the steps.

    Never raises for the content of a log: a log without figures has an ``error``.
    """
    summary: dict[str, float] = {}
    steps: list[dict[str, float]] = []
    losses: dict[str, list[tuple[float, float]]] = {}
    printed: dict[str, float] = {}
    trouble = _MissingFiguresDiagnosis()
    for record in _parse_log_records(
        _collect_standalone_figures(lines, log_format, printed), log_format.records, trouble
    ):
        figures = finite_numbers_by_name(record)
        named = {log_format.names.get(name, name): value for name, value in figures.items()}
        if any(name in named for name in log_format.summary):
            summary = named
            continue
        if any(name in figures for name in log_format.steps):
            steps.append(figures)
        over = next((position for position in log_format.over if position in figures), None)
        loss = first_computable_formula_value(log_format.loss, figures)
        if over and loss is not None:
            losses.setdefault(over, []).append((figures[over], loss))
    over, curve = max(losses.items(), key=lambda entry: len(entry[1]), default=("", []))
    if summary or steps:
        values = summary or {
            name: value for name, figure in log_format.figures.items() if (value := figure.over(steps)) is not None
        }
        return LogFigures({**printed, **values}, loss=_thin_out_curve(curve), over=over)
    return LogFigures(error=trouble.text())


def _collect_standalone_figures(
    lines: Iterable[str], log_format: LogFormat, printed: dict[str, float]
) -> Iterator[str]:
    """Yield the lines; put figures that stand alone in one into ``printed``."""
    for raw in lines:
        for name, pattern in log_format.lines.items():
            if match := pattern.search(raw):
                printed.update(finite_numbers_by_name({name: match[1].replace(",", "")}))
        yield raw


@dataclass
class _MissingFiguresDiagnosis:
    """Why a log has no figures, as far as its lines show."""

    line: str = ""
    empty: bool = True

    def note_error_line(self, text: str) -> None:
        self.empty = False
        if "Traceback (most recent call last)" in text or "OutOfMemoryError" in text:
            self.line = text

    def text(self) -> str:
        if self.empty:
            return "the log is empty, as those of simulated nodes are"
        return f"the log reports: {self.line[:200]}" if self.line else "no line with training figures"


def _thin_out_curve(curve: list[tuple[float, float]]) -> list[tuple[float, float]]:
    stride = math.ceil(len(curve) / CURVE_POINTS)
    return curve[:: stride or 1] + (curve[-1:] if stride > 1 and (len(curve) - 1) % stride else [])


def clean_log_line(line: str) -> str:
    """Return a log line without colours and end of line; of a progress bar, only its last state."""
    text = _CONTROL.sub("", line.rstrip("\r\n"))
    text = text.rsplit("\r", 1)[-1].strip()
    return "" if len(text) > _LONGEST else text


def _parse_log_records(
    lines: Iterable[str], kinds: tuple[str, ...], trouble: _MissingFiguresDiagnosis
) -> Iterator[dict[Any, Any]]:
    table: dict[str, str] = {}
    for raw in lines:
        text = clean_log_line(raw)
        if not text:
            continue
        trouble.note_error_line(text)
        if "dictionary" in kinds and "{" in text:
            yield from _parse_dictionaries_in_line(text)
        if "table" in kinds:
            if row := _TABLE_LINE.search(text):
                table[row["name"]] = row["value"]
            elif table and _TABLE_END.search(text):
                yield table
                table = {}


def _parse_dictionaries_in_line(text: str) -> Iterator[dict[Any, Any]]:
    """Yield the dictionaries (Python or JSON) in a line."""
    for match in _DICTIONARY.finditer(text):
        body = match.group()
        for read in (parse_json, _parse_python_literal):
            try:
                record = read(body)
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                continue
            if isinstance(record, dict):
                yield record
            break


def _parse_python_literal(body: str) -> Any:
    return ast.literal_eval(_NOT_FINITE.sub("None", body))


def finite_numbers_by_name(record: dict[Any, Any]) -> dict[str, float]:
    """Return the finite numbers of a record by name, including numbers as text."""
    number_by_name: dict[str, float] = {}
    for name, value in record.items():
        if isinstance(value, bool):
            continue
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            continue
        if math.isfinite(number):
            number_by_name[str(name)] = number
    return number_by_name

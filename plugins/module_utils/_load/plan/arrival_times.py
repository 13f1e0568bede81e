# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arrival times: offsets in seconds after the start of the load, all computed beforehand or replayed from a trace.

Drawn offsets are rounded to the microsecond, which hides the last bit of logarithms, which differs between C
libraries. A trace is a CSV file with a column ``offset`` (seconds), and perhaps ``template`` (without a header, the
first column is used), or JSON lines, each a number or an object with these keys. Other columns and keys are ignored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import ceil, isfinite, sqrt
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import parse_json

from .random_draws import GENERATOR, SeededRandom, exponential_variate, gamma_variate, normal_in_unit_interval


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


CONSTANT, CLOSED = "constant", "closed"
#: Most workloads of a load, seconds of a time, and workloads per second: no list is made of more.
MOST_WORKLOADS, LONGEST, FASTEST = 1_000_000, 1e9, 1e6
#: Default rate, workloads per second.
DEFAULT_RATE = 10.0
#: The keys of each type, in addition to ``type``.
TYPE_KEYS: dict[str, tuple[str, ...]] = {
    "constant": ("rate", "timespan"),
    "poisson": ("rate", "timespan"),
    "gamma": ("rate", "timespan", "shape"),
    "uniform": ("rate", "timespan"),
    "normal": ("rate", "timespan", "spread"),
    "bimodal": ("rate", "timespan", "spread", "peaks", "share"),
    "burst": ("rate", "timespan", "size"),
    "steps": ("steps",),
    "ramp": ("rate", "to_rate", "timespan"),
    "trace": ("src", "content", "speed"),
    "closed": ("batch", "delay", "at_once"),
}
#: Types that draw from the seed.
RANDOM_TYPES = frozenset(("poisson", "gamma", "uniform", "normal", "bimodal"))


@dataclass(frozen=True)
class ArrivalTimes:
    """The arrival times of a load. ``header``: for the plan; ``offsets``: each None in a closed loop."""

    header: dict[str, Any]
    offsets: list[float | None]
    templates: list[str] = field(default_factory=list)  # of each workload, if a trace has them

    @property
    def count(self) -> int:
        """Number of workloads."""
        return len(self.offsets)


def are_arrivals_random(params: dict[str, Any]) -> bool:
    """Return whether arrivals of this type are random."""
    return (params.get("type") or CONSTANT) in RANDOM_TYPES


def arrivals_from_options(params: dict[str, Any], count: int, seed: int | None) -> ArrivalTimes:
    """Return the arrivals for option ``arrival``. ``count`` 0: the number of steps, ramp, trace or rate × timespan.

    Raises InputError naming an invalid type, key or value.
    """
    asked = {key: value for key, value in params.items() if value is not None}
    kind = asked.pop("type", None) or CONSTANT
    if kind not in TYPE_KEYS:
        raise InputError(
            f"unknown arrival type '{kind}'{suggest_similar_name(kind, TYPE_KEYS)}; there are {', '.join(TYPE_KEYS)}"
        )
    for key in asked:
        if key not in TYPE_KEYS[kind]:
            wrong = suggest_similar_name(key, TYPE_KEYS[kind])
            raise InputError(
                f"arrival type '{kind}' takes {formats.join_with_and(TYPE_KEYS[kind])}, not '{key}'{wrong}"
            )
    _refuse_too_many(count)
    if kind == CLOSED:
        return ArrivalTimes({"type": CLOSED, **_closed_loop_details(asked)}, [None] * count)
    if kind == "trace":
        return _trace_arrivals(asked, count)
    details, moments = _SHAPES[kind](asked, count)
    header = {"type": kind, **details}
    if kind not in RANDOM_TYPES:
        return ArrivalTimes(header, list(moments(None)))
    if seed is None:
        raise InputError(f"arrival type '{kind}' is random and needs a seed")
    header["generator"] = GENERATOR
    return ArrivalTimes(header, [round(moment, 6) for moment in moments(SeededRandom(seed))])


# Each type returns the header for the plan, and a function from random draws to offsets.

Moments = Callable[[Any], Iterator[float]]
Shape = tuple[dict[str, Any], Moments]


def _constant_rate_arrivals(asked: dict[str, Any], count: int) -> Shape:
    rate, _span, count = _rate_timespan_and_count(CONSTANT, asked, count)
    # Division instead of a running sum, which would accumulate rounding errors.
    return {"rate": rate}, lambda _draw: (index / rate for index in range(count))


def _arrivals_with_random_gaps(
    kind: str, asked: dict[str, Any], count: int, details: dict[str, Any], gap: Callable[[Any], float]
) -> Shape:
    """Independent gaps of mean 1/rate between one workload and the next, and before the first."""
    rate, _span, count = _rate_timespan_and_count(kind, asked, count)

    def moments(draw: Any) -> Iterator[float]:
        now = 0.0
        for _index in range(count):
            now += gap(draw) / rate
            yield now

    return {"rate": rate, **details}, moments


def _poisson_arrivals(asked: dict[str, Any], count: int) -> Shape:
    return _arrivals_with_random_gaps("poisson", asked, count, {}, exponential_variate)


def _gamma_arrivals(asked: dict[str, Any], count: int) -> Shape:
    shape = _check_number_parameter("gamma", "shape", asked.get("shape", 0.5), above=0, most=1e6)
    return _arrivals_with_random_gaps(
        "gamma", asked, count, {"shape": shape}, lambda draw: gamma_variate(draw, shape) / shape
    )


def _arrivals_at_random_positions(
    kind: str, asked: dict[str, Any], count: int, details: dict[str, Any], place: Callable[[Any], float]
) -> Shape:
    """Each workload has an independent position in the timespan (0 to 1)."""
    rate, span, count = _rate_timespan_and_count(kind, asked, count)
    return {"rate": rate, "timespan": span, **details}, lambda draw: iter(
        sorted(place(draw) * span for _index in range(count))
    )


def _uniform_arrivals(asked: dict[str, Any], count: int) -> Shape:
    return _arrivals_at_random_positions("uniform", asked, count, {}, lambda draw: draw())


def _normal_arrivals(asked: dict[str, Any], count: int) -> Shape:
    spread = _check_number_parameter("normal", "spread", asked.get("spread", 1 / 6), above=0, most=1)
    return _arrivals_at_random_positions(
        "normal", asked, count, {"spread": spread}, lambda draw: normal_in_unit_interval(draw, 0.5, spread)
    )


def _bimodal_arrivals(asked: dict[str, Any], count: int) -> Shape:
    spread = _check_number_parameter("bimodal", "spread", asked.get("spread", 1 / 12), above=0, most=1)
    share = _check_number_parameter("bimodal", "share", asked.get("share", 0.5), least=0, most=1)
    peaks = asked.get("peaks", [0.25, 0.75])
    if not isinstance(peaks, list) or len(peaks) != 2:
        raise InputError(f"arrival type 'bimodal': peaks is {peaks}, it must be two places between 0 and 1")
    first, second = (_check_number_parameter("bimodal", "peaks", peak, least=0, most=1) for peak in peaks)

    def place(draw: Any) -> float:
        return normal_in_unit_interval(draw, first if draw() < share else second, spread)

    details = {"spread": spread, "peaks": [first, second], "share": share}
    return _arrivals_at_random_positions("bimodal", asked, count, details, place)


def _burst_arrivals(asked: dict[str, Any], count: int) -> Shape:
    rate, _span, count = _rate_timespan_and_count("burst", asked, count)
    size = int(_check_number_parameter("burst", "size", asked.get("size", 10), least=1, most=MOST_WORKLOADS))
    return {"rate": rate, "size": size}, lambda _draw: (index // size * size / rate for index in range(count))


def _stepped_rate_arrivals(asked: dict[str, Any], count: int) -> Shape:
    steps = asked.get("steps")
    if not isinstance(steps, list) or not steps:
        raise InputError("arrival type 'steps' needs steps, a list of {rate, duration}")
    pace = []
    for number, step in enumerate(steps, 1):
        if not isinstance(step, dict) or set(step) != {"rate", "duration"}:
            raise InputError(f"arrival type 'steps': step {number} is {step}, it must be {{rate, duration}}")
        what = f"step {number}'s"
        pace.append(
            (
                _check_number_parameter("steps", f"{what} rate", step["rate"], least=0, most=FASTEST),
                _check_number_parameter("steps", f"{what} duration", step["duration"], above=0, most=LONGEST),
            )
        )
    count = _check_workload_count("the steps hold", ceil(sum(rate * span for rate, span in pace) - 1e-9), count)

    def moments(_draw: Any) -> Iterator[float]:
        index, before, begin = 0, 0.0, 0.0
        for rate, span in pace:
            while index < count and index < before + rate * span - 1e-9:
                yield begin + (index - before) / rate
                index += 1
            before, begin = before + rate * span, begin + span

    return {"steps": [{"rate": rate, "duration": span} for rate, span in pace]}, moments


def _ramped_rate_arrivals(asked: dict[str, Any], count: int) -> Shape:
    if "to_rate" not in asked:
        raise InputError("arrival type 'ramp' needs to_rate, the rate at its end; rate is the one at its start")
    first = _check_number_parameter("ramp", "rate", asked.get("rate", 0.0), least=0, most=FASTEST)
    last = _check_number_parameter("ramp", "to_rate", asked["to_rate"], least=0, most=FASTEST)
    if not first + last:
        raise InputError("arrival type 'ramp': rate and to_rate are both 0, so nothing would ever be sent")
    if "timespan" in asked:
        span = _check_number_parameter("ramp", "timespan", asked["timespan"], above=0, most=LONGEST)
        count = _check_workload_count("the ramp holds", ceil((first + last) / 2 * span - 1e-9), count)
    else:
        span = _check_number_parameter("ramp", "timespan", 2 * count / (first + last), most=LONGEST)
    growth = (last - first) / span if span else 0.0

    def moments(_draw: Any) -> Iterator[float]:
        for index in range(count):
            # Solution of first·t + growth·t²/2 = index, in the form that is accurate for small growth.
            root = sqrt(max(first * first + 2 * growth * index, 0.0))
            yield 2 * index / (first + root) if index else 0.0

    return {"rate": first, "to_rate": last, "timespan": span}, moments


_SHAPES: dict[str, Callable[[dict[str, Any], int], Shape]] = {
    "constant": _constant_rate_arrivals,
    "poisson": _poisson_arrivals,
    "gamma": _gamma_arrivals,
    "uniform": _uniform_arrivals,
    "normal": _normal_arrivals,
    "bimodal": _bimodal_arrivals,
    "burst": _burst_arrivals,
    "steps": _stepped_rate_arrivals,
    "ramp": _ramped_rate_arrivals,
}


def _trace_arrivals(asked: dict[str, Any], count: int) -> ArrivalTimes:
    text = asked.get("content")
    if not text:
        raise InputError("arrival type 'trace' needs src, a file of offsets (CSV or JSON lines)")
    speed = _check_number_parameter("trace", "speed", asked.get("speed", 1.0), above=0, most=FASTEST)
    rows = read_arrival_trace(str(text), str(asked.get("src") or "trace"))
    count = _check_workload_count("the trace holds", len(rows), count)
    _check_number_parameter("trace", "offset / speed", rows[count - 1].offset / speed, most=LONGEST)
    chosen = rows[:count]
    header = {
        "type": "trace",
        "rows": len(rows),
        "speed": speed,
        "sha256": hashlib.sha256(str(text).encode()).hexdigest(),
    }
    named = [arrival.template for arrival in chosen]
    return ArrivalTimes(header, [arrival.offset / speed for arrival in chosen], named if any(named) else [])


def _closed_loop_details(asked: dict[str, Any]) -> dict[str, Any]:
    details: dict[str, Any] = {}
    for key in ("batch", "at_once"):
        if asked.get(key):
            details[key] = int(_check_number_parameter(CLOSED, key, asked[key], least=1, most=MOST_WORKLOADS))
    if asked.get("delay"):
        if "batch" not in details:
            raise InputError("arrival type 'closed': delay is the pause between two batches and requires batch")
        details["delay"] = _check_number_parameter(CLOSED, "delay", asked["delay"], least=0, most=LONGEST)
    return details


def _rate_timespan_and_count(kind: str, asked: dict[str, Any], count: int) -> tuple[float, float, int]:
    """Return rate, timespan and count; two of them determine the third."""
    rate, span = asked.get("rate"), asked.get("timespan")
    if rate is not None:
        rate = _check_number_parameter(kind, "rate", rate, most=FASTEST)
        if rate <= 0:
            raise InputError(
                f"arrival rate {asked['rate']} must be above 0 (workloads per second); for as fast as possible use type"
                f" {CLOSED}"
            )
    if span is not None:
        span = _check_number_parameter(kind, "timespan", span, above=0, most=LONGEST)
    if rate is not None and span is not None:
        held = _refuse_too_many(round(rate * span), f"rate {rate:g} over timespan {span:g} s gives ")
        if count not in (0, held):
            raise InputError(
                f"arrival: rate {rate:g} over timespan {span:g} s gives {held} workloads, count is {count}; "
                f"give count 0, or only one of rate and timespan"
            )
        return rate, span, held
    if span is not None:
        return (count / span if count else DEFAULT_RATE), span, count
    rate = DEFAULT_RATE if rate is None else rate
    return rate, _check_number_parameter(kind, "count / rate", count / rate, most=LONGEST), count


def _check_workload_count(what: str, held: int, count: int) -> int:
    if count > held:
        raise InputError(f"arrival: {what} {held} workloads, count is {count}; give count 0 for all of them")
    return _refuse_too_many(count or held, "" if count else f"{what} ")


def _refuse_too_many(count: int, what: str = "") -> int:
    """Raise InputError for more workloads than a load may have, before anything is made of their number."""
    if count > MOST_WORKLOADS:
        raise InputError(f"arrival: {what}{count:,} workloads, and {MOST_WORKLOADS:,} are the most of one load")
    return count


def _check_number_parameter(
    kind: str, key: str, value: Any, least: float | None = None, above: float | None = None, most: float | None = None
) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"arrival type '{kind}': {key} '{str(value)[:60]}' is not a number") from error
    if not isfinite(number):
        raise InputError(f"arrival type '{kind}': {key} is {value}, it must be finite")
    for bound, wrong, word in (
        (least, least is not None and number < least, "or more"),
        (above, above is not None and number <= above, "exceeded"),
        (most, most is not None and number > most, "or less"),
    ):
        if wrong:
            wanted = f"more than {bound:g}" if word == "exceeded" else f"{bound:g} {word}"
            raise InputError(f"arrival type '{kind}': {key} is {value}, it must be {wanted}")
    return number

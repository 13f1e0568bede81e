# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a report leads with: the headline figures of a run, and one sentence, its answer.

The answer comes from the figure that setting results_answer names, else from the one whose definition has an ``answer``
(docs/kpis.md). Of several such figures with a value, those that apply to the most points come first, and of these the
last one; a project's definitions come after the common ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point

from ..kpi import kpi_definitions
from ..statistics.setting_effects import ObservedPoint, estimate_setting_effects_over_seeds, setting_values_as_text

Kpi = Mapping[str, Any]
#: With values at more test points than this, a headline figure names only the lowest and the highest.
MOST_VALUES = 3
#: The same for the answer.
MOST_NAMED = 4
#: Maximum length of a label; the number of the point replaces a longer one.
LONGEST = 40
_OF_POINT = ("value", "at_least", "interval", "confidence", "n", "of", "note")


def headline_figures(points: Sequence[Point]) -> list[dict[str, Any]]:
    """Return the headline figures: one entry per KPI, with its value at each point and one text for all.

    The figure that provides the answer comes first.
    """
    entries: dict[str, dict[str, Any]] = {}
    for point in points:
        for kpi in point.kpis or []:
            if kpi.get("headline"):
                entry = entries.setdefault(
                    kpi["name"],
                    {
                        "name": kpi["name"],
                        "title": kpi.get("title", kpi["name"]),
                        **{key: kpi[key] for key in ("unit", "direction", "help")},
                        "simulated": False,
                        "points": [],
                    },
                )
                entry["simulated"] = entry["simulated"] or kpi["simulated"]
                entry["points"].append({"point": point.number, **{key: kpi.get(key) for key in _OF_POINT}})
    first = next((kpi["name"] for kpi in _answer_figures_by_point(points).values()), "")
    return sorted(
        ({**entry, **_figure_line_fields(entry)} for entry in entries.values()),
        key=lambda entry: entry["name"] != first,
    )


def _figure_line_fields(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of one line: n of N, text, detail, and value: a number, or text where points differ."""
    rows, unit = entry["points"], entry["unit"]
    n, of = (sum(row[key] for row in rows) for key in ("n", "of"))
    known = [row for row in rows if row["value"] is not None]
    several = f" in {len(rows)} test points" if len(rows) > 1 else ""
    if unit in ("workloads", "requests") and len(known) == len(rows):
        total = sum(row["value"] for row in rows)
        text = f"{formats.format_number(total)} of {formats.format_number(of)}"
        return {"n": n, "of": of, "value": total, "text": text, "detail": several.strip()}
    noted = next((row for row in rows if row["note"]), None)
    note = noted["note"] if noted else ""
    bound = kpi_lower_bound_text({**noted, "unit": unit}) if noted else ""
    detail = f"{n:,} of {of:,}{several}"
    if not known:
        remark = note.removeprefix(f"≥ {bound}: ") if bound else note
        return {"n": n, "of": of, "value": None, "text": f"≥ {bound}" if bound else "–", "detail": remark or detail}
    texts = [(_figure_text({**row, "unit": unit}), row) for row in known]
    # Points are named, so that their values are not mistaken for an interval.
    same = len(known) == len(rows) and len({text for text, _row in texts}) == 1
    text = texts[0][0] if same else _summarize_point_texts(texts)
    return {
        "n": n,
        "of": of,
        "value": known[0]["value"] if same else text,
        "text": text,
        "detail": detail + (f"; {note}" if bound else ""),
    }


def _summarize_point_texts(texts: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """Return the values of several points as text: all, or the lowest and the highest of many."""
    if len(texts) <= MOST_VALUES:
        return ", ".join(f"{text} ({row['point']})" for text, row in texts)
    low, high = (pick(texts, key=lambda pair: pair[1]["value"]) for pick in (min, max))
    return f"lowest {low[0]} ({low[1]['point']}), highest {high[0]} ({high[1]['point']})"


def upper_bound_of_unresolved_duration(kpi: Kpi) -> str:
    """Return the upper bound of a duration that its measurement does not tell from none, as text; empty for others."""
    low, high = kpi.get("interval") or (None, None)
    if kpi["value"] is None or kpi["unit"] != "s" or low is None or high is None or not low <= 0 < high:
        return ""
    return formats.format_with_unit(high, kpi["unit"])


def _figure_text(kpi: Kpi) -> str:
    bound = upper_bound_of_unresolved_duration(kpi)
    return f"≤ {bound}" if bound else formats.format_with_unit(kpi["value"], kpi["unit"])


def kpi_lower_bound_text(kpi: Kpi) -> str:
    """Return the lower bound of a figure without a value, as text; empty if there is none."""
    bound = kpi.get("at_least")
    return "" if kpi["value"] is not None or bound is None else formats.format_with_unit(bound, kpi["unit"])


def run_answer_sentence(points: Sequence[Point], labels: Mapping[str, str]) -> list[str]:
    """Return the sentence that answers the question of a run, none if no figure provides one.

    Args:
        points: The points of the run.
        labels: Point number -> matrix values as text.
    """
    kpis = _answer_figures_by_point(points)
    if not kpis:
        return []
    labels = {number: text if len(text) <= LONGEST else f"point {number}" for number, text in labels.items()}
    if len(points) == 1:
        sentence = _single_point_answer(next(iter(kpis.values())))
    else:
        sentence = _paired_answer(points, kpis) or _several_points_answer(kpis, labels)
    return [sentence + (" (SIMULATED)" if any(kpi["simulated"] for kpi in kpis.values()) else "")]


def _answer_figures_by_point(points: Sequence[Point]) -> dict[str, Kpi]:
    """Return the figure that provides the answer, by point number."""
    by_name: dict[str, dict[str, Kpi]] = {}
    named = {(point.all_settings or {}).get(kpi_definitions.NAMED_ANSWER) for point in points}
    for point in points:
        for kpi in point.kpis or []:
            if kpi.get("answer"):
                by_name.setdefault(kpi["name"], {})[point.number] = kpi
    # Points may be of kinds of workloads that have other figures.
    last_first = reversed(by_name.items())
    for _name, kpis in sorted(last_first, key=lambda item: (item[0] in named, len(item[1])), reverse=True):
        if not any(_kpi_value_text(kpi) for kpi in kpis.values()):
            continue
        if not any(kpi["simulated"] and kpi["answer"].get("only_real") for kpi in kpis.values()):
            return kpis
    return {}


def _kpi_value_text(kpi: Kpi) -> str:
    if most := upper_bound_of_unresolved_duration(kpi):
        return f"at most {most}"
    if missed := _lowest_rate_that_missed(kpi):
        return f"less than {missed}"
    if kpi["value"] is not None:
        return formats.format_with_unit(kpi["value"], kpi["unit"])
    bound = kpi_lower_bound_text(kpi)
    return f"at least {bound}" if bound else ""


def _lowest_rate_that_missed(kpi: Kpi) -> str:
    """Return the lowest rate of a load that looked for a capacity, as text, if even it missed the objective."""
    rate = (kpi.get("labels") or {}).get(kpi_definitions.MISSED_AT)
    return "" if rate is None or kpi["value"] is not None else formats.format_with_unit(rate, kpi["unit"])


def _single_point_answer(kpi: Kpi) -> str:
    texts = kpi["answer"]
    if "missed" in texts and (missed := _lowest_rate_that_missed(kpi)):
        return str(texts["missed"]).replace("{value}", missed)
    stepped = "curve" in kpi.get("labels", {})
    single = kpi["of"] == 1 and not stepped
    text, bound_text = (texts.get("one"), texts.get("one_bound")) if single else (None, None)
    bound_text = bound_text or texts.get("bound")
    if kpi["value"] is None and bound_text:
        counts = str(bound_text).replace("{n}", f"{kpi['n']:,}").replace("{of}", f"{kpi['of']:,}")
        return counts.replace("{value}", kpi_lower_bound_text(kpi))
    counted = "steps" if stepped else kpi.get("labels", {}).get("rows", "workloads")
    rest = f" ({kpi['n']:,} of {kpi['of']:,} {counted})" if kpi["n"] < kpi["of"] and not single else ""
    return str(text or texts["text"]).replace("{value}", _kpi_value_text(kpi)) + rest


def _several_points_answer(kpis: Mapping[str, Kpi], labels: Mapping[str, str]) -> str:
    first = next(iter(kpis.values()))
    title = first.get("title") or first["name"]
    known = [(number, kpi) for number, kpi in kpis.items() if kpi["value"] is not None]
    if len(kpis) > MOST_NAMED and known:
        ends = (pick(known, key=lambda pair: pair[1]["value"]) for pick in (min, max))
        low, high = (
            f"{_kpi_value_text(kpi)} ({_display_name(kpi, labels[number]) or labels[number]})" for number, kpi in ends
        )
        return f"{title}: lowest {low}, highest {high}, of {len(kpis)} test points"
    if len(known) == len(kpis) == 2:  # the better value first, then the difference
        higher = first["direction"] == "higher"
        ordered = sorted(known, key=lambda pair: pair[1]["value"], reverse=higher)
        parts = [_named_value(kpi, labels[number]) for number, kpi in ordered]
        parts.append(_absolute_difference_text(known[1][1], known[0][1]))
    else:
        parts = [_named_value(kpi, labels[number], _difference_from_first(kpi, kpis)) for number, kpi in kpis.items()]
    return f"{title}: {', '.join(parts)}"


def _end_of_text(value: str) -> str:
    """Return a value, or the end of a long one: of two checkouts, the ends of the paths differ."""
    return value if len(value) <= LONGEST else f"…{value[-LONGEST:]}"


def _paired_answer(points: Sequence[Point], kpis: Mapping[str, Kpi]) -> str:
    """Return what the only setting that varies beside a seed changed, over the pairs of points with the same seed."""
    observed = [
        ObservedPoint(setting_values_as_text(point.settings), [kpis[point.number]["value"]])
        for point in points
        if point.number in kpis and kpis[point.number]["value"] is not None
    ]
    effects = estimate_setting_effects_over_seeds(observed)
    if len(effects) != 1 or len(observed) < len(points) or effects[0][1]:
        return ""
    effect, kpi = effects[0][0], next(iter(kpis.values()))
    base, other = (_end_of_text(str(value)) for value in (effect.base, effect.value))
    title, unit = kpi.get("title") or kpi["name"], unit_of_absolute_difference(kpi)
    for name, value in ((base, effect.base), (other, effect.value)):
        if changed := components_in_several_versions(points, {effect.setting: value}):
            ran = "; ".join(f"{component} {' and '.join(versions)}" for component, versions in changed.items())
            return f"{title}: {base} and {other} are not compared, because the points of {name} ran {ran}"
    mean = sum(point.observations[0] for point in observed) / len(observed)
    about = f"95 %, {effect.pairs} pairs; mean {formats.format_with_unit(mean, kpi['unit'])}"
    if effect.low <= 0 <= effect.high:
        interval = formats.format_interval_words(effect.low, effect.high, unit)
        return f"{title}: no clear difference between {base} and {other}: {interval} ({about})"
    low, high = sorted((abs(effect.low), abs(effect.high)))
    more = "more" if effect.change > 0 else "less"
    interval = formats.format_interval_words(low, high, unit)
    return f"{title}: {interval} {more} with {other} than with {base} ({about})"


def components_in_several_versions(points: Sequence[Point], values: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return component -> versions, if it ran in several at the points with these values of settings as text.

    A checkout may be edited, and its branch may move, while a run goes on: then these points measured different things.
    """
    versions: dict[str, dict[str, None]] = {}
    for point in points:
        settings = setting_values_as_text(point.settings)
        if all(settings.get(name) == value for name, value in values.items()):
            for component, version in (point.ran.get("operators") or {}).items():
                versions.setdefault(component, {})[version] = None
    return {component: list(known) for component, known in versions.items() if len(known) > 1}


def _absolute_difference_text(kpi: Kpi, first: Kpi) -> str:
    """Return the absolute difference from the first point, as an interval where known."""
    value, unit = kpi["value"] - first["value"], unit_of_absolute_difference(kpi)
    if not value:
        return "no difference"
    interval = (kpi.get("difference") or {}).get("confidence")
    if not interval or interval["low"] is None or interval["high"] is None:
        return f"difference {formats.format_with_unit(abs(value), unit)}"
    low, high = interval["low"], interval["high"]
    if low <= 0 <= high:
        return f"no clear difference: {formats.format_interval_words(low, high, unit)} at 95 %"
    low, high = sorted((abs(low), abs(high)))
    return f"difference {formats.format_interval_words(low, high, unit)}"


def unit_of_absolute_difference(kpi: Kpi) -> str:
    """Return the unit of a difference: that between 10 % and 20 % is no 10 %."""
    return "percentage points" if kpi["unit"] == "%" else str(kpi["unit"])


def _difference_from_first(kpi: Kpi, kpis: Mapping[str, Kpi]) -> str:
    """Return the difference from the first point; empty if unknown."""
    first = kpis.get((kpi.get("difference") or {}).get("point", ""))
    if first is None or first["value"] is None or kpi["value"] is None:
        return ""
    text = _absolute_difference_text(kpi, first)
    if text.startswith("no "):
        return text
    more = "more" if kpi["value"] > first["value"] else "less"
    return f"{text.removeprefix('difference ')} {more}"


def _named_value(kpi: Kpi, label: str, difference: str = "") -> str:
    """Return the value after the name of its point, or before its matrix values if it has no name."""
    name, value = _display_name(kpi, label), _kpi_value_text(kpi) or "unknown"
    behind = "; ".join(part for part in ("" if name else label, difference) if part)
    return f"{f'{name} ' if name else ''}{value}{f' ({behind})' if behind else ''}"


def _display_name(kpi: Kpi, label: str) -> str:
    """Return the display name that the definition gives to the matrix values or to the only one, empty without one."""
    names = kpi["answer"].get("names") or {}
    return str(names.get(label) or names.get(label.partition(" = ")[2], ""))

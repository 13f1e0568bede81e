# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The words ``repeat`` and ``bisect``: read them, and check them before a run begins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import (
    bisection_plan,
    choose_next_point,
    judge_run,
    kpi_limits,
    repeat_until_decided,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi import kpi_definitions

from . import matrix_points, verdict_setting_checks
from .resolve_settings import EffectiveSettings
from .settings_layers import RequestedSettings

HISTORY = "results_history"


def bisect_keyword_of_playbook(params: Mapping[str, Any] | None, goes_on: bool) -> dict[str, Any]:
    """Return the word ``bisect`` by its name, from the variables of its playbook; None is for any other playbook.

    goes_on: whether a run is continued, which may leave them out. Raises InputError for values that are no list.
    """
    word = bisection_from_playbook_variables(params or {})
    return {} if params is None or (goes_on and not word) else {"bisect": word or {"over": ""}}


def bisection_from_playbook_variables(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the word ``bisect`` from the variables of its playbook, without those that are not set.

    ``-e values=[1,2]`` and ``-e values=1,2`` are texts. Raises InputError for one that is no list.
    """
    options = {key: value for key, value in params.items() if value not in (None, "", [])}
    values = options.get("values")
    if isinstance(values, str):
        text = values.strip()
        try:
            options["values"] = yaml.safe_load(text if text.startswith("[") else f"[{text}]")
        except yaml.YAMLError as error:
            raise InputError(f"values: '{values}' is not a list; write -e values=1,2,4") from error
    return options


def bisect_keyword_of_request(request: RequestedSettings) -> dict[str, Any]:
    """Return the word ``bisect`` of the earlier sessions of a run."""
    return next(
        (dict(layer.values["bisect"]) for layer in request.layers_of_kind("extra") if "bisect" in layer.values), {}
    )


def check_schedule_keywords(project: str, effective: EffectiveSettings, roles: Mapping[str, Path]) -> None:
    """Raise InputError for a wrong word. roles: their folders by name."""
    repeat, bisect = (
        repeat_until_decided.parse_repeat_keyword(effective.repeat),
        bisection_plan.parse_bisect_keyword(effective.bisect),
    )
    if repeat and bisect:
        raise InputError("repeat and bisect exclude each other: a bisection decides itself how often it measures")
    if most_attempts(effective) > matrix_points.MOST_POINTS and repeat:
        points = formats.format_count(len(effective.points), "point")
        raise InputError(
            f"repeat: {points} with max {repeat.most} are more than {matrix_points.MOST_POINTS} attempts; lower max"
        )
    if repeat and not _has_decidable_figures(effective):
        raise InputError("repeat: until decided needs results_limits or results_history; neither is set")
    if bisect:
        known = set(_kpi_names_of_points(project, effective, roles))
        is_defined = any(kpi_limits.do_patterns_overlap(kpi, bisect.kpi) for kpi in known)
        if not is_defined and verdict_setting_checks.KPI_FILES not in effective.late:
            raise InputError(f"kpi: '{bisect.kpi}' is not defined{suggest_similar_name(bisect.kpi, known)}")


def most_attempts(effective: EffectiveSettings) -> int:
    """Return how many attempts a run makes at most without ``redo``."""
    repeat, bisect = (
        repeat_until_decided.parse_repeat_keyword(effective.repeat),
        bisection_plan.parse_bisect_keyword(effective.bisect),
    )
    if bisect:
        return max(bisect.most, len(effective.points))
    return len(effective.points) * (repeat.most if repeat else 1)


def most_point_loop_rounds(directory: Path | None, effective: EffectiveSettings) -> int:
    """Return how many rounds the loop over the points needs at most: one each, and one that ends it."""
    attempts = choose_next_point.read_attempts(directory) if directory else ()
    known = len({point.name for point in effective.points} | {attempt.name for attempt in attempts})
    return max(known, most_attempts(effective)) + 1


def describe_most_attempts(effective: EffectiveSettings) -> str:
    """Return how many attempts a run makes at most, and in what time; empty without one of the words."""
    repeat, bisect = (
        repeat_until_decided.parse_repeat_keyword(effective.repeat),
        bisection_plan.parse_bisect_keyword(effective.bisect),
    )
    word = repeat or bisect
    if word is None:
        return ""
    within = "" if word.budget is None else f", and begins none after {formats.format_duration(word.budget)} (budget)"
    if repeat:
        whole = f", {most_attempts(effective)} in all" if len(effective.points) > 1 else ""
        attempts = formats.format_count(repeat.most, "attempt")
        return f"repeat makes {repeat.least} to {attempts} at each point{whole}{within}"
    return f"bisect makes at most {formats.format_count(word.most, 'run')}{within}"


def _has_decidable_figures(effective: EffectiveSettings) -> bool:
    """Return whether each point has a figure to decide: a limit other than the default one, or history."""
    return all(
        name in effective.late or set(point.settings.get(name) or ()) - {judge_run.FAILED}
        for point in effective.points
        for name in [kpi_limits.SETTING if not point.settings.get(HISTORY) else HISTORY]
    )


def _kpi_names_of_points(project: str, effective: EffectiveSettings, roles: Mapping[str, Path]) -> Iterator[str]:
    paths = dict.fromkeys(
        path for point in effective.points for path in verdict_setting_checks.kpi_files(project, point.settings, roles)
    )
    for definition in kpi_definitions.load_kpi_definitions(list(paths)):
        yield from kpi_limits.kpi_names_of_definition(definition)

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of the settings of the verdict and of its comparison with past runs, before a run begins."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import (
    explain_failures,
    history_settings,
    kpi_limits,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi import kpi_definitions, write_kpis

from .resolve_settings import EffectiveSettings
from .settings_layers import RequestedSettings

KPI_FILES, JUDGED, PREFIX = "results_kpi_files", "results_judged", "results_"
SIGNATURE_FILES = "results_signature_files"
MAX_ERRORS = "results_max_errors"
#: Settings of the comparison with history.
HISTORY = tuple(f"{PREFIX}{name}" for name in history_settings.COMPARISON)

#: Settings with which a message may begin. The origin of a limit is in its message.
NAMED = (kpi_definitions.NAMED_ANSWER, JUDGED, MAX_ERRORS, *HISTORY)


def check_verdict_settings(request: RequestedSettings, effective: EffectiveSettings, roles: Mapping[str, Path]) -> None:
    """Raise InputError for a wrong setting of the verdict at any point of the matrix. roles: their folders by name."""
    given_names = {str(change.path[0]) for change in effective.resolved.changes} - set(effective.late)
    given_names |= {name.partition(".")[0] for name in effective.matrix}
    if SIGNATURE_FILES in given_names:
        ours = str(roles["results"] / "files" / "signatures.yml")
        for paths in {tuple(map(str, point.settings[SIGNATURE_FILES] or ())) for point in effective.points}:
            explain_failures.load_failure_signatures([ours, *paths])
    if not given_names & {kpi_limits.SETTING, *NAMED} or KPI_FILES in effective.late:
        return
    for point in effective.points:
        definitions = write_kpis.load_and_check_kpi_definitions(kpi_files(request.project, point.settings, roles))
        if kpi_limits.SETTING in given_names:
            kpi_limits.parse_kpi_limits(
                point.settings.get(kpi_limits.SETTING) or {}, definitions, dict(_origins_of_limits(request, effective))
            )
        if MAX_ERRORS in given_names and not 0.0 <= point.settings[MAX_ERRORS] <= 1.0:
            share = point.settings[MAX_ERRORS]
            text = f"{MAX_ERRORS} is {share}, and it must be a share from 0 to 1, such as 0.01 for 1 %"
            raise InputError(text, setting=MAX_ERRORS)
        if kpi_definitions.NAMED_ANSWER in given_names:
            _check_answer(str(point.settings[kpi_definitions.NAMED_ANSWER]), definitions)
        _check_history(point.settings, given_names, definitions)


def kpi_files(project: str, settings: Mapping[str, Any], roles: Mapping[str, Path]) -> list[str]:
    """Return files and folders of KPI definitions of a point, in the order in which role results reads them.

    settings: of the point. roles: their folders by name.
    """
    folders = [roles[project] / "files"] if project in roles else []
    paths = [str(folder) for folder in folders if (folder / kpi_definitions.IN_FOLDER).is_file()]
    workload, failures, recovery = (
        str(roles["results"] / "files" / "kpis" / f"{name}.yml") for name in ("workload", "failures", "recovery")
    )
    return [workload, failures, *paths, recovery, *map(str, settings.get(KPI_FILES) or ())]


def _check_answer(name: str, definitions: list[dict[str, Any]]) -> None:
    known = [known for definition in definitions for known in kpi_limits.kpi_names_of_definition(definition)]
    if name and ("*" in name or not any(kpi_limits.do_patterns_overlap(name, pattern) for pattern in known)):
        near = suggest_similar_name(name, known)
        raise InputError(
            f"{kpi_definitions.NAMED_ANSWER}: KPI '{name}' is not defined{near}", setting=kpi_definitions.NAMED_ANSWER
        )


def _check_history(settings: Mapping[str, Any], given_names: set[str], definitions: list[dict[str, Any]]) -> None:
    chosen = history_settings.comparison_settings_from_params(
        {name.removeprefix(PREFIX): settings[name] for name in HISTORY if name in given_names}
    )
    judged = settings[JUDGED] if JUDGED in given_names else ()
    least = settings["results_least"] if "results_least" in given_names else None
    history_settings.check_named_kpis_are_defined(judged, least, definitions, chosen.acknowledged)


def _origins_of_limits(request: RequestedSettings, effective: EffectiveSettings) -> Iterator[tuple[str, str]]:
    """Yield the KPI of each limit with its origin; a later one replaces an earlier one."""
    for change in effective.resolved.changes:
        if change.path[0] != kpi_limits.SETTING:
            continue
        where = request.where(change.source, change.key)
        origin = f"{change.source}, {where}" if where and not where.startswith("<") else change.source
        names = [change.path[1]] if len(change.path) > 1 else list(change.value)
        yield from ((str(name), origin) for name in names)


HISTORY_SOURCES = "results_history"
HISTORY_PATTERNS = ("results_compare_on", "results_ignore")


def check_history_settings(effective: EffectiveSettings, set_by: Callable[[str], str]) -> None:
    """Raise InputError for a wrong setting at any point of the matrix. set_by: setting -> its source in brackets."""
    for point in effective.points:
        values = {name: value for name, value in point.settings.items() if name not in effective.late}
        for name in (HISTORY_SOURCES, *HISTORY_PATTERNS):
            if name not in values:
                continue
            try:
                if name == HISTORY_SOURCES:
                    later = [str(values.get("run_artifacts_dir") or "")]
                    history_settings.check_history_sources_exist(
                        values[name] or (), values.get("export_opensearch_url") or "", later
                    )
                else:
                    history_settings.check_label_patterns(name, values[name] or (), point.settings)
            except InputError as error:
                raise InputError(f"{error}{set_by(name)}") from error

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of a comparison with past runs: where these are, which of them count, and how KPIs are compared.

They are settings of role results and options of the modules that compare; they are checked before anything is begun.

One of them acknowledges known regressions: it lets a run pass with a regression that somebody works on, and with no
other. It names the first run, or the version, that has the regression. The runs since then show how large it is: a run
that is worse than they are is a regression again. On the day after its last one it has no effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module, formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    InputError,
    suggest_nearest_file,
    suggest_similar_name,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.schemas.point_schemas import NODES
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.schemas.result_schemas import LABELS
from ansible_collections.perfscale.seatrial.plugins.module_utils._http import s3
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.opensearch_connection import OpenSearchServer
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.s3 import S3Location

from ..kpi.point_labels import flatten_labels
from . import comparable_points, kpi_limits
from .collect_history import OPENSEARCH, S3, USED, HistoryRequest
from .comparable_points import LabelRules
from .past_run_data import KpiSeries, RunValue

SETTING = "results_acknowledged"
_KEYS = ("kpi", "since", "until", "ticket")


@dataclass(frozen=True)
class Acknowledgement:
    """A known regression. kpi: name or pattern. since: the first run, or version, that has it. until: the last day."""

    kpi: str
    since: str
    until: date
    ticket: str

    def applies(self, series: KpiSeries, today: date) -> bool:
        """Return whether it is of this KPI, its first run or version is compared, and it has not ended."""
        return self._covers(series, today) and (self.since in series.labels or any(map(self._is_first, series.new)))

    def first_in_history(self, series: KpiSeries, today: date) -> int | None:
        """Return the place of its first run among the old runs, None if it is not there or does not apply."""
        if not self._covers(series, today):
            return None
        return next((place for place, run in enumerate(series.old) if self._is_first(run)), None)

    def known_runs(self, series: KpiSeries) -> tuple[RunValue, ...]:
        """Return the runs before the last one that have the regression, oldest first."""
        earlier = series.new[:-1]
        if self.since in series.labels:
            return earlier
        first = next((place for place, run in enumerate(series.new) if self._is_first(run)), len(series.new))
        return earlier[first:]

    def text(self) -> str:
        """Return the sentence that leads the reason: "known regression (TICKET-1), acknowledged until 2026-12-31"."""
        return f"known regression ({self.ticket}), acknowledged until {self.until}"

    def _covers(self, series: KpiSeries, today: date) -> bool:
        return today <= self.until and kpi_limits.do_patterns_overlap(self.kpi, series.name)

    def _is_first(self, run: RunValue) -> bool:
        return self.since in (run.run, run.run.partition("/")[0])


def today_utc() -> date:
    """Return the day that acknowledgements are compared with."""
    return datetime.now(UTC).date()


def parse_acknowledgements(setting: Any) -> tuple[Acknowledgement, ...]:
    """Return the acknowledgements of setting results_acknowledged. Raises InputError for any other form."""
    entries = setting or []
    if not isinstance(entries, list | tuple):
        raise InputError(f"{SETTING} is {setting!r}, and it must be a list of known regressions", setting=SETTING)
    return tuple(_parse_entry(entry, f"{SETTING}[{place}]") for place, entry in enumerate(entries))


def _parse_entry(entry: Any, where: str) -> Acknowledgement:
    if isinstance(entry, Acknowledgement):
        return entry
    if not isinstance(entry, dict):
        raise InputError(f"{where} is {entry!r}, and it must have the keys {', '.join(_KEYS)}", setting=SETTING)
    for key in entry:
        if key not in _KEYS:
            near = suggest_similar_name(key, _KEYS)
            raise InputError(f"{where}: unknown key '{key}'{near}; it has {', '.join(_KEYS)}", setting=SETTING)
    texts = {key: str(entry.get(key) or "").strip() for key in _KEYS}
    for key, text in texts.items():
        if not text:
            raise InputError(f"{where}: '{key}' is missing; it has {', '.join(_KEYS)}", setting=SETTING)
    try:
        until = date.fromisoformat(texts["until"][:10]) if len(texts["until"]) >= len("2026-12-31") else None
    except ValueError:
        until = None
    if until is None:
        raise InputError(f"{where}: until '{texts['until']}' is no day, such as 2026-12-31", setting=SETTING)
    return Acknowledgement(texts["kpi"], texts["since"], until, texts["ticket"])


def find_acknowledgement(
    series: KpiSeries, acknowledged: Sequence[Acknowledgement], today: date
) -> Acknowledgement | None:
    """Return the first acknowledgement that applies to a KPI, None without one."""
    return next((known for known in acknowledged if known.applies(series, today)), None)


def move_regressed_runs_to_new(series: KpiSeries, acknowledged: Sequence[Acknowledgement], today: date) -> KpiSeries:
    """Return the series with the past runs that have a known regression among the new ones.

    So each later night is still compared with the runs before the regression, and covered by its acknowledgement.
    """
    for known in acknowledged:
        first = None if series.repeated else known.first_in_history(series, today)
        if first is not None:
            return replace(series, old=series.old[:first], new=(*series.old[first:], *series.new))
    return series


CORRECTIONS = ("holm", "fdr", "none")
LEAST_DIFFERENCE = 0.05
#: Keywords in results_judged that stand for groups of KPIs.
HEADLINE, ALL = "headline", "all"
#: Comparable runs that can be used at most.
MOST_USED = 200
#: Parts of the label ``ran`` whose names are those of operators, images and products.
_FREE = ("ran.operators", "ran.images", "ran.nodes.gpu_products")
#: Setting -> a condition that its value must meet, and its text.
_RANGES = {
    "level": (lambda value: 0.0 < value <= 0.5, "a probability above 0 and at most 0.5"),
    "power": (lambda value: 0.0 < value < 1.0, "a probability between 0 and 1"),
    "minimum_segment": (lambda value: value >= 2, "at least 2 runs, because a single outlier would be a change"),
    "seed": (lambda value: value >= 0, "0 or more"),
}


@dataclass(frozen=True)
class HistorySettings:
    """Settings results_<name>; docs/settings.md describes them. least: a share, or KPI pattern -> share."""

    level: float = 0.01
    least: float | Mapping[str, float] = LEAST_DIFFERENCE
    power: float = 0.8
    correction: str = CORRECTIONS[0]
    minimum_segment: int = 3
    seed: int = 1
    acknowledged: tuple[Acknowledgement, ...] = ()

    def least_of(self, kpi: str) -> float:
        """Return the smallest difference of a KPI that matters, as a share: by its name, else by the first pattern."""
        if not isinstance(self.least, Mapping):
            return self.least
        patterns = [pattern for pattern in self.least if kpi_limits.do_patterns_overlap(pattern, kpi)]
        return self.least[kpi if kpi in patterns else patterns[0]] if patterns else LEAST_DIFFERENCE


_NAMES: dict[str, Any] = {"type": "list", "elements": "str", "default": []}
_TEXT: dict[str, Any] = {"type": "str", "default": ""}
_SECRET: dict[str, Any] = {**_TEXT, "no_log": True}
#: Names of the settings of the comparison, without the prefix.
COMPARISON = tuple(setting.name for setting in fields(HistorySettings))
#: Argument spec of the modules that compare with past runs (doc fragments _history and _history.judging).
OPTIONS: dict[str, Any] = {
    "history": _NAMES,
    "history_runs": {"type": "int", "default": USED},
    "compare_on": _NAMES,
    "ignore": _NAMES,
    "history_s3": {"type": "dict", "options": ansible_module.S3_SERVER},
    "history_opensearch": {
        "type": "dict",
        "options": {
            "url": _TEXT,
            "index_prefix": {"type": "str", "default": "seatrial"},
            "user": _TEXT,
            "password": _SECRET,
            "token": _SECRET,
        },
    },
    **ansible_module.CA_FILE,
    "judged": {"type": "list", "elements": "str", "default": [HEADLINE]},
    "level": {"type": "float", "default": HistorySettings.level},
    "least": {"type": "raw", "default": LEAST_DIFFERENCE},
    "power": {"type": "float", "default": HistorySettings.power},
    "correction": {"choices": list(CORRECTIONS), "default": HistorySettings.correction},
    "minimum_segment": {"type": "int", "default": HistorySettings.minimum_segment},
    "seed": {"type": "int", "default": HistorySettings.seed},
    "acknowledged": {"type": "list", "elements": "dict", "default": []},
}


def history_request_from_params(params: Mapping[str, Any]) -> HistoryRequest:
    """Return what the options of a module ask for. An unusable address is reported when it is read."""
    authority = params["ca_file"] or ""
    server = params["history_s3"] or {}
    location = S3Location(
        "",
        "",
        server.get("endpoint", ""),
        server.get("region", ""),
        authority,
        server.get("access_key", ""),
        server.get("secret_key", ""),
    )
    opensearch, why = None, HistoryRequest.without_opensearch
    search = params["history_opensearch"] or {}
    if search.get("url"):
        parts = (search["url"], search["index_prefix"], search["user"], search["password"], search["token"])
        try:
            opensearch = OpenSearchServer(*parts, authority)
        except InputError as error:
            why = str(error)
    rules = LabelRules(tuple(params["compare_on"]), tuple(params["ignore"]))
    return HistoryRequest(tuple(params["history"]), params["history_runs"], rules, location, opensearch, why)


def comparison_settings_from_params(params: Mapping[str, Any]) -> HistorySettings:
    """Return how KPIs are compared, from settings of role results without the prefix ``results_``; others are ignored.

    Raises InputError for a value out of range.
    """
    params = {name: params[name] for name in COMPARISON if name in params}
    for name, (is_allowed, text) in _RANGES.items():
        if name in params and not is_allowed(params[name]):
            raise InputError(f"results_{name} is {params[name]}, and it must be {text}", setting=f"results_{name}")
    least = params.get("least", LEAST_DIFFERENCE)
    if isinstance(least, Mapping):
        shares: Any = {
            str(name): _parse_baseline_share(value, f"results_least: {name}") for name, value in least.items()
        }
    else:
        shares = _parse_baseline_share(least, "results_least")
    known = parse_acknowledgements(params.get("acknowledged"))
    return HistorySettings(**{**params, "least": shares, "acknowledged": known})


def _parse_baseline_share(value: Any, where: str) -> float:
    try:
        share = formats.parse_number_with_unit(value, "")
    except InputError as error:
        text = f"{where}: {error}; it is a share of the baseline, such as 0.05 for 5 %"
        raise InputError(text, setting="results_least") from error
    if not 0.0 <= share < 1.0:
        text = f"{where} is {value}, and it must be a share of at least 0 and below 1, such as 0.05 for 5 %"
        raise InputError(text, setting="results_least")
    return share


def check_named_kpis_are_defined(
    judged: Iterable[str],
    least: Any,
    definitions: Iterable[Mapping[str, Any]],
    acknowledged: Iterable[Acknowledgement] = (),
) -> None:
    """Raise InputError for a KPI in results_judged, _least or _acknowledged that no definition yields."""
    names = list(
        dict.fromkeys(name for definition in definitions for name in kpi_limits.kpi_names_of_definition(definition))
    )
    keywords = [HEADLINE, ALL]
    of_least = least if isinstance(least, Mapping) else ()
    for setting, patterns in (
        ("results_judged", judged),
        ("results_least", of_least),
        (SETTING, [known.kpi for known in acknowledged]),
    ):
        for pattern in map(str, patterns):
            if pattern in keywords and setting == "results_judged":
                continue
            if not any(kpi_limits.do_patterns_overlap(pattern, name) for name in names):
                near = suggest_similar_name(pattern, [*names, *keywords])
                raise InputError(f"{setting}: KPI '{pattern}' is not defined{near}", setting=setting)


def check_history_sources_exist(sources: Iterable[str], opensearch_url: str, made_later: Sequence[str] = ()) -> None:
    """Raise InputError for a source that cannot exist.

    made_later: folders that the run creates, which may lie in a source that does not exist yet.
    """
    for source in sources:
        if source.startswith(S3):
            s3.parse_s3_url(source)
        elif source == OPENSEARCH:
            if not opensearch_url:
                raise InputError("results_history: 'opensearch' is named, but export_opensearch_url is empty")
            OpenSearchServer(opensearch_url)
        elif "://" in source:
            raise InputError(f"results_history: '{source}' is neither a folder, s3://bucket/prefix nor opensearch")
        else:
            _check_folder(Path(source), made_later)


def _check_folder(folder: Path, made_later: Iterable[str]) -> None:
    if folder.is_dir() or any(Path(later).is_relative_to(folder) for later in made_later if later):
        return
    if folder.exists():
        raise InputError(
            f"results_history: {folder} is not a folder; name the folder that contains the run directories"
        )
    raise InputError(f"results_history: folder {folder} does not exist{suggest_nearest_file(folder)}")


def check_number_of_past_runs(number: int) -> None:
    """Raise InputError for a number of past runs out of range."""
    if not 1 <= number <= MOST_USED:
        raise InputError(f"results_history_runs is {number}; it must be from 1 to {MOST_USED}")


def check_label_patterns(
    setting: str, patterns: Iterable[str], settings: Mapping[str, Any], what: str = "this run"
) -> None:
    """Raise InputError for a pattern that can match no label. settings: of a point. what: the runs, in messages."""
    known = [*flatten_labels({"settings": settings}), *_label_names()]
    for pattern in comparable_points.unmatched_label_patterns(patterns, known):
        if not any(f"{pattern}.".startswith(f"{free}.") for free in _FREE):
            near = suggest_similar_name(pattern, [comparable_points.label_display_name(name) for name in known])
            raise InputError(f"{setting}: '{pattern}' matches no label of {what}{near}")


def _label_names() -> list[str]:
    """Return the names of the labels beside the settings."""
    ran = [f"ran.{name}" for name in LABELS["properties"]["ran"]["properties"]]
    nodes = [f"ran.nodes.{name}" for name in NODES["properties"]]
    return ["project", "presets", "selection", "uuid", *ran, *nodes]

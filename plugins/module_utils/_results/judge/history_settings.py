# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of a comparison with past runs: where these are, which of them count, and how KPIs are compared.

They are settings of role results and options of the modules that compare; they are checked before anything is begun.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
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
from . import acknowledged_regressions, comparable_points, kpi_limits
from .acknowledged_regressions import Acknowledgement
from .collect_history import OPENSEARCH, S3, USED, HistoryRequest
from .comparable_points import LabelRules

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


def request_from_params(params: Mapping[str, Any]) -> HistoryRequest:
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


def settings_from_params(params: Mapping[str, Any]) -> HistorySettings:
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
    known = acknowledged_regressions.parse_acknowledgements(params.get("acknowledged"))
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
        (acknowledged_regressions.SETTING, [known.kpi for known in acknowledged]),
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
            near = suggest_similar_name(pattern, [comparable_points.display_name(name) for name in known])
            raise InputError(f"{setting}: '{pattern}' matches no label of {what}{near}")


def _label_names() -> list[str]:
    """Return the names of the labels beside the settings."""
    ran = [f"ran.{name}" for name in LABELS["properties"]["ran"]["properties"]]
    nodes = [f"ran.nodes.{name}" for name in NODES["properties"]]
    return ["project", "presets", "selection", "uuid", *ran, *nodes]

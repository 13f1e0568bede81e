# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of a history, checked before anything is begun: sources, number of runs, patterns of labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, nearest, nearest_file
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.schemas.point_schemas import NODES
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.schemas.result_schemas import LABELS
from ansible_collections.perfscale.seatrial.plugins.module_utils._http import s3
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.opensearch import OpenSearchServer

from ..kpi.labels import flat
from . import matching

#: The source that stands for the index of the settings export_opensearch_*.
OPENSEARCH = "opensearch"
S3 = "s3://"
#: Comparable runs that are used at most, by default and ever.
USED, MOST_USED = 50, 200
#: Parts of the label ``ran`` whose names are those of operators, images and products.
_FREE = ("ran.operators", "ran.images", "ran.nodes.gpu_products")


def check_sources(sources: Iterable[str], opensearch_url: str, made_later: Sequence[str] = ()) -> None:
    """Raise InputError for a source that cannot exist.

    made_later: folders that the run creates, which may lie in a source that does not exist yet.
    """
    for source in sources:
        if source.startswith(S3):
            s3.split(source)
        elif source == OPENSEARCH:
            if not opensearch_url:
                raise InputError("results_history: 'opensearch' is named, but export_opensearch_url is empty")
            OpenSearchServer(opensearch_url)
        elif "://" in source:
            raise InputError(f"results_history: '{source}' is neither a folder, s3://bucket/prefix nor opensearch")
        else:
            _check_folder(Path(source), made_later)


def _check_folder(folder: Path, made_later: Iterable[str]) -> None:
    if folder.is_dir() or any(Path(one).is_relative_to(folder) for one in made_later if one):
        return
    if folder.exists():
        raise InputError(f"results_history: {folder} is no folder; name the folder that contains the run directories")
    raise InputError(f"results_history: folder {folder} does not exist{nearest_file(folder)}")


def check_runs(number: int) -> None:
    """Raise InputError for a number of past runs out of range."""
    if not 1 <= number <= MOST_USED:
        raise InputError(f"results_history_runs is {number}; it must be from 1 to {MOST_USED}")


def check_patterns(setting: str, patterns: Iterable[str], settings: Mapping[str, Any], what: str = "this run") -> None:
    """Raise InputError for a pattern that can match no label. settings: of a point. what: the runs, in messages."""
    known = [*flat({"settings": settings}), *_names()]
    for pattern in matching.unmatched(patterns, known):
        if not any(f"{pattern}.".startswith(f"{free}.") for free in _FREE):
            shown = [matching.shown(name) for name in known]
            raise InputError(f"{setting}: '{pattern}' matches no label of {what}{nearest(pattern, shown)}")


def _names() -> list[str]:
    """Return the names of the labels beside the settings."""
    ran = [f"ran.{name}" for name in LABELS["properties"]["ran"]["properties"]]
    nodes = [f"ran.nodes.{name}" for name in NODES["properties"]]
    return ["project", "presets", "selection", "uuid", *ran, *nodes]

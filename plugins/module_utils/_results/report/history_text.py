# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sentences below the picture of a figure's history: how it is judged and why. From kpis of verdict.json."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats

Kpi = Mapping[str, Any]

#: Largest number of pictures.
MOST_HISTORIES = 9
#: Readings that need no explanation.
_PLAIN = ("pass", "not judged", "not enough history")


def histories_to_draw(kpis: Iterable[Kpi], headline: str) -> list[Kpi]:
    """Return the figures to explain: regressions first, then that of the headline, then what else is not a plain pass.

    Only figures with past values are drawn. headline: name of the first headline figure, empty for none.
    """
    drawn = [one for one in kpis if _has_past(one) and (one["name"] == headline or not _is_plain(one))]
    return sorted(drawn, key=lambda one: (not _is_worse(one), one["name"] != headline))[:MOST_HISTORIES]


def _has_past(kpi: Kpi) -> bool:
    return any(one["group"] == "old" and one["value"] is not None for one in kpi.get("series") or ())


def _is_worse(kpi: Kpi) -> bool:
    return kpi["reading"] == "regression" or (kpi.get("limit") or {}).get("result") == "outside"


def _is_plain(kpi: Kpi) -> bool:
    limit = (kpi.get("limit") or {}).get("result", "within")
    return kpi["reading"] in _PLAIN and limit == "within"


def history_sentences(kpi: Kpi) -> str:
    """Return the reading and its reason, then the changes in the past and the limit, as sentences."""
    why = kpi["why"].rstrip(".").removeprefix(f"{kpi['reading']}: ")
    found = [f"{formats.capitalized(kpi['reading'])}: {why}."]
    for one in kpi.get("change_points") or ():
        before, after = (formats.value(one[key], kpi["unit"]) for key in ("before", "after"))
        found.append(f"It changed at run {one['run']}, from {before} to {after}.")
    limit = kpi.get("limit")
    if limit:
        found.append(f"{formats.capitalized(limit['text'].rstrip('.'))}.")
    return " ".join(found)

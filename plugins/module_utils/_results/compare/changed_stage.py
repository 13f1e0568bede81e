# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Name the stage that changed most between two groups of runs, by the attribution of the mean time of a workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats

from ..report.figure_texts import stage_name


def changed(pairs: Sequence[Mapping[str, Any]], group: str, point: str) -> dict[str, Any] | None:
    """Return the stage with the largest part in the difference of the mean times; None without a difference.

    pairs: of the same point in the first run and in each run of a group, as in schema comparison/2. group: its letter.
    """
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for pair in pairs:
        for one in pair["stages"]:
            rows.setdefault(str(one["name"]), []).append(one)
    count = sum(1 for pair in pairs if pair["stages"])
    means = {
        name: tuple(sum(one[end] for one in found) / count for end in ("before", "after"))
        for name, found in rows.items()
    }
    total = sum(after - before for before, after in means.values())
    if not total:
        return None
    sign = 1.0 if total > 0 else -1.0
    name = max(means, key=lambda one: sign * (means[one][1] - means[one][0]))
    before, after = means[name]
    stage = {
        "group": group,
        "point": point,
        "stage": name,
        "writer": rows[name][0]["writer"],
        "before": before,
        "after": after,
        "share": (after - before) / total,
    }
    return {**stage, "text": _text(stage, total)}


def _text(stage: Mapping[str, Any], total: float) -> str:
    difference = stage["after"] - stage["before"]
    percent = f" ({100 * difference / stage['before']:+.0f} %)" if stage["before"] > 0 else ""
    whole = f"The mean time of a workload is {formats.seconds(abs(total))} {'longer' if total > 0 else 'shorter'}."
    ends = " to ".join(formats.seconds(stage[end]) for end in ("before", "after"))
    return f"{whole} Stage {stage_name(stage['stage'])} changed most, from {ends}{percent}."

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Group the runs of a comparison: A, B and so on, each with runs of the same configuration."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats

from ..judge import matching
from ..judge.matching import LabelRules
from ..kpi.labels import FlatLabels, flat, recorded_labels
from . import run_side
from .run_side import RunSide

#: Labels of a group that are named.
_NAMED = 3


@dataclass(frozen=True)
class RunGroup:
    """Runs of the same configuration. what: what distinguishes it from the first group; empty for the first."""

    letter: str
    sides: tuple[RunSide, ...]
    what: str = ""


def grouped(sides: Sequence[RunSide], rules: LabelRules) -> list[RunGroup]:
    """Return the groups in the order of their first runs, and label the runs: A, or A1 and A2.

    Runs with the same labels are a group. If all have the same labels, the first half of them is A, the rest B.
    """
    by_labels: dict[str, list[RunSide]] = {}
    for side in sides:
        by_labels.setdefault(json.dumps(_labels(side, rules), sort_keys=True), []).append(side)
    found = list(by_labels.values())
    if len(found) == 1 and len(sides) > 1:
        found = [list(sides[: len(sides) // 2]), list(sides[len(sides) // 2 :])]
    groups = []
    for place, members in enumerate(found):
        letter = run_side.letter(place)
        for number, side in enumerate(members, 1):
            side.label = f"{letter}{number if len(members) > 1 else ''} ({side.run.id})"
        groups.append(RunGroup(letter, tuple(members), _what(found[0][0], members[0], rules) if place else ""))
    return groups


def _labels(side: RunSide, rules: LabelRules) -> list[FlatLabels]:
    """Return the labels of each point by which runs are grouped, without repetitions."""
    found = [flat(recorded_labels(side.run, point)) for point in side.run.points]
    kept = [{**matching.compared(one, rules), **matching.marked(one, rules)} for one in found]
    return [one for place, one in enumerate(kept) if one not in kept[:place]]


def _what(first: RunSide, other: RunSide, rules: LabelRules) -> str:
    """Return the labels in which two groups differ: "ran.openshift 4.19.4 instead of 4.19.3"."""
    ours, theirs = ({key: one[key] for one in _labels(side, rules) for key in one} for side in (first, other))
    names = matching.differing(ours, theirs)
    texts = [f"{matching.shown(one)} {theirs.get(one, 'none')} instead of {ours.get(one, 'none')}" for one in names]
    return formats.listed(texts, _NAMED)

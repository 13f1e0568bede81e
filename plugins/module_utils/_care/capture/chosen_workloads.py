# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choosing the workloads whose objects are kept: those that failed or did not end, first and last of the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.fields import conditions
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.kinds import stage_definitions
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.kinds.stage_definitions import KindStages

#: Objects kept of each outcome.
MOST = 20
FAILED, UNFINISHED, SUCCEEDED = "failed", "unfinished", "succeeded"


def kinds_of_point(folder: Path) -> list[KindStages]:
    """Return the kinds of a point's workloads with their stages; empty if its load has not begun.

    Raises DataError, InputError for a damaged file.
    """
    plan, observations = folder / "plan.jsonl", folder / "observations.jsonl"
    if not plan.exists() or not observations.exists():
        return []
    headers = list(islice(files.read_lines(plan), 1))
    names = {one["kind"] for header in headers for one in header.get("templates") or ()}
    lines = islice(files.read_lines(observations), 10)
    definitions: dict[str, dict[str, Any]] = next((one["kinds"] for one in lines if one.get("type") == "stages"), {})
    kinds = stage_definitions.compile_kinds(list(definitions.values()))
    return [one for one in kinds if one.kind in names]


def outcome(one: dict[str, Any], kind: KindStages) -> str:
    """Return how a workload ended, by the stages of its kind that end one."""
    values = kind.values(one, conditions(one))
    ended = {end for number, end in kind.ends.items() if values[number]}
    return FAILED if FAILED in ended else SUCCEEDED if SUCCEEDED in ended else UNFINISHED


class ChosenWorkloads:
    """Keeps what matters of any number of objects: at most MOST of each bad outcome, and two of the good one."""

    def __init__(self, kind: KindStages) -> None:
        self.kind = kind
        self.counts: dict[str, int] = {}
        self._bad: dict[str, list[Mapping[str, Any]]] = {FAILED: [], UNFINISHED: []}
        self._ends: list[Mapping[str, Any]] = []

    def add(self, objects: Iterable[dict[str, Any]]) -> None:
        """Look at further objects."""
        for one in objects:
            how = outcome(one, self.kind)
            self.counts[how] = self.counts.get(how, 0) + 1
            if how != SUCCEEDED:
                if len(self._bad[how]) < MOST:
                    self._bad[how].append(one)
            else:
                ordered = sorted([*self._ends, one], key=_order)
                self._ends = [ordered[0], ordered[-1]] if len(ordered) > 1 else ordered

    @property
    def kept(self) -> list[Mapping[str, Any]]:
        """The objects that are kept, the failed ones first."""
        return [*self._bad[FAILED], *self._bad[UNFINISHED], *self._ends]


def _order(one: Mapping[str, Any]) -> tuple[str, str]:
    meta = one["metadata"]
    return str(meta.get("creationTimestamp") or ""), str(meta["name"])

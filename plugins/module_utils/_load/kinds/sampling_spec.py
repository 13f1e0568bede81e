# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parameters of the sampler, importable without the sampler, whose import takes time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name

from .stage_definitions import KindStages


@dataclass(frozen=True)
class ExternalWorkloadSelection:
    """The workloads of a load that others submit: objects of the first kind that match both selectors.

    namespaces: empty for all. existing: whether the objects that were there before count, too.
    """

    namespaces: tuple[str, ...] = ()
    labels: str = ""
    fields: str = ""
    existing: bool = False


@dataclass(frozen=True)
class SamplingSpec:
    """Parameters of the sampler. ``own``: kinds of the workloads. ``canary_rate``: writes per second, 0 for none.

    completions: report which workloads are complete, and since when.
    reports: a stage of the workloads' own kind; report which of them reach it, and which ended. Empty for none.
    selection: of a load that others submit; None for ours, whose objects have our labels.
    client: the client whose workloads are sampled, None if there is only one.
    """

    run: str
    point: str
    path: Path  # observations.jsonl
    namespace: str  # empty: all
    canary_namespace: str
    kinds: tuple[KindStages, ...]
    own: frozenset[str]
    simulated_writers: tuple[str, ...]
    canary_rate: float
    completions: bool = False
    reports: str = ""
    selection: ExternalWorkloadSelection | None = None
    client: int | None = None

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces to watch; an empty name for all."""
        return (self.selection.namespaces or ("",)) if self.selection is not None else (self.namespace,)


class NoSampler:
    """Replaces SamplerProcess for a load without sampling."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {}
        self.completed: list[tuple[int, float]] = []
        self.reached: list[tuple[int, str]] = []
        self.watching = True

    def poll(self, timeout: float) -> bool:
        """Wait."""
        time.sleep(timeout)
        return False

    def finish(self) -> None:
        """Do nothing."""


def check_kinds_have_end_stage(own: Sequence[str], kinds: Sequence[KindStages]) -> None:
    """Check that the definition of each kind of workload has a stage that ends it. Raises InputError."""
    known = {kind.kind: kind for kind in kinds}
    for kind in own:
        if kind not in known:
            raise InputError(
                f"stages has no definition of {kind}{suggest_similar_name(kind, known)}, which is needed to detect the"
                " end of a workload: add one to the stages of the load (setting workload_stages; workload_scale_stages"
                " of workload_scale), or set wait to false"
            )
        if not known[kind].ends:
            raise InputError(f"stage definition of {kind}: none of its stages has 'ends', so waiting would never end")

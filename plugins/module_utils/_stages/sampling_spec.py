# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What to sample, for those who have it sampled: without the sampler itself, which takes time to import."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError, nearest
from ansible_collections.perfscale.seatrial.plugins.module_utils._stages.stage_definitions import KindStages


@dataclass(frozen=True)
class SamplingSpec:
    """What to sample. ``own``: kinds of the workloads themselves. ``canary_rate``: writes a second, 0 for none."""

    run: str
    point: str
    path: Path  # observations.jsonl
    namespace: str  # empty: all
    canary_namespace: str
    kinds: tuple[KindStages, ...]
    own: frozenset[str]
    simulated_writers: tuple[str, ...]
    canary_rate: float


class NoSampler:
    """In the place of a Child where nothing is sampled."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {}
        self.watching = True

    def poll(self, timeout: float) -> bool:
        """Wait."""
        time.sleep(timeout)
        return False

    def finish(self) -> None:
        """Do nothing."""


def definitions_for(own: Sequence[str], kinds: Sequence[KindStages]) -> None:
    """Check that each kind of workload has a definition with a stage that ends it. Raises InputError."""
    known = {one.kind: one for one in kinds}
    for kind in own:
        if kind not in known:
            raise InputError(
                f"stages have no definition of {kind}{nearest(kind, known)}, so it can't be told when a workload has "
                f"ended: give one, or don't wait"
            )
        if not known[kind].ends:
            raise InputError(f"stage definition of {kind}: none of its stages has 'ends', so waiting would never end")

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""KPI functions of MultiKueue: what the loss of a worker cluster costs the workloads that were dispatched to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats

from ..timeline.pod_lifetimes import NEVER, Span, midpoint_of_span
from .censored_quantiles import DurationSample, parse_quantile
from .failure_functions import failures_of_point
from .point_data import KpiValue, PointData, kpi_function

#: In this order: Kueue takes the workload away, another worker cluster has it, all of its pods are ready there.
STAGES = ("evicted", "dispatched", "pods_ready")


@kpi_function
def moved(data: PointData, stage: str = "dispatched", quantile: Any = "p50") -> KpiValue:
    """A quantile of the seconds from the loss of a worker cluster until ``stage`` of the workloads taken from it.

    stage: evicted, dispatched (to another worker) or pods_ready (there). Any eviction after a loss counts, because
    Kueue does not say which worker it concerns. Kaplan-Meier.
    """
    if stage not in STAGES:
        raise formats.unknown_value_error("stage", stage, STAGES)
    failures = failures_of_point(data)
    lives = data.extras.lives() if data.extras.lives else None
    if failures is None or lives is None or not failures.workers_away:
        return KpiValue(None, 0, 0, note="no worker cluster was away", inapplicable=True)
    moves = find_moves(failures.workers_away, lives.conditions)
    if not moves:
        return KpiValue(
            None, 0, 0, note="Kueue took no workload away from a lost worker cluster", writers=("controller",)
        )
    np = data.np
    begin = np.array([lost for lost, _reached in moves]).reshape(-1, 2)
    until = np.array([reached[stage] for _lost, reached in moves]).reshape(-1, 2)
    middle = (until[:, 0] + until[:, 1] - begin[:, 0] - begin[:, 1]) / 2
    waited = np.maximum(failures.end - begin[:, 1], 0.0)
    sample = DurationSample(middle, until[:, 0] - begin[:, 1], until[:, 1] - begin[:, 0], waited, np.isnan(middle))
    estimate = sample.quantile(parse_quantile(quantile))
    return KpiValue.of_estimate(estimate, labels={"quantile": str(quantile)}, writers=("controller",))


def find_moves(
    losses: Sequence[Span], conditions: dict[str, list[tuple[int, Span]]]
) -> list[tuple[Span, dict[str, Span]]]:
    """Return for the first eviction of each workload after each loss of a worker that loss, and the stages after it.

    conditions: name -> (index of the workload, when), in order.
    """
    ordered = sorted(losses)
    moves: list[tuple[Span, dict[str, Span]]] = []
    for index in sorted({index for index, _span in conditions["evicted"]}):
        for lost, following in zip(ordered, [*ordered[1:], NEVER], strict=True):
            reached: dict[str, Span] = {}
            after = midpoint_of_span(lost)
            for stage in STAGES:
                reached[stage] = _first_after((span for other, span in conditions[stage] if other == index), after)
                after = midpoint_of_span(reached[stage], inf)
            if midpoint_of_span(reached["evicted"], inf) < midpoint_of_span(following, inf):
                moves.append((lost, reached))
    return moves


def _first_after(spans: Iterable[Span], moment: float) -> Span:
    return next((span for span in spans if midpoint_of_span(span) > moment), NEVER)

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What attempts mean for a bisection and a repetition, and the words of their decisions."""

from __future__ import annotations

from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import bisection, repeat_until_decided
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.bisection_plan import BisectionPlan
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.choose_next_point import (
    PlannedPoint,
    PointAttempt,
    ScheduleFinished,
    ScheduleState,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.repeat_until_decided import (
    RepetitionPlan,
)

PLAN = BisectionPlan("count", (1, 2), "latency_p95")


def attempts(*status: str) -> tuple[PointAttempt, ...]:
    """Attempts at two points in turn."""
    return tuple(
        PointAttempt(f"{number % 2 + 1:03d}", number // 2 + 1, {"status": one, "started": f"{number:03d}"})
        for number, one in enumerate(status)
    )


def bisected(*status: str) -> tuple[Any, dict[str, Any]]:
    """Return the decision by these attempts, and the document; attempts at point 002 are slower."""
    noted: list[dict[str, Any]] = []
    choose = bisection.make_next_value_chooser(
        PLAN, lambda name: (2.0 if name.startswith("002") else 1.0, None), 0.0, noted.append
    )
    return choose(ScheduleState(attempts(*status))), noted[-1]


def test_a_failed_attempt_is_no_measurement_though_it_may_have_a_figure() -> None:
    _found, document = bisected("passed", "failed", "passed")
    assert [one["figure"] for one in document["measurements"]] == [1.0, None, 1.0]
    found, document = bisected("passed", "failed", "passed", "failed")
    assert isinstance(found, ScheduleFinished)
    assert document["verdict"] == "invalid"


def test_names_of_figures_keep_their_first_letter() -> None:
    _found, document = bisected(*["passed"] * 12)
    assert document["why"].startswith("The step of latency_p95 is between count = 1 and 2: ")
    kpi = {"name": "latency_p95", "point": "001", "reading": "not judged", "why": "", "value": 1.0}
    limit = {"result": "across", "text": "It may be within or outside."}
    choose = repeat_until_decided.create_attempt_chooser(RepetitionPlan(), [{**kpi, "limit": limit}], 0.0)
    found = choose(ScheduleState(attempts("passed", "passed", "passed", "passed")))
    assert isinstance(found, PlannedPoint)
    assert found.why == "After 2 attempts latency_p95 is not decided: It may be within or outside."

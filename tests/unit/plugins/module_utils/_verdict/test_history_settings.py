"""Settings of the comparison with history."""

from __future__ import annotations

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._verdict.history_settings import HistorySettings

PATTERNS = {"time_*": 0.1, "time_to_running_p95": 0.02, "*": 0.2}


@pytest.mark.parametrize(
    ("least", "kpi", "share"),
    [
        (0.03, "makespan", 0.03),
        (PATTERNS, "time_to_running_p95", 0.02),
        (PATTERNS, "time_to_running_p50", 0.1),
        (PATTERNS, "makespan", 0.2),
        ({"time_*": 0.1}, "makespan", 0.05),
    ],
)
def test_the_least_difference_is_that_of_the_name_before_the_first_pattern(least, kpi: str, share: float) -> None:
    assert HistorySettings(least=least).least_of(kpi) == share

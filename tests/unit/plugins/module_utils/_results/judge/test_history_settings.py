"""Settings of the comparison with history."""

from __future__ import annotations

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import history_settings
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.history_settings import HistorySettings

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


def test_the_options_of_the_module_become_settings_and_text_a_number() -> None:
    given = {"level": 0.05, "least": {"time_*": "0.1"}, "seed": 7}
    assert history_settings.comparison_settings_from_params(given) == HistorySettings(0.05, {"time_*": 0.1}, seed=7)
    assert history_settings.comparison_settings_from_params({"least": "0.2"}).least == 0.2
    assert history_settings.comparison_settings_from_params({}) == HistorySettings()


@pytest.mark.parametrize("given", [{"level": 0.0}, {"level": 0.6}, {"power": 0}, {"least": -0.1}, {"least": True}])
def test_values_out_of_range_are_refused(given) -> None:
    with pytest.raises(InputError, match=f"results_{next(iter(given))}"):
        history_settings.comparison_settings_from_params(given)

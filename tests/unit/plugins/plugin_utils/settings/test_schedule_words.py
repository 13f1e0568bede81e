"""The words repeat and bisect, before a run begins."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import repeat_and_bisect_keywords

ROLES = {path.name: path for path in (Path(__file__).parents[5] / "roles").iterdir()}
LIMITED = {"results_limits": {"workloads_failed": {"max": 0}, "makespan": {"max": "2 s"}}}
BISECT = {"over": "fine_tuning_count", "values": [1, 2], "kpi": "makespan"}


def found(repeat=None, bisect=None, settings=LIMITED, points=1, late=()):
    each = [SimpleNamespace(settings=settings) for _point in range(points)]
    return SimpleNamespace(repeat=repeat or {}, bisect=bisect or {}, points=each, late=late)


def check(of):
    repeat_and_bisect_keywords.check_schedule_keywords("fine_tuning", of, ROLES)


def test_a_limit_or_history_decides():
    check(found({"max": 3}))
    check(found({"max": 3}, settings={"results_limits": {}, "results_history": ["runs"]}))
    check(found({"max": 3}, settings={}, late=("results_limits",)))
    check(found())


@pytest.mark.parametrize("settings", [{}, {"results_limits": {"workloads_failed": {"max": 0}}, "results_history": []}])
def test_without_a_limit_nothing_can_be_decided(settings):
    with pytest.raises(InputError, match="needs results_limits or results_history; neither is set"):
        check(found({"until": "decided"}, settings=settings))


def test_too_many_attempts_are_refused():
    with pytest.raises(InputError, match="repeat: 51 points with max 10 are more than 500 attempts"):
        check(found({"max": 10}, points=51))


def test_repeat_and_bisect_exclude_each_other():
    with pytest.raises(InputError, match="exclude each other"):
        check(found({"max": 3}, BISECT))


def test_the_figure_of_a_bisection_is_defined():
    check(found(bisect=BISECT))
    check(found(bisect={**BISECT, "kpi": "errors_TooManyRequests"}))
    with pytest.raises(InputError, match=r"kpi: 'makespann' is not defined \(did you mean 'makespan'\?\)"):
        check(found(bisect={**BISECT, "kpi": "makespann"}))


@pytest.mark.parametrize(
    ("given", "values"),
    [("1,2,4", [1, 2, 4]), ("[1, 2]", [1, 2]), ("v1.2, v1.3", ["v1.2", "v1.3"]), ([1, 2], [1, 2])],
)
def test_values_may_be_a_text(given, values):
    assert repeat_and_bisect_keywords.bisection_from_playbook_variables(
        {"over": "x", "values": given, "max": "", "budget": None}
    ) == {
        "over": "x",
        "values": values,
    }


def test_values_that_are_no_list_are_refused():
    with pytest.raises(InputError, match="values: '\\[1, 2' is not a list"):
        repeat_and_bisect_keywords.bisection_from_playbook_variables({"values": "[1, 2"})


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ({}, ""),
        ({"repeat": {"max": 6}}, "repeat makes 2 to 6 attempts at each point"),
        (
            {"repeat": {"max": 6, "least": 3, "budget": "2h"}, "points": 4},
            "repeat makes 3 to 6 attempts at each point, 24 in all, and begins none after 2 h 0 min (budget)",
        ),
        ({"bisect": BISECT}, "bisect makes at most 40 runs"),
    ],
)
def test_the_settings_state_the_most_attempts(words, text):
    assert repeat_and_bisect_keywords.describe_most_attempts(found(**words)) == text


def test_the_rounds_of_a_run_are_counted():
    assert repeat_and_bisect_keywords.most_attempts(found(points=3)) == 3
    assert repeat_and_bisect_keywords.most_attempts(found({"max": 4}, points=3)) == 12
    assert repeat_and_bisect_keywords.most_attempts(found(bisect=BISECT, points=2)) == 40

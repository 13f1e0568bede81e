"""The verdict of a run: precedence, codes, exit status."""

from __future__ import annotations

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._verdict import overall_verdict
from ansible_collections.perfscale.seatrial.plugins.module_utils._verdict.overall_verdict import overall
from hypothesis import given
from hypothesis import strategies as st

RESULTS = st.lists(st.sampled_from(sorted(overall_verdict.OF_CHECK)), max_size=6)
READINGS = st.lists(
    st.sampled_from(
        [
            *("pass", "regression", "improvement", "inconclusive", "not enough history", "not measured"),
            *("within", "outside", "across", "not judged"),
        ]
    ),
    max_size=6,
)


@pytest.mark.parametrize(
    ("results", "readings", "verdict", "code", "status"),
    [
        ([], [], "pass", 0, 0),
        (["pass"], ["within", "pass"], "pass", 0, 0),
        (["pass"], ["not enough history"], "pass", 0, 0),
        (["pass"], ["improvement", "pass"], "improvement", 1, 0),
        (["pass"], ["improvement", "inconclusive"], "inconclusive", 2, 2),
        (["pass"], ["across"], "inconclusive", 2, 2),
        (["pass"], ["not measured"], "inconclusive", 2, 2),
        (["pass", "not judged"], ["pass"], "inconclusive", 2, 2),
        (["pass"], ["regression", "inconclusive", "improvement"], "regression", 4, 1),
        (["pass"], ["outside"], "regression", 4, 1),
        (["outside", "not judged"], ["pass"], "regression", 4, 1),
        (["invalid", "outside"], ["regression"], "invalid", 3, 2),
        (["error", "invalid", "outside", "not judged"], ["regression"], "error", 5, 3),
    ],
)
def test_precedence(results, readings, verdict, code, status):
    found = overall(results, readings)
    assert (found, overall_verdict.CODES[found], overall_verdict.EXIT_STATUS[found]) == (verdict, code, status)


def rank(verdict: str) -> int:
    return len(overall_verdict.PRECEDENCE) - overall_verdict.PRECEDENCE.index(verdict)


@given(RESULTS, READINGS)
def test_an_error_outweighs_everything(results, readings):
    assert overall([*results, "error"], readings) == "error"


@given(RESULTS, READINGS, RESULTS, READINGS)
def test_further_findings_never_lower_the_gravity_and_order_does_not_matter(results, readings, more, others):
    found = overall(results, readings)
    assert rank(overall(results + more, readings + others)) >= rank(found)
    assert overall(results[::-1], readings[::-1]) == found


@given(RESULTS, READINGS)
def test_only_a_regression_ends_with_1_and_only_an_error_with_3(results, readings):
    found = overall(results, readings)
    status = overall_verdict.EXIT_STATUS[found]
    assert (status == 1) is (found == "regression") and (status == 3) is (found == "error")
    assert (status == 0) is (found in ("pass", "improvement"))


def test_codes_are_distinct_and_every_verdict_has_one():
    assert sorted(overall_verdict.CODES.values()) == [0, 1, 2, 3, 4, 5]
    assert set(overall_verdict.CODES) == set(overall_verdict.PRECEDENCE) == set(overall_verdict.EXIT_STATUS)


def test_the_checks_behind_a_verdict():
    checks = [{"check": name, "result": result} for name, result in (("a", "pass"), ("b", "outside"), ("c", "invalid"))]
    assert [one["check"] for one in overall_verdict.decisive(checks, "invalid")] == ["c"]
    assert [one["check"] for one in overall_verdict.decisive(checks, "regression")] == ["b"]
    assert overall_verdict.decisive(checks, "pass") == []

"""The verdict of a run: precedence, codes, exit status."""

from __future__ import annotations

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.schemas.verdict_and_comparison_schemas import (
    VERDICTS,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import overall_verdict
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.overall_verdict import (
    compute_overall_verdict,
)
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
    found = compute_overall_verdict(results, readings)
    assert (found, *VERDICTS[found]) == (verdict, code, status)


def rank(verdict: str) -> int:
    return len(overall_verdict.PRECEDENCE) - overall_verdict.PRECEDENCE.index(verdict)


@given(RESULTS, READINGS)
def test_an_error_outweighs_everything(results, readings):
    assert compute_overall_verdict([*results, "error"], readings) == "error"


@given(RESULTS, READINGS, RESULTS, READINGS)
def test_further_findings_never_lower_the_gravity_and_order_does_not_matter(results, readings, more, others):
    found = compute_overall_verdict(results, readings)
    assert rank(compute_overall_verdict(results + more, readings + others)) >= rank(found)
    assert compute_overall_verdict(results[::-1], readings[::-1]) == found


@given(RESULTS, READINGS)
def test_only_a_regression_ends_with_1_and_only_an_error_with_3(results, readings):
    found = compute_overall_verdict(results, readings)
    status = VERDICTS[found][1]
    assert (status == 1) is (found == "regression") and (status == 3) is (found == "error")
    assert (status == 0) is (found in ("pass", "improvement"))


def test_every_verdict_has_a_place_in_the_order():
    assert set(VERDICTS) == set(overall_verdict.PRECEDENCE)


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        ("pass", []),
        ("invalid", ["generator (point 000): late"]),
        ("regression", ["objects: one failed", "makespan (point 001): slower", "knee (point 001): over"]),
        ("inconclusive", ["loss (point 001): unsure"]),
    ],
)
def test_the_reasons_of_a_verdict(verdict, expected):
    checks = [
        {"check": "phases", "result": "pass", "detail": "fine"},
        {"check": "objects", "result": "outside", "detail": "one failed"},
        {"check": "generator", "result": "invalid", "detail": "late", "point": "000"},
    ]
    kpis = [
        {"name": "makespan", "point": "001", "reading": "regression", "why": "slower"},
        {"name": "knee", "point": "001", "reading": "pass", "limit": {"result": "outside"}, "why": "over"},
        {"name": "loss", "point": "001", "reading": "inconclusive", "why": "unsure"},
    ]
    assert overall_verdict.reasons_of_verdict({"verdict": verdict, "checks": checks, "kpis": kpis}) == expected

"""JUnit XML: one case for each phase, point, check and figure; one error for one cause; well-formed for any words."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import junit, overall_verdict
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point, Run
from hypothesis import given
from hypothesis import strategies as st

STARTED = "2026-11-21T05:00:00.000Z"
#: Elements and their attributes that Jenkins, GitLab and GitHub read; an order is not prescribed.
ALLOWED = {
    "testsuites": ({"name", "time", "tests", "failures", "disabled", "errors"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors", "skipped", "time", "timestamp", "hostname", "id", "package"},
        {"properties", "testcase", "system-out", "system-err"},
    ),
    "properties": (set(), {"property"}),
    "property": ({"name", "value"}, set()),
    "testcase": (
        {"name", "classname", "time", "status", "assertions"},
        {"skipped", "error", "failure", "system-out", "system-err"},
    ),
    "failure": ({"message", "type"}, set()),
    "error": ({"message", "type"}, set()),
    "skipped": ({"message", "type"}, set()),
    "system-out": (set(), set()),
}


def phase(status="passed", **more):
    return {"status": status, "started": STARTED, "ended": STARTED, "seconds": 2.0, "error": None, **more}


def run(phases=None, points=("passed",), planned=None, **kpis):
    found = [
        Point(
            f"{number:03d}",
            Path("x"),
            {"status": status, "started": STARTED, "ended": "2026-11-21T05:00:30.000Z"}
            if isinstance(status, str)
            else status,
        )
        for number, status in enumerate(points)
    ]
    if phases is None:
        phases = {"cluster": phase(), "test": phase(), "report": phase("running", seconds=None)}
    record = {
        "id": "t1121-abcdef",
        "project": "fine_tuning",
        "presets": ["light"],
        "started": STARTED,
        "phases": phases,
        "points": planned or [one.number for one in found],
    }
    return Run(Path("x"), record, points=found)


def check(name, result="pass", point=None, detail="so it is"):
    return {"check": name, "result": result, "detail": detail, "point": point}


def figure(reading="pass", limit=None, name="makespan", point="000", why="12 % slower"):
    return {
        "point": point,
        "name": name,
        "unit": "s",
        "value": 12.5,
        "simulated": False,
        "reading": reading,
        "why": why,
        **({"limit": {"text": "max 2 s", "result": limit}} if limit else {}),
    }


def judged(checks=(), kpis=(), cause=None):
    found = overall_verdict.compute_overall_verdict(
        [one["result"] for one in checks],
        [one["reading"] for one in kpis] + [one["limit"]["result"] for one in kpis if "limit" in one],
    )
    return {"verdict": found, "code": 0, "cause": cause, "checks": list(checks), "kpis": list(kpis)}


def suite_of(of, verdict):
    top = ElementTree.fromstring(junit.render_run_xml(of, verdict))
    valid(top)
    return top.find("testsuite")


def valid(element):
    attributes, children = ALLOWED[element.tag]
    assert set(element.attrib) <= attributes and {one.tag for one in element} <= children
    if element.tag in ("testsuite", "testcase"):
        assert element.get("name")
    if element.tag == "testsuite":
        cases = element.findall("testcase")
        assert int(element.get("tests")) == len(cases)
        for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(element.get(attribute)) == sum(one.find(tag) is not None for one in cases)
        names = [one.get("name") for one in cases]
        assert len(names) == len(set(names))
    for one in element:
        valid(one)


def found(suite, tag):
    return {
        one.get("name"): one.find(tag).get("message") for one in suite.findall("testcase") if one.find(tag) is not None
    }


def test_a_pass_has_a_case_for_each_phase_point_check_and_figure():
    checks = [check("phases"), check("points"), check("objects", point="000"), check("generator", point="000")]
    suite = suite_of(run(), judged(checks, [figure()]))
    assert [one.get("name") for one in suite.findall("testcase")] == [
        *("phase cluster", "phase test", "point 000", "phase report", "objects 000", "generator 000", "000 makespan")
    ]
    assert (suite.get("name"), suite.get("failures"), suite.get("errors")) == ("fine_tuning.light", "0", "0")
    times = {one.get("name"): one.get("time") for one in suite.findall("testcase")}
    assert (times["phase cluster"], times["point 000"], times["phase report"]) == ("2.000", "30.000", None)
    assert suite.find("testcase[@name='000 makespan']/system-out").text == "makespan 12.5 s"


@pytest.mark.parametrize(
    ("kpi", "tag"),
    [
        (figure("regression"), "failure"),
        (figure("pass", "outside"), "failure"),
        (figure("inconclusive"), "skipped"),
        (figure("not enough history"), "skipped"),
        (figure("pass", "across"), "skipped"),
        (figure("not enough history", "within"), "skipped"),
        (figure("improvement"), ""),
        (figure("pass", "within"), ""),
    ],
)
def test_a_regression_is_a_failure_and_an_undecided_figure_is_skipped(kpi, tag):
    suite = suite_of(run(), judged([check("objects")], [kpi]))
    for one in ("failure", "error", "skipped"):
        assert found(suite, one) == ({"000 makespan": "12 % slower"} if one == tag else {})
    if tag == "failure":
        assert suite.find("testcase/failure").get("type") == "regression"


def test_an_unreachable_cluster_is_one_error_and_no_failure():
    phases = {
        "cluster": phase("failed", error="no answer\nfrom x", cause="AccessError"),
        "report": phase(),
        "cleanup": phase("failed", error="no answer", cause="AccessError"),
    }
    checks = [check("phases", "error"), check("points", "error", detail="There is no test point.")]
    suite = suite_of(run(phases, points=(), planned=["001"]), judged(checks, cause="AccessError"))
    assert found(suite, "error") == {"phase cluster": "no answer from x"}
    assert suite.find("testcase/error").get("type") == "AccessError"
    assert found(suite, "failure") == {}
    because = "Not judged because of phase cluster: no answer from x"
    assert found(suite, "skipped") == {
        "point 001": "The point was not measured.",
        "phase cleanup": because,
        "points": because,
    }


def test_a_cluster_that_is_lost_during_a_point_is_one_error_and_its_limits_no_failures():
    phases = {"cluster": phase(), "test": phase("failed", error="point 001: no answer"), "report": phase("running")}
    lost = {"status": "failed", "error": "no answer", "cause": "AccessError"}
    checks = [check("phases", "invalid"), check("points", "error", "001"), check("objects", "outside", "001")]
    verdict = judged(checks, [figure(limit="outside", point="001")], "AccessError")
    suite = suite_of(run(phases, points=("passed", lost, "planned")), verdict)
    assert found(suite, "error") == {"point 001": "no answer"}
    assert found(suite, "failure") == {}
    assert set(found(suite, "skipped")) == {"phase test", "point 002", "objects 001", "001 makespan"}


def test_each_reason_of_an_invalid_run_is_an_error_and_nothing_is_a_failure():
    checks = [check("generator", "invalid", "000", "late"), check("generator", "invalid", "001", "later")]
    suite = suite_of(run(points=("passed", "passed")), judged(checks, [figure("regression")]))
    assert found(suite, "error") == {"generator 000": "late", "generator 001": "later"}
    assert found(suite, "skipped") == {"000 makespan": "Not judged because of generator 000: late"}
    assert suite.find("testcase/error").get("type") == "invalid"


def test_a_failed_cleanup_is_an_error_beside_a_regression():
    phases = {"test": phase(), "report": phase(), "cleanup": phase("failed", error="left")}
    suite = suite_of(run(phases), judged([check("objects", "outside", "000")]))
    assert (set(found(suite, "error")), set(found(suite, "failure"))) == ({"phase cleanup"}, {"objects 000"})


def test_an_interrupted_run_says_where():
    phases = {"prepare": phase(), "test": phase("running"), "report": phase("running")}
    suite = suite_of(run(phases, points=("running",)), judged([check("points", "invalid", "000")]))
    assert set(found(suite, "error")) == {"phase test", "point 000"}


def test_without_a_verdict_the_suite_has_an_error():
    assert found(suite_of(run(), {}), "error") == {"verdict": "There is no verdict."}
    failed = run({"cluster": phase("failed", error="no room")}, points=())
    assert found(suite_of(failed, {}), "error") == {"phase cluster": "no room"}


STATUS = st.sampled_from(["passed", "failed", "running", "skipped", "interrupted"])
POINT = st.sampled_from(["passed", "failed", "running", "planned", "skipped"])
RESULT = st.sampled_from(sorted(overall_verdict.OF_CHECK))
READING = st.sampled_from(["pass", "regression", "improvement", "inconclusive", "not enough history", "not measured"])
NAMES = ("lease", "cluster", "prepare", "test", "report", "cleanup", "release")


@given(
    st.lists(STATUS, max_size=7), st.lists(POINT, max_size=3), st.lists(RESULT, max_size=4),
    st.lists(READING, max_size=3), st.none() | st.sampled_from(["within", "outside", "across"]), st.text(max_size=20),
)  # fmt: skip
def test_counts_agree_and_only_a_regression_has_failures(statuses, points, results, readings, limit, words):
    phases = {name: phase(status, error=words) for name, status in zip(NAMES, statuses, strict=False)}
    checks = [check("objects", result, f"{number:03d}", words) for number, result in enumerate(results)]
    kpis = [figure(reading, limit, f"k{number}", why=words) for number, reading in enumerate(readings)]
    verdict = judged(checks, kpis)
    suite = suite_of(run(phases, points), verdict)
    assert bool(found(suite, "failure")) is (verdict["verdict"] == "regression")
    if verdict["verdict"] == "error":
        assert len(found(suite, "error")) == 1


@pytest.mark.parametrize(("low", "text"), [(21.62, "makespan ≥ 21.62 s"), (None, "makespan unknown s")])
def test_a_figure_without_a_value_is_its_bound(low, text):
    suite = suite_of(run(), judged(kpis=[{**figure(), "value": None, "low": low}]))
    assert suite.find("testcase[@name='000 makespan']/system-out").text == text


@pytest.mark.parametrize("words", ['<&">', "control \x1b[31m and \x00", "no end \ud800"])
def test_any_words_make_well_formed_xml(words):
    of = run({"test": phase("failed", error=words)})
    verdict = judged([check(words, "error", detail=words)])
    ElementTree.fromstring(junit.render_run_xml(of, verdict).encode("utf-8", "replace"))

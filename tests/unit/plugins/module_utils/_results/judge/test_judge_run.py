"""The verdict: which facts make a run pass, a regression, invalid or an error."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import judge_run, overall_verdict
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.judge_run import JudgingRules
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.kpi_limits import KpiLimit
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point, Run
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import TimelineTable

PASSED = {
    "test": {"status": "passed", "started": "2026-11-21T00:00:00Z"},
    "report": {"status": "running", "started": "2026-11-21T00:01:00Z"},
}


class Rows(SimpleNamespace):
    """The part of a table that a verdict reads."""

    header = {}
    latest: dict[str, list[float]] = {}
    noun = TimelineTable.noun

    def __len__(self):
        return len(self.outcome)


def table(outcome=("succeeded",) * 4, late=0.001, closed=False):
    due = [float("nan") if closed else float(number) for number in range(len(outcome))]
    sent = [float("nan") if one == "unsent" else number + late for number, one in enumerate(outcome)]
    return Rows(
        outcome=list(outcome), name=[f"w-{n}" for n in range(len(outcome))], moments={"intended": due, "sent": sent}
    )


def run_of(tmp_path, points=1, phases=PASSED, **record):
    found = [Point(f"{number:03d}", tmp_path, {"status": "passed"}) for number in range(points)]
    return Run(
        tmp_path,
        {"id": "t1121-abcdef", "phases": phases, "points": [one.number for one in found], **record},
        points=found,
    )


def judged(run, *tables, most=0.0, max_errors=0.01):
    limits = {point.number: [KpiLimit("workloads_failed", None, most, "max")] for point in run.points}
    for point in run.points:
        point.kpis = point.kpis or [kpi(0.0, "workloads", name="workloads_failed")]
    by_point = {point.number: one for point, one in zip(run.points, tables, strict=True)}
    document = judge_run.judge_whole_run(
        run, by_point, JudgingRules(0.5, limits if most is not None else {}, max_errors)
    )
    files.validate_schema_if_enabled("verdict/2", document)
    return document


@pytest.mark.parametrize(
    ("outcomes", "late", "phase", "expected"),
    [
        (("succeeded",) * 3, 0.0, "passed", "pass"),
        (("succeeded",) * 3, 0.9, "passed", "invalid"),
        (("succeeded", "failed"), 0.0, "passed", "regression"),
        (("succeeded", "failed"), 0.9, "passed", "invalid"),
        (("succeeded",) * 3, 0.0, "failed", "invalid"),
        (("succeeded",) * 3, 0.0, "interrupted", "invalid"),
        (("succeeded",) * 3, 0.9, "failed", "invalid"),
        (("succeeded", "unfinished"), 0.0, "passed", "regression"),
        (("succeeded", "deleted"), 0.0, "passed", "regression"),
        (("succeeded", "refused"), 0.0, "passed", "invalid"),
        (("succeeded",) * 199 + ("refused",), 0.0, "passed", "regression"),
        (("succeeded", "lost"), 0.0, "passed", "invalid"),
        (("succeeded",) * 199 + ("lost",), 0.0, "passed", "regression"),
        (("succeeded", "unsent"), 0.0, "passed", "invalid"),
        (("succeeded",) * 199 + ("unsent",), 0.0, "passed", "regression"),
        (("unfinished", "deleted"), 0.0, "passed", "invalid"),
        (("failed", "failed"), 0.0, "passed", "regression"),
        ((), 0.0, "passed", "invalid"),
    ],
)
def test_truth_table(tmp_path, outcomes, late, phase, expected):
    run = run_of(tmp_path, phases={"test": {**PASSED["test"], "status": phase}, "report": PASSED["report"]})
    assert judged(run, table(outcomes, late))["verdict"] == expected


def test_one_bad_point_of_many_is_enough(tmp_path):
    assert (
        judged(run_of(tmp_path, points=3), table(), table(("succeeded", "failed")), table())["verdict"] == "regression"
    )


def test_the_detail_names_numbers_and_workloads(tmp_path):
    checks = judged(run_of(tmp_path), table(("succeeded", "failed", "failed", "refused")), max_errors=0.5)["checks"]
    detail = next(one["detail"] for one in checks if one["check"] == "objects")
    assert detail == "1 of 4 workloads succeeded; 2 failed (w-1, w-2); 1 refused by the API server (w-3)."


def test_the_detail_of_lateness_names_limit_and_measure(tmp_path):
    checks = judged(run_of(tmp_path), table(late=0.75))["checks"]
    detail = next(one["detail"] for one in checks if one["check"] == "generator")
    assert detail == "99 % of 4 workloads were sent at most 750 ms late, all at most 750 ms; the limit is 500 ms."
    stored = table(late=0.75)
    stored.latest = {"created": [float("nan"), *(moment + 0.2 for moment in stored.moments["sent"][1:])]}
    checks = judged(run_of(tmp_path / "stored"), stored)["checks"]
    detail = next(one["detail"] for one in checks if one["check"] == "generator")
    assert detail.endswith(
        "the limit is 500 ms. The API server had created 99 % of 3 of them at most 950 ms after they were due."
    )


def test_a_closed_loop_is_never_late(tmp_path):
    assert judged(run_of(tmp_path), table(late=99.0, closed=True))["verdict"] == "pass"


def test_the_first_error_of_a_failed_phase_is_told(tmp_path):
    failed = {"status": "failed", "started": "2026-11-21T00:00:00Z", "error": "no nodes:\n  0 of 3 ready"}
    for name, result in (("prepare", "error"), ("test", "invalid"), ("report", "not judged")):
        checks = judged(run_of(tmp_path, phases={name: failed}), table())["checks"]
        assert checks[0] == {
            "check": "phases",
            "result": result,
            "detail": f"Phase {name} failed: no nodes: 0 of 3 ready.",
            "point": None,
        }


@pytest.mark.parametrize("cause", ["QueryError", "AccessError"])
@pytest.mark.parametrize(
    ("outcomes", "late", "expected"),
    [
        (("succeeded",) * 3, 0.0, "inconclusive"),
        (("succeeded", "failed"), 0.0, "regression"),
        (("succeeded", "failed"), 0.9, "invalid"),
    ],
)
def test_a_failed_report_is_a_further_reason_and_hides_no_regression(tmp_path, cause, outcomes, late, expected):
    failed = {**PASSED["report"], "status": "failed", "error": "metrics: no answer", "cause": cause}
    verdict = judged(run_of(tmp_path, phases={**PASSED, "report": failed}), table(outcomes, late))
    assert verdict["verdict"] == expected
    assert overall_verdict.reasons_of_verdict(verdict)[-1] == "phases: Phase report failed: metrics: no answer."
    assert verdict["cause"] is None


@pytest.mark.parametrize("name", ["cleanup", "release", "export"])
def test_a_failure_after_the_measurement_does_not_change_the_verdict(tmp_path, name):
    failed = {"status": "failed", "started": "2026-11-21T00:02:00Z", "error": "no answer", "cause": "AccessError"}
    assert judged(run_of(tmp_path, phases={**PASSED, name: failed}), table())["verdict"] == "pass"


@pytest.mark.parametrize(
    ("cause", "verdict"),
    [
        ("AccessError", "error"),
        ("LockLost", "error"),
        ("WaitTimeout", "invalid"),
        ("InputError", "invalid"),
        (None, "invalid"),
    ],
)
def test_the_cause_of_a_failed_point_decides_between_error_and_invalid(tmp_path, cause, verdict):
    run = run_of(tmp_path, points=2, phases={**PASSED, "test": {**PASSED["test"], "status": "failed"}})
    run.points[1].record.update(status="failed", error="no answer", cause=cause)
    document = judged(run, table(), table(("succeeded", "unfinished")))
    assert (document["verdict"], document["cause"]) == (verdict, cause)


def test_the_cause_of_an_error_is_in_the_infrastructure_and_was_before_the_cleanup(tmp_path):
    run = run_of(tmp_path, points=2)
    for point, cause in zip(run.points, ("WaitTimeout", "AccessError"), strict=True):
        point.record.update(status="failed", error="point 000: Wait: no answer", cause=cause)
    document = judged(run, table(), table())
    assert (document["verdict"], document["cause"]) == ("error", "AccessError")
    assert document["checks"][1]["detail"] == "Test point 000 failed: Wait: no answer."
    cleanup = {"status": "failed", "started": "2026-11-21T00:02:00Z", "error": "late", "cause": "CleanupTimeout"}
    document = judged(run_of(tmp_path, phases={**PASSED, "cleanup": cleanup}), table(late=0.9))
    assert (document["verdict"], document["cause"]) == ("invalid", None)


@pytest.mark.parametrize(("most", "verdict"), [(0.0, "regression"), (1.0, "regression"), (2.0, "pass"), (None, "pass")])
def test_the_limit_of_failed_workloads_says_how_many_need_not_succeed(tmp_path, most, verdict):
    outcomes = ("succeeded", "failed", "unfinished")
    assert judged(run_of(tmp_path), table(outcomes), most=most)["verdict"] == verdict


def test_a_point_that_was_not_measured_has_no_checks_of_its_workloads(tmp_path):
    run = run_of(tmp_path, points=2)
    run.points[1].record["status"] = "planned"
    checks = judged(run, table(), None)["checks"]
    assert [one["check"] for one in checks if one["point"] == "001"] == ["points"]


def test_a_limit_decides_and_its_figure_is_named(tmp_path):
    run = run_of(tmp_path)
    run.points[0].kpis = [kpi(3.0)]
    given = {"000": [KpiLimit("m", None, 2.0, "max 2 s", "s"), KpiLimit("absent", None, 2.0, "max 2 s", "s")]}
    document = judge_run.judge_whole_run(run, {"000": table()}, JudgingRules(0.5, given))
    files.validate_schema_if_enabled("verdict/2", document)
    assert (document["verdict"], document["exit_status"]) == ("regression", 1)
    assert [(one["name"], one["limit"]["result"]) for one in document["kpis"]] == [
        ("m", "outside"),
        ("absent", "not measured"),
    ]
    assert (
        overall_verdict.verdict_with_first_reason(document)
        == "regression: m (point 000): 3 s is outside the limit, max 2 s."
    )
    assert judge_run.judge_whole_run(run, {"000": table()}, JudgingRules(0.5, {"000": given["000"][1:]}))[
        "verdict"
    ] == ("inconclusive")


@pytest.mark.parametrize(
    ("judged_ones", "names"),
    [(("headline",), ["m"]), (("all",), ["m", "n"]), (("n*",), ["n"]), ((), [])],
)
def test_the_setting_says_which_figures_are_judged(tmp_path, judged_ones, names):
    found = Point("000", tmp_path, kpis=[kpi(1.0), kpi(1.0, name="n", headline=False)])
    kpis = judge_run.judged_kpis(found, (), judged_ones)
    assert [one["name"] for one in kpis] == names
    assert all(one["reading"] == "not enough history" for one in kpis)


def test_a_phase_that_a_killed_session_left_running_is_an_interruption(tmp_path):
    left = {"test": {"status": "running", "started": "2026-11-21T00:00:00Z"}, "report": PASSED["report"]}
    assert (
        judged(run_of(tmp_path, phases=left), table())["checks"][0]["detail"]
        == "The run was interrupted in phase test."
    )


def test_a_point_that_failed_or_never_ran_fails_the_run(tmp_path):
    run = run_of(tmp_path, points=2)
    run.record["points"].append("002")
    run.points[1].record = {"status": "failed", "error": "too few GPUs"}
    details = [one["detail"] for one in judged(run, table(), table())["checks"] if one["check"] == "points"]
    assert details == ["1 planned test point did not run: 002.", "Test point 001 failed: too few GPUs."]


@pytest.mark.parametrize(
    ("status", "said"), [("running", "was started, but did not end"), ("planned", "was not started")]
)
def test_a_point_that_did_not_end_fails_the_run(tmp_path, status, said):
    run = run_of(tmp_path)
    run.points[0].record["status"] = status
    assert said in next(one["detail"] for one in judged(run, table())["checks"] if one["check"] == "points")


def test_a_run_without_points_and_files_fails_and_says_so(tmp_path):
    document = judged(Run(tmp_path / "t1121-abcdef"))
    assert (document["verdict"], document["code"], document["exit_status"]) == ("error", 5, 3)
    assert [one["result"] for one in document["checks"]] == ["invalid", "error"]


@pytest.mark.parametrize("status", ["failed", "interrupted"])
def test_a_run_that_failed_before_its_first_point_is_an_error_and_not_a_regression(tmp_path, status):
    run = run_of(tmp_path, phases={"prepare": {"status": status, "started": "2026-11-21T00:00:00Z"}})
    run.points[0].record["status"] = "planned"
    assert judged(run, None)["verdict"] == "error"
    run.points[0].record["status"] = "failed"
    run.record["phases"]["test"] = run.record["phases"].pop("prepare")
    assert judged(run, None)["verdict"] == "invalid"


def kpi(value, unit="s", note=None, n=4, of=4, **more):
    return {
        "name": "m", "title": "Makespan", "unit": unit, "direction": "lower", "help": "h", "headline": True,
        "simulated": True,
        "value": value, "interval": None, "n": n, "of": of, "note": note, **more,
    }  # fmt: skip


def test_the_limit_of_lateness_is_what_the_settings_of_the_point_say(tmp_path):
    run = run_of(tmp_path, points=2)
    run.points[1].all_settings = {"workload_max_lateness": 2}
    results = [
        one["result"] for one in judged(run, table(late=0.9), table(late=0.9))["checks"] if one["check"] == "generator"
    ]
    assert results == ["invalid", "pass"]


def test_a_run_that_lost_its_lock_is_an_error_and_one_that_kept_it_passes(tmp_path):
    record = {
        "schema": "lock/1",
        "state": "released",
        "cluster": "api.example.com",
        "namespace": "default",
        "run": "t1121-abcdef",
        "owner": "",
        "purpose": "",
        "waited": 0.0,
        "duration": 60.0,
        "deadline": 1.0,
        "boot": "x",
        **dict.fromkeys(("since", "renewed", "until"), "2026-11-21T10:00:00Z"),
        **dict.fromkeys(("keeper", "caller"), {"pid": 1, "ticks": 1}),
    }
    for lost, expected in (("", "pass"), ("run t1121-others holds it", "error")):
        files.write_json(tmp_path / "lock-sutest.json", {**record, "lost": lost}, "lock/1")
        document = judged(run_of(tmp_path), table(("succeeded",)))
        assert document["verdict"] == expected
        check = next(one for one in document["checks"] if one["check"] == "lock")
        assert lost in check["detail"]

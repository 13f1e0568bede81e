# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of a session: status, failures, and whether a verdict fails it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import close_session, run_record, settings_files
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import project_role, settings_catalogue
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.verdict_setting_checks import SIGNATURE_FILES

FAIL_ON = ["regression", "invalid", "error"]
SESSION = {"started": "2026-11-21T05:00:00.000Z", "command": "ansible-playbook", "tags": [], "pid": 1, "began": 0.0}


def record(**more: Any) -> dict[str, Any]:
    return {
        "schema": "run/1",
        "id": "t1-abcdef",
        "project": "fine_tuning",
        "presets": ["light"],
        "status": "running",
        "started": "2026-11-21T05:00:00.000Z",
        "ended": None,
        "command": "ansible-playbook fine_tuning.yml",
        "give_back": "GIVE BACK",
        "git": {"revision": None, "dirty": None},
        "versions": {},
        "environment": {},
        "points": ["001"],
        "sessions": [SESSION],
        "phases": {},
        "held": [],
        "clusters": {},
    } | more


def done(*names: str) -> dict[str, dict[str, Any]]:
    return {name: {"status": "passed"} for name in names}


def test_the_end_of_a_session_is_written_into_the_run_directory(tmp_path: Path) -> None:
    phase = {"status": "running", "started": "2026-11-21T05:00:00.000Z", "ended": None, "seconds": None, "error": None}
    run_record.write_record(tmp_path, record(phases={"test": phase}))
    (tmp_path / "FAILURES").write_text("of an earlier session\n")
    closed = close_session.close_session(tmp_path, [], FAIL_ON, began=0.0)
    assert (closed.failed, closed.failures, closed.record["status"]) == (False, [], "passed")
    assert run_record.read_record(tmp_path)["phases"]["test"]["status"] == "passed"
    assert " fine_tuning t1-abcdef passed after " in (tmp_path / "FINISHED").read_text()
    assert not (tmp_path / "FAILURES").exists()
    assert 'name="phase test"' in (tmp_path / "junit.xml").read_text(), "also of a run that was not judged"
    assert (tmp_path / "summary.md").read_text().startswith("# no verdict: ")


def test_a_failing_verdict_fails_the_session_that_reported_only(tmp_path: Path) -> None:
    check = {"check": "every object ended", "result": "outside", "detail": "11 of 12"}
    files.replace_text(tmp_path / "verdict.json", json.dumps({"verdict": "regression", "checks": [check]}))
    report = {"status": "passed", "started": "2026-11-21T05:01:00.000Z", "ended": None, "seconds": 1, "error": None}
    run_record.write_record(tmp_path, record(phases={"report": report}))
    closed = close_session.close_session(tmp_path, [], FAIL_ON, began=0.0)
    assert (closed.failed, closed.failures) == (True, ["verdict regression: every object ended: 11 of 12"])
    assert (tmp_path / "FAILURES").read_text() == "verdict regression: every object ended: 11 of 12\n"
    assert not close_session.close_session(tmp_path, [], ["error"], began=0.0).failed
    run_record.update_record(
        tmp_path, lambda one: one["sessions"].append(SESSION | {"started": "2026-11-21T06:00:00.000Z"})
    )
    assert not close_session.close_session(tmp_path, [], FAIL_ON, began=0.0).failed, "it gives back, or exports"


def test_a_release_that_had_nothing_to_release_was_skipped() -> None:
    ran = {**done("test", "release"), "cleanup": {"status": "skipped"}}
    kept = {"sutest": {"state": "acquired", "kept": True}}
    assert close_session.had_nothing_to_release(record(phases=ran, clusters=kept), {})
    assert not close_session.had_nothing_to_release(record(phases=ran, clusters=kept), {"state": "released"})
    assert not close_session.had_nothing_to_release(record(phases=ran, clusters={"sutest": {"state": "acquired"}}), {})
    assert not close_session.had_nothing_to_release(
        record(phases=ran | {"release": {"status": "failed"}}, clusters=kept), {}
    )


def test_only_a_failing_verdict_fails_the_run() -> None:
    check = {"check": "every object ended", "result": "outside", "detail": "11 of 12"}
    assert (
        close_session.why_verdict_fails_run({"verdict": "regression", "checks": [check]}, FAIL_ON)
        == "verdict regression: every object ended: 11 of 12"
    )
    assert (
        close_session.why_verdict_fails_run({"verdict": "pass", "checks": [{**check, "result": "pass"}]}, FAIL_ON)
        is None
    )
    assert close_session.why_verdict_fails_run({}, FAIL_ON) is None


def test_a_run_whose_test_was_interrupted_has_not_passed_when_it_was_cleaned_up_later() -> None:
    ran = {"test": {"status": "interrupted"}, "cleanup": {"status": "passed"}}
    assert close_session.overall_run_status(record(phases=ran), []) == "interrupted"
    assert close_session.overall_run_status(record(phases=done("test", "cleanup")), []) == "passed"
    assert close_session.overall_run_status(record(phases=done("test")), ["verdict regression"]) == "failed"


def test_failures_of_earlier_sessions_stand_first_and_once() -> None:
    ran = {"test": {"status": "failed", "error": "first"}, "cleanup": {"status": "failed", "error": "second"}}
    assert close_session.failures_of_all_sessions(record(phases=ran), ["second", "third"]) == [
        "first",
        "second",
        "third",
    ]


def test_a_session_is_judged_by_the_verdict_that_it_has_made_only() -> None:
    report = {"status": "passed", "started": "2026-11-21T05:01:00.000Z"}
    ran = record(phases={"report": report}, sessions=[{"started": "2026-11-21T05:00:00.000Z"}])
    assert close_session.wrote_verdict_in_last_session(ran)
    later = [*ran["sessions"], {"started": "2026-11-21T06:00:00.000Z"}]
    assert not close_session.wrote_verdict_in_last_session({**ran, "sessions": later}), "it gives back, or exports"
    assert not close_session.wrote_verdict_in_last_session({**ran, "phases": {}})


def test_ending_a_phase_gives_its_seconds() -> None:
    found = {"test": {"status": "running", "started": "2026-11-21T05:00:00.000Z"}, "old": {"status": "passed"}}
    assert run_record.end_running_phases(found, "failed", "why") == ["test"]
    assert found["test"]["status"] == "failed"
    assert found["test"]["seconds"] > 0
    assert found["old"] == {"status": "passed"}


def test_what_is_handed_on_to_later_jobs_is_no_setting_of_theirs(tmp_path: Path) -> None:
    run_record.write_record(tmp_path, record())
    figure = {"name": "ready_p50", "value": 1.5, "unit": "s", "simulated": True, "points": []}
    verdict = {"verdict": "pass", "checks": [], "headline": [figure]}
    files.replace_text(tmp_path / "verdict.json", json.dumps(verdict))
    stats = close_session.results_for_later_jobs(
        tmp_path, close_session.close_session(tmp_path, [], FAIL_ON, began=0.0)
    )
    assert (stats["seatrial_run_dir"], stats["seatrial_run_id"]) == (str(tmp_path), "t1-abcdef")
    assert (stats["seatrial_verdict"], stats["seatrial_status"], stats["seatrial_held"]) == ("pass", "passed", [])
    assert stats["seatrial_figures"] == {"ready_p50": {"value": 1.5, "unit": "s", "simulated": True}}
    catalogue = settings_catalogue.load_catalogue(project_role.ROOT)
    catalogue.check_names(stats, "fine_tuning", "-e")  # AWX passes them to the next job by -e
    assert not set(stats) & {*catalogue.settings, *settings_catalogue.RESERVED_VARIABLES}


def test_a_session_that_only_gives_back_may_fail_as_the_run_did(tmp_path: Path) -> None:
    phase = {"started": "2026-11-21T05:00:00.000Z", "ended": None, "seconds": None, "error": None}
    run_record.write_record(tmp_path, record(phases={"test": {**phase, "status": "interrupted"}}))
    assert not close_session.close_session(tmp_path, [], FAIL_ON, began=0.0).failed
    closed = close_session.close_session(tmp_path, [], FAIL_ON, began=0.0, repeat=True)
    assert closed.failed and "given back, but the run itself is interrupted" in closed.failures[0]
    assert closed.record["status"] == "interrupted" and not (tmp_path / "FAILURES").exists()
    run_record.write_record(tmp_path, record(phases={"test": {**phase, "status": "passed"}}))
    assert not close_session.close_session(tmp_path, [], FAIL_ON, began=0.0, repeat=True).failed


OWN = """
- {name: quota, title: T, fault: test, remedy: Ask Anna., patterns: ["exceeded quota"]}
- {name: few, title: T, fault: lab, remedy: Wait., patterns: ["few are"]}
"""


def test_a_session_is_closed_with_the_signatures_of_its_settings(tmp_path: Path) -> None:
    top, own = tmp_path / "run", tmp_path / "mine.yml"
    top.mkdir()
    own.write_text(OWN)
    settings = {SIGNATURE_FILES: [str(own)], "run_label": ""}
    settings_files.write_settings_file(top / "settings.yml", settings, ())
    phase = {"status": "failed", "started": SESSION["started"], "ended": None, "seconds": 1}
    error = "few are there: exceeded quota: few"
    run_record.write_record(top, record(phases={"prepare": phase | {"error": error}}))

    def close() -> list[str]:
        closed = close_session.close_session(top, [error], FAIL_ON, began=0.0)
        shown = close_session.summary_lines(closed.record, top, {}, closed.failures, warnings=closed.warnings)
        assert "            Ask Anna." in shown and "            Wait." in shown
        assert "Ask Anna." in (top / "summary.md").read_text() and "Ask Anna." in (top / "junit.xml").read_text()
        assert [finding["remedy"] for finding in files.read_json(top / "answer.json")["findings"]] == [
            "Ask Anna.",
            "Wait.",
        ]
        return [line for line in shown if line.startswith("  warning")]

    assert close() == []
    own.write_text("- {name: few}")
    assert len(close()) == 1, "the findings of the session before stay"
    own.unlink()
    assert close() == [f"  warning   signatures of failures cannot be read again: {own}: no such file"]


def test_a_run_without_findings_is_explained_by_ours_if_those_of_its_settings_are_gone(tmp_path: Path) -> None:
    settings = {SIGNATURE_FILES: [str(tmp_path / "gone.yml")]}
    settings_files.write_settings_file(tmp_path / "settings.yml", settings, ())
    phase = {
        "status": "failed",
        "started": SESSION["started"],
        "ended": None,
        "seconds": 1,
        "error": "exceeded quota: few",
    }
    run_record.write_record(tmp_path, record(phases={"prepare": phase}))
    assert len(close_session.close_session(tmp_path, ["x"], FAIL_ON, began=0.0).warnings) == 1
    assert [finding["signature"] for finding in files.read_json(tmp_path / "findings.json")["findings"]] == ["quota"]

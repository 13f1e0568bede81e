# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The exit status of a CI job, its JUnit file and its line."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.schemas.verdict_and_comparison_schemas import (
    VERDICTS,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import junit
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.ci import ci_run
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.ci.ci_run import PlaybookOutcome
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import run_directory


def judged_run(folder: Path, verdict: str, kind: str = "") -> Path:
    code, status = VERDICTS[verdict]
    checks = [{"check": "generator", "result": "invalid", "detail": "late", "point": "000"}]
    document = {"schema": "verdict/2", "verdict": verdict, "code": code, "exit_status": status, "checks": checks}
    folder.mkdir(exist_ok=True)
    files.write_json(folder / "verdict.json", document)
    files.replace_text(
        folder / "junit.xml", junit.render_suite_xml("fine_tuning.light", [junit.JUnitTestCase("a", kind, "why")])
    )
    return folder


@pytest.mark.parametrize(("verdict", "status"), [(one, status) for one, (_code, status) in VERDICTS.items()])
def test_the_exit_status_is_that_of_the_verdict(tmp_path: Path, verdict: str, status: int) -> None:
    code = 0 if status == 0 else 2
    assert ci_run.verdict_and_exit_status(PlaybookOutcome(code, 0.0, judged_run(tmp_path, verdict)))[:2] == (
        verdict,
        status,
    )


def test_the_line_has_the_first_reason(tmp_path: Path) -> None:
    assert ci_run.verdict_and_exit_status(PlaybookOutcome(2, 0.0, judged_run(tmp_path, "invalid"))) == (
        "invalid",
        2,
        "generator (point 000): late",
    )


def test_a_run_that_passed_but_could_not_clean_up_is_an_error(tmp_path: Path) -> None:
    judged_run(tmp_path, "pass", "error")
    (tmp_path / "FAILURES").write_text("Clean up: 3 pods left\nother\n")
    outcome = PlaybookOutcome(2, 0.0, tmp_path)
    assert ci_run.verdict_and_exit_status(outcome) == (
        "error",
        3,
        "verdict pass, but the run failed: Clean up: 3 pods left",
    )


def test_a_verdict_of_an_earlier_session_does_not_count(tmp_path: Path) -> None:
    outcome = PlaybookOutcome(2, time.time() + 60, judged_run(tmp_path, "pass"))
    assert ci_run.verdict_and_exit_status(outcome) == ("error", 3, "the run was not judged: phase report did not run")


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (PlaybookOutcome(2, 0.0, error="preset 'ligth' is unknown"), "preset 'ligth' is unknown"),
        (PlaybookOutcome(4, 0.0), "ansible-playbook ended with status 4 before it opened a run"),
        (PlaybookOutcome(0, 0.0, ended_by="SIGTERM"), "ended by SIGTERM"),
    ],
)
def test_without_a_run_the_job_is_an_error_with_one_case(tmp_path: Path, outcome: PlaybookOutcome, reason: str) -> None:
    assert ci_run.verdict_and_exit_status(outcome) == ("error", 3, reason)
    ci_run.copy_or_write_junit(tmp_path / "new" / "junit.xml", outcome, reason, 3)
    suite = ElementTree.parse(tmp_path / "new" / "junit.xml").getroot()
    assert (suite.get("tests"), suite.get("errors"), suite.get("failures")) == ("1", "1", "0")
    assert suite.find("testsuite/testcase/error").get("message") == reason  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("kind", "status", "copied"), [("", 0, True), ("failure", 1, True), ("error", 3, True), ("", 3, False)]
)
def test_the_junit_file_of_the_run_is_copied_unless_it_shows_no_error(
    tmp_path: Path, kind: str, status: int, copied: bool
) -> None:
    run_dir = judged_run(tmp_path / "run", "pass", kind)
    ci_run.copy_or_write_junit(tmp_path / "junit.xml", PlaybookOutcome(0, 0.0, run_dir), "why", status)
    assert ((tmp_path / "junit.xml").read_text() == (run_dir / "junit.xml").read_text()) is copied


@pytest.mark.parametrize(
    ("phases", "ended_by", "kind"),
    [
        (
            {"test": {"status": "passed"}, "cleanup": {"status": "failed", "cause": "CleanupTimeout"}},
            "",
            "CleanupTimeout",
        ),
        ({"test": {"status": "passed", "cause": "AccessError"}}, "", "RunFailed"),
        ({}, "SIGTERM", "Interrupted"),
    ],
)
def test_the_type_of_an_error_is_the_cause_that_the_run_recorded(
    tmp_path: Path, phases: dict[str, Any], ended_by: str, kind: str
) -> None:
    run_dir = judged_run(tmp_path / "run", "pass")
    files.write_yaml(run_dir / "run.yml", {"phases": phases})
    ci_run.copy_or_write_junit(tmp_path / "junit.xml", PlaybookOutcome(2, 0.0, run_dir, ended_by=ended_by), "why", 3)
    error = ElementTree.parse(tmp_path / "junit.xml").getroot().find("testsuite/testcase/error")
    assert error is not None and error.get("type") == kind


def compared(folder: Path, verdict: str, **more: Any) -> Path:
    """Write a comparison of which one figure is read as the verdict says."""
    code, status = VERDICTS[verdict]
    figure = {"point": "000", "group": "B", "name": "makespan", "unit": "s", "value": 2.0, "simulated": False}
    kpis = [{**figure, "reading": verdict if verdict != "invalid" else "regression", "why": "slower"}]
    document = {
        "schema": "comparison/2",
        "runs": [{"run": "a"}, {"run": "b"}],
        "kpis": kpis,
        "why": ["makespan: slower"],
    }
    judgement = {"verdict": verdict, "code": code, "exit_status": status}
    folder.mkdir(exist_ok=True)
    files.write_json(folder / "comparison.json", {**document, **judgement, **more})
    return folder


@pytest.mark.parametrize(
    ("verdict", "counts"),
    [
        ("pass", (0, 0, 0)),
        ("improvement", (0, 0, 0)),
        ("regression", (1, 0, 0)),
        ("inconclusive", (0, 0, 2)),
        ("invalid", (0, 1, 1)),
    ],
)
def test_a_comparison_ends_with_the_status_of_its_verdict(
    program: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], verdict: str, counts: tuple[int, ...]
) -> None:
    folder = compared(tmp_path / "compare", verdict)
    program(f'echo \'{{"comparison": "{folder}"}}\' > "$SEATRIAL_SESSION_FILE"; exit 2')
    status = VERDICTS[verdict][1]
    assert ci_run.main(["--junit", str(tmp_path / "j.xml"), "compare.yml"]) == status
    assert capsys.readouterr().out == f"{verdict} (exit {status}): makespan: slower\n"
    suite = ElementTree.parse(tmp_path / "j.xml").getroot()[0]
    assert tuple(int(suite.get(name) or 0) for name in ("failures", "errors", "skipped")) == counts


def test_the_points_of_one_run_are_compared_without_a_verdict(tmp_path: Path) -> None:
    folder = compared(tmp_path, "pass")
    document = files.read_json(folder / "comparison.json")
    files.write_json(folder / "comparison.json", {key: document[key] for key in ("schema", "runs")})
    assert ci_run.verdict_and_exit_status(PlaybookOutcome(0, 0.0, comparison=folder)) == (
        "compared",
        0,
        f"see {folder / 'index.html'}",
    )
    assert ci_run.verdict_and_exit_status(PlaybookOutcome(2, 0.0, comparison=folder))[:2] == ("error", 3)
    ci_run.copy_or_write_junit(tmp_path / "junit.xml", PlaybookOutcome(0, 0.0, comparison=folder), "", 0)
    assert 'errors="0"' in (tmp_path / "junit.xml").read_text()


@pytest.mark.parametrize(("given", "seconds"), [("4h", 14400.0), ("4 h", 14400.0), ("90 min", 5400.0), ("30m", 1800.0)])
def test_timeouts_are_durations(given: str, seconds: float) -> None:
    assert ci_run.parse_command_line(["--timeout", given, "p.yml", "-e", "a=b", "--junit", "x"]).timeout == seconds
    found = ci_run.parse_command_line(["p.yml", "-e", "a=b", "--junit", "x"])
    assert (found.playbook, found.arguments, found.junit) == ("p.yml", ["-e", "a=b", "--junit", "x"], None)
    with pytest.raises(InputError, match="--timeout: '2x' has another unit than s"):
        ci_run.parse_command_line(["--timeout", "2x", "p.yml"])


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let a shell script be ansible-playbook."""

    def write(body: str) -> None:
        path = tmp_path / "bin" / "ansible-playbook"
        path.parent.mkdir()
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        monkeypatch.setattr(ci_run.sys, "executable", str(path.parent / "python"))

    return write


def test_a_playbook_states_its_run_in_the_session_file(program: Any, tmp_path: Path) -> None:
    program(f'printf \'{{"run_dir": "{tmp_path}/%s"}}\' "$2" > "$SEATRIAL_SESSION_FILE"; exit 2')
    outcome = ci_run.run_ansible_playbook(["p.yml", "x"], None)
    assert (outcome.code, outcome.run_dir, outcome.ended_by) == (2, tmp_path / "x", "")


def test_bad_input_ends_with_3_a_line_and_a_junit_file(
    program: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program('echo \'{"error": "preset x\\\\nis unknown"}\' > "$SEATRIAL_SESSION_FILE"; exit 2')
    assert ci_run.main(["--junit", str(tmp_path / "j.xml"), "p.yml"]) == 3
    assert capsys.readouterr().out == "error (exit 3): preset x is unknown\n"
    assert 'errors="1"' in (tmp_path / "j.xml").read_text()
    for number, wrong in enumerate((["--timeout", "2x", "p.yml"], ["--no-such-option", "p.yml"], [])):
        target = tmp_path / f"{number}.xml"
        assert ci_run.main(["--junit", str(target), *wrong]) == 3
        assert 'errors="1"' in target.read_text()


@pytest.mark.parametrize(
    "playbook", ["playbooks/replot.yml", f"{ci_run.PLAYBOOKS}/lease.yml", "perfscale.seatrial.doctor"]
)
def test_a_playbook_without_a_verdict_is_refused_before_it_runs(
    program: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    playbook: str,
) -> None:
    program(f"touch {tmp_path}/ran")
    monkeypatch.chdir(ci_run.ROOT)
    assert ci_run.main(["--junit", str(tmp_path / "j.xml"), playbook, "-e", "source=x"]) == 3
    assert f"error (exit 3): {playbook} opens no run, whose verdict" in capsys.readouterr().out
    assert 'errors="1"' in (tmp_path / "j.xml").read_text() and not (tmp_path / "ran").exists()


def test_playbooks_with_a_verdict_are_run(program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(f'echo "$1" >> {tmp_path}/ran')
    monkeypatch.chdir(ci_run.ROOT)
    projects = ["fine_tuning", "workload_scale", "scheduler", "users", "serving", "sample"]
    given = [f"playbooks/{name}.yml" for name in (*projects, "bisect", "ci", "compare")]
    given += ["perfscale.seatrial.users", "me.bench.mine", "mine.yml"]
    for playbook in given:
        ci_run.main(["--junit", str(tmp_path / "j.xml"), playbook])
    assert (tmp_path / "ran").read_text().split() == given


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["playbooks/fine_tunning.yml"], "there is no playbook playbooks/fine_tunning.yml (did you mean "),
        (["--timeout", "0", "p.yml"], "--timeout: it must be longer than 0 s"),
        (["--timeout", "-5 min", "p.yml"], "--timeout: it must be longer than 0 s"),
        (["--timeout", "", "p.yml"], "--timeout: '' is no number"),
    ],
)
def test_wrong_arguments_are_refused_before_the_playbook_runs(
    program: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    wrong: list[str],
    message: str,
) -> None:
    program(f"touch {tmp_path}/ran")
    monkeypatch.chdir(ci_run.ROOT)
    assert ci_run.main(["--junit", str(tmp_path / "j.xml"), *wrong]) == 3
    assert f"error (exit 3): {message}" in capsys.readouterr().out and not (tmp_path / "ran").exists()


def test_a_junit_file_that_cannot_be_written_is_refused_before_the_playbook_runs(
    program: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program(f"touch {tmp_path}/ran")
    (tmp_path / "file").touch()
    for target, message in (
        (tmp_path, f"--junit {tmp_path} is a folder: name a file"),
        (tmp_path / "file" / "j.xml", f"--junit {tmp_path}/file/j.xml: no file can be created in its folder: "),
        (Path("/proc/j.xml"), "--junit /proc/j.xml: no file can be created in its folder: "),
    ):
        assert ci_run.main(["--junit", str(target), "p.yml"]) == 3
        assert f"error (exit 3): {message}" in capsys.readouterr().out
    assert not (tmp_path / "ran").exists()


def test_a_signal_is_passed_on_and_the_job_is_an_error(program: Any, tmp_path: Path) -> None:
    program(f'trap "touch {tmp_path}/received; exit 0" TERM; touch {tmp_path}/up; while :; do sleep 0.1; done')

    def send() -> None:
        while not (tmp_path / "up").exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=send)
    thread.start()
    outcome = ci_run.run_ansible_playbook(["p.yml"], None)
    thread.join()
    assert (outcome.ended_by, (tmp_path / "received").exists()) == ("SIGTERM", True)
    assert ci_run.verdict_and_exit_status(outcome)[1] == 3


def test_after_the_timeout_a_playbook_that_does_not_end_is_killed(program: Any) -> None:
    program("trap '' TERM; while :; do sleep 0.1; done")
    outcome = ci_run.run_ansible_playbook(["p.yml"], 0.3, grace=0.3)
    assert (outcome.ended_by, outcome.code) == ("the timeout of 300 ms", -signal.SIGKILL)


def test_nothing_is_written_without_a_session_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(run_directory.VARIABLE, raising=False)
    run_directory.write_outcome_file({"run_dir": "x"})
    place = tmp_path / "s.json"
    monkeypatch.setenv(run_directory.VARIABLE, str(place))
    assert run_directory.write_outcome_file({"run_dir": "x", "other": 1}) == {"run_dir": "x", "other": 1}
    assert files.read_json(place) == {"run_dir": "x"}
    run_directory.write_outcome_file(InputError("preset x is unknown"))
    assert files.read_json(place) == {"error": "preset x is unknown"}


def test_a_playbook_that_succeeds_without_a_run_is_told_that_it_has_no_verdict() -> None:
    verdict, status, reason = ci_run.verdict_and_exit_status(PlaybookOutcome(0, 0.0))
    assert (verdict, status) == ("error", 3)
    assert "the playbook succeeded, and it opened no run" in reason and "ended with status" not in reason

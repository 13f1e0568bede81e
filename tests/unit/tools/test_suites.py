"""Counting tests: the last line of `make test` must be true."""

from __future__ import annotations

import contextlib
import json
import threading

import lint_checks
import pytest
import suite_prerequisites
import suites
import yaml
from common import ROOT

JUNIT = """<?xml version="1.0"?>
<testsuites><testsuite name="x">
  <testcase classname="a" name="passes"/>
  <testcase classname="a" name="fails"><failure message="no"/></testcase>
  <testcase classname="a" name="breaks"><error message="no"/></testcase>
  <testcase classname="a" name="waits"><skipped message="no chromium here"/></testcase>
  <testcase classname="a" name="waits_too"><skipped message="no chromium here"/></testcase>
  <testcase classname="b" name="empty"><skipped>No tests applicable.</skipped></testcase>
</testsuite></testsuites>
"""


def test_each_kind_of_result_is_counted_and_named(tmp_path):
    (tmp_path / "x.xml").write_text(JUNIT)
    count = suites.Count()
    suites.read_junit(tmp_path / "x.xml", count)
    assert (count.passed, count.failed, count.skipped) == (1, 2, 3)
    assert count.failures == ["a::fails", "a::breaks"]
    assert count.reasons == ["no chromium here", "b::empty: No tests applicable."]


def run(monkeypatch, tmp_path, capsys, **functions):
    """Run main() over suites that return a Count or raise; give its exit code and its lines."""
    monkeypatch.setattr(suites, "OUTPUT", tmp_path / "output")
    monkeypatch.setattr(suites, "locked", lambda *_: contextlib.nullcontext())
    monkeypatch.setattr(suites, "FAST", {name: (lambda n, long, f=f: f()) for name, f in functions.items()})
    code = suites.main([])
    return code, capsys.readouterr().out.rstrip().splitlines()


def test_the_last_line_adds_all_suites(monkeypatch, tmp_path, capsys):
    first, second = suites.Count(passed=3, skipped=1), suites.Count(passed=2)
    code, lines = run(monkeypatch, tmp_path, capsys, one=lambda: first, two=lambda: second)
    assert (code, lines[-1]) == (0, "5 passed, 0 failed, 1 skipped")


def test_a_suite_that_breaks_is_a_failure_and_the_next_one_runs(monkeypatch, tmp_path, capsys):
    def broken():
        raise SystemExit("error: no disk")

    code, lines = run(monkeypatch, tmp_path, capsys, one=broken, two=lambda: suites.Count(passed=2))
    assert (code, lines[-1]) == (1, "2 passed, 1 failed, 0 skipped")
    assert "FAILED in one: SystemExit: error: no disk" in lines


def test_nothing_run_is_no_success(monkeypatch, tmp_path, capsys):
    code, lines = run(monkeypatch, tmp_path, capsys, one=lambda: suites.Count(skipped=4))
    assert (code, lines[-1]) == (1, "0 passed, 0 failed, 4 skipped")


def test_reasons_of_what_was_not_run_are_shown(monkeypatch, tmp_path, capsys):
    count = suites.Count(passed=1)
    count.skip("no chromium here", 2)
    _, lines = run(monkeypatch, tmp_path, capsys, one=lambda: count)
    assert "not run in one: no chromium here" in lines


def test_what_needs_no_prerequisites_runs_while_they_are_provided(monkeypatch):
    order, linted, begun = [], threading.Event(), threading.Event()

    def provide(_suites):
        assert linted.wait(120), "lint waits for programs that it does not start"
        order.append("provided")

    def provide_rest(_suites):
        assert begun.wait(120), "molecule waits for programs that most scenarios do not start"
        order.append("rest")

    def suite(name, _long):
        order.append(name)
        if name == "lint":
            linted.set()
        if name == "molecule":
            begun.set()
        return suites.Count(passed=1)

    monkeypatch.setattr(suites, "prepare", provide)
    monkeypatch.setattr(suites, "prepare_rest", provide_rest)
    results, _seconds = suites.run_all(dict.fromkeys(["molecule", "lint", "integration"], suite), long=False)
    assert order == ["lint", "provided", "molecule", "rest", "integration"]
    assert list(results) == ["molecule", "lint", "integration"]


#: Started by long tests and benchmarks only.
LATER = {
    "appwrapper",
    "coscheduling",
    "endpoint-picker",
    "inference-gateway",
    "kubectl",
    "kserve",
    "kueue-pods-ready",
    "model-server-image",
    "node-failures",
    "node-failures-fast",
    "pod-metrics",
    "python-image",
    "scale-from-zero",
    "training-image",
    "workload-aware",
}  # or has no program


def test_every_component_that_a_fast_test_starts_is_built_before_the_first_test():
    folder = ROOT / "roles" / "rehearsal" / "files" / "components"
    described = {path.parent.name: yaml.safe_load(path.read_text()) for path in folder.glob("*/component.yml")}
    chosen = {name for name, one in described.items() if not one.get("always")}
    node = {other for one in suite_prerequisites.NODE for other in (one, *described[one]["requires"])}
    first = {other for one in suite_prerequisites.FIRST for other in (one, *described[one].get("requires", []))}
    assert chosen - LATER == {*first, *suite_prerequisites.COMPONENTS, *node}


def test_a_scenario_whose_component_is_built_later_waits_for_it(monkeypatch, tmp_path):
    ran, provided = [], threading.Event()

    def logged(command, _log, what, *_more, **_env):
        ran.append((what, provided.is_set()))
        if what == "run":
            provided.set()
        return 0

    monkeypatch.setattr(suites, "run_logged", logged)
    monkeypatch.setattr(suites, "PROVIDED", provided)
    count = suites.molecule("molecule", False)
    assert count.passed == len(ran) - 1 and ran[-1][0] == "stop"
    waited = {"gpu_operator", "nfd", "olm_operator", "rhoai", "scheduler", "serving", "serving_operators"}
    assert {what for what, _done in ran[-1 - len(waited) : -1]} == waited
    assert all(done for what, done in ran if what in waited)
    assert ("cleanup", False) in ran


@pytest.mark.parametrize(("lacks", "built"), [("", True), ("this machine permits root no new namespaces", False)])
def test_a_real_node_is_built_only_where_one_can_run(monkeypatch, lacks, built):
    commands = []
    monkeypatch.setattr(suite_prerequisites, "real_node_lacks", lambda: lacks)
    monkeypatch.setattr(suite_prerequisites, "run_logged", lambda command, *_more, **_env: commands.append(command))
    monkeypatch.setattr(suite_prerequisites, "PROVIDED", threading.Event())
    suite_prerequisites.prepare_rest({"molecule"})
    ((*_rest, wanted),) = commands
    assert suite_prerequisites.PROVIDED.is_set()
    assert (json.loads(wanted)["rehearsal_components"][-2:] == list(suite_prerequisites.NODE)) is built


def test_hooks_of_commits_run_quick_checks_of_lint_on_the_files_of_the_commit():
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    hooks = {hook["id"]: hook for repository in config["repos"] for hook in repository["hooks"]}
    assert set(hooks) == {"ruff-check", "ruff-format", "yamllint"}
    for name, hook in hooks.items():
        program, *options = lint_checks.CHECKS[name][:-1]  # without the folder that lint checks
        assert hook["entry"].replace(" --force-exclude", "").split() == [f".venv/bin/{program}", *options]
        assert hook.get("pass_filenames", True)


def test_a_check_by_name_runs_the_command_of_lint(monkeypatch, capfd):
    monkeypatch.setattr(lint_checks, "CHECKS", {"good": ["python", "-c", "print(1)"], "bad": ["python", "-c", "1/0"]})
    assert lint_checks.main(["good", "bad"]) == 1
    shown = capfd.readouterr()
    assert shown.out == "1\n"
    assert "ZeroDivisionError" in shown.err


def test_an_unknown_check_is_refused_before_any_runs(monkeypatch):
    ran = []
    monkeypatch.setattr(lint_checks.subprocess, "run", ran.append)
    with pytest.raises(SystemExit, match="no check 'ruf-check'; there are .*ruff-check"):
        lint_checks.main(["ruff-check", "ruf-check"])
    assert not ran


def test_the_summary_shows_the_coverage_that_was_measured(tmp_path):
    report = tmp_path / "coverage.json"
    assert suites.read_coverage(report) == ""
    report.write_text('{"totals": {"percent_covered": 91.24, "num_statements": 20500}}')
    count = suites.Count(passed=1, coverage=suites.read_coverage(report))
    shown = suites.table({"unit": (count, 3.0), "lint": (suites.Count(passed=2), 1.0)})
    assert "coverage of unit: 91.2 % of 20,500 statements in plugins/" in shown
    assert "coverage of lint" not in shown


def test_a_version_that_cannot_be_set_up_is_a_failure_and_each_part_of_the_others_is_counted(monkeypatch):
    def run_cell(cell, parts):
        if cell.version == "2.20":
            raise SystemExit("error: no such package")
        return {part: int((cell.version, part) == ("2.21", "trial")) for part in parts}

    monkeypatch.setattr(suites.versions, "run_cell", run_cell)
    monkeypatch.setattr(suites.versions.trixie, "unavailable", lambda: "")
    monkeypatch.setattr(suites.versions.quick_versions.machine_python, "find", lambda _names: ("", "/python"))
    count = suites.versions_suite("versions", True)
    assert (count.passed, count.skipped) == (9, 0)
    assert count.failures == ["2.20: error: no such package", "2.21 trial"]


def test_where_no_root_of_trixie_can_be_made_its_versions_are_reported_as_not_run(monkeypatch):
    monkeypatch.setattr(suites.versions, "run_cell", lambda cell, parts: dict.fromkeys(parts, 0))
    monkeypatch.setattr(suites.versions.trixie, "unavailable", lambda: "it needs the rights of root")
    monkeypatch.setattr(suites.versions.quick_versions.machine_python, "find", lambda _names: ("", "/python"))
    count = suites.versions_suite("versions", True)
    assert (count.passed, count.failed, count.skipped) == (7, 0, 6)
    assert "ansible-core 2.21: it needs the rights of root" in count.reasons


def test_versions_without_their_python_are_reported_as_not_run(monkeypatch):
    monkeypatch.setattr(suites.versions, "run_cell", lambda cell, parts: dict.fromkeys(parts, 0))
    monkeypatch.setattr(suites.versions.trixie, "unavailable", lambda: "")
    monkeypatch.setattr(suites.versions.quick_versions.machine_python, "find", lambda _names: ("", ""))
    count = suites.versions_suite("versions", True)
    assert (count.failed, count.skipped) == (0, 4)
    assert any(reason.startswith("ansible-core 2.16: this machine has no Python") for reason in count.reasons)


@pytest.mark.parametrize("arguments", [["--lnog"], ["unitt"], ["--long", "--bench"]])
def test_wrong_arguments_run_nothing(arguments, monkeypatch):
    monkeypatch.setattr(suites, "locked", lambda *_: pytest.fail("tests were started"))
    with pytest.raises(SystemExit) as error:
        suites.main(arguments)
    assert error.value.code != 0

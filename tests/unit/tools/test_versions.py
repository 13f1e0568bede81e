"""Choosing what runs under which version of ansible-core; the versions that are declared are those that are tested."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
import versions
import yaml
from common import ROOT


def choice(*words):
    cells, parts, command = versions.chosen(list(words))
    return [cell.version for cell in cells], parts, command


def test_without_arguments_everything_runs():
    assert choice() == (list(versions.VERSIONS), list(versions.PARTS), [])


def test_versions_parts_and_a_command_are_chosen_by_name():
    assert choice("trial", "2.21") == (["2.21"], ["trial"], [])
    assert choice("2.20", "--", "make", "trial") == (["2.20"], list(versions.PARTS), ["make", "trial"])


@pytest.mark.parametrize("word", ["2.17", "units", ""])
def test_an_unknown_word_is_one_clear_error(word):
    known = ", ".join(versions.VERSIONS)
    with pytest.raises(SystemExit, match=f"'{word}' is neither a version .{known}. nor a part .unit, "):
        versions.chosen([word])


def test_the_collection_declares_the_versions_that_are_tested():
    lowest, highest = min(versions.VERSIONS), max(versions.VERSIONS)
    runtime = yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text())
    assert runtime["requires_ansible"] == f">={lowest}.0"
    above = f"2.{int(highest.split('.')[1]) + 1}"
    core = re.search(r"^ansible-core>=(\S+),<(\S+) ", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert core and core[1] == lowest and core[2] == above
    packages = [int(package) for package, _ in versions.VERSIONS.values() if package]
    community = re.search(r"^ansible>=(\d+)\.\d+,<(\d+) ", (ROOT / "requirements-pypi.txt").read_text(), re.MULTILINE)
    assert community and (int(community[1]), int(community[2])) == (min(packages), max(packages) + 1)


def test_the_table_of_tested_versions_has_each():
    table = (ROOT / "docs" / "versions.md").read_text()
    rows = re.findall(r"^\| (2\.\d+)\.\d+ \| \S+ \| (?:(\d+)\.\S+|none) \|", table, re.MULTILINE)
    assert rows == [(version, package) for version, (package, _in_root) in versions.VERSIONS.items()]


def test_requirements_name_lower_bounds_only_and_constraints_bound_each():
    """Content for Automation Hub must not pin, nor name ansible-core."""
    lines = [line.partition("#")[0].strip() for line in (ROOT / "requirements.txt").read_text().splitlines()]
    names = [re.fullmatch(r"([A-Za-z0-9-]+)>=[0-9.]+", line) for line in lines if line]
    assert all(names)
    bounded = re.findall(r"^([A-Za-z0-9-]+)\S*<[0-9.]+", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert [name[1] for name in names] == [name for name in bounded if name != "ansible-core"]


def test_older_versions_run_sanity_and_the_main_job():
    cells, _parts, _command = versions.chosen(["2.16", "2.19"])
    assert [list(cell.parts) for cell in cells] == [["sanity", "trial"], ["unit", "sanity", "trial"]]


def test_sanity_ignores_no_less_under_a_later_version():
    files = {path.name: set(path.read_text().splitlines()) for path in (ROOT / "tests" / "sanity").glob("ignore-*.txt")}
    names = [f"ignore-{version}.txt" for version in versions.VERSIONS]
    assert sorted(files) == names
    assert all(files[earlier] <= files[later] for earlier, later in pairwise(names))


def test_the_workflow_runs_what_ci_runs_and_each_version():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]
    commands = {name: [step.get("run", "") for step in job["steps"]] for name, job in jobs.items()}
    assert ".ci/run" in commands["tests"]
    assert {'make test SUITES="unit sanity"', "make trial"} <= set(commands["versions"])
    older = [version for version, (package, _in_root) in versions.VERSIONS.items() if not package]
    assert f"python3 tools/versions.py {' '.join(older)}" in commands["older-versions"]
    assert set(versions.PARTS) == {"unit", "sanity", "trial"}
    cells = {one["core"]: one["package"] for one in jobs["versions"]["strategy"]["matrix"]["include"]}
    assert cells == {version: package for version, (package, _in_root) in versions.VERSIONS.items() if package}


def test_a_version_without_its_python_is_said_and_the_others_run(monkeypatch, capsys):
    monkeypatch.setattr(versions.quick_versions.machine_python, "find", lambda _names: ("", ""))
    monkeypatch.setattr(versions.trixie, "unavailable", lambda: "")
    monkeypatch.setattr(versions, "check_space", lambda _needs: [])
    monkeypatch.setattr(versions.Cell, "prepare", lambda _cell: None)
    monkeypatch.setattr(versions.Cell, "run", lambda *_arguments: 0)
    with pytest.raises(SystemExit) as ended:
        versions.main(["2.16", "2.21", "trial"])
    said = capsys.readouterr().out
    assert not ended.value.code
    assert "not run: ansible-core 2.16: this machine has no Python" in said and "1 passed" in said
    with pytest.raises(SystemExit, match="has no Python"):  # nothing else was asked for
        versions.main(["2.16"])

"""The quick check of the versions of ansible-core that are not in .venv."""

from __future__ import annotations

import contextlib
import json
import sys

import machine_python
import pytest
import quick_versions
import suites
import versions


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_a_python_is_found_where_pyenv_keeps_it_although_its_stand_in_does_not_run(monkeypatch, tmp_path):
    program(tmp_path / "bin" / "python3.12", "exit 127")
    kept = program(tmp_path / "pyenv" / "versions" / "3.12.1" / "bin" / "python3.12", '[ "$3" = 3.12 ]')
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    assert machine_python.find(["3.99", "3.12"]) == ("3.12", kept)
    assert machine_python.find(["3.99"]) == ("", "")


def test_this_python_works_and_has_its_own_version_only():
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert machine_python.works(sys.executable, own) and not machine_python.works(sys.executable, "3.99")


def test_each_supported_version_and_python_is_checked_somewhere():
    assert list(quick_versions.PYTHONS) == list(versions.VERSIONS)
    assert (min(versions.VERSIONS), max(versions.VERSIONS)) == quick_versions.QUICK
    first = {pythons[0] for pythons in quick_versions.PYTHONS.values()}
    assert first == {"3.11", "3.12", "3.13"}


def test_what_is_not_in_venv_is_checked_or_named_with_a_reason(monkeypatch):
    monkeypatch.setattr(quick_versions, "installed", lambda: "2.20")
    monkeypatch.setattr(machine_python, "find", lambda wanted: ("3.11", "/p") if "3.11" in wanted else ("", ""))
    found, lacking = quick_versions.environments()
    assert [(one.version, one.python) for one in found] == [("2.16", "/p")]
    assert lacking == ["ansible-core 2.21: this machine has no Python 3.13 or 3.12 (make versions)"]


@pytest.mark.parametrize("failing", ["", "venv", "preset=light"])
def test_an_environment_is_made_once_and_a_failure_is_counted(monkeypatch, tmp_path, failing):
    one, commands = quick_versions.Environment("2.21", "/python"), []

    def run_logged(command, log, label, limit, env=None):
        commands.append(command)
        one.folder.mkdir(parents=True, exist_ok=True)
        return 3 if failing and failing in command else 0

    monkeypatch.setattr(quick_versions, "seatrial_cache", lambda: tmp_path)
    monkeypatch.setattr(quick_versions, "run_logged", run_logged)
    monkeypatch.setattr(quick_versions, "locked", lambda *_: contextlib.nullcontext())
    count = suites.Count()
    suites.add_codes(count, "2.21", quick_versions.check(one, tmp_path))
    if failing == "venv":
        assert (count.passed, count.failures) == (0, ["2.21 environment"])
        return
    assert count.failures == (["2.21 main job"] if failing else []) and count.passed == 3 - bool(failing)
    assert json.loads((one.folder / "complete.json").read_text())["packages"][0] == "ansible-core==2.21.*"
    assert "install" in commands[1] and any(word.startswith("pytest>") for word in commands[1])
    made = len(commands)
    quick_versions.check(one, tmp_path)
    assert len(commands) == made + 3, "an environment is made once"

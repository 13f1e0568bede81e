"""The virtual environment: nothing twice, nothing half."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess

import common
import pytest
import setup
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A folder with requirement files, and pip replaced by a note of what it was asked."""
    (tmp_path / "requirements.txt").write_text("a>=1,<2\n")
    (tmp_path / "requirements-pypi.txt").write_text("-r requirements.txt\nb>=1,<2\n")
    (tmp_path / "test-requirements.txt").write_text("-r requirements-pypi.txt\nc>=1,<2\n")
    (tmp_path / "tools" / "locks").mkdir(parents=True)
    for level in setup.LEVELS:
        (tmp_path / setup.lock_of(level)).write_text("a==1.0\n")
    venv = tmp_path / ".venv"
    for module in (common, setup):
        monkeypatch.setattr(module, "ROOT", tmp_path)
        monkeypatch.setattr(module, "VENV", venv)
        monkeypatch.setattr(module, "CACHE", tmp_path / ".cache")
    monkeypatch.setattr(setup, "DONE", venv / "complete.json")
    monkeypatch.setattr(setup, "BUSY", venv / "installing")
    monkeypatch.setattr(setup, "VENV_GB", 0.001)
    monkeypatch.setattr(setup, "create", lambda: ((venv / "bin").mkdir(exist_ok=True), (venv / "bin/python").touch()))
    asked = []
    monkeypatch.setattr(setup, "install", asked.append)
    monkeypatch.setattr(setup, "compile_used", lambda: None)
    monkeypatch.setattr(setup.leftovers, "RUNS", tmp_path / ".cache" / "runs")
    monkeypatch.setattr(setup.leftovers, "begun", contextlib.nullcontext)
    return tmp_path, asked


def test_second_call_installs_nothing(clone):
    _, asked = clone
    setup.main("user")
    setup.main("user")
    assert asked == ["user"]


def test_what_tests_need_covers_what_users_need(clone):
    _, asked = clone
    setup.main("test")
    setup.main("user")
    assert asked == ["test"]


def test_tests_need_more_than_users(clone):
    _, asked = clone
    setup.main("user")
    setup.main("test")
    assert asked == ["user", "test"]


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-pypi.txt", "tools/locks/user.txt"])
def test_a_changed_file_is_noticed_also_when_only_included(clone, name):
    root, asked = clone
    setup.main("user")
    with open(root / name, "a") as stream:
        stream.write("d>=1,<2\n")
    setup.main("user")
    assert asked == ["user", "user"]


def test_an_interrupted_set_up_is_never_taken_for_complete(clone, monkeypatch):
    root, asked = clone

    def killed(level):
        (root / ".venv" / "half").touch()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(setup, "install", killed)
        with pytest.raises(KeyboardInterrupt):
            setup.main("user")
    assert not setup.is_complete("user")
    setup.main("user")
    assert asked == ["user"] and setup.is_complete("user")
    assert not (root / ".venv" / "half").exists()


def test_an_environment_of_other_versions_is_not_that_of_the_pinned_ones(clone, monkeypatch):
    monkeypatch.setenv("PIP_CONSTRAINT", "others.txt")
    setup.main("user")
    assert setup.is_complete("user")
    monkeypatch.delenv("PIP_CONSTRAINT")
    assert not setup.is_complete("user")


def test_what_a_killed_set_up_left_running_ends_before_anything_is_written(clone, monkeypatch):
    root, asked = clone
    ended = f"3-{os.getpid()}"
    (root / ".cache" / "runs" / ended).mkdir(parents=True)
    left = subprocess.Popen(["sleep", "300"], env={**os.environ, setup.leftovers.MARK: ended}, start_new_session=True)
    create, seen = setup.create, []
    monkeypatch.setattr(setup, "create", lambda: (seen.append(setup.leftovers.marked(ended)), create()))
    try:
        setup.main("user")
    finally:
        left.kill()
        left.wait()
    assert (seen, asked) == ([{}], ["user"])


def test_a_moved_clone_is_set_up_anew(clone):
    root, asked = clone
    setup.main("user")
    record = json.loads((root / ".venv" / "complete.json").read_text())
    (root / ".venv" / "complete.json").write_text(json.dumps({**record, "where": "/elsewhere/.venv"}))
    (root / ".venv" / "old").touch()
    setup.main("user")
    assert asked == ["user", "user"] and not (root / ".venv" / "old").exists()


def test_too_little_disk_is_said_before_anything_is_made(clone, monkeypatch):
    root, asked = clone
    monkeypatch.setattr(setup, "VENV_GB", 1e9)
    with pytest.raises(SystemExit, match=r"1000000000\.0 GB of disk needed .*GB free"):
        setup.main("user")
    assert asked == [] and not (root / ".venv").exists()


def test_the_repositorys_own_levels_name_files_that_exist():
    assert {name for level in setup.LEVELS for name in setup.wanted(level)} == {
        "requirements.txt",
        "constraints.txt",
        "requirements-pypi.txt",
        "test-requirements.txt",
        "tools/locks/user.txt",
        "tools/locks/test.txt",
    }


def locked(level):
    """(name, version, whether the line has a hash) of each package of a lock."""
    text = (setup.ROOT / setup.lock_of(level)).read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(*line.split()[0].split("=="), "--hash=sha256:" in line) for line in lines]


@pytest.mark.parametrize("level", setup.LEVELS)
def test_what_is_installed_is_pinned_by_hashes_and_fits_the_requirements(level):
    packages = locked(level)
    assert all(hashed for _name, _version, hashed in packages)
    versions = {}
    for name, version, _hashed in packages:
        versions.setdefault(canonicalize_name(name.partition("[")[0]), []).append(version)
    wanted = [name for name in setup.wanted(level) if not name.startswith("tools/")]
    lines = [line.partition("#")[0].strip() for name in wanted for line in (setup.ROOT / name).read_text().splitlines()]
    requirements = [Requirement(line) for line in lines if line and not line.startswith("-")]
    assert len(requirements) > 8
    for requirement in requirements:
        pinned = versions.get(canonicalize_name(requirement.name))
        assert pinned and all(version in requirement.specifier for version in pinned), f"{requirement}: make lock"


def test_extras_are_pinned_too():
    """An older pip does not recognize "coverage" as the pin of "coverage[toml]", which pytest-cov requires."""
    assert any(name == "coverage[toml]" for name, _version, _hashed in locked("test"))


def test_users_and_tests_install_the_same_versions():
    assert {entry[:2] for entry in locked("user")} <= {entry[:2] for entry in locked("test")}


def test_constraints_of_the_caller_replace_the_pinned_versions(monkeypatch, capsys):
    asked = []
    monkeypatch.setenv("PIP_CONSTRAINT", "/some/constraints")  # as tools/versions.py sets it
    monkeypatch.setattr(setup, "run_logged", lambda command, *_rest: asked.append(command) or 0)
    setup.install("test")
    (command,) = asked
    assert "--require-hashes" not in command
    assert command[-4:] == ["-r", "requirements-pypi.txt", "-r", "test-requirements.txt"]
    assert "without hashes" in capsys.readouterr().out


def test_pip_is_asked_to_check_the_hashes(monkeypatch):
    asked = []
    monkeypatch.delenv("PIP_CONSTRAINT", raising=False)
    monkeypatch.setattr(setup, "run_logged", lambda command, *_rest: asked.append(command) or 0)
    setup.install("user")
    (command,) = asked
    assert command[-3:] == ["--require-hashes", "-r", "tools/locks/user.txt"]


def test_a_python_without_venv_says_what_to_install(clone, monkeypatch):
    root, _ = clone
    (root / "python").write_text(
        "#!/bin/sh\necho 'The virtual environment was not created: ensurepip is not available'\nexit 1\n"
    )
    (root / "python").chmod(0o755)
    monkeypatch.undo()
    monkeypatch.setattr(setup, "VENV", root / ".venv")
    monkeypatch.setattr(setup, "CACHE", root / ".cache")
    (root / ".venv").mkdir()
    monkeypatch.setattr(setup.sys, "executable", str(root / "python"))
    with pytest.raises(SystemExit, match="can't make virtual environments. Install its venv module"):
        setup.create()
    assert not (root / ".venv").exists()

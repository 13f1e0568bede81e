"""Debian packages: installed only by root on a Debian, else said and done without."""

from __future__ import annotations

import debian_packages
import pytest


@pytest.fixture
def machine(monkeypatch):
    """A machine of which the test says what it has; answers the commands that were run."""
    commands = []
    monkeypatch.setattr(debian_packages, "run_logged", lambda command, *_, **__: commands.append(command) or 0)

    def make(programs, user):
        monkeypatch.setattr(debian_packages.shutil, "which", lambda name: name if name in programs else None)
        monkeypatch.setattr(debian_packages.os, "geteuid", lambda: user)
        return commands

    return make


def test_a_chromium_that_is_there_is_taken(machine, tmp_path, capsys):
    commands = machine({"chromium-browser", "apt-get"}, 0)
    debian_packages.ensure_chromium(tmp_path / "log")
    assert commands == [] and capsys.readouterr().out == ""


@pytest.mark.parametrize(("programs", "user"), [({"apt-get"}, 1000), (set(), 0)])
def test_without_root_or_apt_nothing_is_installed_and_that_is_said(machine, tmp_path, capsys, programs, user):
    commands = machine(programs, user)
    debian_packages.ensure_chromium(tmp_path / "log")
    assert commands == [] and "tests that need it are not run" in capsys.readouterr().out


def test_root_on_debian_gets_it_from_apt(machine, tmp_path):
    commands = machine({"apt-get"}, 0)
    debian_packages.ensure_chromium(tmp_path / "log")
    assert [command[:2] for command in commands] == [["apt-get", "update"], ["apt-get", "install"]]

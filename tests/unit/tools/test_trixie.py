"""A root of Debian trixie: where it comes from, and that a command in it leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
import trixie
from common import ROOT


def test_the_mirror_is_the_one_that_apt_uses(monkeypatch, tmp_path):
    apt = tmp_path / "apt-get"
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for listed, found in (
        ("Debian|Debian-Security|http://sec.example/\nDebian|Debian|http://deb.example/", ["http://deb.example/"]),
        ("Ubuntu|Ubuntu|http://u.example/", []),
    ):
        apt.write_text(f"#!/bin/sh\ncat << 'END'\n{listed}\nEND\n")
        apt.chmod(0o755)
        assert trixie.mirror() == found


@pytest.mark.parametrize(
    ("user", "programs", "reason"), [(1000, {"apt-get"}, "rights of root"), (0, set(), "no apt-get")]
)
def test_a_machine_that_cannot_have_a_root_says_why(monkeypatch, user, programs, reason):
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(trixie.shutil, "which", lambda name: name if name in programs else None)
    assert reason in trixie.unavailable()


def test_the_environment_has_nothing_of_this_machines_ansible(monkeypatch):
    monkeypatch.setenv("ANSIBLE_CONFIG", "/elsewhere")
    monkeypatch.setenv("PIP_INDEX_URL", "https://pypi.example/simple")
    found = trixie.environment(ARTIFACT_DIR="/tmp/artifacts")
    assert "ANSIBLE_CONFIG" not in found and found["PIP_INDEX_URL"] == "https://pypi.example/simple"
    assert found["HOME"] == "/root" and found["ARTIFACT_DIR"] == "/tmp/artifacts"


@pytest.mark.long
@pytest.mark.skipif(bool(trixie.unavailable()), reason=trixie.unavailable())
def test_a_command_sees_the_clone_and_ends_with_its_mounts_and_processes(tmp_path):
    trixie.create(tmp_path / "log")
    root = trixie.folder()
    binds = [*trixie.shared(), (ROOT, trixie.INSIDE), (tmp_path, "/tmp")]
    body = "import sys; print(sys.version_info[:2], open('galaxy.yml').read()[:3])"
    done = subprocess.run(
        trixie.entering(root, binds, ["python3", "-c", body]),
        capture_output=True,
        text=True,
        env=trixie.environment(),
        timeout=60,
    )
    assert done.stdout == "(3, 13) ---\n", done.stderr

    sleeper = ["sh", "-c", "sleep 987654 & touch /tmp/started; wait"]
    process = subprocess.Popen(trixie.entering(root, binds, sleeper), env=trixie.environment())
    end = time.monotonic() + 120
    while not (tmp_path / "started").exists():
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.1)
    process.kill()
    process.wait(120)
    while any(b"987654" in words for words in command_lines()):
        assert time.monotonic() < end, "a process was left"
        time.sleep(0.1)
    assert str(root) not in Path("/proc/self/mounts").read_text()


def command_lines():
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield path.read_bytes()
        except OSError:
            continue

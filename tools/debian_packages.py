"""Debian packages that some tests need: installed if permitted, else those tests are reported as not run."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from common import quiet_environment, run_logged, say


def chromium() -> str | None:
    """Path of a Chromium that can make screenshots."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def sshd() -> str | None:
    """Path of an SSH server."""
    return shutil.which("sshd") or shutil.which("/usr/sbin/sshd")


def apt_install(package: str, log: Path) -> str:
    """Install a Debian package; return what failed, "" if nothing did."""
    env = quiet_environment(DEBIAN_FRONTEND="noninteractive")
    for command in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", package]):
        if run_logged(command, log, " ".join(command[:2]), 600, env=env):
            return f"{' '.join(command)} failed (see {log})"
    return ""


def ensure_chromium(log: Path) -> None:
    """Install Debian's chromium if it is missing and we are root on Debian; else report that its tests are not run."""
    if chromium():
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        say("chromium is missing and can't be installed (not root, or no apt-get): tests that need it are not run")
        return
    say("installing Debian's chromium for the tests of the report")
    if failed := apt_install("chromium", log):
        say(f"{failed}: tests that need chromium are not run")


def ensure_sshd(log: Path) -> None:
    """Install Debian's openssh-server if it is missing and we are root on Debian. No service is started."""
    if sshd():
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        say("sshd is missing and can't be installed (not root, or no apt-get): tests that need it are not run")
        return
    say("installing Debian's openssh-server for the tests of loads on another host")
    policy = Path("/usr/sbin/policy-rc.d")
    ours = not policy.exists()
    if ours:  # what Debian asks before it starts a service that was just installed
        policy.write_text("#!/bin/sh\nexit 101\n", encoding="ascii")
        policy.chmod(0o755)
    try:
        if failed := apt_install("openssh-server", log):
            say(f"{failed}: tests that need sshd are not run")
    finally:
        if ours:
            policy.unlink(missing_ok=True)

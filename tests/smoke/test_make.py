"""The Makefile's targets, as far as they are not tests of tests themselves."""

from __future__ import annotations

import re

import pytest


def test_help_names_every_target(root, start):
    targets = set(re.findall(r"^([a-z-]+):", (root / "Makefile").read_text(), re.MULTILINE))
    done = start("make", "-C", str(root), "help")
    assert done.returncode == 0
    assert set(re.findall(r"^  make ([a-z-]+) ", done.stdout, re.MULTILINE)) == targets


def test_an_unknown_project_is_one_clear_error(root, start):
    done = start("make", "--no-print-directory", "-C", str(root), "trial", "PROJECT=fine_tunning")
    assert done.returncode != 0
    assert "PROJECT=fine_tunning: there is no such project (did you mean 'fine_tuning'?)" in done.stdout
    assert "Traceback" not in done.stdout


def test_an_unknown_preset_fails_with_the_playbooks_own_error(root, start):
    done = start("make", "--no-print-directory", "-C", str(root), "trial", "PRESET=lihgt")
    assert done.returncode != 0
    assert "lihgt" in done.stdout and "did you mean 'light'?" in done.stdout


@pytest.mark.parametrize("wrong", ["/bin/false", "/no/such/python"])
def test_a_python_that_does_not_fit_is_one_clear_error(root, start, wrong):
    done = start("make", "--no-print-directory", "-C", str(root), "setup", f"PYTHON={wrong}")
    assert done.returncode != 0
    assert f"PYTHON={wrong} is not Python 3.11 or newer" in done.stdout


def test_an_unknown_suite_is_one_clear_error(root, start):
    done = start("python", str(root / "tools" / "suites.py"), "lnit")
    assert done.returncode != 0
    assert "there is no suite 'lnit'" in done.stdout

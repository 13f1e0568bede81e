"""Modules that are run where they lie, instead of packed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions import module_actions


def run(program: bytes, folder: Path) -> dict[str, Any]:
    """Run a program as Ansible does with pipelining: from stdin."""
    environment = {"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin"}
    words = [sys.executable]
    done = subprocess.run(words, input=program, capture_output=True, env=environment, cwd=folder, timeout=600)
    assert not done.stderr, done.stderr.decode()
    return json.loads(done.stdout)


def test_a_module_gets_its_arguments_and_tells_its_result(tmp_path: Path) -> None:
    # What Ansible's community package brings: a package that would hide every other folder of this name.
    (tmp_path / "ansible_collections").mkdir()
    (tmp_path / "ansible_collections" / "__init__.py").touch()
    folder = module_actions.collections_parent_folder()
    assert folder is not None
    made = module_actions.module_program("perfscale.seatrial.runai_files", {"run_dir": str(tmp_path / "näme")}, folder)
    said = run(made.b_module_data, tmp_path)
    assert said["failed"] and "näme" in said["msg"]
    assert "required arguments: run_dir" in run(
        module_actions.module_program("perfscale.seatrial.runai_files", {}, folder).b_module_data, tmp_path
    ).get("msg", "")


class Action(module_actions.InPlaceAction):
    """An action that is only asked where its module would run."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        raise AssertionError("not reached")


def action(transport: str = "local", become: Any = None, delegate_to: str | None = None) -> Action:
    made = Action.__new__(Action)
    made._connection = SimpleNamespace(transport=transport, become=become)
    made._task = SimpleNamespace(async_val=0, delegate_to=delegate_to)
    made._templar = SimpleNamespace(template=lambda text: text)
    return made


@pytest.mark.parametrize(
    ("given", "variables", "home"),
    [
        ({}, {"ansible_python_interpreter": sys.executable}, True),
        ({}, {"ansible_python_interpreter": "/usr/bin/other"}, False),
        ({}, {}, False),
        ({"transport": "ssh"}, {"ansible_python_interpreter": sys.executable}, False),
        ({"become": object()}, {"ansible_python_interpreter": sys.executable}, False),
        (
            {"delegate_to": "h"},
            {"ansible_delegated_vars": {"h": {"ansible_python_interpreter": sys.executable}}},
            True,
        ),
        ({"delegate_to": "h"}, {"ansible_python_interpreter": sys.executable}, False),
    ],
)
def test_only_what_would_run_here_as_us_with_this_python_is_at_home(
    given: dict[str, Any], variables: dict[str, Any], home: bool
) -> None:
    assert action(**given)._is_local(variables) is home


def test_ansible_runs_the_program_instead_of_a_packed_module(tmp_path: Path) -> None:
    """Ansible keeps what it ran: with a version whose internals differ it would be a packed module."""
    root = Path(__file__).parents[5]
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "ANSIBLE_COLLECTIONS_PATH": str(root / "collections"),
        "ANSIBLE_REMOTE_TMP": str(tmp_path / "kept"),
        "ANSIBLE_PIPELINING": "0",
        "ANSIBLE_KEEP_REMOTE_FILES": "1",
    }
    words = ["localhost", "-m", "perfscale.seatrial.runai_files", "-a", f"run_dir={tmp_path / 'no-run'}"]
    words += ["-e", f"ansible_python_interpreter={sys.executable}"]
    done = subprocess.run(
        [str(Path(sys.executable).with_name("ansible")), *words],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        timeout=600,
    )
    assert "no-run" in done.stdout, done.stdout + done.stderr
    (kept,) = (tmp_path / "kept").glob("*/*runai_files*")
    assert b"runpy.run_module" in kept.read_bytes()[:2000]

"""Which modules run where they lie, instead of packed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions import action_base, module_actions


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


def test_ansible_packs_nothing_for_a_module_that_runs_in_a_fork(tmp_path: Path) -> None:
    """Ansible keeps what it packs and transfers: with a version whose internals differ it would be a packed module."""
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
    assert not list((tmp_path / "kept").glob("*/*runai_files*"))


@pytest.mark.parametrize("error", [InputError, DataError])
def test_an_error_that_repeats_a_giant_value_is_shown_without_its_middle(error: type[Exception]) -> None:
    with pytest.raises(AnsibleActionFail) as failed, action_base.ansible_errors():
        raise error(f"'{'a' * 10_000_000}' is too long (set by -e)")
    assert len(str(failed.value)) < 5000 and str(failed.value).endswith("is too long (set by -e)")

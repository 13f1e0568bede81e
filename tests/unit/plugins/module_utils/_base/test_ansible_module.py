# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a module ends: its result, and its warnings in the way that ansible-core keeps."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module, step_directory
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError


class Failed(Exception):
    """The module has failed; its argument is the result."""


class EndingModule:
    """Records how it is ended; ansible-core deprecates that exit_json gets warnings."""

    params: dict[str, Any] = {}

    def __init__(self) -> None:
        self.warned: list[str] = []
        self.result: dict[str, Any] = {}

    def warn(self, warning: str) -> None:
        self.warned.append(warning)

    def fail_json(self, **result: Any) -> None:
        raise Failed(result)

    def exit_json(self, **result: Any) -> None:
        self.result = result


def test_warnings_of_a_result_are_given_one_by_one() -> None:
    module = EndingModule()
    ansible_module.run_module_work(module, lambda step: {"changed": True, "warnings": ["the first", "the \x1b[2J"]})
    assert (module.warned, module.result) == (["the first", "the \u241b[2J"], {"changed": True})
    reported = {"msg": "all", "ansible_facts": {"discovered_interpreter_python": "/tmp/python"}, "_ansible_x": 1}
    ansible_module.run_module_work(module, lambda step: reported)
    assert module.result == {"msg": "all"}
    result = {"summary": "", "warnings": ["the \x1b]52;c;eA==\x07"]}
    step_directory.log_summary_and_warnings(step_directory.StepDirectory(None), module.warn, result)
    assert module.warned[2:] == ["the \u241b]52;c;eA==\u2407"]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(errno.ENOSPC, "No space"), "no space left on device, a disk of this machine is full"),
        (
            OSError(errno.EDQUOT, "Quota", "/runs/a/timeline.jsonl"),
            "no space left on device, a disk of this machine is full: /runs/a/timeline.jsonl can't be written",
        ),
        (OSError(errno.EIO, "Input/output error"), "an error in this module: OSError: [Errno 5] Input/output error "),
        (InputError("no model \x1b[2J\u202e, but one"), "no model \u241b[2J\ufffd, but one"),
        (ValueError("\x1b[2J"), "an error in this module: ValueError: \u241b[2J (test_ansible_module.py:"),
        (KeyError("about"), "an error in this module: KeyError: 'about' (test_ansible_module.py:"),
    ],
)
def test_a_full_disk_is_one_sentence_and_another_error_has_its_place(error: Exception, message: str) -> None:
    def work(_step: object) -> dict[str, Any]:
        raise error

    with pytest.raises(Failed) as failed:
        ansible_module.run_module_work(EndingModule(), work)
    assert failed.value.args[0]["msg"].startswith(message)
    assert failed.value.args[0]["error"] == type(error).__name__


def test_a_message_that_repeats_a_giant_value_is_shown_without_its_middle() -> None:
    def work(_step: object) -> dict[str, Any]:
        raise InputError(f"namespace: '{'a' * 30_000_000}' can't be the name of a namespace (set by -e)")

    with pytest.raises(Failed) as failed:
        ansible_module.run_module_work(EndingModule(), work)
    message = failed.value.args[0]["msg"]
    assert message.startswith("namespace: 'aaa") and message.endswith("can't be the name of a namespace (set by -e)")
    assert len(message) < 5000


def test_nothing_that_a_module_writes_is_writable_by_everybody(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        ansible_module.run_module_work(EndingModule(), lambda _step: {"changed": (tmp_path / "data").mkdir()})
    finally:
        os.umask(before)
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o775

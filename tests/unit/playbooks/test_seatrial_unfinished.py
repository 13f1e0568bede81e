"""The callback of all playbooks makes a relative run_dir absolute, which no task could."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

PLUGIN = Path(__file__).resolve().parents[3] / "playbooks/callback_plugins/seatrial_unfinished.py"


def after_the_start(extra: dict[str, Any]) -> dict[str, Any]:
    """The extra variables after a play has started."""
    spec = importlib.util.spec_from_file_location("seatrial_unfinished", PLUGIN)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    play: Any = SimpleNamespace(get_variable_manager=lambda: SimpleNamespace(extra_vars=extra))
    module.CallbackModule().v2_playbook_on_play_start(play)
    return extra


@pytest.mark.parametrize("given", ["runs/one", "./runs/../runs/one", "~/runs/one", "/runs/one"])
def test_a_relative_run_directory_is_that_of_the_user(given: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    expected = os.path.abspath(os.path.expanduser(given))
    assert after_the_start({"run_dir": given, "preset": "light"}) == {"run_dir": expected, "preset": "light"}


@pytest.mark.parametrize("extra", [{}, {"run_dir": ""}, {"run_dir": "{{ lookup('env', 'RUN') }}"}, {"run_dir": None}])
def test_anything_else_stays(extra: dict[str, Any]) -> None:
    assert after_the_start(dict(extra)) == extra

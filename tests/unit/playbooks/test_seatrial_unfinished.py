"""The callback of all playbooks makes a relative run_dir absolute, which no task could."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from ansible import context
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import give_back_on_exit
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import project_role, settings_catalogue

PLUGIN = Path(__file__).resolve().parents[3] / "playbooks/callback_plugins/seatrial_unfinished.py"


@pytest.fixture(autouse=True)
def signals_of_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """The handlers of signals stay those of pytest."""
    monkeypatch.setattr(give_back_on_exit.RunWatch, "install", lambda _watch: None)


def after_the_start(extra: dict[str, Any], play_vars: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """The extra variables after a play has started."""
    spec = importlib.util.spec_from_file_location("seatrial_unfinished", PLUGIN)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    manager = SimpleNamespace(extra_vars=extra)
    play: Any = SimpleNamespace(get_variable_manager=lambda: manager, get_vars=lambda: play_vars)
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


def test_the_tasks_that_open_a_run_are_not_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "CLIARGS", {"start_at_task": "Begin phase test"})
    with pytest.raises(SystemExit, match="--start-at-task skips the tasks that open the run"):
        after_the_start({}, {"run_phases": ["test"]})
    assert after_the_start({}) == {}, "a playbook without a run"


def test_a_run_reads_the_catalogue_of_the_settings_before_its_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Any] = []
    monkeypatch.setattr(settings_catalogue, "load_catalogue", read.append)
    after_the_start({})
    assert not read, "a playbook without a run"
    after_the_start({}, {"run_phases": ["test"]})
    assert read == [project_role.ROOT]

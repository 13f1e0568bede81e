"""The routes of meta/runtime.yml from modules to the action plugins that they share."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ansible_collections.perfscale.seatrial.plugins.action import (
    _progress,
    _run_with_user_paths,
    results,
    results_source,
    topsail_presets,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions.action_base import BadInput, SeatrialAction
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions.module_actions import (
    InPlaceAction,
    ProgressAction,
)

ROOT = Path(__file__).resolve().parents[4]
PREFIX = "perfscale.seatrial."
ACTIONS = "ansible_collections.perfscale.seatrial.plugins.action"
MODULES = sorted((ROOT / "plugins" / "modules").glob("*.py"))
ROUTES = {
    name: route["action_plugin"].removeprefix(PREFIX)
    for name, route in yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text())["plugin_routing"]["modules"].items()
    if "action_plugin" in route
}


def action_of(module: str) -> str:
    """The action plugin of a module, routed or of the module's name."""
    return ROUTES.get(module, module)


@pytest.mark.parametrize("name", [path.stem for path in MODULES if "ansible_module.PROGRESS" in path.read_text()])
def test_a_module_that_reports_progress_has_an_action_that_shows_it(name: str) -> None:
    assert issubclass(importlib.import_module(f"{ACTIONS}.{action_of(name)}").ActionModule, ProgressAction)


@pytest.mark.parametrize("name", ROUTES)
def test_a_route_leads_from_a_module_to_an_action_plugin(name: str) -> None:
    assert (ROOT / "plugins" / "modules" / f"{name}.py").is_file()
    assert not (ROOT / "plugins" / "action" / f"{name}.py").exists(), "the route would hide it"
    assert issubclass(importlib.import_module(f"{ACTIONS}.{ROUTES[name]}").ActionModule, InPlaceAction)


@pytest.mark.parametrize("name", [path.stem for path in MODULES])
def test_no_module_is_packed_on_the_local_machine(name: str) -> None:
    """Packing takes up to a second of processor time. An action runs its module in place, or does the work itself."""
    action = importlib.import_module(f"{ACTIONS}.{action_of(name)}").ActionModule
    assert issubclass(action, (InPlaceAction, SeatrialAction))


ASYNC = """
- hosts: localhost
  gather_facts: false
  tasks:
    - perfscale.seatrial.olm_operator_info: {name: a}
      async: 30
      poll: 1
      register: done
      ignore_errors: true
    - ansible.builtin.debug: {var: done}
"""


def test_a_routed_module_still_runs_asynchronously(tmp_path: Path) -> None:
    (tmp_path / "play.yml").write_text(ASYNC)
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_STDOUT_CALLBACK": "default"}
    command = [str(Path(sys.executable).parent / "ansible-playbook"), str(tmp_path / "play.yml")]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert "ansible_job_id" in done.stdout and "missing required arguments" in done.stdout, done.stdout


def test_every_action_plugin_belongs_to_a_module() -> None:
    names = {path.stem for path in (ROOT / "plugins" / "action").glob("*.py")}
    assert names == {action_of(path.stem) for path in MODULES} & names


FIND = """
import sys
from ansible.plugins.loader import action_loader, init_plugin_loader, module_loader
init_plugin_loader()
for name in sys.argv[1:]:
    found = module_loader.find_plugin_with_context(name, collection_list=["perfscale.seatrial"])
    print(found.resolved_fqcn, found.action_plugin, action_loader.has_plugin(found.action_plugin))
"""


def test_ansible_follows_a_route_for_the_full_and_the_short_name() -> None:
    command = [sys.executable, "-c", FIND, f"{PREFIX}gpu_burn", "gpu_burn"]
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == [f"{PREFIX}gpu_burn {PREFIX}_progress True"] * 2


def made(action: type[InPlaceAction], monkeypatch: pytest.MonkeyPatch, **arguments: Any) -> Any:
    """An action of a task that names module pod_logs shortly; what it runs is in ``ran``."""
    one = action.__new__(action)
    one._task = SimpleNamespace(action="pod_logs", resolved_action=f"{PREFIX}pod_logs", args=arguments, async_val=0)
    one._connection = SimpleNamespace(transport="ssh")
    one.ran = []
    monkeypatch.setattr("ansible.plugins.action.ActionBase.run", lambda *_args: {})
    monkeypatch.setattr(
        one, "_execute_module", lambda **call: one.ran.append(call) or {"changed": False}, raising=False
    )
    return one


def test_a_shared_action_runs_the_module_of_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    one = made(_progress.ActionModule, monkeypatch, dest="/logs")
    assert one.run(task_vars={"a": 1}) == {"changed": False}
    given = {"dest": "/logs", "progress_file": None}
    call = {"module_name": f"{PREFIX}pod_logs", "module_args": given, "task_vars": {"a": 1}, "wrap_async": False}
    assert one.ran == [call]


def test_paths_of_results_source_become_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    one = made(results_source.ActionModule, monkeypatch, sources=["a", "s3://b"], region="c")
    one.run()
    assert one.ran[0]["module_args"] == {"sources": [f"{tmp_path}/a", "s3://b"], "region": "c"}


def test_paths_of_results_become_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    one = made(results.ActionModule, monkeypatch, history=["a", "s3://b", "opensearch"], level=0.1)
    one.run()
    assert one.ran[0]["module_args"] == {"history": [f"{tmp_path}/a", "s3://b", "opensearch"], "level": 0.1}


def test_files_of_the_user_become_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert ROUTES["metrics_capture"] == "_run_with_user_paths"
    monkeypatch.chdir(tmp_path)
    one = made(
        _run_with_user_paths.ActionModule, monkeypatch, queries=["more.yml"], program="bin/prometheus", run_dir="r"
    )
    one.run()
    expected = {"queries": [f"{tmp_path}/more.yml"], "program": f"{tmp_path}/bin/prometheus", "run_dir": "r"}
    assert one.ran[0]["module_args"] == expected


def test_paths_of_topsail_presets_become_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    one = made(topsail_presets.ActionModule, monkeypatch, src="a", dest="/b", presets=["c"])
    one.run()
    assert one.ran[0]["module_args"] == {"src": f"{tmp_path}/a", "dest": "/b", "presets": ["c"]}


def test_invalid_input_ends_the_task_before_the_module_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(InPlaceAction):
        def prepare(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
            raise InputError("no")

    one = made(Refusing, monkeypatch)
    with pytest.raises(BadInput, match="^no$") as caught:
        one.run()
    assert caught.value.result["error"] == "InputError", "the cause, which a rescue records"
    assert one.ran == []


def test_the_ignored_sanity_findings_are_the_shared_actions() -> None:
    text = (ROOT / "tests" / "sanity" / "ignore-2.19.txt").read_text()
    shared = {path.name for path in (ROOT / "plugins" / "action").glob("_*.py")}
    assert set(re.findall(r"^plugins/action/(\S+) action-plugin-docs # ", text, re.M)) == shared


def test_the_action_group_has_the_modules_whose_documentation_says_so() -> None:
    documented = {path.stem for path in MODULES if "perfscale.seatrial._attributes.cluster\n" in path.read_text()}
    groups = yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text())["action_groups"]
    assert set(groups["cluster"]) == documented

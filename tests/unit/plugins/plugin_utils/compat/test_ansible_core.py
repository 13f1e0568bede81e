"""What differs between versions of ansible-core. tools/quick_versions.py runs these under the oldest and the newest."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.compat import ansible_core

LOADER = DataLoader()
VARIABLES: dict[str, Any] = {
    "count": 3,
    "version": "4.20",
    "nothing": None,
    "listed": [1, {"a": 2.5}],
    "json_text": '{"a": 1}',
    "twice": ansible_core.mark_as_template("{{ count * 2 }}"),
}


@pytest.fixture(scope="module")
def engine(ansible_plugins: None) -> Any:
    return ansible_core.copy_template_engine(Templar(LOADER, variables={}), VARIABLES)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{{ count }}", 3),
        ("{{ count | int + 1 }}", 4),
        ("{{ 2.50 }}", 2.5),
        ("{{ version }}", "4.20"),
        ("{{ '1_000' }}", "1_000"),
        ("{{ version ~ '.1' }}", "4.20.1"),
        ("{{ nothing }}", None),
        ("{{ none }}", None),
        ("{{ true }}", True),
        ("{{ 1 if true else none }}", 1),
        ("{%- set x = [] -%}{%- for one in listed -%}{%- set _ = x.append(1) -%}{%- endfor -%}{{ x }}", [1, 1]),
        ("x{{ nothing }}y", "xy"),
        ("{{ 'True' }}", "True"),
        ("{{ listed }}", [1, {"a": 2.5}]),
        ("{{ json_text }}", '{"a": 1}'),
        ("{{ twice }}", 6),
        ("{{ twice }} {{ count }}", "6 3"),
        ("{{ lookup('ansible.builtin.vars', 'twice') }}", 6),
        ("{{ listed | map('string') | list }}", ["1", "{'a': 2.5}"]),
        ("plain", "plain"),
    ],
)
def test_an_expression_keeps_its_type_under_each_version(engine: Any, text: str, value: Any) -> None:
    found = engine.template(ansible_core.mark_as_template(text))
    assert found == value and isinstance(found, type(value))


def test_a_template_that_cannot_be_rendered_raises_what_is_caught(engine: Any) -> None:
    with pytest.raises(ansible_core.TEMPLATE_ERRORS):
        engine.template(ansible_core.mark_as_template("{{ 'x' | no_such_filter }}"))
    with pytest.raises(ansible_core.TEMPLATE_ERRORS):
        engine.template(ansible_core.mark_as_template("{{ nowhere }}"))


def test_a_file_is_read_with_templates_and_the_origins_of_its_values(tmp_path: Path) -> None:
    path = tmp_path / "defaults.yml"
    path.write_text("---\nfirst: {a: 1}\nsecond: '{{ first }}'\nthird: !unsafe '{{ first }}'\n", encoding="utf-8")
    loaded = ansible_core.load_yaml_file(LOADER, str(path))
    assert ansible_core.is_template_text(loaded["second"]) and not ansible_core.is_template_text(loaded["third"])
    assert str(ansible_core.origin_of_value(loaded["second"])).startswith(f"{path}:3:")
    assert str(ansible_core.origin_of_value(next(iter(loaded)))).startswith(f"{path}:2:")
    assert ansible_core.origin_of_value(1) is None


@pytest.mark.usefixtures("ansible_plugins")
@pytest.mark.parametrize(
    ("action", "module"),
    [("held_clusters", "held_clusters"), ("pod_logs", "pod_logs"), ("workload_sample", "workload_sample")],
)
def test_a_routed_module_is_found_by_its_name_and_not_by_that_of_its_action(action: str, module: str) -> None:
    """Below 2.19, resolved_action names the action plugin: _progress, or workload_submit for workload_sample."""
    full = f"perfscale.seatrial.{action}"
    task = SimpleNamespace(action=full, resolved_action=full if ansible_core.HAS_TAGS else "wrong", collections=[])
    assert ansible_core.module_of_task(task) == f"perfscale.seatrial.{module}"


def test_the_outcome_of_a_task_is_read_from_what_a_callback_gets() -> None:
    old = SimpleNamespace(_task="t", _result={"a": 1})
    new = SimpleNamespace(task="t", result={"a": 1}, exception="e")
    assert ansible_core.task_and_result_of_callback(old) == ("t", {"a": 1}, None)
    assert ansible_core.task_and_result_of_callback(new) == ("t", {"a": 1}, "e")


def test_arguments_are_encoded_as_a_module_reads_them() -> None:
    encoded = json.loads(ansible_core.encode_module_arguments({"text": "näme", "list": [1, None], "path": "{{ x }}"}))
    assert encoded["ANSIBLE_MODULE_ARGS"] == {"text": "näme", "list": [1, None], "path": "{{ x }}"}

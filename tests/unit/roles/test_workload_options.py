"""Role workload passes every option of the load to its modules, with the types and defaults of the modules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send import load_spec

ROLE = Path(load_spec.__file__).resolve().parents[4] / "roles" / "workload"
#: Options that the role computes or that have another default there.
OWN_DEFAULT = {"arrival", "breaker_latency", "context", "kubeconfig", "seed", "simulated_writers", "stages"}

#: Options that only a module sets: of one client among several.
OF_MODULE = {"client"}


def spec() -> dict[str, Any]:
    text = (ROLE / "meta" / "argument_specs.yml").read_text(encoding="utf-8").replace("!unsafe ", "")
    return dict(yaml.safe_load(text)["argument_specs"]["submit"]["options"])


def variables() -> dict[str, Any]:
    return dict(files.read_yaml(ROLE / "vars" / "main.yml"))


def test_the_role_passes_each_option_of_the_modules() -> None:
    found = variables()
    sampling = {**found["__workload_target"], **found["__workload_sampling"]}
    assert set(sampling) == set(load_spec.WATCH)
    assert {*sampling, *found["__workload_sending"]} == set(load_spec.SUBMIT) - OF_MODULE


@pytest.mark.parametrize("name", sorted(load_spec.SUBMIT))
def test_an_option_has_the_same_type_and_default_in_role_and_module(name: str) -> None:
    role, module = spec().get(f"workload_{name}"), load_spec.SUBMIT[name]
    if role is None:
        assert name in {"run_id", "point_dir", "lock_dir", *OF_MODULE}, "the role sets it from the run"
        return
    assert role["type"] == module["type"]
    assert role.get("elements") == module.get("elements")
    if name not in OWN_DEFAULT and "default" in module:
        assert role["default"] == module["default"]

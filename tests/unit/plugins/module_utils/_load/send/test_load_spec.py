"""The load's parameters are those of the modules, checked, by the names of their options."""

from __future__ import annotations

import copy
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan.rendered_workload_templates import (
    WorkloadTemplate,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send import load_spec
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send.load_spec import (
    LoadSpec,
    SampleSpec,
    WatchSpec,
)

GIVEN = {"kubeconfig": "/k", "run_id": "test-run", "point_dir": "/run/points/001", "count": 3}
TEMPLATES = [{"name": "job", "content": "kind: Job"}]


def parameters(**more: Any) -> dict[str, Any]:
    found = ArgumentSpecValidator(copy.deepcopy(load_spec.SUBMIT)).validate({**GIVEN, "templates": TEMPLATES, **more})
    assert not found.error_messages
    return dict(found.validated_parameters)


@pytest.mark.parametrize(
    ("spec", "options"),
    [(WatchSpec, load_spec.WATCH), (SampleSpec, load_spec.SAMPLE), (LoadSpec, load_spec.SUBMIT)],
)
def test_each_option_is_a_field(spec: type, options: dict[str, Any]) -> None:
    names = {"run_id" if one.name == "run" else one.name for one in fields(spec)}
    assert names == set(options)


def test_parameters_get_the_types_of_the_fields() -> None:
    found = LoadSpec.from_params(parameters(stages=[{"kind": "Job"}], lock_dir="/run", simulated_writers=["node"]))
    assert (found.run, found.point, found.point_dir, found.lock_dir) == (
        "test-run", "001", Path("/run/points/001"), Path("/run"),
    )  # fmt: skip
    assert found.stages == ({"kind": "Job"},) and found.simulated_writers == ("node",)
    assert found.templates == (WorkloadTemplate("job", "kind: Job", 1, {}),)
    assert (found.count, found.seed, found.in_flight, found.wait) == (3, None, 16, True)
    assert LoadSpec.from_params(parameters()).lock_dir is None and LoadSpec.from_params(parameters()).lock_lost() == ""


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"run_id": "-x"}, "run_id '-x' is not a run id"),
        ({"point": "1"}, "point '1' is not a point"),
        ({"point": "001-0"}, "point '001-0' is not a point"),
        ({"point": "001-"}, "point '001-' is not a point"),
        ({"in_flight": 0}, "in_flight is 0, it must be 1 or more"),
        ({"canary_rate": -1}, "canary_rate is -1, it must be 0 or more"),
        ({"stages": ["Job"]}, "stages: 'Job' is not a definition"),
        ({"lifetime": {"type": "fixed"}}, "lifetime: distribution 'fixed' needs 'mean'"),
        (
            {"lifetime": {"type": "fixd", "mean": 1}},
            r"lifetime: unknown distribution 'fixd' \(did you mean",
        ),
        ({"lifetime": {"mean": 1}, "wait": False}, "lifetime requires wait=true"),
    ],
)
def test_a_wrong_value_is_named_with_its_option(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        LoadSpec.from_params(parameters(**wrong))


def test_a_remote_load_is_checked_as_the_module_checks_it() -> None:
    found = load_spec.parameters_of_remote_load({"count": "3", "templates": TEMPLATES}, "test-run", "002")
    assert (found["count"], found["point"], found["retry_time"]) == (3, "002", 120)
    with pytest.raises(InputError, match="count"):
        load_spec.parameters_of_remote_load({"templates": TEMPLATES}, "test-run", "002")
    with pytest.raises(InputError, match="in_flight is 0"):
        load_spec.parameters_of_remote_load({"count": 3, "templates": TEMPLATES, "in_flight": 0}, "test-run", "002")


def test_a_check_leaves_the_defaults_of_the_options_as_they_are() -> None:
    before = copy.deepcopy(load_spec.SUBMIT)
    load_spec.parameters_of_remote_load({"count": 3, "templates": TEMPLATES}, "test-run", "002")
    assert before == load_spec.SUBMIT

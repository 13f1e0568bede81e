# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of workload_submit and workload_sample (documented in the fragment _workload) and the checked parameters."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.lock import lock_records

from ..failures import failure_schedule
from ..kinds.sampling_spec import ExternalWorkloadSelection, SamplingSpec
from ..kinds.stage_definitions import KindStages, compile_stages_of_kinds
from ..plan.arrival_times import CLOSED, CONSTANT, TYPE_KEYS
from ..plan.random_draws import draw_number_for_workload
from ..plan.rendered_workload_templates import WorkloadTemplate
from ..plan.workload_plan import ClientPart

#: Who submits the load that workload_sample samples: a call of workload_submit, or somebody else.
RUN, OTHERS = "run", "others"

#: Options that both modules have.
WATCH: dict[str, Any] = {
    **ansible_module.CLUSTER,
    **ansible_module.POINT,
    "point_dir": {"type": "path", "required": True},
    "namespace": {"type": "str", "default": ""},
    "stages": {"type": "list", "elements": "raw", "default": []},
    "simulated_writers": {"type": "list", "elements": "str", "default": []},
    "canary_rate": {"type": "float", "default": 20},
    "timeout": {"type": "float", "default": 600},
    "settle": {"type": "float", "default": 1},
    "lock_dir": {"type": "path"},
}
SAMPLE: dict[str, Any] = {
    **WATCH,
    "submitted_by": {"type": "str", "choices": [RUN, OTHERS], "default": RUN},
    "namespaces": {"type": "list", "elements": "str", "default": []},
    "label_selector": {"type": "str", "default": ""},
    "field_selector": {"type": "str", "default": ""},
    "existing": {"type": "bool", "default": False},
    "canary_namespace": {"type": "str", "default": ""},
    "count": {"type": "int", "default": 0},
    "duration": {"type": "float", "default": 3600},
    "idle": {"type": "float", "default": 0},
}
#: Keys of arrival.
ARRIVAL: dict[str, Any] = {
    "type": {"type": "str", "choices": list(TYPE_KEYS), "default": CONSTANT},
    "rate": {"type": "float"},
    "timespan": {"type": "float"},
    "to_rate": {"type": "float"},
    "shape": {"type": "float"},
    "spread": {"type": "float"},
    "peaks": {"type": "list", "elements": "float"},
    "share": {"type": "float"},
    "size": {"type": "int"},
    "steps": {
        "type": "list",
        "elements": "dict",
        "options": {
            "rate": {"type": "float", "required": True},
            "duration": {"type": "float", "required": True},
        },
    },
    "src": {"type": "str"},
    "content": {"type": "str"},
    "speed": {"type": "float"},
    "batch": {"type": "int"},
    "delay": {"type": "float"},
    "at_once": {"type": "int"},
}
SUBMIT: dict[str, Any] = {
    **WATCH,
    "count": {"type": "int", "required": True},
    "arrival": {
        "type": "dict",
        "default": {},
        "options": ARRIVAL,
    },
    "in_flight": {"type": "int", "default": 16},
    "seed": {"type": "int"},
    "templates": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {
            "name": {"type": "str", "default": "workload"},
            "src": {"type": "str"},
            "kind": {"type": "str"},
            "wraps": {"type": "str"},
            "content": {"type": "str"},
            "weight": {"type": "int", "default": 1},
            "parameters": {"type": "dict", "default": {}},
            "prepare": {"type": "str", "default": ""},
            "ready": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "kind": {"type": "str", "required": True},
                    "jmespath": {"type": "str", "required": True},
                    "timeout": {"type": "float", "default": 300},
                },
            },
        },
    },
    "sample": {"type": "bool", "default": True},
    "wait": {"type": "bool", "default": True},
    "lifetime": {"type": "dict", "default": {}},
    "release": {
        "type": "dict",
        "default": {},
        "options": {
            "stage": {"type": "str", "default": ""},
            "arrival": {"type": "dict", "default": {"type": CLOSED}},
            "required": {"type": "str", "default": "all"},
            "timeout": {"type": "float", "default": 300},
            "abort": {"type": "bool", "default": False},
        },
    },
    "request_timeout": {"type": "float", "default": 60},
    "retry_time": {"type": "float", "default": 120},
    "max_lateness": {"type": "float", "default": 0.1},
    "breaker_latency": {"type": "float", "default": 0},
    "clients": {"type": "int", "default": 1},
    "client": {"type": "int"},
    "start_timeout": {"type": "float", "default": 600},
    "failures": {"type": "list", "elements": "dict", "default": [], "options": failure_schedule.OPTIONS},
}


_RUN = re.compile(r"[a-z0-9][a-z0-9-]{5,19}")
_POINT = re.compile(r"[0-9]{3,}(-[1-9][0-9]*)?")
#: Minimum of numeric options.
_MINIMUM: dict[str, float] = {
    "count": 0,
    "in_flight": 1,
    "canary_rate": 0,
    "timeout": 0,
    "settle": 0,
    "request_timeout": 0.1,
    "retry_time": 0,
    "max_lateness": 0,
    "breaker_latency": 0,
    "start_timeout": 0,
    "duration": 0,
    "idle": 0,
}


def _parse_template_parameters(params: Sequence[Mapping[str, Any]]) -> tuple[WorkloadTemplate, ...]:
    return tuple(
        WorkloadTemplate(
            template["name"],
            template["content"] or "",
            template["weight"],
            template["parameters"],
            template.get("prepare") or "",
            list(template.get("ready") or ()),
        )
        for template in params
    )


_CREATION = "metadata.creationTimestamp"
#: Field -> option, where the names differ; field -> type, where a parameter has another one.
_OPTIONS = {"run": "run_id"}
_TYPES: dict[str, Callable[[Any], Any]] = {
    "point_dir": Path,
    "lock_dir": lambda value: Path(value) if value else None,
    "stages": tuple,
    "simulated_writers": tuple,
    "namespaces": lambda names: tuple(dict.fromkeys(names)),
    "templates": _parse_template_parameters,
    "failures": tuple,
}


def _convert_parameter(name: str, parameters: Mapping[str, Any]) -> Any:
    value = parameters[_OPTIONS.get(name, name)]
    return _TYPES[name](value) if value is not None and name in _TYPES else value


@dataclass(frozen=True, kw_only=True)
class WatchSpec:
    """The parameters that workload_submit and workload_sample have. Times in seconds."""

    kubeconfig: str
    context: str
    run: str
    point: str
    point_dir: Path
    namespace: str
    stages: tuple[dict[str, Any], ...]
    simulated_writers: tuple[str, ...]
    canary_rate: float
    timeout: float
    settle: float
    lock_dir: Path | None = None

    @classmethod
    def from_params(cls, parameters: Mapping[str, Any]) -> Self:
        """Check a module's parameters and return them. Raises InputError naming the option and its value."""
        check_load_parameters(parameters)
        return cls(**{option.name: _convert_parameter(option.name, parameters) for option in fields(cls)})

    @cached_property
    def kinds(self) -> tuple[KindStages, ...]:
        """The compiled stage definitions. Raises InputError for a definition that is wrong."""
        return tuple(compile_stages_of_kinds(self.stages))

    def lock_lost(self) -> str:
        """Return which lock of the run is lost and why, else an empty string."""
        return lock_records.describe_lost_lock(self.lock_dir) if self.lock_dir else ""

    def sampling(self, kinds: Sequence[KindStages], own: Sequence[str], namespace: str, canary: str) -> SamplingSpec:
        """Return the sampler's part. own: kinds of the workloads; namespace: empty for all; canary: its namespace."""
        return SamplingSpec(
            run=self.run,
            point=self.point,
            path=self.point_dir / "observations.jsonl",
            namespace=namespace,
            canary_namespace=canary,
            kinds=tuple(kinds),
            own=frozenset(own),
            simulated_writers=self.simulated_writers,
            canary_rate=self.canary_rate,
        )


@dataclass(frozen=True, kw_only=True)
class SampleSpec(WatchSpec):
    """The parameters of workload_sample. Times in seconds; 0 for no such limit."""

    submitted_by: str
    namespaces: tuple[str, ...]
    label_selector: str
    field_selector: str
    existing: bool
    canary_namespace: str
    count: int
    duration: float
    idle: float

    @classmethod
    def from_params(cls, parameters: Mapping[str, Any]) -> Self:
        """Check a module's parameters and return them. Raises InputError naming the option and its value."""
        spec = super().from_params(parameters)
        if spec.submitted_by == OTHERS:
            if not spec.kinds:
                raise InputError("stages is empty: the first of them must be the kind of the workloads")
            first = spec.kinds[0]
            if not any(stage.get("field") == _CREATION for stage in first.definition["stages"]):
                raise InputError(
                    f"stage definition of {first.kind}: it needs a stage with field {_CREATION}, "
                    f"which shows when a workload was sent"
                )
        return spec

    def sampling_of_others(self, namespace: str) -> SamplingSpec:
        """Return the sampler's part for a load of others. namespace: that of the kubeconfig's context."""
        canary = self.canary_namespace or next(iter(self.namespaces), namespace)
        selection = ExternalWorkloadSelection(self.namespaces, self.label_selector, self.field_selector, self.existing)
        return replace(self.sampling(self.kinds, [self.kinds[0].kind], "", canary), selection=selection)


@dataclass(frozen=True, kw_only=True)
class LoadSpec(WatchSpec):
    """The parameters of workload_submit. Times in seconds."""

    count: int
    arrival: dict[str, Any]
    in_flight: int
    seed: int | None
    sample: bool
    templates: tuple[WorkloadTemplate, ...]
    wait: bool
    request_timeout: float
    retry_time: float
    max_lateness: float
    breaker_latency: float = 0.0
    lifetime: dict[str, Any] = field(default_factory=dict)  # a distribution; empty: nothing is stopped
    release: dict[str, Any] = field(default_factory=dict)  # without a stage, nothing waits for a release
    clients: int = 1
    client: int | None = None  # None: this call runs all of them
    start_timeout: float = 600.0
    failures: tuple[dict[str, Any], ...] = ()

    @property
    def part(self) -> ClientPart:
        """The part of the plan that this client sends."""
        return ClientPart() if self.client is None else ClientPart(self.client, self.clients)

    @property
    def client_number(self) -> int | None:
        """Number of this client, None if it is the only one."""
        return None if self.part.whole else self.client


def check_load_parameters(params: Mapping[str, Any]) -> None:
    """Check the parameters of a workload module beyond their types. Raises InputError with option and value."""
    if not _RUN.fullmatch(params["run_id"]):
        raise InputError(
            f"run_id '{params['run_id']}' is not a run id: 6 to 20 characters of a-z, 0-9 and -, not beginning with -"
        )
    if not _POINT.fullmatch(params["point"]):
        raise InputError(f"point '{params['point']}' is not a point: three digits or more, such as 001, or 001-2")
    for name, least in _MINIMUM.items():
        if name in params and params[name] < least:
            raise InputError(f"{name} is {params[name]:g}, it must be {least:g} or more")
    for stage in params["stages"]:
        if not isinstance(stage, dict):
            raise InputError(f"stages: '{stage}' is not a definition")
    if (params.get("release") or {}).get("stage"):
        if not (params["wait"] and params["sample"]):
            raise InputError(
                "release requires wait=true and sample=true: the sampler observes which workloads are ready"
            )
        if params.get("clients", 1) > 1:
            raise InputError(
                f"clients is {params['clients']}, and release requires clients=1: one client waits until all"
                " workloads are ready, and releases them"
            )
    _check_failures(params)
    ClientPart(params.get("client") or 0, params.get("clients", 1))
    if params.get("lifetime"):
        if not params["wait"]:
            raise InputError("lifetime requires wait=true: workloads are stopped while the call waits for them")
        try:
            draw_number_for_workload(0, params["lifetime"])
        except InputError as error:
            raise InputError(f"lifetime: {error}") from error


def _check_failures(params: Mapping[str, Any]) -> None:
    """Raise InputError for failures that a load can't have."""
    if not params.get("failures"):
        return
    if not (params["wait"] and params["sample"]):
        raise InputError("failures require wait=true and sample=true: recoveries are seen while the load is waited for")
    if params.get("clients", 1) > 1:
        raise InputError(f"clients is {params['clients']}, and failures require clients=1: one client injects them")
    failure_schedule.schedule_failures(params["failures"], params["seed"] or 1)


def parameters_of_remote_load(request: Mapping[str, Any], run: str, point: str) -> dict[str, Any]:
    """Return the parameters of workload_submit for a remote load, checked as the module checks them.

    Raises InputError.
    """
    params = {**request, "run_id": run, "point": point, "kubeconfig": "-", "point_dir": "-"}
    # A copy: the validator fills in the defaults of a suboption in the default of its option.
    validation = ArgumentSpecValidator(copy.deepcopy(SUBMIT)).validate(params)
    if validation.error_messages:
        raise InputError("; ".join(validation.error_messages))
    check_load_parameters(validation.validated_parameters)
    return dict(validation.validated_parameters)

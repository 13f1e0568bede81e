# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of the workload modules, and the checks that both make of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.perfscale.seatrial.plugins.module_utils import _common_options
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._plan.arrivals import CONSTANT, TAKES

SAMPLE: dict[str, Any] = {
    **_common_options.CLUSTER,
    **_common_options.POINT,
    "point_dir": {"type": "path", "required": True},
    "namespace": {"type": "str", "default": ""},
    "stages": {"type": "list", "elements": "raw", "default": []},
    "simulated_writers": {"type": "list", "elements": "str", "default": []},
    "canary_rate": {"type": "float", "default": 20},
    "timeout": {"type": "float", "default": 600},
    "settle": {"type": "float", "default": 1},
    "lock_dir": {"type": "path"},
}
SUBMIT: dict[str, Any] = {
    **SAMPLE,
    "count": {"type": "int", "required": True},
    "arrival": {
        "type": "dict",
        "default": {},
        "options": {
            "type": {"type": "str", "choices": list(TAKES), "default": CONSTANT},
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
        },
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
            "content": {"type": "str"},
            "weight": {"type": "int", "default": 1},
            "parameters": {"type": "dict", "default": {}},
        },
    },
    "sample": {"type": "bool", "default": True},
    "wait": {"type": "bool", "default": True},
    "request_timeout": {"type": "float", "default": 60},
    "retry_time": {"type": "float", "default": 120},
    "max_lateness": {"type": "float", "default": 0.1},
    "breaker_latency": {"type": "float", "default": 0},
}

_RUN = re.compile(r"[a-z0-9][a-z0-9-]{5,19}")
_POINT = re.compile(r"[0-9]{3,}")
#: Numbers that must not be below these.
_LEAST: dict[str, float] = {
    "count": 0,
    "in_flight": 1,
    "canary_rate": 0,
    "timeout": 0,
    "settle": 0,
    "request_timeout": 0.1,
    "retry_time": 0,
    "max_lateness": 0,
    "breaker_latency": 0,
}


def common(given: dict[str, Any]) -> dict[str, Any]:
    """Check the parameters of a workload module and return those that both modules have, by their internal names.

    Raises InputError naming the option and its value.
    """
    if not _RUN.fullmatch(given["run_id"]):
        raise InputError(f"run_id '{given['run_id']}' is no run id: 6 to 20 of a-z, 0-9 and -, not beginning with -")
    if not _POINT.fullmatch(given["point"]):
        raise InputError(f"point '{given['point']}' is no point: three digits or more, such as 001")
    for name, least in _LEAST.items():
        if name in given and given[name] < least:
            raise InputError(f"{name} is {given[name]:g}, it must be {least:g} or more")
    for one in given["stages"]:
        if not isinstance(one, dict):
            raise InputError(f"stages: '{one}' is no definition")
    return {
        "kubeconfig": given["kubeconfig"],
        "context": given["context"],
        "run": given["run_id"],
        "point": given["point"],
        "point_dir": Path(given["point_dir"]),
        "namespace": given["namespace"],
        "stages": tuple(given["stages"]),
        "simulated_writers": tuple(given["simulated_writers"]),
        "canary_rate": given["canary_rate"],
        "timeout": given["timeout"],
        "settle": given["settle"],
        "lock_dir": Path(given["lock_dir"]) if given.get("lock_dir") else None,
    }


def elsewhere(request: Mapping[str, Any], run: str, point: str) -> dict[str, Any]:
    """Return the parameters of workload_submit for a load that runs elsewhere, checked as the module checks them.

    Raises InputError.
    """
    asked = {**request, "run_id": run, "point": point, "kubeconfig": "-", "point_dir": "-"}
    found = ArgumentSpecValidator(SUBMIT).validate(asked)
    if found.error_messages:
        raise InputError("; ".join(found.error_messages))
    common(found.validated_parameters)
    return dict(found.validated_parameters)

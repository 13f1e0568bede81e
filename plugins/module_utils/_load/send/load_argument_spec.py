# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Argument specs of workload_submit, workload_sample and workload_follow, documented in the fragment _workload."""

from __future__ import annotations

from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import common_options

from ..plan.arrivals import CLOSED, CONSTANT, TAKES

SAMPLE: dict[str, Any] = {
    **common_options.CLUSTER,
    **common_options.POINT,
    "point_dir": {"type": "path", "required": True},
    "namespace": {"type": "str", "default": ""},
    "stages": {"type": "list", "elements": "raw", "default": []},
    "simulated_writers": {"type": "list", "elements": "str", "default": []},
    "canary_rate": {"type": "float", "default": 20},
    "timeout": {"type": "float", "default": 600},
    "settle": {"type": "float", "default": 1},
    "lock_dir": {"type": "path"},
}
FOLLOW: dict[str, Any] = {
    **common_options.CLUSTER,
    **common_options.POINT,
    **{name: SAMPLE[name] for name in ("point_dir", "stages", "simulated_writers", "canary_rate", "settle")},
    "canary_namespace": {"type": "str", "default": ""},
    "namespaces": {"type": "list", "elements": "str", "default": []},
    "label_selector": {"type": "str", "default": ""},
    "field_selector": {"type": "str", "default": ""},
    "existing": {"type": "bool", "default": False},
    "count": {"type": "int", "default": 0},
    "duration": {"type": "float", "default": 3600},
    "idle": {"type": "float", "default": 0},
}
#: Keys of arrival.
ARRIVAL: dict[str, Any] = {
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
}
SUBMIT: dict[str, Any] = {
    **SAMPLE,
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
            "content": {"type": "str"},
            "weight": {"type": "int", "default": 1},
            "parameters": {"type": "dict", "default": {}},
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
}

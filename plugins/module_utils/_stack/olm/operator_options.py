# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Argument spec of module olm_operator (doc fragment _olm); operator_specs.py validates the values."""

from __future__ import annotations

from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module

READY: dict[str, Any] = {
    "condition": {"type": "str"},
    "field": {"type": "str"},
    "equals": {"type": "str"},
    "available": {"type": "bool", "default": False},
    "metrics": {"type": "list", "elements": "str"},
    "port": {"type": "int", "default": 9400},
}
EXPECTED: dict[str, Any] = {
    "api_version": {"type": "str", "required": True},
    "kind": {"type": "str", "required": True},
    "namespace": {"type": "str", "default": ""},
    "names": {"type": "list", "elements": "str", "default": []},
    "labels": {"type": "dict", "default": {}},
    "at_least": {"type": "int", "default": 1},
    "ready": {"type": "dict", "required": True, "options": READY},
}
OPERAND: dict[str, Any] = {
    "kind": {"type": "str"},
    "manifest": {"type": "dict"},
    "name": {"type": "str"},
    "namespace": {"type": "str"},
    "patch": {"type": "dict"},
    "append": {"type": "dict"},
    "needs": {"type": "list", "elements": "dict"},
    "single": {"type": "bool", "default": False},
    "ready": {"type": "dict", "options": READY},
}
OPERATOR: dict[str, Any] = {
    "package": {"type": "str", "required": True},
    "namespace": {"type": "str", "required": True},
    "catalog": {"type": "str", "default": ""},
    "catalog_namespace": {"type": "str", "default": "openshift-marketplace"},
    "catalog_image": {"type": "str", "default": ""},
    "catalog_address": {"type": "str", "default": ""},
    "catalog_pull_secret": {"type": "str", "default": "", "no_log": False},
    "channel": {"type": "str", "default": ""},
    "version": {"type": "str", "default": ""},
    "approval": {"type": "str", "choices": ["auto", "Manual", "Automatic"], "default": "auto"},
    "watches": {"type": "str", "choices": ["auto", "own", "all"], "default": "auto"},
    "environment": {"type": "dict", "default": {}},
    "monitoring": {"type": "bool", "default": False},
    "objects": {"type": "list", "elements": "dict", "default": []},
    "operand": {"type": "dict", "options": OPERAND},
    "expect": {"type": "list", "elements": "dict", "default": [], "options": EXPECTED},
}

OPTIONS: dict[str, Any] = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    **ansible_module.CLUSTER,
    "run_id": {"type": "str", "required": True},
    "operators": {"type": "list", "elements": "dict", "default": [], "options": OPERATOR},
    "pull_secrets": {"type": "dict", "default": {}, "no_log": True},
    "packages": {"type": "list", "elements": "str", "default": []},
    "operands": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {"kind": {"type": "str", "required": True}, "name": {"type": "str", "required": True}},
    },
    "namespaces": {"type": "list", "elements": "str", "default": []},
    "crds": {"type": "bool", "default": False},
    "force_finalizers": {"type": "bool", "default": False},
    "timeout": {"type": "float", "default": 900},
}

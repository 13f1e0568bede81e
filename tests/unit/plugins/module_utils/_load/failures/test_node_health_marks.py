# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pods tolerate the taint of a health agent, and which nodes have one already."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.failures import node_health_marks

TAINT = "example.com/gpu-lost=true:NoExecute"
KEY = "example.com/gpu-lost"


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"operator": "Exists"}, True),
        ({"key": KEY, "operator": "Exists"}, True),
        ({"key": KEY, "operator": "Exists", "effect": "NoExecute"}, True),
        ({"key": KEY, "value": "true"}, True),
        ({"key": KEY, "operator": "Equal", "value": "false"}, False),
        ({"key": KEY, "operator": "Exists", "effect": "NoSchedule"}, False),
        ({"key": "example.com/other", "operator": "Exists"}, False),
        ({"key": KEY, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}, False),
    ],
)
def test_a_pod_that_tolerates_a_taint_for_ever_is_not_evicted(toleration: dict[str, Any], tolerated: bool) -> None:
    assert node_health_marks.does_pod_tolerate_taint({"spec": {"tolerations": [toleration]}}, TAINT) is tolerated
    assert not node_health_marks.does_pod_tolerate_taint({"spec": {}}, TAINT)


def test_a_condition_or_taint_that_a_node_has_already_is_refused() -> None:
    taken = {
        "metadata": {"name": "a"},
        "spec": {"taints": [{"key": KEY, "value": "false", "effect": "NoExecute"}]},
        "status": {"conditions": [{"type": "GPUHealthy", "status": "True"}]},
    }
    free = {"metadata": {"name": "b"}, "spec": {}, "status": {}}
    node_health_marks.check_node_has_no_such_mark([free], "GPUHealthy=False", TAINT)
    node_health_marks.check_node_has_no_such_mark([free, taken], "", f"{KEY}:NoSchedule")
    with pytest.raises(InputError, match="node a has a condition GPUHealthy already"):
        node_health_marks.check_node_has_no_such_mark([free, taken], "GPUHealthy=False", "")
    with pytest.raises(InputError, match=f"node a has the taint {TAINT} already"):
        node_health_marks.check_node_has_no_such_mark([free, taken], "", TAINT)

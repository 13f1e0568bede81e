# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Failures after the end of the load, and those whose recoveries nobody would see, are refused."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send.prepare_failures import (
    check_failures_fit_in_load,
    check_pods_are_followed,
)

KILLED = {"kind": "pod_killed", "at": [], "since": 0.0}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"at": [5.0, 183.0]}, r"failures\[1\] \(pod_killed\): at is 183 s, and the load is over after 183 s, 180 s"),
        ({"since": 500.0}, r"failures\[1\] \(pod_killed\): since is 500 s, and the load is over after 183 s"),
    ],
)
def test_a_failure_after_the_end_of_the_load_is_refused(options: dict[str, Any], text: str) -> None:
    entries = [{**KILLED, "at": [182.0]}, {**KILLED, **options}]
    with pytest.raises(InputError, match=text):
        check_failures_fit_in_load(entries, [0.0, 3.0, 1.0], 180.0)


def test_a_failure_before_it_or_in_a_closed_loop_is_none_of_these() -> None:
    check_failures_fit_in_load([{**KILLED, "at": [182.9]}], [0.0, 3.0], 180.0)
    check_failures_fit_in_load([{**KILLED, "at": [5000.0]}], [None, None], 180.0)


def test_failures_of_pods_that_are_not_followed_are_refused() -> None:
    wrapper = [{"kind": "AppWrapper"}, {"kind": "Workload"}]
    with pytest.raises(InputError, match="node_lost ends pods, but stages follows only AppWrapper and Workload, so no"):
        check_pods_are_followed(wrapper, ["api_away", "node_lost"])
    check_pods_are_followed(wrapper, ["api_away"])
    check_pods_are_followed([*wrapper, {"kind": "Pod"}], ["node_lost"])

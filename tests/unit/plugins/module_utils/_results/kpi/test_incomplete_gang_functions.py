# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Partial starts and deadlocks of gangs, in small examples that can be read off."""

from __future__ import annotations

from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi import incomplete_gang_functions
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.point_data import PointData
from scheduled_points import pod, world


def gangs_that_block_each_other(until: float) -> PointData:
    """Two gangs of two on 2 GPUs: each gets one, until the first one gives its own back; then both run in turn."""
    rows = [{"sent": 0, "ended": until + 20}, {"sent": 0, "ended": until + 10}]
    pods = [
        pod(0, 1, 1.5, until, "failed"),
        pod(1, 1, 1.5, until + 10),
        pod(1, until, until + 1, until + 10),
        pod(0, until + 10, until + 11, until + 20),
        pod(0, until + 10, until + 11, until + 20),
    ]
    return world(rows, pods, gpus=2, sizes={"a": 2})


def test_gangs_that_each_hold_a_part_are_a_deadlock_and_one_starts_partially() -> None:
    data = gangs_that_block_each_other(16)
    found = incomplete_gang_functions.deadlocks(data)
    assert (found.value, found.note) == (1, "the longest lasted 15.0 s")
    partial = incomplete_gang_functions.partial_starts(data)
    assert (partial.value, partial.n, partial.of) == (1, 2, 2)


def test_a_short_time_is_no_deadlock() -> None:
    assert incomplete_gang_functions.deadlocks(gangs_that_block_each_other(10.5)).value == 0
    assert incomplete_gang_functions.deadlocks(gangs_that_block_each_other(10.5), least=9).value == 1


def test_while_a_workload_is_complete_nothing_is_a_deadlock() -> None:
    rows = [{"sent": 0, "ended": None}, {"sent": 0, "ended": None}, {"sent": 0, "ended": 30, "template": "b"}]
    pods = [pod(0, 1, 2, None), pod(1, 1, 2, None), pod(2, 1, 2, 30)]
    data = world(rows, pods, horizon=35, gpus=3, sizes={"a": 2})
    assert incomplete_gang_functions.deadlocks(data).value == 0, "5 s of the 35 s are left after the single pod ended"
    longer = world(rows, pods, horizon=50, gpus=3, sizes={"a": 2})
    assert incomplete_gang_functions.deadlocks(longer).value == 1


def test_one_incomplete_gang_waits_and_blocks_none() -> None:
    data = world([{"sent": 0, "ended": None}], [pod(0, 1, 2, None)], horizon=60, sizes={"a": 2})
    assert incomplete_gang_functions.deadlocks(data).value == 0
    assert incomplete_gang_functions.partial_starts(data).value == 1


def test_gangs_that_start_as_a_whole_count_as_neither() -> None:
    """A pod that is lost after the gang was complete is preempted or failed work, not a partial start."""
    rows = [{"sent": 0, "ended": 40}, {"sent": 0, "ended": None}]
    pods = [
        pod(0, 1, 2, 40),
        pod(0, 1, 2, 20, "deleted"),
        pod(0, 21, 22, 40),
    ]
    data = world(rows, pods, sizes={"a": 2})
    assert incomplete_gang_functions.partial_starts(data).value == 0, "the second one never got a node"
    assert incomplete_gang_functions.deadlocks(data).value == 0

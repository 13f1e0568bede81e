# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a queue did with a workload after a failure, from events of its Workload."""

from __future__ import annotations

from math import inf, isnan

from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.queue_recoveries import (
    QueueCollector,
    find_queue_stages,
    find_topology_stages,
)

#: Moments and the conditions that are true then: admitted, evicted at 30 s, back in the queue at 35 s, admitted again.
LIFE = (
    (1.0, {"admitted"}),
    (30.0, {"admitted", "evicted"}),
    (31.0, {"evicted"}),
    (35.0, {"evicted", "requeued"}),
    (36.0, {"admitted", "requeued"}),
    (80.0, {"admitted", "evicted", "requeued"}),
)


def collected(*life: tuple[float, set[str]]) -> QueueCollector:
    collector = QueueCollector()
    for moment, names in life:
        values = {name: name in names for name in ("created", "admitted", "evicted", "requeued")}
        collector.see(0, {"kind": "Workload", "values": values}, (moment, moment + 0.1))
    return collector


def test_each_stage_is_the_first_change_after_the_failure() -> None:
    collector = collected(*LIFE)
    collector.see(0, {"kind": "Pod", "values": {"evicted": True}}, (2.0, 2.0))
    stages = find_queue_stages(collector.changes[0], (20.0, 20.0), 40.0)
    assert {name: span[0] for name, span in stages.items()} == {"evicted": 30.0, "requeued": 35.0, "readmitted": 36.0}


def test_an_eviction_after_the_workload_was_whole_is_not_of_this_failure() -> None:
    stages = find_queue_stages(collected(*LIFE).changes[0], (40.0, 40.0), 60.0)
    assert all(isnan(first) for first, _last in stages.values())


def test_one_that_was_evicted_and_never_admitted_again_has_only_this_stage() -> None:
    stages = find_queue_stages(collected(*LIFE[:3]).changes[0], (20.0, 20.0), inf)
    assert stages["evicted"] == (30.0, 30.1)
    assert isnan(stages["requeued"][0]) and isnan(stages["readmitted"][0])


def marked(*life: tuple[float, set[str]]) -> QueueCollector:
    collector = QueueCollector()
    for moment, names in life:
        values = {name: name in names for name in ("admitted", "evicted", "node_unhealthy")}
        collector.see(0, {"kind": "Workload", "values": values}, (moment, moment + 0.1))
    return collector


def test_a_node_is_marked_after_the_failure_and_another_one_assigned_when_the_mark_is_gone() -> None:
    life = marked((1.0, {"admitted"}), (30.0, {"admitted", "node_unhealthy"}), (31.0, {"admitted"}))
    stages = find_topology_stages(life.changes[0], (20.0, 20.0), 40.0)
    assert stages == {"marked": (30.0, 30.1), "reassigned": (31.0, 31.1)}
    before = find_topology_stages(life.changes[0], (35.0, 35.0), 40.0)
    assert all(isnan(first) for first, _last in before.values()), "the mark is of an earlier failure"


def test_a_mark_that_an_eviction_ends_is_no_new_node() -> None:
    life = marked((1.0, {"admitted"}), (30.0, {"admitted", "node_unhealthy"}), (31.0, {"evicted", "node_unhealthy"}))
    life.see(0, {"kind": "Workload", "values": {"node_unhealthy": None}}, (32.0, 32.1))
    stages = find_topology_stages(life.changes[0], (20.0, 20.0), 40.0)
    assert stages["marked"] == (30.0, 30.1) and isnan(stages["reassigned"][0])

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a workload goes through after the loss of its worker cluster, from repeated stages of its Workload."""

from __future__ import annotations

from math import isnan

from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.failure_functions import (
    find_evictions_after_worker_loss,
)

LOSS, SECOND_LOSS = (10.0, 10.2), (200.0, 200.1)


def test_only_what_follows_the_loss_counts_and_in_the_order_of_the_stages() -> None:
    conditions = {
        "evicted": [(0, (4.0, 4.1)), (0, (60.0, 61.0))],
        "dispatched": [(0, (1.0, 2.0)), (1, (1.5, 2.0)), (0, (65.0, 65.5))],
        "pods_ready": [(0, (3.0, 3.1)), (0, (62.0, 62.1)), (0, (67.0, 68.0))],
    }
    ((lost, reached),) = find_evictions_after_worker_loss([SECOND_LOSS, LOSS], conditions)
    assert lost == LOSS  # workload 1 stayed where it was
    assert reached == {"evicted": (60.0, 61.0), "dispatched": (65.0, 65.5), "pods_ready": (67.0, 68.0)}


def test_a_workload_that_no_other_worker_took_is_open() -> None:
    conditions = {"evicted": [(3, (60.0, 61.0))], "dispatched": [(3, (1.0, 2.0))], "pods_ready": [(3, (70.0, 71.0))]}
    ((_lost, reached),) = find_evictions_after_worker_loss([LOSS], conditions)
    assert reached["evicted"] == (60.0, 61.0)
    assert isnan(reached["dispatched"][0]) and isnan(reached["pods_ready"][0])


def test_without_an_eviction_after_the_loss_nothing_moved() -> None:
    assert (
        find_evictions_after_worker_loss([LOSS], {"evicted": [(0, (4.0, 4.1))], "dispatched": [], "pods_ready": []})
        == []
    )


def test_an_eviction_follows_the_latest_loss_before_it() -> None:
    conditions = {
        "evicted": [(0, (60.0, 61.0)), (0, (62.0, 63.0)), (0, (250.0, 251.0)), (1, (260.0, 261.0))],
        "dispatched": [(0, (65.0, 65.5)), (0, (255.0, 256.0)), (1, (270.0, 271.0))],
        "pods_ready": [],
    }
    found = [
        (lost, reached["evicted"][0], reached["dispatched"][0])
        for lost, reached in find_evictions_after_worker_loss([SECOND_LOSS, LOSS], conditions)
    ]
    assert found == [(LOSS, 60.0, 65.0), (SECOND_LOSS, 250.0, 255.0), (SECOND_LOSS, 260.0, 270.0)]

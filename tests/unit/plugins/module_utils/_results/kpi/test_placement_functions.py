# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures of placement: examples computed by hand on four nodes with two GPUs, two of them in each rack."""

from __future__ import annotations

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi import placement_functions
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.point_data import PointData
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.report import draw_run_plots
from scheduled_points import GPU, pod, world

# Both racks have the same name: they are in different blocks.
NODES = {
    f"n{number}": {"domains": [f"b{number // 2}", "r0", f"n{number}"], "allocatable": {GPU: "2", "cpu": "64"}}
    for number in range(4)
}
TOPOLOGY = {"levels": ["block", "rack", "host"], "nodes": NODES}


@pytest.fixture
def spread() -> PointData:
    """Two gangs of two on 8 GPUs: one on two nodes of two racks, then one on a node; a third is never whole."""
    rows = [{"sent": 0, "ended": 10}, {"sent": 0, "ended": 20}, {"sent": 1, "ended": None}]
    pods = [
        pod(0, 0, 1, 10, node="n0"),
        pod(0, 0, 1, 10, node="n2"),
        pod(1, 0, 2, 5, "deleted", node="n3"),
        pod(1, 10, 11, 20, node="n1"),
        pod(1, 10, 11, 20, node="n1"),
        pod(2, 15, 16, None, node="n0"),
    ]
    return world(rows, pods, horizon=20, gpus=8, sizes={"a": 2}, topology=TOPOLOGY)


def test_a_gang_spans_the_domains_of_its_pods_without_those_that_were_lost(spread: PointData) -> None:
    assert placement_functions.level_names_of_topology(spread) == ["block", "rack", "host"]
    assert placement_functions.count_domains_of_gangs(spread, "rack") == [2, 1, None]
    assert placement_functions.count_domains_of_gangs(spread, "host") == [2, 1, None]
    found = placement_functions.domains_spanned(spread, "rack")
    assert (found.value, found.n, found.of) == (1.5, 2, 3)
    assert placement_functions.domains_spanned(spread, "rack", "max").value == 2
    assert placement_functions.compact_gangs(spread, "host").value == 50
    with pytest.raises(InputError, match="level 'racks' is none of block, rack, host .did you mean 'rack'"):
        placement_functions.domains_spanned(spread, "racks")


def test_a_large_gang_is_compact_if_it_is_in_as_few_domains_as_it_can_be() -> None:
    pods = [pod(0, 0, 1, 9, node=node) for node in ("n0", "n0", "n1", "n1", "n2", "n3")]
    data = world([{"sent": 0, "ended": 9}], pods, horizon=9, gpus=8, sizes={"a": 6}, topology=TOPOLOGY)
    assert placement_functions.domains_spanned(data, "rack").value == 2
    assert placement_functions.compact_gangs(data, "rack").value == 100  # six GPUs do not fit into one rack
    assert placement_functions.compact_gangs(data, "host").value == 0  # three nodes would do


def test_the_largest_slot_and_fragmentation_follow_what_pods_hold(spread: PointData) -> None:
    slots = placement_functions.free_slots_over_time(spread, "rack")
    steps = list(zip(slots.moments, slots.largest, slots.total, strict=True))
    # At first a GPU of n0, n2 and n3 is held; from 5 on n3 is free again, at 10 gang 1 takes n1 whole.
    assert steps == [(0, 3, 5), (5, 3, 6), (10, 4, 6), (15, 4, 5), (20, 4, 8)]
    assert slots.fragmentation[:2] == [0.25, 0.25] and slots.fragmentation[2] == 0
    # The load goes on until the end of the observation, as one workload did not end: 10 s of 20 have a whole rack.
    assert placement_functions.fragmentation(spread, "rack").value == pytest.approx(12.5)
    assert placement_functions.largest_free_slot(spread, "rack").value == pytest.approx(3.5)
    assert placement_functions.largest_free_slot(spread, "host", "min").value == 2
    assert placement_functions.largest_free_slot(spread, "rack").labels["resource"] == GPU


def test_nothing_is_fragmented_while_nothing_is_free() -> None:
    pods = [pod(0, 0, 1, 9, node=node) for node in ("n0", "n0", "n1", "n1", "n2", "n2", "n3", "n3")]
    data = world([{"sent": 0, "ended": 9}], pods, horizon=9, gpus=8, sizes={"a": 8}, topology=TOPOLOGY)
    assert placement_functions.fragmentation(data, "rack").value is None
    assert placement_functions.largest_free_slot(data, "rack", "min").value == 0


def test_without_a_stated_topology_there_is_no_level_and_no_figure(spread: PointData) -> None:
    data = world([{"sent": 0, "ended": 9}], [pod(0, 0, 1, 9, node="n0")])
    assert placement_functions.level_names_of_topology(data) == []
    assert placement_functions.domains_spanned(data, "rack").note == "the plan does not state the topology of the nodes"


def test_the_plot_has_each_gang_and_each_step(spread: PointData, tmp_path) -> None:
    plot = draw_run_plots.draw_point_plot(spread, "placement", tmp_path / "placement", "point 1")
    assert plot and "point 1" in plot.title and "rack: 1.50 domains a gang, fragmentation 12.5 %." in plot.alt
    rows = plot.data.read_text().splitlines()
    assert rows[0] == "curve,level,since_start_s,value"
    assert "domains,rack,1,2" in rows and "largest free slot,rack,10,4" in rows and "fragmentation,rack,0,25" in rows
    assert draw_run_plots.draw_point_plot(world([{"sent": 0, "ended": 9}], []), "placement", tmp_path / "none") is None

"""Workloads on real nodes are kept apart from those on simulated ones."""

from __future__ import annotations

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline import timeline_builder
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import timeline_table, timeline_views
from hypothesis import given
from hypothesis import strategies as st
from run_directory import REAL, RUN, World, write_point

PLAYED = "fake-gpu-0000"


def built(folder, **world):
    return timeline_builder.build_timeline_of_workloads(
        write_point(folder / "000", World(**world)), RUN, "000", real_nodes=[REAL]
    )


def simulated(table):
    return {one["name"] for one in table.stages if one["simulated"]}


def test_workloads_on_real_nodes_only_are_measured(tmp_path):
    table = built(tmp_path, count=4, nodes=dict.fromkeys(range(4), REAL), outcomes={3: "unsent"})
    assert table.nodes == ["real", "real", "real", None]
    assert simulated(table) == set()
    assert timeline_views.split_real_simulated(table) is None


def test_workloads_on_simulated_nodes_are_simulated_where_a_real_node_stands_by(tmp_path):
    table = built(tmp_path, count=2, nodes=dict.fromkeys(range(2), PLAYED))
    assert table.nodes == ["simulated"] * 2
    assert "pods_running" in simulated(table) and "pods_scheduled" not in simulated(table)
    assert timeline_views.split_real_simulated(table) is None


def test_without_a_real_node_the_files_are_as_ever(tmp_path):
    folder = write_point(tmp_path / "000", World(count=2, nodes=dict.fromkeys(range(2), PLAYED)))
    table = timeline_builder.build_timeline_of_workloads(folder, RUN, "000")
    timeline_table.write_jsonl_and_csv(table, folder)
    assert not any("nodes" in one for one in files.read_json_lines(folder / "timeline.jsonl"))
    assert "pods_running" in simulated(table)


def test_a_load_on_both_kinds_of_nodes_falls_into_two_parts(tmp_path):
    nodes = {0: REAL, 1: PLAYED, 2: REAL, 3: PLAYED}
    folder = write_point(tmp_path / "000", World(count=5, nodes=nodes, outcomes={4: "unsent"}))
    table = timeline_builder.build_timeline_of_workloads(folder, RUN, "000", real_nodes=[REAL])
    timeline_table.write_jsonl_and_csv(table, folder)
    table = timeline_table.read_timeline_jsonl(folder / "timeline.jsonl")
    real, others = timeline_views.split_real_simulated(table)
    # What was never bound to a node counts as real: a figure must not look better for it.
    assert (real.index, others.index) == ([0, 2, 4], [1, 3])
    assert simulated(real) == set() and simulated(others) == simulated(table) != set()
    assert len(real) == real.header["planned"] and len(others) == others.header["planned"]


def test_a_simulated_provisioner_stays_simulated_for_real_nodes(tmp_path):
    world = World(count=2, nodes={0: REAL, 1: PLAYED}, simulated_writers=("node", "controller"))
    table = timeline_builder.build_timeline_of_workloads(
        write_point(tmp_path / "000", world), RUN, "000", real_nodes=[REAL]
    )
    real, _others = timeline_views.split_real_simulated(table)
    assert {one["name"] for one in real.stages if one["writer"] == "controller"} <= simulated(real) < simulated(table)


@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), st.sampled_from([None, "real", "simulated", "mixed"]))))
def test_every_workload_is_in_one_part_and_none_that_saw_a_simulated_node_is_real(rows):
    table = timeline_table.TimelineTable({"planned": len(rows), "stages": []})
    table.index = list(range(len(rows)))
    for name in timeline_table.COLUMNS[1:]:
        setattr(table, name, [None] * len(rows))
    table.template = [template for template, _kind in rows]
    table.nodes = [kind for _template, kind in rows]
    parts = timeline_views.split_real_simulated(table)
    if parts is None:
        assert "real" not in table.nodes or not {"simulated", "mixed"} & set(table.nodes)
        return
    real, others = parts
    assert sorted(real.index + others.index) == table.index
    assert {rows[index][1] for index in real.index} <= {"real", None}
    assert "real" not in {rows[index][1] for index in others.index}

"""Latency attribution: the parts add up to the total and belong to the stages on the critical path."""

from __future__ import annotations

import numpy
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi import latency_attribution
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.point_data import PointData
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline import timeline_builder
from run_directory import RUN, World, write_point


def data_of(folder, **world):
    return PointData(timeline_builder.build_timeline_of_workloads(write_point(folder, World(**world)), RUN, "000"))


def test_the_parts_of_each_workload_add_up_to_its_time(good, mixed):
    for _world, _folder, table in (good, mixed):
        found = latency_attribution.attribute_latency_to_stages(PointData(table))
        ended = ~numpy.isnan(found.total)
        assert numpy.allclose(sum(found.stages.values())[ended], found.total[ended], atol=1e-9)
        assert numpy.allclose(sum(found.by_writer().values())[ended], found.total[ended], atol=1e-9)


def test_the_time_of_running_belongs_to_the_node(tmp_path):
    found = latency_attribution.attribution_document(data_of(tmp_path / "000", count=12, run_for=20.0), RUN, "000")
    files.validate_schema_if_enabled("attribution/1", found)
    writers = {one["name"]: one for one in found["writers"]}
    assert writers["node"]["share"] > 0.8
    assert writers["node"]["simulated"] and not writers["api-server"]["simulated"]
    assert sum(one["share"] for one in found["writers"]) == pytest.approx(1)
    assert writers["node"]["confidence"]["low"] <= writers["node"]["mean"] <= writers["node"]["confidence"]["high"]


def test_a_late_client_has_its_own_part(tmp_path):
    found = latency_attribution.attribution_document(data_of(tmp_path / "000", count=20, rate=5, late=1.0), RUN, "000")
    client = next(one for one in found["writers"] if one["name"] == "client")
    assert client["mean"] > 0.3


def test_who_had_not_ended_is_told_by_the_stage_that_it_waited_for(mixed):
    found = latency_attribution.attribution_document(PointData(mixed[2]), RUN, "000")
    assert (found["n"], found["of"]) == (7, 12)
    assert [one["n"] for one in found["waiting"]] == [1]
    assert found["waiting"][0]["mean"] > 0


def test_without_a_workload_that_ended_there_is_nothing_to_share_out(tmp_path):
    found = latency_attribution.attribution_document(
        data_of(tmp_path / "000", count=2, outcomes={0: "lost", 1: "unsent"}), RUN, "000"
    )
    files.validate_schema_if_enabled("attribution/1", found)
    assert (found["n"], found["total"], found["stages"]) == (0, None, [])


def test_the_parts_of_a_difference_add_up_to_it(tmp_path):
    slow, fast = (data_of(tmp_path / str(run), count=15, run_for=run) for run in (9.0, 6.0))
    first, second = (
        latency_attribution.attribute_latency_to_stages(fast),
        latency_attribution.attribute_latency_to_stages(slow),
    )
    rows = latency_attribution.attribute_difference_to_stages(first, second, fast.resampling, slow.resampling)
    whole = numpy.nanmean(second.total) - numpy.nanmean(first.total)
    assert sum(one["difference"] for one in rows) == pytest.approx(whole)
    most = max(rows, key=lambda one: one["difference"])
    # A PyTorchJob ends with its master: its other pods are not what it waited for.
    assert (most["name"], most["writer"]) == ("pods_succeeded_first", "node")
    assert most["confidence"]["low"] > 0


def test_a_stage_that_only_one_run_has_keeps_its_place():
    assert latency_attribution._merge_names_in_order(["a", "c", "d"], ["a", "b", "c", "d", "e"]) == [
        "a",
        "b",
        "c",
        "d",
        "e",
    ]

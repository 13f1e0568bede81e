"""Narrowing by the order of stages: midpoints are in order, within the measured intervals."""

from __future__ import annotations

from math import nan

import numpy
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.point_data import NEEDED, PointData
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import timeline_views
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import (
    MOMENTS,
    TimelineTable,
    create_empty_column,
)
from hypothesis import given
from hypothesis import strategies as st

#: A workload with two branches that meet: stage -> what it waits for.
NEEDS = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"], "e": ["d"]}

length = st.floats(min_value=0, max_value=5)
#: Whether the stage was seen, seconds after the last need, and how far each bound is off.
stage_of_true_life = st.tuples(st.booleans(), length, length, length)


def table_of(spans: dict[str, tuple[float, float]], sent: float = 0.0) -> TimelineTable:
    stages = [
        {"name": name, "kind": "Job", "writer": "x", "simulated": False, "ends": None, "needs": needs}
        for name, needs in NEEDS.items()
    ]
    table = TimelineTable({"start": 0.0, "end": 100.0, "planned": 1, "stages": stages, "notes": [], "gaps": []})
    table.index, table.outcome = [0], ["succeeded"]
    table.moments = {name: create_empty_column(1) for name in MOMENTS}
    table.moments["sent"][0] = sent
    table.earliest = {name: create_empty_column(1) for name in NEEDS}
    table.latest = {name: create_empty_column(1) for name in NEEDS}
    for name, (first, last) in spans.items():
        table.earliest[name][0], table.latest[name][0] = first, last
    return table


@given(st.fixed_dictionaries(dict.fromkeys(NEEDS, stage_of_true_life)))
def test_stages_never_run_backwards_and_every_interval_still_holds_the_truth(lives):
    truth: dict[str, float] = {}
    spans: dict[str, tuple[float, float]] = {}
    for name in NEEDS:
        seen, took, early, late = lives[name]
        truth[name] = max((truth[need] for need in NEEDS[name]), default=0.0) + took
        if seen:
            spans[name] = truth[name] - early, truth[name] + late
    table = table_of(spans)
    narrowed = timeline_views.narrowed_spans(table)
    for name, measured in spans.items():
        first, last = (float(side[0]) for side in narrowed[name])
        assert measured[0] <= first <= truth[name] + 1e-9 and truth[name] - 1e-9 <= last <= measured[1]
        for need in NEEDS[name]:
            if need in spans:
                before = sum(float(side[0]) for side in narrowed[need])
                assert first + last >= before - 1e-9
    data = PointData(table)
    for name in spans:
        if all(need in spans for need in NEEDS[name]):
            assert data.sample(name, NEEDED).rows[0] >= -1e-9


def test_intervals_that_contradict_the_order_stay_as_they_were_measured():
    narrowed = timeline_views.narrowed_spans(table_of({"a": (3.0, 4.0), "b": (1.0, 2.0)}))
    assert [float(side[0]) for name in ("a", "b") for side in narrowed[name]] == [3.0, 4.0, 1.0, 2.0]


def test_what_is_not_known_narrows_nothing():
    narrowed = timeline_views.narrowed_spans(table_of({"a": (1.0, 4.0), "d": (2.0, 3.0)}, sent=nan))
    assert [float(side[0]) for side in narrowed["a"]] == [1.0, 4.0], "nothing is known of b and c, which lie between"
    assert numpy.isnan(narrowed["b"][0][0])

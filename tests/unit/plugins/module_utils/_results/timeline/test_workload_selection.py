"""head, tail and skip_errors: one selection for all results, which state what was left out."""

from __future__ import annotations

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.write_timeline import (
    WorkloadSelection,
    select_rows,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import timeline_table


@pytest.mark.parametrize(
    ("selection", "rows", "text"),
    [
        (WorkloadSelection(head=4), [0, 1, 2, 3], "first 4 of 12 workloads"),
        (WorkloadSelection(tail=3), [9, 10, 11], "last 3 of 12 workloads"),
        (WorkloadSelection(head=4, tail=2), [2, 3], "first 4, last 2 of these of 12 workloads"),
        (
            WorkloadSelection(skip_errors=True),
            [0, 1, 2, 9, 10, 11],
            "all of 12 workloads, 6 with errors left out: 6 shown",
        ),
        (WorkloadSelection(head=100), list(range(12)), "first 12 of 12 workloads"),
    ],
)
def test_rows_and_words(mixed, tmp_path, selection, rows, text):
    chosen = select_rows(mixed[2], selection)
    assert chosen.index == rows
    assert chosen.header["selection"]["text"] == text
    assert len(chosen) == chosen.header["planned"] == len(chosen.latest["created"])
    timeline_table.write_jsonl_and_csv(chosen, tmp_path)  # checked against the schema
    again = timeline_table.read_timeline_jsonl(tmp_path / "timeline.jsonl")
    assert (again.index, again.header["selection"]) == (rows, chosen.header["selection"])


def test_values_stay_with_their_rows(mixed):
    whole = mixed[2]
    chosen = select_rows(whole, WorkloadSelection(tail=3))
    for name in whole.latest:
        assert chosen.latest[name].tobytes() == whole.latest[name][9:].tobytes()
    assert chosen.contradictions == {row - 9: told for row, told in whole.contradictions.items() if row >= 9}


def test_without_a_selection_nothing_is_changed(mixed):
    assert select_rows(mixed[2], WorkloadSelection()) is mixed[2]


def test_a_negative_number_is_refused():
    with pytest.raises(InputError, match="head is -1"):
        WorkloadSelection(head=-1)

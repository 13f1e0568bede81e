# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The differences between two snapshots are exactly what was added, removed and changed."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._care import object_snapshots
from ansible_collections.perfscale.seatrial.plugins.module_utils._care.object_snapshots import (
    ComparedObject,
    ObjectsSnapshot,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import ServedKind
from hypothesis import given
from hypothesis import strategies as st

PLACES = st.tuples(
    st.sampled_from(["", "apps"]), st.sampled_from(["Pod", "Job"]), st.sampled_from("ab"), st.text("xy", max_size=3)
)
CONTENT = st.tuples(st.sampled_from("12"), st.sampled_from("56"), st.booleans())
SNAPSHOTS = st.dictionaries(PLACES, CONTENT).map(
    lambda found: ObjectsSnapshot(
        {ComparedObject(*place, uid, spec): ours for place, (uid, spec, ours) in found.items()}, []
    )
)


def places(rows: list[dict[str, Any]]) -> set[tuple[str, str, str]]:
    return {(one["kind"], one["namespace"], one["name"]) for one in rows}


def named(entry: ComparedObject) -> tuple[str, str, str]:
    return f"{entry.kind}.{entry.group}".rstrip("."), entry.namespace, entry.name


@given(SNAPSHOTS, SNAPSHOTS)
def test_each_object_is_equal_or_in_exactly_one_list(before: ObjectsSnapshot, after: ObjectsSnapshot) -> None:
    found = object_snapshots.compare_snapshots(before, after)
    old, new = {named(one) for one in before.entries}, {named(one) for one in after.entries}
    equal = {named(one) for one in before.entries.keys() & after.entries.keys()}
    assert places(found["left"]) == new - old
    assert places(found["gone"]) == old - new
    assert places(found["changed"]) == (old & new) - equal
    back = object_snapshots.compare_snapshots(after, before)
    assert (back["left"], back["gone"]) == (found["gone"], found["left"])
    assert object_snapshots.read_snapshot(object_snapshots.snapshot_lines(before)) == before


def test_a_secret_has_too_short_a_hash_to_confirm_a_guess() -> None:
    item = {"metadata": {"name": "s", "namespace": "n", "uid": "1"}, "data": {"a": "Yg=="}}
    kinds = [ServedKind("v1", kind, kind.lower(), True) for kind in ("Secret", "ConfigMap")]
    assert [len(object_snapshots.reduce_to_compared_parts(kind, item).spec) for kind in kinds] == [4, 12]
    changed = {**item, "data": {"a": "Yw=="}}
    assert object_snapshots.reduce_to_compared_parts(kinds[0], item) != object_snapshots.reduce_to_compared_parts(
        kinds[0], changed
    )
    binary = [{"metadata": item["metadata"], "binaryData": {"a": one}} for one in ("Yg==", "Yw==")]
    assert len({object_snapshots.reduce_to_compared_parts(kinds[1], one) for one in binary}) == 2


def test_a_comparison_needs_the_snapshot_before_the_run(tmp_path: Any) -> None:
    nobody: Any = None
    with pytest.raises(DataError, match="the run began without run_diff"):
        object_snapshots.compare_with_snapshot_before(nobody, str(tmp_path), "t1121-abcdef", 1)


def test_the_sentence_counts_the_objects_of_the_run() -> None:
    row = {"kind": "Pod", "namespace": "a", "name": "b", "ours": True}
    document = {"objects": 2, "left": [row, {**row, "ours": False}], "gone": [], "changed": []}
    assert object_snapshots.format_difference(document) == "2 objects after the run: 2 left (1 of the run)"
    assert object_snapshots.format_difference({**document, "left": []}) == "2 objects after the run: as before it"
    files.validate_schema_if_enabled(
        "run_diff/1",
        {"schema": "run_diff/1", "run": "t1121-abcdef", "at": "2026-11-23T00:00:00Z", "unlisted": [], **document},
    )

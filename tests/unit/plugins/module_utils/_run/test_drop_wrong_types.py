# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of documents in run directories that have another type than their schema."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.schemas.schema_catalogue import schema_by_name
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.drop_wrong_types import drop_wrong_types
from hypothesis import given
from hypothesis import strategies as st

ANY: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
PHASES = st.dictionaries(st.text(max_size=3), st.fixed_dictionaries({}, optional={"seconds": ANY, "error": ANY}) | ANY)


def test_a_value_of_another_type_is_dropped_and_named() -> None:
    record = {"presets": True, "phases": {"test": {"seconds": "long", "error": None}, "plan": 3}, "project": "serving"}
    assert drop_wrong_types(record, "run/1") == (
        {"phases": {"test": {"error": None}}, "project": "serving"},
        ["presets", "phases/test/seconds", "phases/plan"],
    )


def test_entries_of_lists_are_dropped_one_by_one() -> None:
    kept, dropped = drop_wrong_types({"presets": ["light", 7, "many"]}, "run/1")
    assert (kept, dropped) == ({"presets": ["light", "many"]}, ["presets/1"])


def test_a_null_that_is_not_permitted_is_dropped_silently() -> None:
    assert drop_wrong_types({"project": None, "ended": None}, "run/1") == ({"ended": None}, [])


def test_what_the_schema_does_not_know_stays() -> None:
    record = {"environment": {"a": [1, "b", {"c": None}]}, "of_a_newer_version": [1]}
    assert drop_wrong_types(record, "run/1") == (record, [])


@pytest.mark.parametrize("value", [1.5, True, "1"])
def test_a_whole_number_is_no_fraction_truth_or_text(value: object) -> None:
    assert drop_wrong_types({"inode": value}, "run/1") == ({}, ["inode"])


@given(st.fixed_dictionaries({}, optional={"presets": ANY, "phases": PHASES, "inode": ANY, "git": ANY, "held": ANY}))
def test_what_is_kept_has_the_types_of_the_schema(record: dict[str, Any]) -> None:
    kept, dropped = drop_wrong_types(record, "run/1")
    validator = jsonschema.Draft202012Validator(schema_by_name("run/1"))
    assert not [error.message for error in validator.iter_errors(kept) if error.validator == "type"]
    assert drop_wrong_types(kept, "run/1") == (kept, [])
    assert bool(dropped) or kept == _without_nulls_of_schema(record, kept)


def _without_nulls_of_schema(record: Any, kept: Any) -> Any:
    """Return the record without the nulls that the other one does not have."""
    if isinstance(record, dict):
        both = {key: entry for key, entry in record.items() if entry is not None or key in kept}
        return {key: _without_nulls_of_schema(entry, kept[key]) for key, entry in both.items()}
    if isinstance(record, list) and len(record) != len(kept):
        return [entry for entry in record if entry is not None]
    return record

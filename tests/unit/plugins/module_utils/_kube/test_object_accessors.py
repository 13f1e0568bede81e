"""A JSON merge patch changes what it names and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import (
    apply_json_merge_patch,
    expect_object_form,
)
from hypothesis import given
from hypothesis import strategies as st

JSON = st.recursive(
    st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), JSON, max_size=3)
PATCHES = st.dictionaries(st.sampled_from("abc"), st.none() | JSON, max_size=3)


@given(OBJECTS, PATCHES)
def test_a_merge_patch_applied_twice_is_applied_once(base: dict[str, Any], patch: dict[str, Any]) -> None:
    once = apply_json_merge_patch(base, patch)
    assert apply_json_merge_patch(once, patch) == once
    for name, value in patch.items():
        if value is None:
            assert name not in once
        elif not isinstance(value, dict):
            assert once[name] == value
    assert all(once[name] == base[name] for name in base if name not in patch)


def test_an_object_of_another_form_is_named_with_its_kind() -> None:
    item: dict[str, Any] = {"kind": "TrainJob", "metadata": {"name": "j", "namespace": "ft"}, "spec": 5}
    with pytest.raises(DataError, match="TrainJob ft/j: the answer has an unexpected form"), expect_object_form(item):
        item["spec"].get("replicas")

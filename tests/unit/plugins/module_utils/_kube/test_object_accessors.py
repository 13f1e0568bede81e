"""A JSON merge patch changes what it names and nothing else."""

from __future__ import annotations

from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import apply_json_merge_patch
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

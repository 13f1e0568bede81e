"""What is decoded of a document is what the whole document says, however it is written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import replace_half_characters
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import partial_json_decoder
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.partial_json_decoder import (
    ANY,
    create_document_decoder,
    merge_field_shapes,
    shape_from_dotted_path,
)
from hypothesis import given, settings
from hypothesis import strategies as st

NAMES = st.sampled_from(["metadata", "status", "conditions", "uid", "a.b/c", 'a"b', "é"])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**80), 2**80),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
    st.text(st.characters(), max_size=3),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.one_of(NAMES, st.text()), inner)),
    max_leaves=25,
)
SHAPES = st.recursive(
    st.just(ANY),
    lambda inner: st.one_of(st.dictionaries(NAMES, inner, max_size=4), st.lists(inner, min_size=1, max_size=1)),
    max_leaves=8,
).filter(lambda shape: isinstance(shape, dict))


def like(shape: Any) -> st.SearchStrategy[Any]:
    """Documents of a shape: fields missing, null, in any order, among others; some parts are something else."""
    if isinstance(shape, dict):
        own = st.fixed_dictionaries({}, optional={key: like(one) for key, one in shape.items()})
        both = st.builds(lambda more, wanted: {**more, **wanted}, st.dictionaries(st.text(), VALUES), own)
        return st.one_of(both, both, st.none(), both.map(lambda one: dict(reversed(one.items()))), VALUES)
    if isinstance(shape, list):
        return st.one_of(st.lists(like(shape[0]), max_size=4), st.none(), VALUES)
    return VALUES


def seen(document: Any, shape: Any) -> Any:
    """What code reads of a document that reads only the fields of a shape."""
    if isinstance(shape, dict) and isinstance(document, dict):
        return {key: seen(document[key], one) for key, one in shape.items() if key in document}
    if isinstance(shape, list) and isinstance(document, list):
        return [seen(one, shape[0]) for one in document]
    return document


@settings(deadline=None, max_examples=100)
@given(st.data(), SHAPES, st.booleans(), st.sampled_from([None, 1]))
def test_the_fields_of_a_shape_are_those_of_the_document(
    data: st.DataObject, shape: dict[str, Any], ascii_only: bool, indent: int | None
) -> None:
    document = data.draw(like(shape))
    text = json.dumps(document, ensure_ascii=ascii_only, indent=indent).encode("utf-8", "surrogatepass")
    expected = replace_half_characters(document)
    assert repr(seen(create_document_decoder(shape)(text), shape)) == repr(seen(expected, shape))
    assert repr(create_document_decoder(None)(text)) == repr(expected)


@settings(deadline=None, max_examples=50)
@given(SHAPES, SHAPES, st.data())
def test_a_merged_shape_has_the_fields_of_both(one: dict[str, Any], other: dict[str, Any], data: st.DataObject) -> None:
    document = data.draw(like(data.draw(st.sampled_from([one, other]))))
    found = create_document_decoder(merge_field_shapes(one, other))(json.dumps(document).encode())
    for shape in (one, other):
        assert repr(seen(found, shape)) == repr(seen(replace_half_characters(document), shape))


def test_a_path_is_a_shape_and_what_is_below_a_needed_value_is_part_of_it() -> None:
    assert shape_from_dotted_path("a.b") == {"a": {"b": ANY}}
    assert merge_field_shapes(shape_from_dotted_path("a.b"), shape_from_dotted_path("a")) == {"a": ANY}
    assert merge_field_shapes({"a": [shape_from_dotted_path("b")]}, shape_from_dotted_path("a.c")) == {"a": ANY}
    assert merge_field_shapes({"a": [shape_from_dotted_path("b")]}, {"a": [shape_from_dotted_path("c")]}) == {
        "a": [{"b": ANY, "c": ANY}]
    }


def test_other_fields_are_left_out_which_is_what_it_saves() -> None:
    assert create_document_decoder(shape_from_dotted_path("a.b"))(b'{"c":[1],"a":{"d":2,"b":3}}') == {"a": {"b": 3}}


@pytest.fixture
def without_msgspec(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(__import__("sys").modules, "msgspec", None)
    partial_json_decoder.json_decoder_package.cache_clear()
    yield
    partial_json_decoder.json_decoder_package.cache_clear()


def test_without_the_package_documents_are_decoded_whole(without_msgspec: None) -> None:
    assert partial_json_decoder.json_decoder_package() == "json"
    assert create_document_decoder(shape_from_dotted_path("a"))(b'{"a":1,"b":2}') == {"a": 1, "b": 2}


@pytest.mark.parametrize("text", [b"", b"{", b'{"a":1}}', b'{"a" 1}', b"\xff"])
def test_what_is_no_json_is_an_error(text: bytes) -> None:
    with pytest.raises(ValueError):
        create_document_decoder(shape_from_dotted_path("a"))(text)


@pytest.mark.parametrize("deep", [b"[" * 100_000 + b"]" * 100_000, b"1" * 5_000])
@pytest.mark.parametrize("shape", [None, {"a": ANY}])
def test_what_python_can_not_hold_is_an_error(shape: Any, deep: bytes) -> None:
    with pytest.raises(ValueError):
        create_document_decoder(shape)(b'{"a":' + deep + b"}")


def test_the_same_without_the_package(without_msgspec: None) -> None:
    test_what_python_can_not_hold_is_an_error(None, b"[" * 100_000 + b"]" * 100_000)

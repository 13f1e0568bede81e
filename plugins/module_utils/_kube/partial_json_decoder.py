# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decodes of a JSON document only the fields that are needed, in whatever order the server writes them.

The fields are given as a shape: an example of the document, with ANY for values of any type. A dictionary has the
needed keys of an object, a list with one shape is an array, whose elements have this shape::

    {"metadata": {"uid": ANY}, "status": {"conditions": [{"type": ANY, "status": ANY}]}}

The package msgspec passes over all other fields without creating Python objects for them, which costs a seventh of
json.loads. Without the package, or if the document has another structure, the whole document is decoded. Code that
reads only the fields of the shape gets the same values in either case.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypedDict

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import parse_json

#: A value of any type, in a shape.
ANY = None
Shape = dict[str, Any]
Decoder = Callable[[bytes], Any]


@functools.cache
def json_decoder_package() -> str:
    """Return the package that decodes: msgspec, or json without it."""
    try:
        import msgspec
    except ImportError:
        return "json"
    return msgspec.__name__


def create_document_decoder(shape: Shape | None, plain: Decoder = parse_json) -> Decoder:
    """Return a function that decodes a document; with None as the shape, the whole document.

    It raises ValueError if the document is not JSON or too deeply nested. plain: decodes without msgspec, and what
    msgspec refuses.
    """
    if json_decoder_package() == "json":
        return plain
    import msgspec

    read = msgspec.json.Decoder(Any if shape is None else _type_from_shape(shape)).decode

    def decode(text: bytes) -> Any:
        try:
            return read(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # plain reads lone surrogates
            return plain(text)

    return decode


def shape_from_dotted_path(path: str) -> Shape:
    """Return the shape that has only the value at a dotted path."""
    shape: Any = ANY
    for key in reversed(path.split(".")):
        shape = {key: shape}
    return shape


def merge_field_shapes(shape: Any, other: Any) -> Any:
    """Return the shape with the fields of both; where they differ in structure, the whole value."""
    if isinstance(shape, dict) and isinstance(other, dict):
        return {
            **shape,
            **other,
            **{key: merge_field_shapes(shape[key], other[key]) for key in shape.keys() & other.keys()},
        }
    if isinstance(shape, list) and isinstance(other, list):
        return [merge_field_shapes(shape[0], other[0])]
    return ANY


def _type_from_shape(shape: Any) -> Any:
    """Return a shape as a type. Every part may be null or missing."""
    if isinstance(shape, list):
        return list[_type_from_shape(shape[0])] | None  # type: ignore[misc]  # a type that is computed
    if isinstance(shape, dict) and all(key.isascii() for key in shape):  # msgspec 0.22 does not find other keys
        fields = {key: _type_from_shape(field) for key, field in shape.items()}
        return TypedDict("Fields", fields, total=False) | None  # type: ignore[operator]  # the same
    return Any

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drop the values of a document whose types its JSON Schema does not permit.

A run directory may be damaged, or made by somebody else: a text in place of a list must not end its report. Only types
are compared, so a document of a newer minor form, or one with an odd name, is read as far as it can be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.schemas.schema_catalogue import SCHEMAS

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
}


def drop_wrong_types(document: Mapping[str, Any], schema: str) -> tuple[dict[str, Any], list[str]]:
    """Return the document without values of another type than in a schema, and the places of those: phases/test/error.

    Args:
        document: A document of a run directory. It is not changed.
        schema: Name and version of its schema, such as ``run/1``.

    A null that the schema does not permit is dropped, too, without a place: it says the same as a missing value.
    """
    dropped: list[str] = []
    return _kept(document, SCHEMAS[schema], "", dropped), dropped


def _kept(value: Any, schema: Mapping[str, Any], place: str, dropped: list[str]) -> Any:
    if isinstance(value, Mapping):
        named, other = schema.get("properties", {}), schema.get("additionalProperties")
        rest = other if isinstance(other, Mapping) else {}
        entries = ((key, entry, named.get(key, rest)) for key, entry in value.items())
        return dict(_kept_entries(entries, place, dropped))
    if isinstance(value, list):
        entries = ((number, entry, schema.get("items", {})) for number, entry in enumerate(value))
        return [entry for _number, entry in _kept_entries(entries, place, dropped)]
    return value


def _kept_entries(entries: Any, place: str, dropped: list[str]) -> Iterator[tuple[Any, Any]]:
    for key, entry, schema in entries:
        where = f"{place}/{key}" if place else str(key)
        if _has_permitted_type(entry, schema):
            yield key, _kept(entry, schema, where, dropped)
        elif entry is not None:
            dropped.append(where)


def _has_permitted_type(value: Any, schema: Mapping[str, Any]) -> bool:
    if "anyOf" in schema:
        return any(_has_permitted_type(value, choice) for choice in schema["anyOf"])
    permitted = schema.get("type", ())
    names = (permitted,) if isinstance(permitted, str) else permitted
    types = tuple(kind for name in names for kind in _TYPES[name])
    if isinstance(value, bool):
        return not types or bool in types
    return not types or isinstance(value, types) or (int in types and isinstance(value, float) and value.is_integer())

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading objects of an API server: values by path, conditions by type, labels, a title for people."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import expect_documented_form

#: One part of a path: a key in brackets and quotes, or a plain one.
_PART = re.compile(r"""\[["']([^"']+)["']\]|([^.\[\]]+)""")


def field_at_path(item: Mapping[str, Any] | None, path: str, default: Any = None) -> Any:
    """Return the value at a path of an object, ``default`` without one.

    A path is dotted; a key that contains dots is in brackets: ``status.allocatable["nvidia.com/gpu"]``.
    """
    value: Any = item
    for part in split_field_path(path):
        if not isinstance(value, dict) or value.get(part) is None:
            return default
        value = value[part]
    return value


def split_field_path(path: str) -> list[str]:
    """Return the keys of a path."""
    return [quoted or plain for quoted, plain in _PART.findall(path)]


def conditions_by_type(item: Mapping[str, Any] | None) -> dict[str, dict[str, Any]]:
    """Return the conditions of an object by type; none if its status has something else under this name."""
    status = item.get("status") if item else None
    rows = status.get("conditions") if isinstance(status, dict) else None
    if not isinstance(rows, list):
        return {}
    return {row["type"]: row for row in rows if isinstance(row, dict) and isinstance(row.get("type"), str)}


def is_condition_true(item: Mapping[str, Any] | None, kind: str) -> bool:
    """Return whether a condition of an object is True."""
    return conditions_by_type(item).get(kind, {}).get("status") == "True"


def get_label(item: Mapping[str, Any], name: str) -> str:
    """Return a label of an object, "" without it, or if what a server has sent as labels are none."""
    labels = item["metadata"].get("labels")
    return str(labels.get(name, "")) if isinstance(labels, dict) else ""


def format_object_title(item: Mapping[str, Any]) -> str:
    """Return kind, namespace and name, as far as the object has them."""
    namespace, name = (field_at_path(dict(item), f"metadata.{part}", "") for part in ("namespace", "name"))
    place = f"{namespace}/" if namespace else ""
    return f"{item.get('kind', 'object')} {place}{name}"


def format_object_titles(items: Iterable[Mapping[str, Any]], some: int = 3) -> str:
    """Return the titles of the first few objects and the number of the others."""
    names = [format_object_title(item) for item in items]
    return ", ".join(names[:some]) + (f" and {len(names) - some} more" if len(names) > some else "")


@contextmanager
def expect_object_form(item: Mapping[str, Any]) -> Iterator[None]:
    """Read an object in the body whose fields the API server may not have checked, such as a custom resource.

    Raises DataError naming kind and object if the body met another form.
    """
    with expect_documented_form(format_object_title(item), item, DataError):
        yield


def event_time(event: Mapping[str, Any]) -> str:
    """Return when an Event was seen last; "" if it does not say."""
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or "")


def apply_json_merge_patch(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``base`` with a JSON merge patch (RFC 7386) applied: null removes a key, dictionaries are merged."""
    result = dict(base)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, Mapping):
            old = result.get(name)
            result[name] = apply_json_merge_patch(old if isinstance(old, Mapping) else {}, value)
        else:
            result[name] = value
    return result

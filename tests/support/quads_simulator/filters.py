"""Query parameters of GET requests, as the server understands them: field, child.field, and __operators."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

CHILDREN = {
    "interfaces": {
        "name",
        "vendor",
        "speed",
        "mac_address",
        "switch_ip",
        "switch_port",
        "pxe_boot",
        "maintenance",
        "bios_id",
        "count",
    },
    "disks": {"disk_type", "size_gb", "count"},
    "memory": {"handle", "size_gb"},
    "processors": {"handle", "vendor", "product", "cores", "threads", "processor_type"},
}
#: What is added up over a host's parts before it is compared; a count of interfaces is their number.
SUMMED = {("disks", "count"), ("memory", "size_gb"), ("processors", "cores"), ("processors", "threads")}
OPERATORS = ("ne", "lt", "lte", "gt", "gte", "like", "ilike", "in")
TRUE = ("true", "y", "yes")


class UnknownField(Exception):
    """A field that the kind of object doesn't have."""


class UnknownChild(Exception):
    """A field that a part of a host doesn't have; the server crashes on it."""


def matches(thing: Mapping[str, Any], query: Iterable[tuple[str, str]], fields: Iterable[str]) -> bool:
    """Return whether an object meets all conditions."""
    known = set(fields)
    return all(_meets(thing, key, wanted, known) for key, wanted in query)


def check(query: Iterable[tuple[str, str]], fields: Iterable[str]) -> None:
    """Raise UnknownField or UnknownChild for the first condition that can't be understood."""
    known = set(fields)
    for key, _ in query:
        name, _ = _split(key)
        if "." in name:
            child, _, field = name.partition(".")
            if child not in CHILDREN:
                raise UnknownField(child)
            if field not in CHILDREN[child]:
                raise UnknownChild(name)
        elif name not in known:
            raise UnknownField(name)


def _split(key: str) -> tuple[str, str]:
    name, _, operator = key.rpartition("__")
    return (name, operator) if name and operator in OPERATORS else (key, "eq")


def _meets(thing: Mapping[str, Any], key: str, wanted: str, known: set[str]) -> bool:
    name, operator = _split(key)
    if "." in name:
        child, _, field = name.partition(".")
        parts = thing[child]
        if (child, field) == ("interfaces", "count"):
            return _compare(len(parts), operator, wanted)
        if (child, field) in SUMMED:
            return _compare(sum(part[field] for part in parts), operator, wanted)
        return any(_compare(part[field], operator, wanted) for part in parts)
    value = thing.get(name)
    if isinstance(value, Mapping):
        value = value.get("name")
    return _compare(value, operator, wanted)


def _compare(value: Any, operator: str, wanted: str) -> bool:
    if operator in ("like", "ilike"):
        pattern = "".join(".*" if one == "%" else "." if one == "_" else re.escape(one) for one in wanted)
        return re.fullmatch(pattern, str(value), re.IGNORECASE if operator == "ilike" else 0) is not None
    if operator == "in":
        return str(value) in wanted.split(",")
    if isinstance(value, bool):
        same = value == (wanted.lower() in TRUE)
        return same if operator == "eq" else not same
    if isinstance(value, (int, float)):
        try:
            number = float(wanted)
        except ValueError:
            return False
        return {
            "eq": value == number,
            "ne": value != number,
            "lt": value < number,
            "lte": value <= number,
            "gt": value > number,
            "gte": value >= number,
        }[operator]
    return (str(value) == wanted) == (operator != "ne")

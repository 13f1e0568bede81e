"""Query parameters of GET requests, as the server parses them: field, child.field, and __operators.

Every field has a type. What the server's database can't compare, the server answers with 500: an enum in another case,
a pattern on a number, a list for a sum. A host's parts are joined: all conditions on one kind of part have to be met by
one row of it. A sum is taken over all rows of a host, whatever other conditions say; a host without a row has none.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: Types: text, number, truth (a host's boolean), flag (a part's boolean), sum, cloud, or an enum's values.
Kind = str | tuple[str, ...]

HOST: dict[str, Kind] = {
    **dict.fromkeys(("name", "model", "host_type", "rack", "uloc", "blade"), "text"),
    **dict.fromkeys(("can_self_schedule", "broken", "retired", "build", "validated", "switch_config_applied"), "truth"),
    "bootmode": ("Bios", "Uefi"),
    "cloud": "cloud",
    "id": "number",
}
ASSIGNMENT: dict[str, Kind] = {
    **dict.fromkeys(("owner", "description", "ticket", "ostype"), "text"),
    **dict.fromkeys(("active", "is_self_schedule", "provisioned", "validated", "wipe"), "truth"),
    "cloud": "cloud",
    "id": "number",
    "qinq": "number",
}
CHILDREN: dict[str, dict[str, Kind]] = {
    "interfaces": {
        **dict.fromkeys(("name", "vendor", "mac_address", "switch_ip", "switch_port", "bios_id"), "text"),
        **dict.fromkeys(("pxe_boot", "maintenance"), "flag"),
        "speed": "number",
        "count": "sum",
    },
    "disks": {"disk_type": "text", "size_gb": "number", "count": "sum"},
    "memory": {"handle": "text", "size_gb": "sum"},
    "processors": {
        **dict.fromkeys(("handle", "vendor", "product"), "text"),
        **dict.fromkeys(("cores", "threads"), "sum"),
        "processor_type": ("CPU", "GPU"),
    },
}
ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "lte": operator.le,
    "gt": operator.gt,
    "gte": operator.ge,
}
OPERATORS = (*ORDER, "like", "ilike", "in")
TRUE = ("true", "y", "yes")
#: What the database itself reads as a boolean.
FLAGS = {**dict.fromkeys(("true", "t", "yes", "y", "on", "1"), True)}
FLAGS |= dict.fromkeys(("false", "f", "no", "n", "off", "0"), False)
LARGEST = {"number": 2**31 - 1, "sum": 2**63 - 1}


class BadRequest(Exception):
    """An error with status 400."""


class Crash(Exception):
    """An error with status 500."""


@dataclass(frozen=True)
class Condition:
    """One parameter: of the object itself, or of its parts of kind ``child``. ``value`` None: NULL."""

    child: str
    field: str
    kind: Kind
    operator: str
    value: Any

    def met(self, value: Any) -> bool:
        """Compare as a database does: nothing is true of a value that is not there."""
        if self.value is None:
            return (value is None) == (self.operator == "eq")
        if value is None:
            return False
        if self.operator in ("like", "ilike"):
            pattern = "".join(".*" if one == "%" else "." if one == "_" else re.escape(one) for one in self.value)
            flags = re.IGNORECASE if self.operator == "ilike" else 0
            return re.fullmatch(pattern, value, flags | re.DOTALL) is not None
        return value in self.value if self.operator == "in" else ORDER[self.operator](value, self.value)


def select(
    things: Iterable[Mapping[str, Any]],
    query: Iterable[tuple[str, str]],
    kinds: Mapping[str, Kind],
    clouds: Iterable[str],
) -> list[Mapping[str, Any]]:
    """Return the objects that meet all conditions. Raises BadRequest or Crash, whatever the objects are."""
    split = [(_split(key, kinds), text) for key, text in query]
    conditions = [_condition(*parts, text, kinds, set(clouds)) for parts, text in split]
    sums = [one.child for one in conditions if one.kind == "sum"]
    if len(sums) > len(set(sums)):
        raise Crash("a table is joined twice")
    return [thing for thing in things if _meets(thing, conditions)]


def _split(key: str, kinds: Mapping[str, Kind]) -> tuple[str, str, str]:
    """Return kind of part (or ""), field and operator."""
    name, mark, word = key.rpartition("__")
    if mark and word not in OPERATORS[1:]:
        raise BadRequest(f"__{word} is not a valid operator.")
    child, dot, field = (name if mark else key).partition(".")
    if child not in (CHILDREN if dot and kinds is HOST else kinds):
        raise BadRequest(f"{child} is not a valid field.")
    return (child if dot else "", field if dot else child, word if mark else "eq")


def _condition(child: str, field: str, word: str, text: str, kinds: Mapping[str, Kind], clouds: set[str]) -> Condition:
    table = CHILDREN[child] if child else kinds
    if field not in table:
        raise Crash("a table has no such column")
    kind = table[field]
    if text == "null":
        return Condition(child, field, kind, word, None)
    if kind == "cloud" and word == "eq" and text not in clouds:
        raise BadRequest(f"Cloud not found: {text}")
    values = [_value(kind, word, one) for one in (text.split(",") if word == "in" else [text])]
    return Condition(child, field, kind, word, values if word == "in" else values[0])


def _value(kind: Kind, word: str, text: str) -> Any:
    """Return one value as the database compares it. Raises Crash for an unsupported one."""
    if kind == "text":
        return text
    if word in ("like", "ilike") or (kind in ("sum", "cloud", "truth") and word == "in"):
        raise Crash(f"{kind} {word}")
    if kind in ("truth", "cloud") and word not in ("eq", "ne"):
        raise Crash(f"{kind} {word}")
    if kind == "truth":
        return text.lower() in TRUE
    if kind == "flag" and text.strip().lower() in FLAGS:
        return FLAGS[text.strip().lower()]
    if kind in LARGEST and re.fullmatch(r"\s*[-+]?\d+\s*", text) and abs(int(text)) <= LARGEST[str(kind)]:
        return int(text)
    if kind == "cloud" or isinstance(kind, tuple) and text in kind:
        return text
    raise Crash(f"{kind} {text}")


def _meets(thing: Mapping[str, Any], conditions: Sequence[Condition]) -> bool:
    for one in conditions:
        value = thing.get(one.field)
        if not one.child and not one.met(value["name"] if isinstance(value, Mapping) else value):
            return False
    kinds = sorted({one.child for one in conditions if one.child})
    of = {kind: [one for one in conditions if one.child == kind and one.kind != "sum"] for kind in kinds}
    fit = all(any(all(one.met(part[one.field]) for one in of[kind]) for part in thing[kind]) for kind in kinds)
    return fit and all(one.met(_sum(one, thing[one.child])) for one in conditions if one.kind == "sum")


def _sum(one: Condition, rows: Sequence[Mapping[str, Any]]) -> int:
    return len(rows) if one.child == "interfaces" else sum(row[one.field] for row in rows)

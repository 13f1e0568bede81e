# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fields of a host search with their types; conditions are checked or normalised before a request.

A QUADS server passes conditions to its database unchecked, which results in "500 Internal Server Error" for a wrong
type: an enum in another case, a pattern on a number, a list for a sum.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, nearest

OPERATORS = ("ne", "lt", "lte", "gt", "gte", "like", "ilike", "in")
#: The largest integer of the server's database.
LARGEST = 2**31 - 1


@dataclass(frozen=True)
class Type:
    """The type of a value. ``split``: a comma in a text separates values."""

    says: str
    operators: tuple[str, ...] = OPERATORS
    split: bool = False
    choices: tuple[str, ...] = ()


TEXT = Type("a text")
#: A text that never contains a comma.
WORD = Type("a text", split=True)
NUMBER = Type(f"a whole number from 0 to {LARGEST}", ("ne", "lt", "lte", "gt", "gte", "in"), split=True)
#: Summed over a host's parts before the comparison.
SUM = Type(NUMBER.says, ("ne", "lt", "lte", "gt", "gte"))
TRUTH = Type("true or false", ("ne",))


def _choice(*names: str) -> Type:
    return Type(" or ".join(names), ("ne", "in"), True, names)


CHILDREN: dict[str, dict[str, Type]] = {
    "interfaces": {
        **dict.fromkeys(("name", "mac_address", "switch_ip", "bios_id"), WORD),
        **dict.fromkeys(("vendor", "switch_port"), TEXT),
        **dict.fromkeys(("pxe_boot", "maintenance"), TRUTH),
        "speed": NUMBER,
        "count": SUM,
    },
    "disks": {"disk_type": WORD, "size_gb": NUMBER, "count": SUM},
    "memory": {"handle": TEXT, "size_gb": SUM},
    "processors": {
        **dict.fromkeys(("handle", "vendor", "product"), TEXT),
        **dict.fromkeys(("cores", "threads"), SUM),
        "processor_type": _choice("CPU", "GPU"),
    },
}
FIELDS: dict[str, Type] = {
    **dict.fromkeys(("name", "model", "host_type", "rack", "uloc", "blade"), WORD),
    **dict.fromkeys(("broken", "retired", "build", "validated", "switch_config_applied"), TRUTH),
    "bootmode": _choice("Bios", "Uefi"),
    "id": NUMBER,
    **{f"{child}.{name}": kind for child, names in CHILDREN.items() for name, kind in names.items()},
}
#: Fields of a host that are useless in a search.
NOT_SEARCHED = {
    "cloud": "it is the cloud in which a host is scheduled now, and a free host is in none. The cloud to "
    "request is a separate option",
    "can_self_schedule": "every search is limited to hosts that can be self-scheduled",
}


def parts_of(key: str) -> tuple[str, bool]:
    """Return the kind of part of a checked condition, "" for the host itself, and whether it is a sum."""
    name = key.partition("__")[0]
    child, dot, _field = name.partition(".")
    return (child, FIELDS[name] is SUM) if dot else ("", False)


def condition(key: str, value: Any, where: str, more: Mapping[str, Type] | None = None) -> tuple[str, str]:
    """Return a condition in the server's format. Raises InputError naming the condition and its valid values.

    where: the option, for messages. more: fields beside those of a search.
    """
    known = {**FIELDS, **(more or {})}
    name, mark, word = str(key).rpartition("__")
    name, word = (name, word) if mark else (str(key), "")
    what = f"{where}: '{key}'"
    if name not in known and name in NOT_SEARCHED:
        raise InputError(f"{what} is not a search field: {NOT_SEARCHED[name]}")
    if name not in known:
        raise InputError(f"{what}: hosts have no '{name}'{nearest(name, known)}")
    kind = known[name]
    if mark and word not in kind.operators:
        raise InputError(f"{what}: unknown operator __{word}; {_operators(kind)}{nearest(word, kind.operators)}")
    items = _items(value, kind, word, what)
    listed = word == "in" or len(items) > 1
    if listed and (word not in ("", "in") or "in" not in kind.operators):
        raise InputError(f"{what} takes one value, not {' and '.join(map(str, items))}")
    texts = [_text(one, kind, what) for one in items]
    if listed and any("," in text for text in texts):
        raise InputError(f"{what}: the server separates values of a list by a comma, which '{value}' contains")
    text = ",".join(texts)
    return (f"{name}__in" if listed else str(key)), text.upper() if name == "model" else text


def _operators(kind: Type) -> str:
    return f"there {'is' if len(kind.operators) == 1 else 'are'} {', '.join(f'__{one}' for one in kind.operators)}"


def _items(value: Any, kind: Type, word: str, what: str) -> Sequence[Any]:
    """Return the given values; texts are split at commas where a comma can only be a separator."""
    items = list(value) if isinstance(value, (list, tuple, set)) else [value]
    if word == "in" or (kind.split and word == ""):
        items = [part for one in items for part in (one.split(",") if isinstance(one, str) else [one])]
    items = [one.strip() if isinstance(one, str) else one for one in items]
    if not items or any(one is None or one == "" for one in items):
        raise InputError(f"{what} has no value; it requires {kind.says}")
    return items


def _text(value: Any, kind: Type, what: str) -> str:
    """Return one value in the format of the server's database. Raises InputError for an invalid one."""
    wrong = InputError(f"{what} is '{value}': it must be {kind.says}{_meant(value, kind.choices)}")
    if kind is TRUTH:
        try:
            return str(boolean(value)).lower()
        except TypeError as error:
            raise wrong from error
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise wrong
    if kind in (NUMBER, SUM):
        number = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
        if not re.fullmatch(r"[0-9]+", number) or int(number) > LARGEST:
            raise wrong
        return number
    if kind.choices:
        found = [one for one in kind.choices if one.lower() == str(value).lower()]
        if not found:
            raise wrong
        return found[0]
    return str(value)


def _meant(value: Any, choices: Iterable[str]) -> str:
    lower = {one.lower(): one for one in choices}
    found = nearest(str(value).lower(), lower)
    return next((f" (did you mean '{name}'?)" for small, name in lower.items() if f"'{small}'" in found), "")

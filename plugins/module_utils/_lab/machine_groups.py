# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inventory groups of a lease's machines, by name or hardware, never by the position in a list."""

from __future__ import annotations

import fnmatch
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, nearest

from . import search_fields

KEYS = ("name", "hosts", "where", "count")
#: Fields of a leased machine beside those of a free one.
MORE = {"cloud": search_fields.WORD}


@dataclass(frozen=True)
class GroupRule:
    """One group. ``hosts``: names or patterns; ``where``: conditions as in a lease; ``count`` None: the rest."""

    name: str
    hosts: tuple[str, ...] = ()
    where: tuple[tuple[str, str], ...] = ()
    count: int | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> GroupRule:
        """Check one entry of the option. Raises InputError."""
        if not isinstance(given, Mapping):
            raise InputError(f"roles: '{given}' is not a dictionary with name, hosts, where and count")
        for key in given:
            if key not in KEYS:
                raise InputError(f"roles: unknown key '{key}'{nearest(str(key), KEYS)}; known: {', '.join(KEYS)}")
        name = str(given.get("name") or "")
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise InputError(f"roles: name '{name}' is not a group name: letters, digits and _ only")
        count = given.get("count", "rest")
        if count != "rest" and not re.fullmatch(r"\d+", str(count)):
            raise InputError(f"roles: {name}: count must be a number or rest, not '{count}'")
        hosts = given.get("hosts") or ()
        return cls(
            name=name,
            hosts=(hosts,) if isinstance(hosts, str) else tuple(hosts),
            where=tuple(
                search_fields.condition(key, value, f"roles: {name}: where", MORE)
                for key, value in (given.get("where") or {}).items()
            ),
            count=None if count == "rest" else int(count),
        )


def assign(machines: Mapping[str, Mapping[str, Any]], given: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return group -> hosts. machines: host -> its record, as returned by GET /hosts/<name>.

    Rules apply in order, each to the hosts without a group, by name. Raises InputError if a rule finds fewer hosts than
    its count, or names a host that is not in the lease.
    """
    left = sorted(machines, key=natural)
    groups: dict[str, list[str]] = {}
    for rule in [GroupRule.of(one) for one in given]:
        _named(rule, machines)
        fitting = [host for host in left if _fits(rule, host, machines[host])]
        taken = fitting if rule.count is None else fitting[: rule.count]
        if rule.count is not None and len(taken) < rule.count:
            raise InputError(
                f"roles: {rule.name} needs {rule.count} machines, but {len(taken)} of the lease's {len(machines)} are "
                f"left that match: {', '.join(taken) or 'none'}"
            )
        groups.setdefault(rule.name, []).extend(taken)
        left = [host for host in left if host not in taken]
    return groups


def natural(name: str) -> list[Any]:
    """Return a sort key that orders h2 before h10."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def _named(rule: GroupRule, machines: Mapping[str, Any]) -> None:
    for pattern in rule.hosts:
        if not any(_same(host, pattern) for host in machines):
            raise InputError(
                f"roles: {rule.name}: no host of the lease matches '{pattern}'{nearest(pattern, machines)}"
            )


def _same(host: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(host, pattern) or fnmatch.fnmatchcase(host.split(".")[0], pattern)


def _fits(rule: GroupRule, host: str, machine: Mapping[str, Any]) -> bool:
    """Return whether a host meets a rule, by the semantics of the server.

    One part must meet all conditions on its kind; a sum is over the parts that meet the other conditions.
    """
    if rule.hosts and not any(_same(host, pattern) for pattern in rule.hosts):
        return False
    kinds = {key: search_fields.parts_of(key) for key, _wanted in rule.where}
    for child in {child for child, _sum in kinds.values()}:
        conditions = [(key, wanted) for key, wanted in rule.where if kinds[key][0] == child]
        plain = [one for one in conditions if not kinds[one[0]][1]]
        parts = machine.get(child) or () if child else (machine,)
        parts = [part for part in parts if all(_compare(_value(part, key), key, wanted) for key, wanted in plain)]
        sums = [one for one in conditions if kinds[one[0]][1]]
        if not parts or not all(_compare(_sum(parts, key), key, wanted) for key, wanted in sums):
            return False
    return True


def _value(part: Mapping[str, Any], key: str) -> Any:
    value = part.get(key.partition("__")[0].rpartition(".")[2])
    return value.get("name") if isinstance(value, Mapping) else value


def _sum(parts: Sequence[Mapping[str, Any]], key: str) -> int:
    return len(parts) if key.startswith("interfaces.") else sum(_value(part, key) or 0 for part in parts)


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "lte": operator.le,
    "gt": operator.gt,
    "gte": operator.ge,
}


def _compare(value: Any, key: str, wanted: str) -> bool:
    """Compare like a database: every comparison with an unknown value is false."""
    comparison = key.partition("__")[2]
    if value is None:
        return False
    if comparison in ("like", "ilike"):
        flags = re.IGNORECASE if comparison == "ilike" else 0
        pattern = "".join(".*" if one == "%" else "." if one == "_" else re.escape(one) for one in wanted)
        return re.fullmatch(pattern, str(value), flags) is not None
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if comparison == "in":
        return text in wanted.split(",")
    holds = _COMPARISONS[comparison]
    return holds(value, int(wanted)) if isinstance(value, int) and not isinstance(value, bool) else holds(text, wanted)

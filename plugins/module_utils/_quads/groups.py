# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which machine of a lease plays which part: by name or by what it is, never by its place in a list."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError, nearest
from ansible_collections.perfscale.seatrial.plugins.module_utils._quads.choose import check_filter

KEYS = ("name", "hosts", "where", "count")
#: What is added up over a host's parts before it is compared, as the server does.
SUMMED = ("disks.count", "memory.size_gb", "processors.cores", "processors.threads")


@dataclass(frozen=True)
class Rule:
    """One group. ``hosts``: names or patterns; ``where``: conditions as in a lease; ``count`` None: the rest."""

    name: str
    hosts: tuple[str, ...] = ()
    where: tuple[tuple[str, str], ...] = ()
    count: int | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Rule:
        """Check one entry of the option. Raises InputError."""
        if not isinstance(given, Mapping):
            raise InputError(f"roles: '{given}' is no dictionary with name, hosts, where and count")
        for key in given:
            if key not in KEYS:
                raise InputError(f"roles: '{key}' is not known{nearest(str(key), KEYS)}; there are {', '.join(KEYS)}")
        name = str(given.get("name") or "")
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise InputError(f"roles: name '{name}' is no name of a group: letters, digits and _ only")
        count = given.get("count", "rest")
        if count != "rest" and not re.fullmatch(r"\d+", str(count)):
            raise InputError(f"roles: {name}: count is a number or rest, and '{count}' is not")
        hosts = given.get("hosts") or ()
        return cls(
            name=name,
            hosts=(hosts,) if isinstance(hosts, str) else tuple(hosts),
            where=tuple(check_filter(key, value) for key, value in (given.get("where") or {}).items()),
            count=None if count == "rest" else int(count),
        )


def assign(machines: Mapping[str, Mapping[str, Any]], given: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return group -> hosts. machines: host -> what the lab knows about it, as GET /hosts/<name> shows it.

    Rules apply in order, each to the hosts that no earlier one took, by name. Raises InputError when a rule that says
    how many finds fewer, or when a host that it names is not of the lease.
    """
    left = sorted(machines, key=natural)
    groups: dict[str, list[str]] = {}
    for rule in [Rule.of(one) for one in given]:
        _named(rule, machines)
        fitting = [host for host in left if _fits(rule, host, machines[host])]
        taken = fitting if rule.count is None else fitting[: rule.count]
        if rule.count is not None and len(taken) < rule.count:
            raise InputError(
                f"roles: {rule.name} needs {rule.count} machines, and {len(taken)} of the lease's {len(machines)} are "
                f"left that fit: {', '.join(taken) or 'none'}"
            )
        groups.setdefault(rule.name, []).extend(taken)
        left = [host for host in left if host not in taken]
    return groups


def natural(name: str) -> list[Any]:
    """Sort key by which h2 stands before h10."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def _named(rule: Rule, machines: Mapping[str, Any]) -> None:
    for pattern in rule.hosts:
        if not any(_same(host, pattern) for host in machines):
            raise InputError(
                f"roles: {rule.name}: no host of the lease is called '{pattern}'{nearest(pattern, machines)}"
            )


def _same(host: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(host, pattern) or fnmatch.fnmatchcase(host.split(".")[0], pattern)


def _fits(rule: Rule, host: str, machine: Mapping[str, Any]) -> bool:
    named = not rule.hosts or any(_same(host, pattern) for pattern in rule.hosts)
    return named and all(_meets(machine, key, wanted) for key, wanted in rule.where)


def _meets(machine: Mapping[str, Any], key: str, wanted: str) -> bool:
    field, _dot, operator = key.partition("__")
    parent, _dot, child = field.partition(".")
    if not child:
        value = machine.get(field)
        return _compare(value.get("name") if isinstance(value, Mapping) else value, operator, wanted)
    parts = machine.get(parent) or ()
    if field == "interfaces.count":
        return _compare(len(parts), operator, wanted)
    if field in SUMMED:
        return _compare(sum(part.get(child) or 0 for part in parts), operator, wanted)
    return any(_compare(part.get(child), operator, wanted) for part in parts)


def _compare(value: Any, operator: str, wanted: str) -> bool:
    if operator in ("like", "ilike"):
        flags = re.IGNORECASE if operator == "ilike" else 0
        pattern = "".join(".*" if one == "%" else "." if one == "_" else re.escape(one) for one in wanted)
        return re.fullmatch(pattern, str(value), flags) is not None
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if operator == "in":
        return text in wanted.split(",")
    if operator in ("", "ne"):
        return (text == wanted) == (operator == "")
    try:
        number, limit = float(text), float(wanted)
    except ValueError:
        return False
    return {"lt": number < limit, "lte": number <= limit, "gt": number > limit, "gte": number >= limit}[operator]

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts to try, in which order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError, nearest
from ansible_collections.perfscale.seatrial.plugins.module_utils._quads import times

OPERATORS = ("ne", "lt", "lte", "gt", "gte", "like", "ilike", "in")
FIELDS = ("model", "host_type", "name", "broken", "retired", "build", "validated", "rack", "uloc", "blade", "bootmode")
FIELDS += ("can_self_schedule", "cloud", "switch_config_applied", "id")
#: Fields of a host's parts. The server crashes on any other one, so they are checked here.
CHILDREN: dict[str, tuple[str, ...]] = {
    "interfaces": (
        *("name", "vendor", "speed", "mac_address", "switch_ip", "switch_port", "pxe_boot", "maintenance"),
        *("bios_id", "count"),
    ),
    "disks": ("disk_type", "size_gb", "count"),
    "memory": ("handle", "size_gb"),
    "processors": ("handle", "vendor", "product", "cores", "threads", "processor_type"),
}
_ALL = (*FIELDS, *(f"{child}.{name}" for child, names in CHILDREN.items() for name in names))


def check_filter(key: str, value: Any) -> tuple[str, str]:
    """Return a condition as the server takes it. Raises InputError for a field that it doesn't have.

    A model is stored in upper case; only ``true`` is true, ``1`` is not; ``__in`` takes a comma-separated list.
    """
    name, _dot, operator = key.rpartition("__")
    if not name or operator not in OPERATORS:
        name, operator = key, ""
        if "__" in key:
            raise InputError(
                f"filters: '{key}': there is no operator '{key.rpartition('__')[2]}'; "
                f"there are {', '.join(f'__{one}' for one in OPERATORS)}"
            )
    if name not in _ALL:
        raise InputError(f"filters: hosts have no '{name}'{nearest(name, _ALL)}")
    many = isinstance(value, (list, tuple))
    if many and operator not in ("", "in"):
        raise InputError(f"filters: '{key}' takes one value, got a list")
    if many or operator == "in":
        items = value if many else str(value).split(",")
        text, operator = ",".join(_text(one).strip() for one in items), "in"
    else:
        text = _text(value)
    if name == "model":
        text = text.upper()
    return (f"{name}__{operator}" if operator else name), text


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def preferences(
    models: Sequence[str], filters: Mapping[str, Any], prefer: Sequence[Mapping[str, Any]]
) -> list[dict[str, str]]:
    """Return the conditions to try, best first: each preference with each model in turn, ``filters`` in all of them."""
    common = dict(check_filter(key, value) for key, value in filters.items())
    found = []
    for one in prefer or ({},):
        if not isinstance(one, Mapping):
            raise InputError(f"prefer: '{one}' is no dictionary of filters")
        own = dict(check_filter(key, value) for key, value in one.items())
        chosen = [("model", model.upper()) for model in models if "model" not in own] or [None]
        found += [{**common, **own, **(dict([model]) if model else {})} for model in chosen]
    return found


def query(conditions: Mapping[str, str], start: float, end: float, ahead: float) -> list[tuple[str, str]]:
    """Return the query of GET /available for hosts that are free from ``start`` to ``end`` (epoch seconds, UTC).

    Without both the server answers who is free at this moment, whom a later booking makes unfit for a lease.
    """
    window = [("start", times.local(start, ahead)), ("end", times.local(end, ahead))]
    return [("can_self_schedule", "true"), *conditions.items(), *window]


def shuffled(hosts: Iterable[str], lease_id: str) -> list[str]:
    """Return the hosts in an order of this lease's own, always the same: runs that start together don't collide."""
    return sorted(hosts, key=lambda host: hashlib.sha256(f"{lease_id} {host}".encode()).digest())

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order in which hosts are requested."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, nearest

from . import search_fields, times
from .quads_client import QuadsClient


def preferences(
    models: Sequence[str], filters: Mapping[str, Any], prefer: Sequence[Mapping[str, Any]]
) -> list[dict[str, str]]:
    """Return the conditions to try, best first: each preference combined with each model and with ``filters``."""
    common = dict(search_fields.condition(key, value, "filters") for key, value in filters.items())
    found = []
    for one in prefer or ({},):
        if not isinstance(one, Mapping):
            raise InputError(f"prefer: '{one}' is not a dictionary of filters")
        own = dict(search_fields.condition(key, value, "prefer") for key, value in one.items())
        chosen: list[dict[str, str]] = [{"model": model.upper()} for model in models if "model" not in own] or [{}]
        found += [{**common, **own, **model} for model in chosen]
    return found


def free(client: QuadsClient, conditions: Mapping[str, str], end: float) -> list[str]:
    """Return the hosts that meet the conditions and are free from now to ``end`` (epoch seconds, UTC)."""
    found = [client.available(query) for query in queries(conditions, end, client.ahead or 0.0)]
    return [name for name in found[0] if all(name in names for names in found[1:])]


def queries(conditions: Mapping[str, str], end: float, ahead: float) -> list[list[tuple[str, str]]]:
    """Return the queries of GET /available for hosts that are free until ``end``; a host must be in all results.

    Without an end the server returns hosts that are free now, even if a later booking makes them unfit. The
    start is omitted: the server then uses its present time, whereas a given start has to be rounded down to the minute
    and would be before the end of a lease that was just released. Each sum gets its own query, with the other
    conditions on that kind of part: the server joins the tables of all parts, which multiplies a sum, and fails on two
    of them.
    """
    parts = {key: search_fields.parts_of(key) for key in conditions}
    summed = {child for child, is_sum in parts.values() if is_sum}
    chosen = [[key for key, (child, _sum) in parts.items() if child not in summed]]
    for own, (kind, is_sum) in parts.items():
        if is_sum:
            chosen.append([key for key, (child, other) in parts.items() if child == kind and not other] + [own])
    until = ("end", times.local(end, ahead))
    return [
        [("can_self_schedule", "true"), *((key, conditions[key]) for key in keys), until]
        for keys in chosen
        if keys or len(chosen) == 1
    ]


def unknown_models(client: QuadsClient, preferred: Iterable[Mapping[str, str]]) -> str:
    """Return a text on the models of these conditions that the lab does not have, "" if it has all."""
    wanted = [name for one in preferred for key in ("model", "model__in") for name in one.get(key, "").split(",")]
    if not any(wanted):
        return ""
    known = client.models()
    missing = [f"{name}{nearest(name, known)}" for name in dict.fromkeys(wanted) if name and name not in known]
    has = ", ".join(f"{name} ({count})" for name, count in sorted(known.items()))
    return f"the lab has no {', '.join(missing)}; its models: {has or 'none'}" if missing else ""


def shuffled(hosts: Iterable[str], lease_id: str) -> list[str]:
    """Return the hosts in an order that depends on the lease, so that simultaneous runs do not collide."""
    return sorted(hosts, key=lambda host: hashlib.sha256(f"{lease_id} {host}".encode()).digest())

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When workloads that wait for a release are released, and how many of them are required."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil
from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, nearest

from ..plan import arrivals
from .load_argument_spec import ARRIVAL

ALL = "all"
_PERCENT = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?%")


@dataclass(frozen=True)
class Batch:
    """Workloads that one write releases: those with an index below ``until`` that no earlier batch has released.

    offset: seconds after the barrier opened. pause: seconds after the batch before was answered, where there is no
    schedule.
    """

    until: int
    offset: float | None = None
    pause: float = 0.0


@dataclass(frozen=True)
class ReleaseSpec:
    """Option ``release`` of workload_submit.

    stage: of the workloads' kind, by which one shows that it is ready. required: number of workloads that have to be
    ready, and then to succeed. timeout: for all to be ready after the last one was created, seconds. abort: whether
    the load ends as soon as so many have failed that the required number cannot succeed.
    """

    stage: str
    required: int
    timeout: float
    abort: bool
    batches: tuple[Batch, ...]
    header: Mapping[str, Any]

    @classmethod
    def of(cls, given: Mapping[str, Any], count: int, seed: int | None) -> ReleaseSpec:
        """Return the release of ``count`` workloads. Raises InputError naming the key and its value."""
        if given["timeout"] < 0:
            raise InputError(f"release: timeout is {given['timeout']:g}, it must be 0 or more")
        found = arrivals.arrivals(_typed(given["arrival"]), count, seed or 1)
        if found.count != count:
            raise InputError(f"release: arrival releases {found.count} workloads, and there are {count}")
        header = {"stage": given["stage"], "required": str(given["required"]), "arrival": found.header}
        return cls(
            given["stage"],
            needed(str(given["required"]), count),
            given["timeout"],
            given["abort"],
            tuple(_batches(found)),
            header,
        )


def check(given: Mapping[str, Any], count: int, seed: int | None, names: Sequence[str]) -> None:
    """Raise InputError for a release that cannot be. names: the stages of the workloads' own kind."""
    ReleaseSpec.of(given, count, seed)
    if given["stage"] not in names:
        raise InputError(f"release: the workloads have no stage '{given['stage']}'{nearest(given['stage'], names)}")


def needed(text: str, count: int) -> int:
    """Return how many of ``count`` are required: all, a percentage (rounded up), or a number. Raises InputError."""
    asked = text.strip()
    percent = _PERCENT.fullmatch(asked)
    if asked == ALL:
        return count
    if percent and 0 < float(percent[1]) <= 100:
        return ceil(round(float(percent[1]) * count / 100, 9))
    if asked.isdigit() and 0 < int(asked) <= count:
        return int(asked)
    raise InputError(f"required is '{text}': it must be all, a percentage such as 95 %, or a number from 1 to {count}")


def _typed(arrival: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrivals of the release with the types that option arrival has. Raises InputError."""
    spec = {"arrival": {"type": "dict", "options": ARRIVAL}}
    found = ArgumentSpecValidator(spec).validate({"arrival": dict(arrival)})
    if found.error_messages:
        raise InputError(f"release: {'; '.join(found.error_messages)}")
    return dict(found.validated_parameters["arrival"])


def _batches(found: arrivals.Arrivals) -> list[Batch]:
    if found.header["type"] != arrivals.CLOSED:
        batches, until = [], 0
        for offset, same in groupby(found.offsets):
            until += len(list(same))
            batches.append(Batch(until, offset))
        return batches
    if found.header.get("at_once"):
        raise InputError("release: arrival at_once cannot be used: the end of a workload releases no other one")
    size = int(found.header.get("batch") or found.count or 1)
    pause = float(found.header.get("delay") or 0)
    ends = [*range(size, found.count, size), found.count] if found.count else []
    return [Batch(until, None, pause if number else 0.0) for number, until in enumerate(ends)]

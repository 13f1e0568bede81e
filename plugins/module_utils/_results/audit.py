# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server's audit log, which tells when each write was received and answered, to the microsecond.

Its clock is the server's. How far that one is from ours follows from our own creates: the server received each of them
after we had sent it and before we had its answer. Of several API servers with clocks that differ by more than that
nothing can be said; then the log is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from pathlib import Path
from typing import Any

#: (resource, namespace, name)
Key = tuple[str, str, str]
_VERBS = frozenset(("create", "update", "patch", "delete"))


@dataclass
class Log:
    """Writes of a run by object. Times are seconds on the server's clock until shifted()."""

    writes: dict[Key, list[tuple[float, float]]] = field(default_factory=dict)
    creates: dict[Key, float] = field(default_factory=dict)  # when each object's create was received

    def windows(self, resource: str, namespace: str, name: str) -> list[tuple[float, float]]:
        """Return [received, answered] of each write to an object, on our clock."""
        return self.writes.get((resource, namespace, name), [])

    def narrow(self, key: Key, earliest: float, latest: float) -> tuple[float, float] | None:
        """Return the part of an interval in which a write to the object can have been made; None if there is none."""
        meet = [one for one in self.writes.get(key, ()) if one[0] <= latest and one[1] >= earliest]
        if not meet:
            return None
        return max(earliest, min(one[0] for one in meet)), min(latest, max(one[1] for one in meet))


def resource_of(kind: str) -> str:
    """Return the plural that a kind is kept under, as all kinds that we measure form it."""
    low = kind.lower()
    return f"{low[:-1]}ies" if low.endswith("y") else f"{low}s"


def read(paths: Iterable[Path], run: str) -> Log:
    """Read what an audit log says of objects whose names hold the id of a run. Torn and foreign lines are left out."""
    log = Log()
    for record in _records(paths, run.encode()):
        ref = record.get("objectRef") or {}
        code = (record.get("responseStatus") or {}).get("code") or 0
        if record.get("verb") not in _VERBS or not 200 <= code < 300 or "dryRun=" in record.get("requestURI", ""):
            continue
        key = (ref.get("resource", ""), ref.get("namespace", ""), ref.get("name", ""))
        received = _seconds(record["requestReceivedTimestamp"])
        log.writes.setdefault(key, []).append((received, _seconds(record["stageTimestamp"])))
        if record["verb"] == "create" and not ref.get("subresource"):
            log.creates[key] = received
    return log


def _records(paths: Iterable[Path], needle: bytes) -> Iterator[dict[str, Any]]:
    for path in paths:
        with open(path, "rb") as stream:
            for raw in stream:
                if needle in raw:
                    try:
                        record = json.loads(raw)
                    except ValueError:
                        continue
                    if record.get("stage") == "ResponseComplete":
                        yield record


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def offset(log: Log, sent: Iterable[tuple[Key, float, float]]) -> tuple[float, float] | None:
    """Return bounds of (server's clock - ours) from our creates: (key, sent, answered). None: there is no such."""
    low, high = -inf, inf
    for key, before, after in sent:
        received = log.creates.get(key)
        if received is not None:
            low, high = max(low, received - after), min(high, received - before)
    return (low, high) if -inf < low <= high < inf else None


def shifted(log: Log, bounds: tuple[float, float]) -> Log:
    """Return the log on our clock, every window as wide as the bounds of the offset ask for."""
    low, high = bounds
    return Log({key: [(begin - high, end - low) for begin, end in found] for key, found in log.writes.items()})

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a client that sends requests has done so far, and what several clients have done together."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import load_generator_health
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import MonotonicWallClock

from .inference_request import SECOND
from .request_engine import RequestEngine


@dataclass
class ClientReport:
    """What a client has done. first_token: median of the latest ones; cpu: processor time; seconds.

    lag, lateness: in seconds, None before the end. stopped: why it gave up; error: why it ended without a result.
    """

    sent: int = 0
    open: int = 0
    open_max: int = 0
    most_open: int = 0
    tokens: int = 0
    cpu: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    first_token: float | None = None
    lag: dict[str, float] | None = None
    lateness: dict[str, float] | None = None
    stopped: str = ""
    error: str = ""

    @classmethod
    def of_engine(cls, engine: RequestEngine, first_tokens: Iterable[int], ended: bool = False) -> ClientReport:
        """Return the report of an engine. first_tokens: the latest, in nanoseconds; ended: with lag and lateness."""
        latest = sorted(first_tokens)
        return cls(
            sent=engine.submitted,
            open=len(engine.open),
            open_max=engine.open_max,
            most_open=engine.most_open,
            tokens=engine.tokens,
            outcomes=engine.outcomes.copy(),
            first_token=load_generator_health.quantile(latest, 0.5) / SECOND if latest else None,
            lag=_seconds_summary(engine.lags) if ended else None,
            lateness=_seconds_summary(engine.lateness) if ended else None,
            stopped=engine.stopped,
        )

    def end_line(
        self, clock: MonotonicWallClock, reason: str, wall: float, machine: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the last line of a call in requests.jsonl. wall: its duration in seconds. machine: that sent them."""
        return {
            "type": "end",
            "at": round(clock.now(), 6),
            "reason": reason,
            "cpu": round(self.cpu, 6),
            "wall": round(wall, 6),
            "cpus": os.cpu_count() or 0,
            "sent": self.sent,
            "tokens": self.tokens,
            "open_max": self.open_max,
            "lag": self.lag,
            "lateness": self.lateness,
            "machine": dict(machine),
        }

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> ClientReport:
        """Return the report that ``vars`` of another one describes."""
        return cls(**{**record, "outcomes": Counter(record["outcomes"])})


def join_reports(reports: Sequence[ClientReport]) -> ClientReport:
    """Return what clients have done together. Of lag and lateness it has those of the worst client."""
    first = sorted(report.first_token for report in reports if report.first_token is not None)
    return ClientReport(
        sent=sum(report.sent for report in reports),
        open=sum(report.open for report in reports),
        open_max=sum(report.open_max for report in reports),
        most_open=sum(report.most_open for report in reports),
        tokens=sum(report.tokens for report in reports),
        cpu=sum(report.cpu for report in reports),
        outcomes=sum((report.outcomes for report in reports), Counter()),
        first_token=load_generator_health.quantile(first, 0.5) if first else None,
        lag=_worst(report.lag for report in reports),
        lateness=_worst(report.lateness for report in reports),
        stopped=next((report.stopped for report in reports if report.stopped), ""),
        error=next((report.error for report in reports if report.error), ""),
    )


def _worst(summaries: Iterable[dict[str, float] | None]) -> dict[str, float] | None:
    known = [summary for summary in summaries if summary]
    return {name: max(summary[name] for summary in known) for name in known[0]} if known else None


def _seconds_summary(nanoseconds: Iterable[int]) -> dict[str, float] | None:
    return load_generator_health.percentile_summary([value / SECOND for value in nanoseconds])

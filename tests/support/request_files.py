# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a point at which an inference server was measured whose times are known exactly."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

START = 1_700_000_000.0
RUN = "t1126-abcdef"


def request(
    index: int, offset: float, ttft: float = 0.1, gaps: Iterable[float] = (0.01,) * 9, **more: Any
) -> dict[str, Any]:
    """Return the record of a request that was sent when due. gaps: seconds between its chunks."""
    times, moment = [], 0.0
    for gap in gaps:
        moment += gap
        times.append(round(moment * 1e6))
    due = START + offset
    last = due + ttft + moment
    return {
        "type": "request",
        "index": index,
        "name": f"{RUN}-001-{index}",
        "model": "simulated-model",
        "due": due,
        "sent": due,
        "headers": due + ttft / 2,
        "first_token": due + ttft,
        "last_token": last,
        "ended": last,
        "status": 200,
        "outcome": "succeeded",
        "error": None,
        "attempts": 1,
        "prompt_tokens": 100,
        "cached_tokens": 25,
        "output_tokens": len(times) + 1,
        "chunks": len(times) + 1,
        "times": times,
        "lag_us": 50,
        "request_id": f"r{index}",
        **more,
    }


def write_requests(
    folder: Path,
    records: Iterable[Mapping[str, Any]],
    offsets: Iterable[float],
    steps: Iterable[tuple[float, float]] = (),
    simulated: bool = True,
    ended: bool = True,
    first_tokens: Sequence[float] = (),
) -> Path:
    """Write plan.jsonl and requests.jsonl of a point. steps: (requests per second, seconds) of a load in steps."""
    folder.mkdir(parents=True, exist_ok=True)
    offsets = list(offsets)
    records = list(records)
    arrival = {"type": "steps", "steps": [{"rate": rate, "duration": seconds} for rate, seconds in steps]}
    other = (
        {"type": "search"} if any(record["type"] == "step" for record in records) else {"type": "constant", "rate": 1}
    )
    head = {
        "type": "header",
        "schema": "plan/1",
        "run": RUN,
        "point": folder.name,
        "count": len(offsets),
        "seed": 1,
        "arrival": arrival if arrival["steps"] else other,
        "in_flight": 1_000_000,
        "templates": [{"name": "simulated-model", "kind": "Request"}],
    }
    rows = [
        {
            "type": "workload",
            "index": index,
            "name": f"{RUN}-001-{index}",
            "template": "simulated-model",
            "offset": offset,
        }
        for index, offset in enumerate(offsets)
    ]
    anchor = {"wall": START, "monotonic": 100.0, "boot": "b"}
    session: dict[str, Any] = {"type": "session", "schema": "requests/1", "run": RUN, "point": folder.name}
    session |= {"anchor": anchor, "pid": 1}
    session |= {"simulated": simulated, "first_tokens": list(first_tokens)}
    lines = [session, {"type": "start", "at": START}, *records]
    last = max((line.get("ended") or START for line in lines), default=START)
    lines += [{"type": "end", "at": last + 1, "reason": "done"}] if ended else []
    for name, written in (("plan.jsonl", [head, *rows]), ("requests.jsonl", lines)):
        (folder / name).write_text("".join(f"{json.dumps(line)}\n" for line in written), encoding="utf-8")
    return folder

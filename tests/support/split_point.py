"""Splits the files of a synthetic point among clients, each with a clock that is wrong and drifts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from run_directory import EPOCH

#: Fields that are times on the clock of a client.
_MOMENTS = ("at", "sent", "answered", "intended", "received", "from", "to")


@dataclass(frozen=True)
class WrongClock:
    """A clock that is ``ahead`` by so many seconds at the start, and gains ``drift`` seconds a second."""

    ahead: float = 0.0
    drift: float = 0.0

    def shows(self, moment: float) -> float:
        """Return what it shows at a true moment."""
        return EPOCH + self.ahead + (moment - EPOCH) * (1 + self.drift)

    def moment(self, shown: float) -> float:
        """Return the true moment at which it shows this."""
        return EPOCH + (shown - EPOCH - self.ahead) / (1 + self.drift)


def split(
    folder: Path,
    target: Path,
    clocks: Sequence[WrongClock],
    lost: Sequence[int] = (),
    again: Mapping[int, WrongClock] | None = None,
    one_machine: bool = False,
) -> Path:
    """Write the point in ``folder`` to ``target`` as that many clients would have recorded it.

    Client i sent and saw the workloads i, i + n, …, and wrote every n-th of the canaries. The files of ``lost`` clients
    are missing. again: the clocks of clients whose later sessions were on another machine. one_machine: all
    clients ran on one machine, and their clocks have no drift.
    """
    target.mkdir(parents=True)
    (target / "plan.jsonl").write_bytes((folder / "plan.jsonl").read_bytes())
    size = len(clocks)
    for name in ("ledger", "observations"):
        rows = [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]
        with open(target / f"{name}.jsonl", "w", encoding="utf-8") as stream:
            if name == "ledger":
                for client in lost:
                    row = {"type": "lost", "client": client, "clients": size, "reason": "its node is gone"}
                    stream.write(f"{json.dumps(row)}\n")
            for client, clock in enumerate(clocks):
                if client not in lost:
                    for row in _of_client(rows, client, size, clock, (again or {}).get(client, clock), one_machine):
                        stream.write(f"{json.dumps(row, separators=(',', ':'))}\n")
    return target


def _of_client(
    rows: Sequence[dict[str, Any]],
    client: int,
    clients: int,
    clock: WrongClock,
    again: WrongClock,
    one_machine: bool,
) -> Iterator[dict[str, Any]]:
    canaries, sessions, first = 0, 0, clock
    for row in rows:
        if row["type"] == "session":
            sessions += 1
            clock = again if sessions > 1 else clock
        if row["type"] == "canary":
            canaries += 1
            if canaries % clients != client:
                continue
        if row.get("index") is not None and row["index"] % clients != client:
            continue
        shown = {key: clock.shows(value) if key in _MOMENTS else value for key, value in row.items()}
        if row["type"] == "session":
            boot = f"{row['anchor']['boot']}-again" if clock is not first else row["anchor"]["boot"]
            boot += "" if one_machine else f"-{client}"
            anchor = {**row["anchor"], "wall": clock.shows(row["anchor"]["wall"]), "boot": boot}
            shown = {**shown, "client": client, "anchor": anchor}
        yield shown

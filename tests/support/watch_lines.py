"""Watch events of Jobs and their Pods as an API server writes them, for measurements without a cluster.

watch_life.jsonl has the nine events of one Job and its Pod on a rehearsal cluster (KWOK), in order of their arrival.
"""

from __future__ import annotations

import time
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._load.kinds.stage_definitions import (
    compile_stages_of_kind,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.sample.observation_writer import (
    ObservationWriter,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.sample.workload_progress_and_waits import (
    WorkloadTally,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import workload_kinds

LIFE = Path(__file__).with_name("watch_life.jsonl")


def lines(count: int) -> list[tuple[str, bytes]]:
    """Return the events of ``count`` jobs: (kind, JSON)."""
    life = LIFE.read_text(encoding="utf-8")
    found = []
    for index in range(count):
        own = life.replace("JOB-UID-", f"{index:08d}").replace("POD-UID-", f"9{index:07d}")
        own = own.replace("JOB-NAME", f"run-1-001-{index}").replace('"INDEX"', f'"{index}"')
        found += [("Pod" if '"kind":"Pod"' in line[:60] else "Job", line.encode()) for line in own.splitlines()]
    return found


def cost(events: list[tuple[str, bytes]]) -> tuple[float, float, list[str]]:
    """Return processor time from the JSON of events to their rows, seconds: decoding, the rest; and the rows."""
    rows: list[str] = []
    tally = WorkloadTally()
    writers = {}
    for name in ("Job", "Pod"):
        kind = compile_stages_of_kind(workload_kinds.load_kind_by_name_or_path(name).definition)
        writers[name] = ObservationWriter(kind, name == "Job", tally, rows.append)
    began = time.thread_time()
    for name, line in events:
        writers[name].decode(line)
    decoded = time.thread_time()
    for name, line in events:
        writer = writers[name]
        writer.watched(1.0, writer.decode(line), line)
    ended = time.thread_time()
    return decoded - began, ended - decoded - (decoded - began), rows

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The requests of a load: each by its index in the plan, and requests.jsonl, the ledger of those that were sent.

A request is sent once: a call that continues a load finds its line ``sent`` and does not send it again, whether or not
it was answered.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import accumulate
from itertools import count as counter
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, signals
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.capacity_search import SearchStep
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.files import JsonlAppender

from ..plan import workload_plan
from ..plan.random_draws import draw_number_for_workload, uniform_number_by_index
from ..plan.rendered_workload_templates import workload_name
from ..plan.workload_plan import ClientPart, PlannedWorkload, WorkloadPlan
from .inference_request import LOST, InferenceRequest
from .inference_spec import InferenceSpec
from .request_bodies import RequestBodies, draw_token_count
from .request_schedule import RequestSchedule

FILE = "requests.jsonl"
SCHEMA = "requests/1"
#: Seconds between two syncs of the file to disk.
_SYNC_INTERVAL = 1.0


@dataclass
class PastRequests:
    """What has been done, first by earlier calls. ``spent``: seconds from the start of each to its last line, together.

    started: when the load would have started without the pauses between the calls.
    session: the first line of the last call. client: of the last client in a pod, its line. last: type of the last
    line.
    steps: first index and rate of each step of a search; records: its requests that have ended.
    """

    sent: set[int] = field(default_factory=set)
    outcomes: dict[int, str] = field(default_factory=dict)
    anchor: dict[str, Any] | None = None
    started: float | None = None
    spent: float = 0.0
    steps: list[tuple[int, float]] = field(default_factory=list)
    records: dict[int, dict[str, Any]] = field(default_factory=dict)
    session: dict[str, Any] = field(default_factory=dict)
    client: dict[str, Any] = field(default_factory=dict)
    last: str = ""

    def take(self, record: dict[str, Any]) -> None:
        """Add one line."""
        kind = record["type"]
        self.last = kind
        if kind == "sent":
            self.sent.add(record["index"])
        elif kind == "request":
            self.outcomes[record["index"]] = record["outcome"]
            if self.steps:
                self.records[record["index"]] = record
        elif kind == "step":
            self.steps.append((record["index"], record["rate"]))
        elif kind == "start":
            self.started = record["at"] - self.spent
        elif kind == "client":  # its lines follow, on its clock
            self.client = record
            self.started = record["started"]
        elif kind == "session":
            self.session = record
            self.anchor = self.anchor or record["anchor"]
        last = record.get("ended") or record.get("sent")
        if self.started is not None and last:
            self.spent = max(self.spent, last - self.started)

    def note_ended(self, index: int, outcome: str) -> None:
        """Add a request of this call that has ended."""
        self.sent.add(index)
        self.outcomes[index] = outcome

    def ended_steps(self, kept: Callable[[dict[str, Any]], bool]) -> list[SearchStep]:
        """Return what the steps of a search have shown, without one that was interrupted."""
        ends = [*(index for index, _rate in self.steps[1:]), float("inf")]
        found = []
        for (first, rate), end in zip(self.steps, ends, strict=False):  # without a step there is one end
            sent = [index for index in self.sent if first <= index < end]
            records = [self.records[index] for index in sent if index in self.records]
            if sent and len(records) == len(sent) and all(record["outcome"] != LOST for record in records):
                found.append(SearchStep(rate, len(sent), sum(map(kept, records))))
        return found

    @property
    def lost(self) -> int:
        """Number of requests that were sent and never answered."""
        return len(self.sent - self.outcomes.keys())


def open_request_log(path: Path) -> tuple[JsonlAppender, PastRequests]:
    """Lock the file of a point, cut off a torn last line, and return it with its content."""
    log = JsonlAppender(path, SCHEMA, "client")
    try:
        past = PastRequests()
        for record in files.read_json_lines(path):
            past.take(record)
        return log, past
    except BaseException:
        log.close()
        raise


@contextmanager
def synced_every_second(log: JsonlAppender) -> Iterator[None]:
    """Sync the file to disk once a second, on a separate thread because that may take long."""
    over = threading.Event()

    def sync() -> None:
        while not over.wait(_SYNC_INTERVAL):
            with suppress(OSError):
                log.sync()

    thread = signals.SignalBlockingThread(target=sync, name="sync", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


#: Index of the first request of a warm-up: its prompts are none of the load's.
_WARM_UP_INDEX = 1 << 20


class LoadRequests:
    """The requests of a load.

    Attributes:
        models: Names and weights of the models that conversations ask.
    """

    def __init__(self, spec: InferenceSpec, bodies: RequestBodies) -> None:
        """Make the requests of a load with these options."""
        self.spec = spec
        self.bodies = bodies
        self.models: list[tuple[str, float]] = spec.models

    def make_plan(self) -> WorkloadPlan:
        """Return the plan. A closed load that ends by its duration has no rows: nobody knows how many there will be."""
        spec = self.spec
        offsets: list[Any] = []
        if spec.search is not None:
            arrival: dict[str, Any] = {"type": "search", **vars(spec.search)}
        elif spec.arrivals is not None:
            offsets, arrival = spec.arrivals.offsets, spec.arrivals.header
        else:
            offsets = [None] * spec.count
            arrival = {"type": "closed", "streams": spec.streams, "think_time": spec.think_time}
            arrival["duration"] = spec.duration or None
        header = {
            "type": "header",
            "schema": workload_plan.SCHEMA,
            "run": spec.run,
            "point": spec.point,
            "count": len(offsets) * spec.turns,
            "seed": spec.seed,
            "arrival": arrival,
            "in_flight": spec.streams or spec.limits.max_open,
            "templates": [{"name": name, "kind": "Request"} for name, _weight in self.models],
        }
        rows = []
        for conversation, offset in enumerate(offsets):
            for turn in range(spec.turns):
                index = conversation * spec.turns + turn
                parameters = {
                    "prompt_tokens": self.bodies.prompt_length(index),
                    "output_tokens": draw_token_count(index, spec.output_tokens, spec.seed, "output"),
                    "conversation": conversation,
                    "turn": turn,
                    "prefix_tokens": self.bodies.shared_tokens,
                }
                name, model = workload_name(spec.run, spec.point, index), self._model_of(conversation)
                rows.append(PlannedWorkload(index, name, None if turn else offset, model, parameters))
        return WorkloadPlan(header, rows)

    def make_schedule(self, plan: WorkloadPlan, past: PastRequests, part: ClientPart, spent: float) -> RequestSchedule:
        """Return what one client is still to send: conversation i belongs to client i modulo their number.

        spent: seconds of the duration of a closed load that are over.
        """
        spec = self.spec
        if plan.workloads:
            rows = plan.workloads[part.client * spec.turns :: part.clients * spec.turns]
            missing = [(row.index, row.offset) for row in rows if row.index not in past.sent]
            conversations: Iterator[tuple[int, float | None]] = iter(missing)
        else:
            own = [index // spec.turns for index in past.sent if part.has(index // spec.turns)]
            first = max(own) + part.clients if own else part.client
            conversations = ((number * spec.turns, None) for number in counter(first, part.clients))
        duration = max(spec.duration - spent, 0.001) if spec.duration else 0.0
        streams = part.size(spec.streams)
        return RequestSchedule(self.make_request, conversations, spec.turns, streams, self.think_time, duration)

    def make_request(self, index: int, due: int) -> InferenceRequest:
        """Return the request with an index that is due at a moment, in nanoseconds of the monotonic clock."""
        spec = self.spec
        conversation, turn = divmod(index, spec.turns)
        return InferenceRequest(
            index=index,
            name=workload_name(spec.run, spec.point, index),
            model=self._model_of(conversation),
            asked=draw_token_count(index, spec.output_tokens, spec.seed, "output"),
            due=due,
            conversation=conversation,
            turn=turn,
            last_turn=turn == spec.turns - 1,
            streamed=spec.streamed,
            keep_text=spec.turns > 1,
            count=spec.tokenizer.count if spec.tokenizer else None,
        )

    def make_warm_up_request(self, number: int, due: int) -> InferenceRequest:
        """Return a request that is not counted; its prompt is none of the load's."""
        request = self.make_request((_WARM_UP_INDEX + number) * self.spec.turns, due)
        request.name = workload_name(self.spec.run, self.spec.point, f"warm-up-{number}")
        request.last_turn = True
        return request

    def think_time(self, index: int) -> float:
        """Return the seconds between an answer and the request with an index."""
        spec = self.spec.think_time
        return draw_number_for_workload(index, spec, self.spec.seed, "think") if isinstance(spec, dict) else spec

    def _model_of(self, conversation: int) -> str:
        if len(self.models) == 1:
            return self.models[0][0]
        shares = list(accumulate(weight for _name, weight in self.models))
        place = uniform_number_by_index(conversation, self.spec.seed, "model") * shares[-1]
        return self.models[next(i for i, share in enumerate(shares) if place < share)][0]

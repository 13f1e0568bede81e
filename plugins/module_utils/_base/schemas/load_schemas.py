# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that a load writes line by line into points/<nnn>/: its plan, and what it sent, injected and observed."""

from __future__ import annotations

from typing import Any

from .schema_field_types import (
    ANCHOR,
    COUNT,
    FREE,
    MOMENT,
    MOMENT_OR_NULL,
    POINT_ID,
    QUANTILES_OR_NULL,
    RUN_ID,
    STAMP,
    TEXT,
    TEXT_OR_NULL,
    TEXTS,
    TRUTH,
    json_line_schema,
    object_schema,
)

#: client: number of the client, of a load by several.
SESSION = object_schema(
    {"schema": TEXT, "run": RUN_ID, "point": POINT_ID, "anchor": ANCHOR, "pid": COUNT}, {"client": COUNT}
)

#: The machine that sent the load. stolen: share of CPU time stolen by the hypervisor, null where the system does not
#: report it. load: mean load average.
MACHINE = object_schema({"cpus": COUNT, "stolen": {"type": ["number", "null"]}, "load": {"type": ["number", "null"]}})

LOAD: dict[str, dict[str, Any]] = {
    "plan/1": json_line_schema(
        {
            "header": object_schema(
                {
                    "schema": {"const": "plan/1"},
                    "run": RUN_ID,
                    "point": POINT_ID,
                    "count": COUNT,
                    "seed": {"type": ["integer", "null"]},
                    "arrival": FREE,
                    "in_flight": {"type": "integer", "minimum": 1},
                    "templates": {"type": "array", "items": FREE},
                }
            ),
            # offset: seconds after the start of the load; null in a closed loop (as fast as in_flight allows)
            "workload": object_schema(
                {
                    "index": COUNT,
                    "name": TEXT,
                    "offset": MOMENT_OR_NULL,
                    "template": TEXT,
                    "parameters": FREE,
                }
            ),
        }
    ),
    "ledger/1": json_line_schema(
        {
            "session": SESSION,
            "start": object_schema({"at": MOMENT}),  # origin of the plan's offsets
            # a client of a load by several clients whose ledger is missing; workload i was client i % clients's
            "lost": object_schema({"client": COUNT, "clients": COUNT, "reason": TEXT}),
            "attempt": object_schema(
                {
                    "index": COUNT,
                    "name": TEXT,
                    "kind": TEXT,
                    "attempt": {"type": "integer", "minimum": 1},
                    "intended": MOMENT,
                    "sent": MOMENT,
                    "answered": MOMENT,
                    "status": COUNT,  # HTTP status; 0: no response
                    "outcome": {"enum": ["created", "already_mine", "refused", "retry", "ambiguous"]},
                },
                {
                    "uid": TEXT_OR_NULL,
                    "resource_version": TEXT_OR_NULL,
                    "reason": TEXT_OR_NULL,
                    "message": TEXT_OR_NULL,
                    "connection": COUNT,
                    "flow_schema": TEXT_OR_NULL,
                    "priority_level": TEXT_OR_NULL,
                    "namespace": TEXT,
                },
            ),
            # a workload that was deleted because its lifetime was over; intended: end of the lifetime
            "stop": object_schema(
                {
                    "index": COUNT,
                    "name": TEXT,
                    "kind": TEXT,
                    "intended": MOMENT,
                    "sent": MOMENT,
                    "answered": MOMENT,
                    "status": COUNT,  # HTTP status; 0: no response
                }
            ),
            # a write to the Lease that the workloads watch; released: those with an index below it may begin
            "release": object_schema(
                {
                    "name": TEXT,
                    "released": COUNT,
                    "intended": MOMENT,
                    "sent": MOMENT,
                    "answered": MOMENT,
                    "status": COUNT,  # HTTP status; 0: no response
                },
                {"resource_version": TEXT},
            ),
            "end": object_schema(
                {"at": MOMENT, "reason": TEXT},
                {"machine": MACHINE},
            ),
        }
    ),
    # Failures that were injected while the load ran.
    "failures/1": json_line_schema(
        {
            "session": SESSION,
            # failures: all planned ones, with their times in seconds after the start of the load
            "schedule": object_schema({"seed": COUNT, "failures": {"type": "array", "items": FREE}}),
            # written before anything is changed; before: what is needed to undo it; pods: of the load, that it hits
            "inject": object_schema(
                {
                    "number": COUNT,
                    "kind": TEXT,
                    "target": TEXT,  # a node, namespace/name of a pod, or a process of the control plane
                    "mark": TEXT,
                    "server": TEXT,
                    "duration": MOMENT,
                    "before": FREE,
                    "pods": {"type": "array", "items": FREE},
                }
            ),
            # left: namespace/name of pods that were not stopped or evicted in time
            "injected": object_schema(
                {"number": COUNT, "target": TEXT, "intended": MOMENT, "sent": MOMENT, "answered": MOMENT},
                {"left": TEXTS},
            ),
            # changed: whether there was something to undo
            "undone": object_schema(
                {"number": COUNT, "target": TEXT, "sent": MOMENT, "answered": MOMENT, "changed": TRUTH}
            ),
            "skipped": object_schema({"number": COUNT, "kind": TEXT, "reason": TEXT}),
            # a node that has changed: ready is True, False or Unknown; taints as key:effect. resource_version is empty
            # if the change was found by listing the nodes again.
            "node": object_schema(
                {
                    "received": MOMENT,
                    "name": TEXT,
                    "resource_version": TEXT,
                    "ready": TEXT,
                    "taints": TEXTS,
                    "gpus": TEXT,
                }
            ),
            "end": object_schema({"at": MOMENT}),
        }
    ),
    # The number of inference servers while requests are sent. since, at: the looks without and with a change; since is
    # null for what the first look found. failed: a look that failed; blind: the first look after some that failed. Both
    # have in since the last look that did not fail.
    "scale/1": json_line_schema(
        {
            "session": SESSION,
            "desired": object_schema({"name": TEXT, "replicas": COUNT, "since": MOMENT_OR_NULL, "at": MOMENT}),
            "pod": object_schema(
                {
                    "pod": TEXT,
                    "stage": {"enum": ["created", "scheduled", "started", "ready", "unready", "gone"]},
                    "since": MOMENT_OR_NULL,
                    "at": MOMENT,
                }
            ),
            "failed": object_schema({"since": MOMENT, "at": MOMENT, "error": TEXT}),
            "blind": object_schema({"since": MOMENT, "at": MOMENT}),
        }
    ),
    # Requests to inference servers: one line when each was sent, and one when it has ended.
    "requests/1": json_line_schema(
        {
            # simulated: whether the servers say that they are. first_tokens: seconds until the first token of the first
            # request of each server, which is not counted
            "session": {
                **SESSION,
                "properties": {
                    **SESSION["properties"],
                    "simulated": TRUTH,
                    "first_tokens": {"type": "array", "items": {"type": "number"}},
                },
            },
            "start": object_schema({"at": MOMENT}),  # origin of the plan's offsets
            # of a search for the capacity: its first request, and its requests per second
            "step": object_schema({"index": COUNT, "rate": {"type": "number", "exclusiveMinimum": 0}}),
            # a client in a pod, whose lines follow; they are on its clock. started: the common start
            "client": object_schema({"client": COUNT, "clients": COUNT, "anchor": ANCHOR, "started": MOMENT}),
            "client_end": object_schema({"at": MOMENT, "reason": TEXT}),
            # sent: null if a pod died and nobody knows whether it had sent the request
            "sent": object_schema({"index": COUNT, "due": MOMENT, "sent": MOMENT_OR_NULL}),
            "request": object_schema(
                {
                    "index": COUNT,
                    "name": TEXT,
                    "model": TEXT,
                    "stream": TRUTH,
                    "conversation": COUNT,
                    "turn": COUNT,
                    # due: in a closed loop, when its stream was free. Received times are those of the kernel.
                    **dict.fromkeys(("due", "sent"), MOMENT),
                    **dict.fromkeys(("headers", "first_token", "last_token", "ended"), MOMENT_OR_NULL),
                    "status": COUNT,  # HTTP status; 0: no response
                    "outcome": {"enum": ["succeeded", "failed", "refused", "lost"]},
                    "cause": TEXT_OR_NULL,
                    "error": TEXT_OR_NULL,
                    "attempts": COUNT,
                    "retry_after": {"type": ["number", "null"]},
                    "asked_tokens": COUNT,
                    # as the server counted them, output_tokens by tokens_from; null: unknown
                    **dict.fromkeys(("prompt_tokens", "output_tokens", "cached_tokens"), {"type": ["integer", "null"]}),
                    # who counted output_tokens: our tokenizer, the server, or nobody, so that it is that of chunks
                    "tokens_from": {"enum": ["tokenizer", "usage", "chunks"]},
                    "chunks": COUNT,  # pieces with text
                    # microseconds from the first piece with text to each further one
                    "times": {"type": "array", "items": COUNT},
                    "shared": COUNT,  # pieces that arrived in one read with a later one, so that their times are late
                    "finish_reason": TEXT_OR_NULL,
                    "connection": COUNT,
                    "reused": TRUTH,  # whether the connection had carried another request
                    "connect": {"type": ["number", "null"]},  # seconds to connect, if it was new
                    "server": COUNT,  # number of the URL
                    "lag_us": COUNT,  # from the arrival of the first piece to its reading
                },
                # usage_tokens: of the answer as the server counted them, if our tokenizer did too
                {"chunk_tokens": {"type": "array", "items": {"type": "integer"}}, "usage_tokens": COUNT},
            ),
            # cpu: of the client; wall: of the load; seconds. lag: from the arrival of bytes to their reading.
            "end": object_schema(
                {"at": MOMENT, "reason": TEXT},
                {
                    "cpu": MOMENT,
                    "wall": MOMENT,
                    "cpus": COUNT,
                    "sent": COUNT,
                    "tokens": COUNT,
                    "open_max": COUNT,
                    **dict.fromkeys(("lag", "lateness"), QUANTILES_OR_NULL),
                    "machine": MACHINE,
                },
            ),
        }
    ),
    # writes to one etcd by the controller and the clients in pods, by which their clocks are compared
    "clocks/1": json_line_schema(
        {
            "session": SESSION,
            "canary": object_schema({"sent": MOMENT, "answered": MOMENT, "resource_version": TEXT}),
        }
    ),
    "observations/1": json_line_schema(
        {
            "session": SESSION,
            # stages: their definitions as data, so that the file can be read without the role
            "stages": object_schema({"kinds": FREE, "simulated_writers": TEXTS}),
            "watching": object_schema({"at": MOMENT, "kind": TEXT, "resource_version": TEXT}),
            "gap": object_schema({"from": MOMENT, "to": MOMENT, "kind": TEXT, "reason": TEXT}),
            # our own periodic writes, for the revision clock
            "canary": object_schema({"sent": MOMENT, "answered": MOMENT, "resource_version": TEXT}),
            # revision probe: etcd's revision at a moment between sent and answered
            "sounding": object_schema({"sent": MOMENT, "answered": MOMENT, "resource_version": TEXT}),
            # values: stage name -> time stated by the object (text), true, or null if it is no longer true
            "event": object_schema(
                {
                    "received": MOMENT,
                    "how": {"enum": ["watch", "list", "relist"]},
                    "event": {"enum": ["ADDED", "MODIFIED", "DELETED"]},
                    "kind": TEXT,
                    "namespace": TEXT,
                    "name": TEXT,
                    "uid": TEXT,
                    "owners": TEXTS,
                    "index": {"type": ["integer", "null"]},
                    "resource_version": TEXT,
                    "values": FREE,
                },
                # node: to which a pod is bound, in the first row that shows it
                {"simulated": TRUTH, "gpus": {"type": "number"}, "node": TEXT, "reason": TEXT_OR_NULL},
            ),
            # A load that others submit: how it is followed, each of its workloads, objects that were there before it,
            # and the second that the API server's clock showed in an answer.
            "follows": object_schema(
                {
                    "namespaces": TEXTS,
                    "labels": TEXT,
                    "fields": TEXT,
                    "existing": TRUTH,
                    "canary_rate": {"type": "number", "minimum": 0},
                }
            ),
            "workload": object_schema({"index": COUNT, "kind": TEXT, "namespace": TEXT, "name": TEXT, "uid": TEXT}),
            "earlier": object_schema({"uid": TEXT}),
            "server_time": object_schema({"sent": MOMENT, "answered": MOMENT, "stated": STAMP}),
            # ruler: whether resourceVersions of this kind are comparable with the canary's (false: separate etcd)
            "store": object_schema({"at": MOMENT, "kind": TEXT, "ruler": TRUTH}),
            # lag: from the canary's responses to its events; canary: its cost; cpu: of the sampler; seconds.
            # decoder: the package that decoded the events
            "end": object_schema(
                {"at": MOMENT, "reason": TEXT},
                {
                    "lag": FREE,
                    "events": COUNT,
                    "canary": FREE,
                    "revision_probes": FREE,
                    "cpu": MOMENT,
                    "cpu_events": MOMENT,
                    "cpu_rows": MOMENT,
                    "decoder": TEXT,
                },
            ),
        }
    ),
}

"""Objects as a watch shows them to an ObservationWriter, and the rows that it writes."""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.kinds import stage_definitions
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.sample.observation_writer import (
    ObservationWriter,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.sample.workload_progress_and_waits import (
    WorkloadTally,
)
from hypothesis import strategies as st

KIND = stage_definitions.compile_stages_of_kind(
    {
        "api_version": "v1",
        "kind": "Pod",
        "stages": [
            {"name": "created", "field": "metadata.creationTimestamp", "writer": "controller"},
            {"name": "running", "field": "status.phase", "equals": "Running", "writer": "node", "running": True},
            {
                "name": "succeeded",
                "field": "status.phase",
                "equals": "Succeeded",
                "writer": "node",
                "ends": "succeeded",
            },
            {"name": "failed", "field": "status.phase", "equals": "Failed", "writer": "node", "ends": "failed"},
        ],
    }
)


class ObservedWorld:
    def __init__(self, own: bool = True) -> None:
        self.rows: list[dict[str, Any]] = []
        self.tally = WorkloadTally()
        self.observer = ObservationWriter(KIND, own, self.tally, self.write)
        self.version = 0

    def write(self, text: str) -> None:
        row = json.loads(text)
        files.validate_schema_if_enabled("observations/1", row)
        self.rows.append(row)

    def pod(self, index: int, phase: str | None, uid: str = "", **status: str) -> dict[str, Any]:
        self.version += 1
        metadata = {
            "name": f"p-{index}",
            "namespace": "n",
            "uid": uid or f"u-{index}",
            "resourceVersion": str(self.version),
            "creationTimestamp": "2026-11-21T05:00:00Z",
            "labels": {run_labels.INDEX: str(index), run_labels.SIMULATED: "true"},
            "ownerReferences": [{"uid": f"o-{index}"}],
        }
        limits = {"resources": {"limits": {"nvidia.com/gpu": "4"}}}
        bound = {"serviceAccountName": "default", "nodeName": f"node-{index}"} if phase not in (None, "Pending") else {}
        return {"metadata": metadata, "spec": {"containers": [limits], **bound}, "status": {"phase": phase, **status}}

    def read(self, line: bytes) -> None:
        self.observer.watched(5.0, self.observer.decode(line), line)

    def see(self, index: int, phase: str | None, event: str = "MODIFIED", how: str = "watch", **more: Any) -> None:
        self.observer.take(10.0 + self.version, how, event, self.pod(index, phase, **more))

    def values(self) -> list[dict[str, Any]]:
        return [row["values"] for row in self.rows]


PHASES = st.sampled_from(["Pending", "Running", "Succeeded", "Failed"])


def as_served(event: str, thing: dict[str, Any], spec: bool) -> bytes:
    """An event as an API server writes it of a built-in kind."""
    held = thing["metadata"]
    first = ("name", "namespace", "uid", "resourceVersion")
    metadata = {**{key: held[key] for key in first}, **held, "managedFields": [{"manager": "m"}]}
    whole = {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": thing["spec"], "status": thing["status"]}
    if not spec:
        del whole["spec"]
    return json.dumps({"type": event, "object": whole}, separators=(",", ":")).encode()

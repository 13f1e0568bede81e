"""Ground truth from the audit log: when the API server received and answered the write that caused a stage.

Read apart from the collection's own reading of audit logs, so that one can't hide a mistake of the other.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

Window = tuple[float, float]
KWOK, JOBS = "seatrial:kwok", "system:serviceaccount:kube-system:job-controller"


def moment(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def stages_of_jobs(log: Path, run: str) -> dict[str, dict[int, Window]]:
    """Return stage -> index of the job -> [requestReceivedTimestamp, stageTimestamp] of the write that caused it.

    Jobs of one pod that succeeds: created, pods_scheduled, pods_running, pods_succeeded, succeeded. (The log of a pod's
    own create does not hold the name that the server generated.)
    """
    name = re.compile(rf"^{re.escape(run)}-\d+-(\d+)(-[a-z0-9]+)?$")
    found = _stages(log, run, lambda ref: match[1] if (match := name.match(ref.get("name", ""))) else None)
    return {stage: {int(index): window for index, window in of.items()} for stage, of in found.items()}


def stages_of_foreign_jobs(log: Path, namespace: str) -> dict[str, dict[str, Window]]:
    """Return the same for all jobs of a namespace, by their names. Their pods are named <job>-<five characters>."""

    def job(ref: dict[str, str]) -> str | None:
        if ref.get("namespace") != namespace:
            return None
        name = ref.get("name", "")
        return name if ref.get("resource") == "jobs" else name.rpartition("-")[0]

    return _stages(log, namespace, job)


def _stages(log: Path, needle: str, job_of: Callable[[dict[str, str]], str | None]) -> dict[str, dict[str, Window]]:
    writes: dict[tuple[str, str, str], list[tuple[Window, str]]] = defaultdict(list)
    for raw in log.read_text(encoding="utf-8").splitlines():
        if needle not in raw:
            continue
        record = json.loads(raw)
        ref = record.get("objectRef") or {}
        code = record.get("responseStatus", {}).get("code", 0)
        if not 200 <= code < 300 or "dryRun" in record.get("requestURI", ""):
            continue
        found = job_of(ref)
        if not found or record["verb"] not in ("create", "update", "patch"):
            continue
        what = f"{ref['resource']}/{ref.get('subresource', '')}"
        user = record["user"]["username"]
        window = (moment(record["requestReceivedTimestamp"]), moment(record["stageTimestamp"]))
        writes[found, what, record["verb"]].append((window, user))
    found_stages: dict[str, dict[str, Window]] = defaultdict(dict)

    def take(stage: str, index: str, rows: list[tuple[Window, str]], number: int) -> None:
        if len(rows) > max(number, -number - 1):
            found_stages[stage][index] = sorted(rows)[number][0]

    for index in {key[0] for key in writes}:
        take("created", index, writes[index, "jobs/", "create"], 0)
        take("pods_scheduled", index, writes[index, "pods/binding", "create"], 0)
        played = [one for one in writes[index, "pods/status", "patch"] if one[1] == KWOK]
        take("pods_running", index, played, 0)
        take("pods_succeeded", index, played, 1)
        take("succeeded", index, [one for one in writes[index, "jobs/status", "update"] if one[1] == JOBS], -1)
    return dict(found_stages)

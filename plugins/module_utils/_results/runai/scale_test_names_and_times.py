# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names and time formats in the files of the Run:ai scale-test tool.

The tool uses two time formats: times from an API server end with ``Z``, times parsed by its Python client are
``isoformat()`` with ``+00:00``. Both are UTC, and all except the submission are whole seconds.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from math import floor

SUBMITTED, SAMPLED, TIMES, NAMES = "submitted.json", "sampled.json", "times.csv", "names.csv"
#: Key of sampled.json -> (our stages, the first existing one is used; whether an API server states it).
STAMPS: dict[str, tuple[tuple[str, ...], bool]] = {
    "workloadCreatedTimestamp": (("created",), True),
    "jobCreatedTimestamp": (("runaijob_created", "pytorchjob_created", "job_created"), True),
    "firstPodCreatedTimestamp": (("pods_created_first",), False),
    "lastPodCreatedTimestamp": (("pods_created",), False),
    "podGroupCreatedTimestamp": (("podgroup_created",), True),
    "podSchedulingDecisionTimestamp": (("pods_scheduled",), False),
    "firstEvictionTimestamp": (("workload_evicted_first", "evicted_first"), False),
    "firstPVCBindRequestTimestamp": (("persistentvolumeclaim_created",), False),
    "firstPVCBindTimestamp": (("persistentvolumeclaim_bound",), False),
    "backendJobCreatedTimestamp": (("backend_created",), True),
}
DECISION, CREATED, BACKEND = "podSchedulingDecisionTimestamp", "workloadCreatedTimestamp", "backendJobCreatedTimestamp"
#: The tool's sentinels for missing timestamps: the value of another timestamp.
SENTINELS = {
    "firstEvictionTimestamp": DECISION,
    "firstPVCBindRequestTimestamp": DECISION,
    "firstPVCBindTimestamp": DECISION,
    BACKEND: CREATED,
}
#: For objects that a platform other than Run:ai does not have, and that the tool requires: the same.
FALLBACKS = {"jobCreatedTimestamp": CREATED, "podGroupCreatedTimestamp": "lastPodCreatedTimestamp"}
SAMPLED_KEYS = ("jobName", "jobNamespace", "projectName", *STAMPS)
#: The 26 columns of times.csv: names, times, and differences in seconds.
MOMENT_COLUMNS = (
    "Job Name",
    "Job Namespace",
    "Project Name",
    "Workload Created",
    "Job Created",
    "First Pod Created",
    "Last Pod Created",
    "Pod Group Created",
    "Pod Scheduling Decision",
    "First Eviction",
    "First PVC Bind Request",
    "First PVC Bind",
    "Backend Job Created",
    "Workload Submitted",
)
SUBMIT, SUBMISSION = "submitTimestamp", "Workload Submission"
#: Event -> (its timestamp, the event since which the tool counts it).
EVENTS: dict[str, tuple[str, str]] = {
    "Workload Creation": (CREATED, SUBMISSION),
    "Job Creation": ("jobCreatedTimestamp", "Workload Creation"),
    "First Pod Creation": ("firstPodCreatedTimestamp", "Job Creation"),
    "Last Pod Creation": ("lastPodCreatedTimestamp", "Job Creation"),
    "Pod Group Creation": ("podGroupCreatedTimestamp", "First Pod Creation"),
    "Pod Scheduling Decision": (DECISION, "Pod Group Creation"),
    "First Eviction": ("firstEvictionTimestamp", "Pod Group Creation"),
    "First PVC Bind Request": ("firstPVCBindRequestTimestamp", "Pod Group Creation"),
    "First PVC Bind": ("firstPVCBindTimestamp", "First PVC Bind Request"),
    "Backend Job Creation": (BACKEND, "Pod Group Creation"),
    "Total Pod Scheduling Decision": (DECISION, SUBMISSION),
    "Total Backend Job Creation": (BACKEND, SUBMISSION),
}

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(\.\d{1,9})?(Z|[+-]\d\d:?\d\d)?$")


def event_timestamp(event: str) -> str:
    """Return the timestamp of an event, or of the submission."""
    return SUBMIT if event == SUBMISSION else EVENTS[event][0]


def job_name(index: int) -> str:
    """Return a unique name in the tool's format: ``j-`` and the index in six hexadecimal digits."""
    return f"j-{index % 16**6:06x}"


def _datetime_from_epoch(at: float) -> datetime:
    """Return a datetime from seconds since the epoch, rounded once to microseconds."""
    return _EPOCH + timedelta(microseconds=round(at * 1e6))


def format_iso_time(at: float) -> str:
    """Return ``2026-11-21T00:06:23.423963+00:00``; without microseconds if they are 0."""
    return _datetime_from_epoch(at).isoformat()


def format_whole_second(at: float, of_server: bool) -> str:
    """Return the whole second of ``at`` in the format of an API server or of isoformat()."""
    text = _datetime_from_epoch(floor(at)).isoformat()
    return text.replace("+00:00", "Z") if of_server else text


def format_csv_time(at: float) -> str:
    """Return ``2026-11-21 00:06:23``, the format of times.csv."""
    return _datetime_from_epoch(floor(at)).strftime("%Y-%m-%d %H:%M:%S")


def parse_timestamp_bounds(text: str) -> tuple[float, float] | None:
    """Return [earliest, latest] of a timestamp in seconds since the epoch: its whole second, or its exact time.

    None for text that is not a time. Both formats, with any offset (default UTC) and up to nine decimals.
    """
    match = _STAMP.match(str(text))
    if match is None:
        return None
    day, clock, digits, zone = match.groups()
    try:
        offset = "+00:00" if zone in (None, "Z") else zone if ":" in zone else f"{zone[:3]}:{zone[3:]}"
        seconds = (datetime.fromisoformat(f"{day}T{clock}{offset}") - _EPOCH).total_seconds()
    except ValueError:
        return None
    if digits:
        return seconds + float(digits), seconds + float(digits)
    return seconds, seconds + 1.0

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports and files of users in pods, fetched from the API server, and from an S3 server if the files are large.

The helper in a pod (roles/users/files/user.py) leaves its report in the status of the pod, as the termination message
of a container, and the files in ConfigMaps or in an object (fetch_large_user_files).
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import (
    files,
    formats,
    load_generator_health,
    run_labels,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import ThreadPool
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import (
    expect_documented_form,
    parse_json,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.objects_of_run import delete_object_of_run
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.why_pod_waits_or_cannot_run import (
    why_pod_waits_or_ended,
)

from ..plan.rendered_workload_templates import workload_name
from ..remote import pod_files_through_configmaps
from ..send.workload_release_barrier import required_ready_count
from .fetch_large_user_files import POD, UserUploads, count_files, extract_archive

SCHEMA = "users/1"
#: Most ConfigMaps with the files of a user, which have 450 kB each, and the largest number in its report.
MOST_PARTS, MOST = 100_000, 1e15
#: What a simulated user has done, in its files, and their bytes of all users at most, which are read into the memory.
OPERATIONS, MOST_OPERATIONS = "operations.jsonl", 256 << 20
#: Number of users whose files are fetched at once, and of failed users that a message names.
_PARALLEL, _NAMED = 8, 5
#: Phases of a pod that uploads nothing any more.
_ENDED = ("Succeeded", "Failed", "missing")


@dataclass(frozen=True)
class UsersSpec:
    """Parameters of module users_files. ``dest``: gets a folder for each user. ``required``: as users_required."""

    namespace: str
    run: str
    point: str
    count: int
    required: str
    dest: Path


@dataclass
class UserRecord:
    """What is known about one user.

    phase: of the pod, or missing. exit_code: None if the command has not ended. moments: what the helper measured, in
    seconds on the clock of the pod since the user was ready. files: number of fetched files, what was left out.
    """

    index: int
    pod: str
    phase: str = "missing"
    node: str = ""
    exit_code: int | None = None
    why: str = ""
    moments: dict[str, float] = field(default_factory=dict)
    files: dict[str, Any] = field(default_factory=dict)


def fetch_reports_and_files_of_users(
    client: Client, spec: UsersSpec, uploads: UserUploads | None = None
) -> dict[str, Any]:
    """Write ``<dest>/<index>/user.json``, the files beside it and ``<dest>/users.json``; return the module's result.

    The ConfigMaps of fetched files are deleted. So are uploaded objects, unless a pod still runs, which may upload
    later. Raises InputError for a wrong ``required``, DataError for damaged files, AccessError, ApiError.
    """
    required = required_ready_count(spec.required, spec.count)
    listed = client.list(POD, spec.namespace, run_labels.workload_label_selector(spec.run, spec.point))[0]
    pods = {pod["metadata"]["name"]: pod for pod in listed}
    names = [workload_name(spec.run, spec.point, index) for index in range(spec.count)]
    uploaded, unreachable = _list_users_with_uploads(uploads)

    def one(index: int) -> UserRecord:
        user, reported = user_record_from_pod_status(index, names[index], pods.get(names[index]))
        folder = spec.dest / str(index)
        if reported.get("parts"):
            user.files = _fetch_files(client, spec, user.pod, reported, folder / "files")
        elif reported.get("archive") and unreachable is not None:
            user.files = {"count": 0, **_not_sent(reported), "error": str(unreachable)}
        elif reported.get("archive") or index in uploaded:
            user.files = _fetch_upload(uploads, user, reported, folder / "files", index in uploaded)
        elif reported:
            user.files = {"count": 0, **_not_sent(reported)}
        folder.mkdir(parents=True, exist_ok=True)
        files.write_json(folder / "user.json", asdict(user))
        return user

    with ThreadPool(_PARALLEL) as pool:
        users = list(pool.map(one, range(spec.count)))
    document = users_summary(spec, users, required)
    changed = not _has_same_json_content(spec.dest / "users.json", document)
    files.write_json(spec.dest / "users.json", document, SCHEMA)
    if unreachable is not None:
        # The record of the uploads stays: phase cleanup tries again.
        if any(user.files.get("error") == str(unreachable) for user in users):
            raise unreachable
    elif uploads is not None and all(user.phase in _ENDED for user in users):
        uploads.forget(client)
    return {
        "changed": changed,
        "succeeded": document["succeeded"],
        "required": required,
        "failed_users": [user.pod for user in users if user.phase != "Succeeded"],
        "summary": _summary_text(users, required),
    }


def user_record_from_pod_status(
    index: int, name: str, pod: Mapping[str, Any] | None
) -> tuple[UserRecord, dict[str, Any]]:
    """Return a user from its pod, and what the helper reports about its files."""
    user = UserRecord(index, name)
    if pod is None:
        user.why = "its pod was deleted, or never created"
        return user, {}
    pod = copy.deepcopy(pod)
    status = pod.get("status") or {}
    user.phase, user.node = str(status.get("phase") or "Unknown"), str(pod["spec"].get("nodeName") or "")
    report: dict[str, Any] = {}
    for container in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        ended = (container.get("state") or {}).get("terminated") or {}
        if container.get("name") == "user":
            user.exit_code = ended.get("exitCode")
        if fresh := _parse_helper_report(ended.get("message")):
            report = fresh
            del ended["message"]  # the report of the helper says nothing about why the user failed
    if user.phase != "Succeeded":
        user.why = why_pod_waits_or_ended(pod)
    user.moments = {key: float(value) for key, value in (report.get("moments") or {}).items()}
    reported = dict(report.get("files") or {})
    if report.get("files_error"):
        reported["error"] = report["files_error"]
    return user, reported


def _parse_helper_report(text: Any) -> dict[str, Any]:
    """Return the report of the helper; empty for anything else, which the command of a user may have left there."""
    try:
        content = parse_json(text or "")
    except ValueError:
        return {}
    return content if isinstance(content, dict) and _has_form_of_report(content) else {}


def _has_form_of_report(content: Mapping[str, Any]) -> bool:
    moments, sent = content.get("moments"), content.get("files") or {}
    if not isinstance(moments, dict) or not isinstance(sent, dict):
        return False
    if "parts" in sent and not isinstance(sent.get("sha256"), str):
        return False
    counts = [sent.get(name, 0) for name in ("parts", "bytes", "left_out")]
    numbers = [*moments.values(), *counts]
    if any(isinstance(number, bool) or not isinstance(number, (int, float)) for number in numbers):
        return False
    return all(0 <= number <= MOST for number in numbers) and counts[0] <= MOST_PARTS


def _fetch_files(client: Client, spec: UsersSpec, pod: str, reported: Mapping[str, Any], to: Path) -> dict[str, Any]:
    """Replace the folder ``to`` by the files of a user; return how many there are, and what was left out."""
    parts = [f"{pod}-files-{number:04d}" for number in range(1, int(reported["parts"]) + 1)]
    unsent = _not_sent(reported)
    if to.exists() and client.get(pod_files_through_configmaps.CONFIG_MAP, parts[0], spec.namespace) is None:
        return {"count": count_files(to), **unsent}  # an earlier call has fetched them
    to.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=to.parent) as aside:
        packed = Path(aside) / "files.tar"
        file = {"name": f"files of {pod}", "sha256": reported["sha256"], "parts": parts}
        pod_files_through_configmaps.fetch_file_from_configmaps(client, spec.namespace, file, packed)
        count = extract_archive(packed, to, f"files of {pod}")
    for name in parts:
        delete_object_of_run(client, pod_files_through_configmaps.CONFIG_MAP, name, spec.namespace, spec.run)
    return {"count": count, "bytes": reported.get("bytes", 0), **unsent}


def _fetch_upload(
    uploads: UserUploads | None, user: UserRecord, reported: Mapping[str, Any], to: Path, there: bool
) -> dict[str, Any]:
    """Replace the folder ``to`` by the files that a user has uploaded; return what is known about them."""
    if uploads is None:
        raise InputError(f"{user.pod} has uploaded its files to an S3 server: set workload_collect_s3 as when it began")
    details = {**_not_sent(reported), "way": "s3"}
    if there:
        count = uploads.fetch_into_folder(user.index, to, str(reported.get("archive") or ""))
        return {"count": count, "bytes": reported.get("bytes", 0), **details}
    if not to.exists():
        raise DataError(f"files of {user.pod}: there is no {uploads.store.key(user.index)} in the bucket any more")
    return {"count": count_files(to), **details}  # an earlier call has fetched them


def _list_users_with_uploads(uploads: UserUploads | None) -> tuple[frozenset[int], AccessError | None]:
    """Return the users whose objects exist, and why that is unknown: what the API server has is fetched anyway."""
    try:
        return uploads.uploaded_clients() if uploads is not None else frozenset(), None
    except AccessError as error:
        return frozenset(), error


def _not_sent(reported: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the helper reports about files that it could not send."""
    names = ("limit", "error")
    more = {name: reported[name] for name in names if reported.get(name)}
    return {"left_out": reported.get("left_out", 0), "first_left_out": reported.get("first_left_out", []), **more}


def users_summary(spec: UsersSpec, users: list[UserRecord], required: int) -> dict[str, Any]:
    """Return users.json: counts, what the helpers measured, and what simulated users have done. Times in seconds."""
    succeeded = sum(user.phase == "Succeeded" for user in users)
    spans = [user.moments for user in users]
    figures = {
        "schema": SCHEMA,
        "run": spec.run,
        "point": spec.point,
        "count": spec.count,
        "required": required,
        "succeeded": succeeded,
        "success_percent": round(100 * succeeded / spec.count, 3) if spec.count else 0.0,
        # From the event of the release to the running command; from that until the sampler could see it.
        "reaction": load_generator_health.percentile_summary(_span_durations(spans, "received", "begun")),
        "report_delay": load_generator_health.percentile_summary(_span_durations(spans, "begun", "begun_answered")),
        "command": load_generator_health.percentile_summary(_span_durations(spans, "begun", "ended")),
    }
    if any(user.files for user in users):
        figures["files"] = _files_summary(users)
    places = [spec.dest / str(user.index) / "files" / OPERATIONS for user in users]
    if (size := sum(place.stat().st_size for place in places if place.is_file())) > MOST_OPERATIONS:
        raise DataError(f"the users' {OPERATIONS} have {size:,} bytes together, and {MOST_OPERATIONS:,} are the most")
    operations = [row for place in places for row in _read_user_operations(place)]
    if operations:
        figures["operations"] = _operations_summary(operations)
    return figures


def _files_summary(users: Iterable[UserRecord]) -> dict[str, Any]:
    """Return how many files there are, and how many are missing and why."""
    known = [user for user in users if user.files]
    cut = [row for row in known if row.files.get("left_out")]
    failed = [f"{row.pod}: {row.files['error']}" for row in known if row.files.get("error")]
    return {
        "count": sum(int(row.files.get("count", 0)) for row in known),
        "left_out": sum(int(row.files["left_out"]) for row in cut),
        "left_out_users": len(cut),
        "limit": next(
            (str(row.files["limit"]) for row in cut if row.files.get("limit")),
            "users_files_limit_bytes",
        ),
        "failed_users": len(failed),
        "first_error": failed[0] if failed else "",
    }


def _span_durations(spans: Iterable[Mapping[str, float]], begin: str, end: str) -> list[float]:
    return [span[end] - span[begin] for span in spans if begin in span and end in span]


def _read_user_operations(path: Path) -> list[dict[str, Any]]:
    return list(files.read_json_lines(path)) if path.exists() else []


def _operations_summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return numbers of objects by outcome, and the times that users have seen."""
    with expect_documented_form(f"the users' {OPERATIONS}", rows, DataError):
        spans = [{name: float(moment) for name, moment in row["times"].items()} for row in rows]
        good = sum(row["outcome"] == "succeeded" for row in rows)
    return {
        "count": len(rows),
        "succeeded": good,
        "success_percent": round(100 * good / len(rows), 3),
        "create": load_generator_health.percentile_summary([span["created"] for span in spans if "created" in span]),
        "usable": load_generator_health.percentile_summary([span["usable"] for span in spans if "usable" in span]),
        "delete": load_generator_health.percentile_summary(_span_durations(spans, "delete", "gone")),
    }


def _has_same_json_content(path: Path, document: Mapping[str, Any]) -> bool:
    return path.exists() and files.read_json(path) == document


def _summary_text(users: list[UserRecord], required: int) -> str:
    """Return the result in one sentence."""
    good = sum(user.phase == "Succeeded" for user in users)
    parts = [f"{good} of {formats.format_count(len(users), 'user')} succeeded, {required} are required"]
    failed = [user for user in users if user.phase != "Succeeded"]
    if failed:
        more = f" and {len(failed) - _NAMED} more" if len(failed) > _NAMED else ""
        parts.append(f"not {', '.join(f'{lost.pod} ({lost.why})' for lost in failed[:_NAMED])}{more}")
    files = sum(int(user.files.get("count", 0)) for user in users)
    left_out = sum(int(user.files.get("left_out", 0)) for user in users)
    if files or left_out:
        parts.append(f"fetched {formats.format_count(files, 'file')}")
    if left_out:
        parts.append(f"left out {left_out} beyond the limit")
    errors = [f"{user.pod} ({user.files['error']})" for user in users if user.files.get("error")]
    if errors:
        parts.append(f"could not send its files: {errors[0]}")
    return "; ".join(parts)

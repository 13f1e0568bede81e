# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the audit log says of workloads that are chains of objects, such as a TrainJob, its JobSet, Job and pods.

The log has no contents. So a table says for each stage which write makes it: of which resource, by whom, and, where
that is certain, whether it is the first or the last of these.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline import timeline_builder
from audit_truth import JOBS, KWOK, Window, moment

SCHEDULER = "system:kube-scheduler"
LWS, SANDBOX, TRAINER, JOBSET, KUEUE, PODGROUPS = (
    f"seatrial:{name}" for name in ("leader-worker-set", "agent-sandbox", "trainer", "jobset", "kueue", "podgroups")
)


@dataclass(frozen=True)
class Write:
    """Writes of one resource, with ``/status`` or ``/binding``, of any writer or of one.

    number: which of those of a workload makes the stage; None is any of them.
    """

    resource: str
    user: str = ""
    number: int | None = None
    verbs: tuple[str, ...] = ("update", "patch")


def created(resource: str, user: str = "") -> Write:
    return Write(resource, user, 0, ("create",))


@dataclass(frozen=True)
class Chain:
    """A kind of workload: the component that has it, the writes that make its stages, its pods.

    many: workloads of a long load; Trainer and the controller of LeaderWorkerSets handle one after another, so more
    of them only wait. warm: whether a pool has as many sandboxes.
    """

    kind: str
    component: str
    stages: dict[str, Write]
    pods: int = 1
    many: int = 100
    warm: bool = False


RUNNING_PODS = {
    "pods_scheduled_first": Write("pods/binding", number=0, verbs=("create",)),
    "pods_scheduled": Write("pods/binding", number=-1, verbs=("create",)),
    "pods_running_first": Write("pods/status", KWOK, 0),
    "pods_running": Write("pods/status", KWOK),
}
ENDING_PODS = {
    **RUNNING_PODS,
    "pods_succeeded_first": Write("pods/status", KWOK),
    "pods_succeeded": Write("pods/status", KWOK, -1),
}
JOB_STAGES = {
    "job_created": created("jobs", JOBSET),
    "job_started": Write("jobs/status", JOBS, 0),
    "job_running": Write("jobs/status", JOBS),
    "job_succeeded": Write("jobs/status", JOBS, -1),
}
#: Jobs with PodGroups of Kubernetes itself, as project scheduler submits them.
GANG = Chain(
    "Job",
    "workload-aware",
    {
        "created": created("jobs"),
        "podgroup_created": created("podgroups"),
        "podgroup_scheduled": Write("podgroups/status", SCHEDULER),
        **{stage.removeprefix("job_"): write for stage, write in JOB_STAGES.items() if stage != "job_created"},
        **ENDING_PODS,
    },
    3,
)
#: Stages of jobs of project scheduler. Kueue, or the controller of jobs, may write the same status again.
QUEUED = {
    "created": created("jobs"),
    "workload_created": created("workloads", KUEUE),
    "workload_quota_reserved": Write("workloads/status", KUEUE),
    "workload_admitted": Write("workloads/status", KUEUE),
    "workload_finished": Write("workloads/status", KUEUE),
}
JOB_OF_PODS = {
    "started": Write("jobs/status", JOBS),
    "running": Write("jobs/status", JOBS),
    "succeeded": Write("jobs/status", JOBS, -1),
    **ENDING_PODS,
}
#: A claim is allocated before its pod is bound, by the first write of its status.
CLAIMING = {
    "created": created("jobs"),
    "resourceclaim_allocated_first": Write("resourceclaims/status", SCHEDULER, 0),
    "resourceclaim_allocated": Write("resourceclaims/status", SCHEDULER, 0),
    "resourceclaim_released": Write("resourceclaims", verbs=("update", "patch", "delete")),
    **JOB_OF_PODS,
}
#: Preset of project scheduler -> its jobs. The log lacks names that the server generates, as those of claims, so their
#: creation is compared with nothing.
OF_PRESETS = {
    **dict.fromkeys(("topology", "kueue_upgrade", "fairness"), Chain("Job", "kueue", {**QUEUED, **JOB_OF_PODS})),
    **{preset: Chain("Job", "", CLAIMING) for preset in ("dra_light", "dra_vs_extended", "dra_partitions")},
    "gang_native": GANG,
    "coscheduling": Chain(
        "Job",
        "coscheduling",
        {
            "created": created("jobs"),
            "podgroup_created": created("podgroups"),
            "podgroup_scheduling": Write("podgroups/status", PODGROUPS),
            "podgroup_running": Write("podgroups/status", PODGROUPS),
            "podgroup_finished": Write("podgroups/status", PODGROUPS, -1),
            **JOB_OF_PODS,
        },
    ),
    "multikueue": Chain(
        "Job",
        "kueue",
        {
            **QUEUED,
            "workload_nominated": Write("workloads/status", KUEUE),
            "workload_dispatched": Write("workloads/status", KUEUE),
            "started": Write("jobs/status", KUEUE),
            "succeeded": Write("jobs/status", KUEUE, -1),
        },
    ),
}
CHAINS = {
    "LeaderWorkerSet": Chain(
        "LeaderWorkerSet",
        "leader-worker-set",
        {
            "created": created("leaderworkersets"),
            "accepted": Write("leaderworkersets/status", LWS, 0),
            "leaders_created": Write("leaderworkersets/status", LWS),
            "group_ready": Write("leaderworkersets/status", LWS),
            "ready": Write("leaderworkersets/status", LWS, -1),
            "statefulset_created": Write("statefulsets", LWS, verbs=("create", "patch")),
            "statefulset_running": Write("statefulsets/status"),
            "statefulset_ready": Write("statefulsets/status"),
            **RUNNING_PODS,
        },
        3,
    ),
    "Sandbox": Chain(
        "Sandbox",
        "agent-sandbox",
        {
            "created": created("sandboxes"),
            "scheduled": Write("sandboxes/status", SANDBOX),
            "ready": Write("sandboxes/status", SANDBOX),
            **RUNNING_PODS,
        },
        many=300,
    ),
    "SandboxClaim": Chain(
        "SandboxClaim",
        "agent-sandbox",
        {"created": created("sandboxclaims"), "ready": Write("sandboxclaims/status", SANDBOX)},
    ),
    "SandboxClaim of a warm pool": Chain(
        "SandboxClaim",
        "agent-sandbox",
        {
            "created": created("sandboxclaims"),
            "adopted": Write("sandboxclaims", SANDBOX, verbs=("update",)),
            "ready": Write("sandboxclaims/status", SANDBOX),
        },
        warm=True,
    ),
    "JobSet": Chain(
        "JobSet",
        "jobset",
        {
            "created": created("jobsets"),
            **JOB_STAGES,
            **ENDING_PODS,
            "started": Write("jobsets/status", JOBSET),
            "running": Write("jobsets/status", JOBSET),
            "succeeded": Write("jobsets/status", JOBSET, -1),
        },
        2,
    ),
    "TrainJob": Chain(
        "TrainJob",
        "trainer",
        {
            "created": created("trainjobs"),
            "jobset_created": Write("jobsets", TRAINER, 0, ("patch",)),
            **JOB_STAGES,
            **ENDING_PODS,
            "jobset_started": Write("jobsets/status", JOBSET),
            "jobset_running": Write("jobsets/status", JOBSET),
            "jobset_succeeded": Write("jobsets/status", JOBSET, -1),
            "started": Write("trainjobs/status", TRAINER),
            "running": Write("trainjobs/status", TRAINER),
            # Trainer may write the numbers of jobs once more after the end.
            "succeeded": Write("trainjobs/status", TRAINER),
        },
        2,
    ),
}


def writes_of(audit: Path, run: str) -> dict[str, dict[str, list[tuple[Window, str, str]]]]:
    """Return name of a workload -> resource -> (received and answered, verb, user) of each write."""
    # Kueue names the Workload of a job job-<name>-<hash>.
    workload = re.compile(rf"^(?:job-)?({re.escape(run)}-\d+-\d+)(?=-|$)")
    found: dict[str, dict[str, list[tuple[Window, str, str]]]] = defaultdict(lambda: defaultdict(list))
    for raw in audit.read_text(encoding="utf-8").splitlines():
        if run not in raw:
            continue
        record = json.loads(raw)
        ref = record.get("objectRef") or {}
        name = workload.match(ref.get("name", ""))
        if (
            not name
            or not 200 <= record.get("responseStatus", {}).get("code", 0) < 300
            or "dryRun" in record["requestURI"]
        ):
            continue
        window = (moment(record["requestReceivedTimestamp"]), moment(record["stageTimestamp"]))
        resource = "/".join(filter(None, (ref["resource"], ref.get("subresource"))))
        found[name[1]][resource].append((window, record["verb"], record["user"]["username"]))
    return {name: {what: sorted(windows) for what, windows in of.items()} for name, of in found.items()}


def windows_that_may_be(windows: list[Window], number: int | None) -> list[Window]:
    """Return the windows of writes that may be the first one (number 0) or the last one (-1); without number all.

    The server may handle writes that overlap in either order.
    """
    if number is None:
        return windows
    if number == 0:
        return [window for window in windows if window[0] <= min(answered for _received, answered in windows)]
    return [window for window in windows if window[1] >= max(received for received, _answered in windows)]


def check_stages(point_dir: Path, run: str, audit: Path, chain: Chain, count: int) -> list[str]:
    """Assert that each stage of each workload meets the write that makes it; return a line for each stage."""
    table = timeline_builder.build_timeline_of_workloads(point_dir, run, "001")
    assert len(table.name) == count and not table.contradictions
    # Every stage that workloads of the kind reach is in the table above.
    assert {stage for stage, times in table.earliest.items() if any(time == time for time in times)} <= {
        *chain.stages,
        "pods_created_first",
        "pods_created",
        "resourceclaim_created_first",
        "resourceclaim_created",
        "workload_pods_ready_first",
        "workload_pods_ready",
        "stopped",
    }
    truth = writes_of(audit, run)
    assert len(truth) == count
    lines = []
    for stage, write in chain.stages.items():
        widths = []
        for row, name in enumerate(table.name):
            interval = (table.earliest[stage][row], table.latest[stage][row])
            windows = [
                window
                for window, verb, user in truth[name][write.resource]
                if verb in write.verbs and user == (write.user or user)
            ]
            asked = windows_that_may_be(windows, write.number)
            assert any(interval[0] <= window[1] and interval[1] >= window[0] for window in asked), (
                f"{stage} of {name}: {interval} meets none of {asked}, of {windows}"
            )
            widths.append(interval[1] - interval[0])
        widths.sort()
        lines.append(f"{chain.kind} {stage}: median width {widths[len(widths) // 2] * 1e3:.0f} ms, all {count} meet")
    return lines

"""Stage definitions as data, against objects as API servers give them."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import conditions_by_type
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.kinds import stage_definitions
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import workload_kinds

CREATED = "2026-11-21T05:36:23Z"


def shipped(name: str) -> stage_definitions.KindStages:
    return stage_definitions.compile_stages_of_kind(workload_kinds.load_kind_by_name_or_path(name).definition)


def values(kind: stage_definitions.KindStages, thing: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in zip(kind.names, kind.values(thing, conditions_by_type(thing)), strict=True)
        if value is not None
    }


def condition(kind: str, status: str = "True", at: str = "2026-11-21T05:36:28Z") -> dict[str, str]:
    return {"type": kind, "status": status, "lastTransitionTime": at, "reason": "R", "message": "M"}


def thing(status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "x", "creationTimestamp": CREATED},
        "spec": spec,
        **({"status": status} if status else {}),
    }


def test_every_shipped_definition_can_be_compiled_and_some_stage_ends_it() -> None:
    found = [shipped(name) for name in workload_kinds.all_kind_names()]
    wanted = "AppWrapper Deployment Job JobSet Notebook PersistentVolumeClaim Pod PodGroup PyTorchJob RayCluster RayJob"
    assert {one.kind for one in found} >= {*wanted.split(), "StatefulSet", "TrainingWorkload", "Workload"}
    # Those that are never a workload of their own end nothing.
    assert {one.kind for one in found if not one.ends} == {
        "PodGroup",
        "ReplicaSet",
        "ResourceClaim",
        "RunaiJob",
        "Workload",
    }
    assert all("succeeded" in one.ends.values() for one in found if one.ends)
    # A folder is found by the name of its kind. Three schedulers have a kind PodGroup, and a manager of MultiKueue sees
    # other stages of a Workload.
    others = {name for name in workload_kinds.all_kind_names() if name != shipped(name).kind}
    assert others == {"multikueueworkload", "nativepodgroup", "runaipodgroup"}


def test_a_pytorchjob_that_ended_no_longer_runs() -> None:
    kind = shipped("pytorchjob")
    assert values(kind, thing()) == {"created": CREATED}
    running = [condition("Created", at="2026-11-21T05:36:24Z"), condition("Running", at="2026-11-21T05:36:25Z")]
    assert values(kind, thing({"conditions": running})) == {
        "created": CREATED,
        "accepted": "2026-11-21T05:36:24Z",
        "running": "2026-11-21T05:36:25Z",
    }
    ended = [running[0], condition("Running", "False"), condition("Succeeded")]
    assert values(kind, thing({"conditions": ended})) == {
        "created": CREATED,
        "accepted": "2026-11-21T05:36:24Z",
        "succeeded": "2026-11-21T05:36:28Z",
    }


def test_a_pod_goes_through_its_phases() -> None:
    kind = shipped("pod")
    bound = condition("PodScheduled")
    assert values(kind, thing({"phase": "Pending"})) == {"created": CREATED}
    assert values(kind, thing({"phase": "Pending", "conditions": [condition("PodScheduled", "False")]})) == {
        "created": CREATED
    }
    for phase, name in (("Running", "running"), ("Succeeded", "succeeded"), ("Failed", "failed")):
        found = values(kind, thing({"phase": phase, "conditions": [bound]}))
        assert found == {"created": CREATED, "scheduled": bound["lastTransitionTime"], name: True}


def test_a_job_runs_while_a_pod_of_it_is_ready() -> None:
    kind = shipped("job")
    assert values(kind, thing({"startTime": CREATED, "ready": 0})) == {"created": CREATED, "started": CREATED}
    assert values(kind, thing({"startTime": CREATED, "ready": 2}))["running"] is True
    assert values(kind, thing({"conditions": [condition("Complete")]}))["succeeded"] == "2026-11-21T05:36:28Z"


LATER = "2026-11-21T05:36:28Z"


@pytest.mark.parametrize(
    ("kind", "spec", "status", "seen"),
    [
        ("rayjob", {}, {}, {}),
        ("rayjob", {}, {"startTime": LATER, "jobDeploymentStatus": "Initializing"}, {"accepted": LATER}),
        ("rayjob", {}, {"jobStatus": "RUNNING"}, {"running": True}),
        ("rayjob", {}, {"jobStatus": "SUCCEEDED", "jobDeploymentStatus": "Complete"}, {"succeeded": True}),
        ("rayjob", {}, {"jobStatus": "FAILED"}, {}),
        ("rayjob", {}, {"jobStatus": "FAILED", "jobDeploymentStatus": "Running"}, {}),
        ("rayjob", {}, {"jobStatus": "FAILED", "jobDeploymentStatus": "Retrying"}, {}),
        ("rayjob", {}, {"jobStatus": "STOPPED", "jobDeploymentStatus": "Suspending"}, {}),
        ("rayjob", {}, {"jobStatus": "STOPPED", "jobDeploymentStatus": "Complete"}, {"failed": True}),
        ("rayjob", {}, {"jobStatus": "FAILED", "jobDeploymentStatus": "Failed"}, {"failed": True, "undeployed": True}),
        ("rayjob", {}, {"jobDeploymentStatus": "Failed"}, {"undeployed": True}),
        ("raycluster", {}, {"conditions": [condition("HeadPodReady")]}, {"head_ready": LATER}),
        ("raycluster", {}, {"state": "ready"}, {"ready": True}),
        ("raycluster", {}, {"state": "failed"}, {"failed": True}),
        ("appwrapper", {}, {"phase": "Suspended", "conditions": [condition("QuotaReserved", "False")]}, {}),
        ("appwrapper", {}, {"conditions": [condition("QuotaReserved")]}, {"quota_reserved": LATER}),
        ("appwrapper", {}, {"phase": "Succeeded"}, {"succeeded": True}),
        ("jobset", {}, {"replicatedJobsStatus": [{"name": "a", "ready": 0, "active": 0}]}, {}),
        ("jobset", {}, {"replicatedJobsStatus": [{"name": "a", "ready": 0, "active": 2}]}, {"started": True}),
        ("jobset", {}, {"replicatedJobsStatus": [{"ready": 1}]}, {"started": True, "running": True}),
        # A set that is restarted has not ended.
        ("jobset", {}, {"restarts": 1, "conditions": [condition("RestartingJobSet")]}, {"restarting": LATER}),
        ("jobset", {}, {"terminalState": "Failed", "conditions": [condition("Failed")]}, {"failed": LATER}),
        ("trainjob", {}, {"conditions": [condition("Suspended")]}, {}),
        ("trainjob", {}, {"jobsStatus": [{"name": "node", "active": 0, "failed": 1}]}, {}),
        ("trainjob", {}, {"jobsStatus": [{"name": "node", "active": 1, "ready": 0}]}, {"started": True}),
        ("trainjob", {}, {"jobsStatus": [{"name": "node", "ready": 1}]}, {"started": True, "running": True}),
        ("trainjob", {}, {"conditions": [condition("Complete")]}, {"succeeded": LATER}),
        ("trainjob", {}, {"conditions": [condition("Failed")]}, {"failed": LATER}),
        ("jobset", {}, {"conditions": [condition("Completed")]}, {"succeeded": LATER}),
        ("leaderworkerset", {}, {"conditions": [condition("Progressing")]}, {"accepted": True}),
        # A busy controller writes its first status when all groups are ready: it was never Progressing.
        ("leaderworkerset", {}, {"conditions": [condition("Available")]}, {"accepted": True, "ready": LATER}),
        ("workload", {}, {"conditions": [condition("QuotaReserved")]}, {"quota_reserved": LATER}),
        (
            "workload",
            {},
            {"conditions": [condition("Finished"), condition("Admitted")]},
            {"finished": LATER, "admitted": LATER},
        ),
        ("podgroup", {}, {"phase": "Pending"}, {}),
        ("podgroup", {}, {"phase": "Running"}, {"scheduling": True, "running": True}),
        ("persistentvolumeclaim", {}, {"phase": "Pending"}, {}),
        ("persistentvolumeclaim", {}, {"phase": "Bound"}, {"bound": True}),
        ("notebook", {}, {"readyReplicas": 0, "containerState": {"waiting": {}}}, {}),
        (
            "notebook",
            {},
            {"readyReplicas": 1, "containerState": {"running": {"startedAt": LATER}}},
            {"started": LATER, "ready": True},
        ),
        ("statefulset", {"replicas": 2}, {"readyReplicas": 1}, {"running": True}),
        ("statefulset", {"replicas": 2}, {"readyReplicas": 2}, {"running": True, "ready": True}),
        (
            "deployment",
            {},
            {"availableReplicas": 1, "conditions": [condition("Available")]},
            {"available": LATER, "ready": True},
        ),
        ("deployment", {}, {"conditions": [condition("Progressing", "False")]}, {"stuck": True}),
        ("deployment", {"replicas": 0}, {}, {"ready": True}),
        ("statefulset", {"replicas": 0}, {"replicas": 0}, {"ready": True}),
        ("replicaset", {}, {}, {}),
        ("trainingworkload", {}, {"phase": "Running"}, {"accepted": True, "running": True}),
        ("trainingworkload", {}, {"phase": "Completed"}, {"accepted": True, "succeeded": True}),
        ("distributedworkload", {}, {"phase": "Failed"}, {"accepted": True, "failed": True}),
        ("interactiveworkload", {}, {"phase": "Running"}, {"accepted": True, "running": True}),
        ("trainingworkload", {}, {"phase": "Stopped"}, {"accepted": True, "stopped": True}),
    ],
)
def test_shipped_definitions_read_what_controllers_write(
    kind: str, spec: dict[str, Any], status: dict[str, Any], seen: dict[str, Any]
) -> None:
    assert values(shipped(kind), thing(status, **spec)) == {"created": CREATED, **seen}


def test_what_stages_wait_for_is_there_or_belongs_to_another_kind() -> None:
    known: dict[str, set[str]] = {}
    for folder in workload_kinds.all_kind_names():
        known.setdefault(shipped(folder).kind, set()).update(shipped(folder).names)
    for folder in workload_kinds.all_kind_names():
        kind = shipped(folder)
        for stage in kind.definition["stages"]:
            for name in stage.get("depends_on", []):
                of, _dot, one = name.rpartition(".")
                assert one.removesuffix("_first") in known[of or kind.kind] or name in stage_definitions.WRITERS, (
                    f"{folder}: {name}"
                )


def one_stage(**stage: Any) -> stage_definitions.KindStages:
    definition = {"api_version": "v1", "kind": "X", "stages": [{"name": "s", "writer": "node", **stage}]}
    return stage_definitions.compile_stages_of_kind(definition)


@pytest.mark.parametrize(
    ("stage", "status", "value"),
    [
        ({"field": "status.at"}, {"at": CREATED}, CREATED),
        ({"field": "status.at"}, {"at": ""}, None),
        ({"field": "status.p", "equals": "A"}, {"p": ["A"]}, None),
        ({"field": "status.p", "equals": 1}, {"p": True}, None),
        ({"field": "status.p", "equals": False}, {"p": False}, True),
        ({"condition": "Ready"}, {"conditions": [{"type": ["Ready"], "status": "True"}]}, None),
        ({"condition": "Ready"}, {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": {}}]}, True),
        ({"jmespath": "length(status.n) > `0`"}, {}, None),
        ({"field": "status.n"}, {"n": 0}, None),
        ({"field": "status.n"}, {"n": 2}, True),
        ({"field": "status.a.b"}, {"a": "text"}, None),
        ({"field": "status.a.b"}, {}, None),
        ({"field": "status.p", "equals": ["A", "B"]}, {"p": "B"}, True),
        ({"field": "status.p", "equals": ["A", "B"]}, {"p": "C"}, None),
        ({"condition": "Ready"}, {"conditions": [{"type": "Ready", "status": "True"}]}, True),
        ({"condition": "Ready"}, {"conditions": None}, None),
        ({"jmespath": "status.list[?ok].at | [0]"}, {"list": [{"ok": False, "at": "x"}, {"ok": True, "at": "y"}]}, "y"),
        ({"jmespath": "status.n > `1`"}, {"n": 2}, True),
        ({"jmespath": "status.n > `1`"}, {"n": 1}, None),
    ],
)
def test_each_source_gives_a_time_a_truth_or_nothing(stage: dict[str, Any], status: dict[str, Any], value: Any) -> None:
    thing = {"metadata": {}, "status": status}
    assert one_stage(**stage).values(thing, conditions_by_type(thing)) == (value,)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": ""}, "it needs api_version and kind"),
        ({"stages": []}, "stage definition of X: stages must be a list with at least one stage"),
        ({"stages": [{"field": "a", "writer": "node"}]}, "it has no name"),
        (
            {"stages": [{"name": "s", "writer": "node"}]},
            "exactly one of condition, field, jmespath, deleted, it has none",
        ),
        ({"stages": [{"name": "s", "writer": "node", "field": "a", "condition": "b"}]}, "it has condition, field"),
        ({"stages": [{"name": "s", "writer": "nod", "field": "a"}]}, "writer 'nod' is none of"),
        ({"stages": [{"name": "s", "writer": "nod", "field": "a"}]}, "did you mean 'node'?"),
        ({"stages": [{"name": "s", "writer": "node", "feild": "a"}]}, "unknown key 'feild' (did you mean 'field'?)"),
        ({"stages": [{"name": "s", "writer": "node", "field": "a", "ends": "done"}]}, "ends 'done' is none of"),
        ({"stages": [{"name": "s", "writer": "node", "condition": "a", "equals": 1}]}, "equals goes with field only"),
        ({"stages": [{"name": "s", "writer": "node", "jmespath": "a["}]}, "jmespath 'a[' cannot be parsed"),
        (
            {"stages": [{"name": "s", "writer": "node", "jmespath": "a || lenght(b)"}]},
            "jmespath 'a || lenght(b)' cannot be parsed: unknown function lenght() (did you mean 'length'?)",
        ),
        (
            {"stages": [{"name": "s", "writer": "node", "jmespath": "contains(a)"}]},
            "contains() takes 2 arguments, it has 1",
        ),
        ({"stages": [{"name": "s", "writer": "node", "field": "a", "equals": [{}]}]}, "equals '{}' must be a text"),
        ({"stages": [{"name": "s", "writer": "node", "field": "a", "equals": None}]}, "equals 'None' must be a text"),
        ({"stages": [{"name": "s", "writer": "node", "field": "a", "equals": {}}]}, "equals '{}' must be a text"),
        ({"stages": [{"name": "s", "writer": "node", "field": 5}]}, "field must be a text, it is '5'"),
        ({"stages": ["created"]}, "stage 'created' of X: it is not a dictionary"),
        ({"stages": {"name": "s"}}, "stages must be a list"),
        ({"stages": [{"name": "s", "writer": "node", "field": "a"}] * 2}, "duplicate name"),
    ],
)
def test_what_is_wrong_in_a_definition_is_named(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        stage_definitions.compile_stages_of_kind({"api_version": "v1", "kind": "X", "stages": [], **change})
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"selekt": "owners"}, "unknown key 'selekt' (did you mean 'select'?)"),
        ({"select": "owner"}, "select 'owner' is none of labels, owners"),
        (
            {"stages": [{"name": "s", "writer": "node", "field": "a", "gang": ["frist"]}]},
            "gang 'frist' must be a list of",
        ),
        (
            {"stages": [{"name": "s", "writer": "node", "field": "a", "gang": "first"}]},
            "gang 'first' must be a list of",
        ),
    ],
)
def test_what_is_wrong_above_the_stages_is_named_too(change: dict[str, Any], words: str) -> None:
    definition = {"api_version": "v1", "kind": "X", "stages": [{"name": "s", "writer": "node", "field": "a"}]}
    with pytest.raises(InputError) as caught:
        stage_definitions.compile_stages_of_kind({**definition, **change})
    assert words in str(caught.value)


def test_a_kind_may_stand_there_once() -> None:
    one = {"api_version": "v1", "kind": "X", "stages": [{"name": "s", "writer": "node", "field": "a"}]}
    with pytest.raises(InputError, match="stages: duplicate definition of X"):
        stage_definitions.compile_stages_of_kinds([one, one])


def test_a_stage_that_no_object_reached_because_its_expression_fits_none_is_noted() -> None:
    kind = one_stage(jmespath="length(status.phases) > `0`")
    assert kind.values({"metadata": {}}, {}) == (None,)
    assert kind.fault_notes()[0].startswith(
        "stage 's' of X counts as not reached where its jmespath can't be evaluated"
    )
    assert kind.values({"metadata": {}, "status": {"phases": ["Done"]}}, {}) == (True,)
    assert kind.values({"metadata": {}}, {}) == (None,) and kind.fault_notes() == []


def test_gpus_are_those_of_all_containers() -> None:
    limits = [{"nvidia.com/gpu": "2", "cpu": "4"}, {"amd.com/gpu": 1}, {}]
    pod = thing(containers=[{"resources": {"limits": one}} for one in limits] + [{}])
    assert stage_definitions.pod_gpu_count(pod) == 3.0 and stage_definitions.pod_gpu_count({}) == 0.0


def test_a_thousand_gpus_are_counted_though_the_server_writes_them_with_a_unit() -> None:
    assert (
        stage_definitions.pod_gpu_count(thing(containers=[{"resources": {"limits": {"nvidia.com/gpu": "1k"}}}]))
        == 1000.0
    )


@pytest.mark.parametrize(
    "more", [{"deleted": "yes"}, {"deleted": True, "ends": "succeeded"}, {"deleted": True, "running": True}]
)
def test_a_stage_at_deletion_neither_ends_a_workload_nor_shows_that_it_runs(more: dict[str, Any]) -> None:
    stage = {"name": "released", "writer": "controller", **more}
    with pytest.raises(InputError, match="stage 'released' of Claim: deleted must be true, and goes neither with"):
        stage_definitions.compile_stages_of_kind({"api_version": "v1", "kind": "Claim", "stages": [stage]})


def test_a_pod_has_the_gpus_of_its_limits_and_those_that_our_template_says_it_claims() -> None:
    limits = {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "2"}}}]}}
    claims = {"metadata": {"annotations": {"perfscale.seatrial/gpus": "4"}}, "spec": {"containers": [{}]}}
    half = {"metadata": {"annotations": {"perfscale.seatrial/gpus": "0.5"}}, "spec": {"containers": [{}]}}
    wrong = {"metadata": {"annotations": {"perfscale.seatrial/gpus": "many"}}, "spec": {"containers": [{}]}}
    pods = (limits, claims, half, wrong)
    assert [stage_definitions.pod_gpu_count(pod) for pod in pods] == [2.0, 4.0, 0.5, 0.0]

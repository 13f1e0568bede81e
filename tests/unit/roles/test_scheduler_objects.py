# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects and stages of role scheduler in each of its modes, made from the role's variables as Ansible does it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan import (
    rendered_workload_templates,
    template_renderer,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import (
    checks_declared_by_roles,
    read_workload_files,
    setting_templates,
    workload_kinds,
)

pytestmark = pytest.mark.usefixtures("ansible_plugins")
ROLE = Path(__file__).parents[3] / "roles" / "scheduler"
LOADER = DataLoader()


def variables(settings: dict[str, Any], *names: str) -> list[Any]:
    """Return the values of variables of the role for these settings of a point."""
    known: dict[str, Any] = {}
    for folder in ("defaults", "vars"):
        known.update(LOADER.load_from_file(str(ROLE / folder / "main.yml"), trusted_as_template=True))
    cluster = {"kubeconfig": "/none", "simulated": True, "simulated_writers": []}
    known.update(run_id="t1", run_point="001", role_path=str(ROLE), cluster_acquired={"sutest": cluster})
    known["ansible_search_path"] = [str(ROLE)]
    known["__scheduler_has"] = {"kinds": {}}
    templar = Templar(loader=LOADER, variables={**known, **settings})
    return [templar.template(known[name]) for name in names]


def objects(settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the objects of the first workload."""
    (entries,) = variables(settings, "__scheduler_templates")
    (template,) = read_workload_files.templates_with_content([dict(entries[0])], lambda _folder, name: name)
    made = template_renderer.render_template_for_indices(
        rendered_workload_templates.WorkloadTemplate(**template), "t1", "001", "ns", [0]
    )
    return [document.manifest(0) for document in made.documents]


@pytest.mark.parametrize(
    ("mode", "stages"),
    [
        ("job", ["Job", "Pod"]),
        ("kueue", ["Job", "Workload", "Pod"]),
        ("multikueue", ["Job", "MultiKueueWorkload"]),
        ("appwrapper", ["AppWrapper", "Workload", {"use": "Job", "select": "owners"}, "Pod"]),
        ("coscheduling", ["Job", "PodGroup", "Pod"]),
        ("workload-aware", ["Job", "NativePodGroup", "Pod"]),
    ],
)
def test_what_is_watched_follows_from_the_mode(mode: str, stages: list[Any]) -> None:
    (found,) = variables({"scheduler_mode": mode}, "__scheduler_stages")
    assert [one["use"] if "stages" in one else one for one in found] == stages


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        ("JobSet", [{"use": "Job", "select": "owners"}, "Pod"]),
        ("TrainJob", [{"use": "JobSet", "select": "owners"}, {"use": "Job", "select": "owners"}, "Pod"]),
    ],
)
def test_gangs_of_another_kind_go_through_the_same_queue(kind: str, parts: list[Any]) -> None:
    settings = {"scheduler_mode": "kueue", "scheduler_kind": kind}
    (found,) = variables(settings, "__scheduler_stages")
    assert found == [kind, "Workload", *parts]
    (job,) = objects(settings)
    assert (job["kind"], job["spec"]["suspend"]) == (kind, True)
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "all-001"


@pytest.mark.parametrize(
    "wrong",
    [{"scheduler_mode": "coscheduling"}, {"scheduler_topology": "required"}, {"scheduler_gpu_request": "claim"}],
)
def test_what_only_jobs_can_do_is_refused_for_other_kinds(wrong: dict[str, Any]) -> None:
    render = setting_templates.create_template_renderer(Templar(loader=DataLoader()), {})
    checks = [
        one
        for one in checks_declared_by_roles.read_checks(ROLE / "meta" / "checks.yml")
        if one["setting"] == "scheduler_kind"
    ]
    usual = {"scheduler_mode": "job", "scheduler_topology": "none", "scheduler_gpu_request": "resource"}
    for given, fine in (
        ({**usual, "scheduler_kind": "TrainJob"}, True),
        ({**usual, **wrong, "scheduler_kind": "Job"}, True),
        ({**usual, **wrong, "scheduler_kind": "TrainJob"}, False),
    ):
        assert (checks_declared_by_roles.first_refused_setting(checks, given, render) is None) is fine


def test_what_a_manager_may_not_see_of_a_short_job_has_no_figures() -> None:
    """It ends before the manager copies that its pods run."""
    (entries,) = variables({"scheduler_mode": "multikueue"}, "__scheduler_stages")
    job, workload = workload_kinds.resolve_stage_definitions(entries, lambda _folder, name: name)
    assert job["kind"] == "Job"
    assert [stage["name"] for stage in job["stages"]] == ["created", "started", "succeeded", "failed"]
    rare = {stage["name"] for stage in workload["stages"] if stage.get("gang") == ["first"]}
    assert rare == {"pods_ready", "preempted", "evicted"}  # stages named ..._first, which no duration_… is of
    # A load that seems not to run is examined while it is measured.
    assert [stage["name"] for stage in workload["stages"] if stage.get("running")] == ["pods_ready"]


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"cluster_workers": 0}, "scheduler_mode"),
        ({"scheduler_capacity": {"cpu": "4"}}, "scheduler_capacity"),
        ({"scheduler_queues": [{"name": "a", "quota": {"cpu": "4"}}]}, "scheduler_queues"),
        ({"scheduler_queues": [{"name": "a", "flavors": [{"name": "f", "quota": {"cpu": "4"}}]}]}, "scheduler_queues"),
        ({"scheduler_fair_sharing": True}, "scheduler_fair_sharing"),
        ({"scheduler_usage_half_life": 30}, "scheduler_usage_half_life"),
    ],
)
def test_what_manager_and_workers_can_not_share_is_refused(settings: dict[str, Any], name: str) -> None:
    render = setting_templates.create_template_renderer(Templar(loader=DataLoader()), {})
    checks = checks_declared_by_roles.read_checks(ROLE / "meta" / "checks.yml")
    usual = LOADER.load_from_file(str(ROLE / "defaults" / "main.yml"))
    usual |= {"cluster_provider": "rehearsal", "rehearsal_name": "mine", "fake_gpu_devices": False}
    usual |= {"fake_gpu_topology": [], "fake_gpu_labels": {}, "rehearsal_sources": {}, "rehearsal_components": []}
    usual |= {"cluster_workers": 2, "scheduler_mode": "multikueue", "scheduler_checkout": str(ROLE)}
    usual["scheduler_queues"] = [{"name": "a", "flavors": [{"name": "f"}]}]
    assert checks_declared_by_roles.first_refused_setting(checks, usual, render) is None
    problem = checks_declared_by_roles.first_refused_setting(checks, {**usual, **settings}, render)
    assert problem is not None and problem[0] == name
    if name != "scheduler_mode":
        assert (
            checks_declared_by_roles.first_refused_setting(
                checks, {**usual, **settings, "scheduler_mode": "kueue"}, render
            )
            is None
        )


def test_only_the_object_that_is_queued_is_suspended_and_has_the_queue() -> None:
    queue = "kueue.x-k8s.io/queue-name"
    (job,) = objects({"scheduler_mode": "job"})
    assert "suspend" not in job["spec"] and queue not in job["metadata"]["labels"]
    assert (job["spec"]["parallelism"], job["spec"]["completions"], job["spec"]["backoffLimit"]) == (4, 4, 1000)
    pod = job["spec"]["template"]
    assert pod["spec"]["restartPolicy"] == "Never" and pod["metadata"]["labels"]["perfscale.seatrial/gang"] == "4"
    (job,) = objects({"scheduler_mode": "kueue"})
    assert job["spec"]["suspend"] is True and job["metadata"]["labels"][queue] == "all-001"
    (wrapper,) = objects({"scheduler_mode": "appwrapper"})
    assert wrapper["spec"]["suspend"] is True and wrapper["metadata"]["labels"][queue] == "all-001"
    (component,) = wrapper["spec"]["components"]
    inner = component["template"]
    assert inner["kind"] == "Job" and "suspend" not in inner["spec"] and queue not in inner["metadata"]["labels"]
    assert inner["metadata"]["labels"]["perfscale.seatrial/run"] == "t1"


def test_the_manager_checks_jobs_with_its_workers_which_have_the_same_queues_and_a_part_of_the_quota() -> None:
    clusters = {
        name: {"kubeconfig": f"/{name}/kubeconfig", "simulated": True, "state": state}
        for name, state in (
            *dict.fromkeys(("sutest", "worker-1", "worker-2"), "acquired").items(),
            ("worker-3", "released"),  # an earlier session had more workers
        )
    }
    settings = {"scheduler_mode": "multikueue", "cluster_acquired": clusters, "scheduler_worker_lost_timeout": 20}
    names = ("__scheduler_queue_objects", "__scheduler_kueue_settings", "__scheduler_point_kinds")
    made, kueue, kinds = variables(settings, *names)
    (of_worker,) = variables({**settings, "__scheduler_is_worker": True}, names[0])
    assert kueue["multiKueue"]["workerLostTimeout"] == "20s"

    def of(kind: str, chosen: list[dict[str, Any]] = made) -> list[dict[str, Any]]:
        return [one for one in chosen if one["kind"] == kind]

    locations = {
        one["metadata"]["name"]: one["spec"]["clusterSource"]["kubeConfig"]["location"]
        for one in of("MultiKueueCluster")
    }
    assert locations == {f"t1-001-{name}": f"/{name}/kubeconfig" for name in ("worker-1", "worker-2")}
    (config,), (check,), (queue,) = of("MultiKueueConfig"), of("AdmissionCheck"), of("ClusterQueue")
    assert config["spec"]["clusters"] == list(locations)
    assert check["spec"]["parameters"]["name"] == config["metadata"]["name"]
    assert queue["spec"]["admissionChecksStrategy"]["admissionChecks"] == [{"name": check["metadata"]["name"]}]
    assert {one["kind"] for one in made} <= {kind.partition(".")[0] for kind in kinds}
    (same,) = of("ClusterQueue", of_worker)
    assert {one["kind"] for one in of_worker} == {"ResourceFlavor", "ClusterQueue", "LocalQueue"}
    assert same["metadata"] == queue["metadata"] and "admissionChecksStrategy" not in same["spec"]
    gpus = [
        {one["name"]: one["nominalQuota"] for one in one_queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"]}
        for one_queue in (queue, same)
    ]
    assert [quota["nvidia.com/gpu"] for quota in gpus] == ["64", "32"]
    (job,) = objects(settings)
    assert job["spec"]["suspend"] is True and job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "all-001"


@pytest.mark.parametrize(("workers", "wanted", "fine"), [(2, 2, True), (1, 2, False), (2, 1, False), (0, 0, False)])
def test_the_run_needs_as_many_workers_as_it_is_to_have(workers: int, wanted: int, fine: bool) -> None:
    tasks = LOADER.load_from_file(str(ROLE / "tasks" / "check.yml"))
    (task,) = (one for one in tasks if one["name"] == "Check that the run has its worker clusters")
    render = setting_templates.create_template_renderer(Templar(loader=DataLoader()), {})
    found = [{"key": f"worker-{number + 1}"} for number in range(workers)]
    known = {"__scheduler_workers": found, "__scheduler_wanted_workers": wanted, "scheduler_mode": "multikueue"}
    check = task["ansible.builtin.assert"]
    assert render("{{ " + str(check["that"]) + " }}", known)[0] is fine
    text = str(render(check["fail_msg"], known)[0])
    assert f"cluster_workers is {wanted}, and the run has {workers} worker clusters" in text
    assert text.count("worker-1") == bool(workers)


def test_a_gang_of_coscheduling_has_its_group_before_it() -> None:
    group, job = objects({"scheduler_mode": "coscheduling", "scheduler_pods": 3})
    assert (group["kind"], group["spec"]["minMember"]) == ("PodGroup", 3)
    pod = job["spec"]["template"]
    assert pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] == group["metadata"]["name"]
    assert pod["spec"]["schedulerName"] == "scheduler-plugins-scheduler"


def test_a_gang_of_kubernetes_itself_has_its_group_before_it() -> None:
    group, job = objects({"scheduler_mode": "workload-aware", "scheduler_pods": 3})
    assert group["apiVersion"].startswith("scheduling.k8s.io/")
    assert (group["kind"], group["spec"]) == ("PodGroup", {"schedulingPolicy": {"gang": {"minCount": 3}}})
    pod = job["spec"]["template"]["spec"]
    assert pod["schedulingGroup"] == {"podGroupName": group["metadata"]["name"]} and "schedulerName" not in pod


@pytest.mark.parametrize("half_life", [0, 30])
def test_queues_within_a_cluster_queue_have_local_queues_and_share_over_time_if_wanted(half_life: int) -> None:
    queues = [{"name": "a", "within": "all", "weight": 3}, {"name": "all"}]
    made, kueue = variables(
        {"scheduler_mode": "kueue", "scheduler_usage_half_life": half_life, "scheduler_queues": queues},
        "__scheduler_point_objects",
        "__scheduler_kueue_settings",
    )
    (cluster_queue,) = [one["spec"] for one in made if one["kind"] == "ClusterQueue"]
    local = {one["metadata"]["name"]: one["spec"] for one in made if one["kind"] == "LocalQueue"}
    assert {spec["clusterQueue"] for spec in local.values()} == {"t1-001-all"} and set(local) == {"a-001", "all-001"}
    resources = cluster_queue["resourceGroups"][0]["flavors"][0]["resources"]
    assert {one["name"]: one["nominalQuota"] for one in resources}["nvidia.com/gpu"] == "32"  # all of the capacity
    assert ("admissionScope" in cluster_queue) is ("fairSharing" in local["a-001"]) is bool(half_life)
    times = kueue.get("admissionFairSharing")
    assert times == ({"usageHalfLifeTime": "30s", "usageSamplingInterval": "1s"} if half_life else None)


LEVELS = [{"name": "block", "label": "example.com/block"}, {"name": "rack", "label": "example.com/rack"}]
LABELS = [*(level["label"] for level in LEVELS), "kubernetes.io/hostname"]
NODE = {
    "metadata": {"name": "n1", "labels": dict(zip(LABELS, ("b0", "r1", "n1"), strict=True))},
    "status": {"allocatable": {"cpu": "96", "memory": "1Ti", "nvidia.com/gpu": "8", "pods": "250"}},
}


@pytest.mark.parametrize(
    ("wanted", "level", "annotation"),
    [
        ("none", "", {}),
        ("unconstrained", "", {"unconstrained": "true"}),
        ("preferred", "", {"preferred": "example.com/rack"}),
        ("required", "block", {"required": "example.com/block"}),
        ("required", "host", {"required": "kubernetes.io/hostname"}),
    ],
)
def test_kueue_has_the_levels_of_the_topology_and_pods_ask_for_one(
    wanted: str, level: str, annotation: dict[str, str]
) -> None:
    settings = {
        "scheduler_mode": "kueue",
        "scheduler_topology": wanted,
        "scheduler_topology_level": level,
        "scheduler_topology_levels": LEVELS,
        "__scheduler_topology_nodes": {"resources": [NODE]},
    }
    (job,) = objects(settings)
    asked = job["spec"]["template"]["metadata"]["annotations"]
    assert {key: value for key, value in asked.items() if "topology" in key} == {
        f"kueue.x-k8s.io/podset-{name}-topology": value for name, value in annotation.items()
    }
    made, kinds, needs, entries = variables(
        settings, "__scheduler_point_objects", "__scheduler_point_kinds", "__scheduler_needs", "__scheduler_templates"
    )
    by_kind = {one["kind"]: one for one in made}
    flavor = by_kind["ResourceFlavor"]["spec"]
    if wanted == "none":
        assert "Topology" not in [*by_kind, *needs] and flavor == {"nodeLabels": {}}
    else:
        topology = by_kind["Topology"]
        assert [one["nodeLabel"] for one in topology["spec"]["levels"]] == LABELS and "Topology" in needs
        assert flavor["topologyName"] == topology["metadata"]["name"] == "t1-001"
        assert flavor["nodeLabels"] == {"perfscale.seatrial/simulated": "true"}
        # With an empty list Kueue could not remove its finalizer: it writes the flavor without one, which is refused.
        assert "tolerations" not in flavor
        # Kueue keeps a topology as long as a flavor names it.
        assert kinds.index("Topology.kueue.x-k8s.io") > kinds.index("ResourceFlavor.kueue.x-k8s.io")
    assert entries[0]["parameters"]["scheduling"]["topology"] == {
        "levels": ["block", "rack", "host"],
        "nodes": {
            "n1": {
                "domains": ["b0", "r1", "n1"],
                "allocatable": {"cpu": "96", "memory": "1Ti", "nvidia.com/gpu": "8"},
            }
        },
    }


def test_the_tolerations_of_a_flavor_have_no_empty_texts() -> None:
    # With these Kueue could not remove its finalizer from a flavor with a topology, as with an empty list.
    given = [{"key": "a", "operator": "Equal", "value": ""}, {"operator": "Exists", "tolerationSeconds": 3}]
    flavors = [{"name": "one", "tolerations": given}]
    (made,) = variables({"scheduler_mode": "kueue", "scheduler_flavors": flavors}, "__scheduler_point_objects")
    (flavor,) = [one["spec"] for one in made if one["kind"] == "ResourceFlavor"]
    assert flavor["tolerations"] == [{"key": "a", "operator": "Equal"}, {"operator": "Exists", "tolerationSeconds": 3}]


def test_pods_request_gpus_as_a_resource_or_by_claims() -> None:
    def pod(request: str) -> dict[str, Any]:
        (job,) = objects({"scheduler_mode": "job", "scheduler_gpu_request": request, "scheduler_gpus": 2})
        return dict(job["spec"]["template"])

    plain, claim, by_claim = (pod(request)["spec"] for request in ("resource", "claim", "resource_by_claim"))
    assert plain["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "2" and "resourceClaims" not in plain
    assert claim["resourceClaims"] == [{"name": "gpu", "resourceClaimTemplateName": "gpus-001-2"}]
    assert claim["containers"][0]["resources"]["claims"] == [{"name": "gpu"}]
    assert not any("gpu" in name for name in claim["containers"][0]["resources"]["limits"])
    assert pod("claim")["metadata"]["annotations"]["perfscale.seatrial/gpus"] == "2"
    assert by_claim["containers"][0]["resources"]["limits"]["t1-001.perfscale.seatrial/gpu"] == "2"


PARTITIONS = {
    "scheduler_mode": "job",
    "scheduler_gpu_request": "claim",
    "fake_gpu_devices": True,
    "fake_gpu_partitions": [
        {"profile": "1g.10gb", "slices": 1, "memory_mib": 10240},
        {"profile": "3g.40gb", "slices": 3, "memory_mib": 40960},
    ],
    "fake_gpu_partition_slices": 7,
    "fake_gpu_memory_mib": 81920,
    "scheduler_jobs": [
        {"name": "part", "gpus": 2, "partition": "1g.10gb"},
        {"name": "whole", "gpus": 2},
        {"name": "again", "gpus": 2, "partition": ""},
    ],
}


def test_jobs_claim_partitions_by_their_profile_and_whole_gpus_by_having_none() -> None:
    made, entries = variables(PARTITIONS, "__scheduler_point_objects", "__scheduler_templates")
    requests = {
        one["metadata"]["name"]: one["spec"]["spec"]["devices"]["requests"][0]["exactly"]
        for one in made
        if one["kind"] == "ResourceClaimTemplate"
    }
    attributes = 'device.attributes["gpu.perfscale.seatrial"]'
    selectors = {
        name: [selector["cel"]["expression"] for selector in request["selectors"]] for name, request in requests.items()
    }
    assert selectors == {
        "gpus-001-2-1g-10gb": [f'"profile" in {attributes} && {attributes}.profile == "1g.10gb"'],
        "gpus-001-2": [f'!("profile" in {attributes})'],
    }
    assert {request["count"] for request in requests.values()} == {2}
    names = [entry["parameters"]["claim_template"] for entry in entries]
    assert names == ["gpus-001-2-1g-10gb", "gpus-001-2", "gpus-001-2"]
    # Figures count the parts of the GPUs.
    held = [float(entry["parameters"]["scheduling"]["requests"]["nvidia.com/gpu"]) for entry in entries]
    assert held == pytest.approx([2 / 7, 2, 2])
    (half, *_others) = variables(
        {**PARTITIONS, "scheduler_jobs": [{"name": "a", "partition": "3g.40gb"}]}, "__scheduler_templates"
    )[0]
    assert float(half["parameters"]["scheduling"]["requests"]["nvidia.com/gpu"]) == 0.5
    (job,) = objects(PARTITIONS)
    annotations = job["spec"]["template"]["metadata"]["annotations"]
    assert float(annotations["perfscale.seatrial/gpus"]) == pytest.approx(2 / 7)


def test_without_partitions_on_simulated_nodes_no_request_selects_whole_gpus() -> None:
    settings = {**PARTITIONS, "fake_gpu_partitions": [], "scheduler_jobs": [{"name": "whole"}]}
    (made,) = variables(settings, "__scheduler_claim_objects")
    assert "selectors" not in made[1]["spec"]["spec"]["devices"]["requests"][0]["exactly"]
    (made,) = variables({**settings, "scheduler_device_driver": "gpu.nvidia.com"}, "__scheduler_claim_objects")
    (selector,) = made[1]["spec"]["spec"]["devices"]["requests"][0]["exactly"]["selectors"]
    assert selector["cel"]["expression"] == '!("profile" in device.attributes["gpu.nvidia.com"])'
    by_claim = {**PARTITIONS, "scheduler_gpu_request": "resource_by_claim", "scheduler_jobs": [{"name": "whole"}]}
    ((device_class,),) = variables(by_claim, "__scheduler_claim_objects")
    assert len(device_class["spec"]["selectors"]) == 2


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, ""),
        ({"scheduler_gpu_request": "resource"}, "set scheduler_gpu_request to claim"),
        ({"scheduler_partition": "2g.20gb"}, "no simulated GPU has"),
        ({"scheduler_partition": "2g.20gb", "scheduler_device_driver": "gpu.nvidia.com"}, ""),
        ({"scheduler_jobs": [{"name": "a", "partition": "1g.20gb"}]}, "no simulated GPU has"),
    ],
)
def test_partitions_that_there_are_not_are_refused(changed: dict[str, Any], words: str) -> None:
    render = setting_templates.create_template_renderer(Templar(loader=DataLoader()), {})
    checks = [
        one
        for one in checks_declared_by_roles.read_checks(ROLE / "meta" / "checks.yml")
        if one["setting"] == "scheduler_partition"
    ]
    usual = LOADER.load_from_file(str(ROLE / "defaults" / "main.yml"))
    refused = checks_declared_by_roles.first_refused_setting(checks, {**usual, **PARTITIONS, **changed}, render)
    assert (refused is None) if not words else refused is not None and words in refused[1]


def test_the_plan_counts_the_part_of_a_gpu_that_a_partition_is() -> None:
    render = setting_templates.create_template_renderer(Templar(loader=DataLoader()), {})
    gpus = LOADER.load_from_file(str(ROLE / "meta" / "doctor.yml"), trusted_as_template=True)["plan"]["gpus"]
    usual = {"scheduler_pods": 4, "scheduler_gpus": 1, "scheduler_partition": ""}
    part = {**PARTITIONS, "scheduler_jobs": [{"name": "a"}], "scheduler_partition": "1g.10gb"}
    half = {**part, "scheduler_partition": "3g.40gb"}  # of the memory; of the slices it takes less
    for settings, wanted in (
        (part, 4 / 7),
        (half, 2),
        (PARTITIONS, 8),
        ({"scheduler_jobs": [{"name": "a", "gpus": 3}]}, 12),
    ):
        assert float(render(gpus, {**usual, **settings})[0]) == pytest.approx(wanted)


def test_a_point_has_a_class_of_devices_and_a_template_for_each_number_of_gpus() -> None:
    jobs = [{"name": "small", "gpus": 1}, {"name": "large", "gpus": 4}, {"name": "none", "gpus": 0}]
    settings = {"scheduler_mode": "job", "scheduler_jobs": jobs}
    for request, kinds in (
        ("resource", []),
        ("claim", ["DeviceClass", "ResourceClaimTemplate", "ResourceClaimTemplate"]),
        ("resource_by_claim", ["DeviceClass"]),
    ):
        made, stages = variables(
            {**settings, "scheduler_gpu_request": request}, "__scheduler_point_objects", "__scheduler_stages"
        )
        assert [one["kind"] for one in made] == kinds
        assert ({"use": "ResourceClaim", "select": "owners"} in stages) == bool(kinds)
        if kinds:
            assert made[0]["spec"]["selectors"][0]["cel"]["expression"] == 'device.driver == "gpu.perfscale.seatrial"'
            resource = made[0]["spec"].get("extendedResourceName")
            assert resource == ("t1-001.perfscale.seatrial/gpu" if request == "resource_by_claim" else None)
        counts = [one["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] for one in made[1:]]
        assert counts == [1, 4][: len(counts)]

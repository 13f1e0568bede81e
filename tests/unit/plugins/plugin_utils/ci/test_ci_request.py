# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a CI job runs: its own settings, changed by directives, and what may not be asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.ci import ci_request, pull_request_directives
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.ci.ci_request import CiOffer, CiRequest
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import (
    presets_from_variables,
    settings_allowed_in_pull_requests,
    settings_catalogue,
)
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).parents[5]
PROJECTS = ci_request.projects_with_playbook(ROOT / "playbooks")
OWN = CiRequest("fine_tuning", ["gpu"])


def _presets() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in (ROOT / "group_vars" / "all").glob("*_presets*.yml"):
        found |= yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


VARIABLES = _presets()


def presets_of(project: str) -> Mapping[str, Any]:
    return presets_from_variables.usable_presets(VARIABLES, project)


OFFER = CiOffer(
    PROJECTS,
    presets_of,
    settings_allowed_in_pull_requests.load_role_declarations(ROOT),
    settings_catalogue.load_catalogue(ROOT),
    clusters={"mac5": ["fake_gpu"]},
)


def request(comment: str, own: CiRequest = OWN, offer: CiOffer = OFFER, test: str = "light") -> CiRequest:
    return ci_request.requested_run(
        pull_request_directives.parse_directives(
            [pull_request_directives.TextWithDirectives("the comment", comment, True)], test
        ),
        own,
        offer,
    )


def refusal(comment: str, own: CiRequest = OWN, offer: CiOffer = OFFER, test: str = "light") -> str:
    with pytest.raises(InputError) as caught:
        request(comment, own, offer, test)
    return str(caught.value)


def test_the_projects_are_the_playbooks_that_import_the_phases() -> None:
    assert {"fine_tuning", "scheduler", "workload_scale"} <= set(PROJECTS)
    assert not {"bisect", "ci", "compare", "replot", "cluster", "_project"} & set(PROJECTS)


def test_without_directives_the_job_runs_its_own_request() -> None:
    assert request("") == OWN


@pytest.mark.parametrize(
    ("comment", "project", "presets"),
    [
        ("/test light", "fine_tuning", ["gpu"]),
        ("/test light light", "fine_tuning", ["light"]),
        ("/test light light multi_gpu", "fine_tuning", ["light", "multi_gpu"]),
        ("/test light light,multi_gpu", "fine_tuning", ["light", "multi_gpu"]),
        ("/test light fine_tuning light", "fine_tuning", ["light"]),
        ("/test light scheduler small", "scheduler", ["small"]),
        ("/test light small\n/project scheduler", "scheduler", ["small"]),
        ("/test light scheduler small\n/project scheduler", "scheduler", ["small"]),
        ("/test light light\n/cluster mac5", "fine_tuning", ["light", "fake_gpu"]),
        ("/cluster mac5", "fine_tuning", ["gpu", "fake_gpu"]),
        ("/test light fine_tuning light\n/test light fine_tuning multi_gpu", "fine_tuning", ["light", "multi_gpu"]),
    ],
)
def test_project_and_presets(comment: str, project: str, presets: list[str]) -> None:
    own = OWN
    if "small" in presets:
        offer = replace(OFFER, presets=lambda _name: {"small": {"scheduler_count": 1}})
    else:
        offer = OFFER
    found = request(comment, own, offer)
    assert (found.project, found.presets) == (project, presets)


def test_without_a_name_of_the_test_it_is_the_project() -> None:
    found = request("/test fine_tuning light", CiRequest(""), test="")
    assert (found.project, found.presets) == ("fine_tuning", ["light"])


def test_variables_become_overrides_with_their_types() -> None:
    found = request(
        '/var fine_tuning_count: 3\n/var fine_tuning_memory: "1Gi"\n/var matrix: {fine_tuning_gpus: [1, 2]}'
    )
    expected = {"fine_tuning_count": 3, "fine_tuning_memory": "1Gi", "matrix": {"fine_tuning_gpus": [1, 2]}}
    assert found.overrides == expected


@pytest.mark.parametrize(
    ("comment", "skip"),
    [("/skip prepare", ["prepare"]), ("/only test", ["prepare"]), ("/only test cleanup", ["prepare"])],
)
def test_steps_that_are_left_out(comment: str, skip: list[str]) -> None:
    assert request(comment).skip == skip


@pytest.mark.parametrize(
    ("comment", "words"),
    [
        (
            "/skip tset",
            "/skip in line 1 of the comment: unknown step 'tset' (did you mean 'test'?); steps: prepare, test",
        ),
        ("/only test_ci", "unknown step 'test_ci' (did you mean 'test'?)"),
        ("/skip release", "step 'release' gives back what the run took, so it can't be left out; steps: prepare, test"),
        ("/skip cleanup", "step 'cleanup' gives back what the run took, so it can't be left out"),
        ("/skip lease cluster", "unknown step 'lease'"),
        ("/skip {{ x }}", "unknown step '{{'"),
        (
            "/project fine_tunign",
            "/project in line 1 of the comment: unknown project 'fine_tunign' (did you mean 'fine_tuning'?)",
        ),
        ("/project ../../etc/passwd", "unknown project"),
        ("/project {{ lookup('pipe', 'id') }}", "unknown project"),
        (
            "/test light ligth",
            "/test in line 1 of the comment: unknown preset 'ligth' of fine_tuning (did you mean 'light'?)",
        ),
        ("/test light fine_tuning scheduler", "fine_tuning and scheduler are two projects"),
        ("/test light scheduler gang", "unknown preset 'gang' of scheduler (it is now 'light'); presets: light, "),
        ("/test light workload_scale smoke", "unknown preset 'smoke' of workload_scale (it is now 'light'); presets: "),
        ("/test light list", "unknown preset 'list'"),
        ("/test light many_jobs", "many_jobs is heavy; ci_presets must name many_jobs to permit it"),
        ("/test light keep", "keep sets cluster_keep: it keeps the cluster; ci_presets must name keep to permit it"),
        ("/test light light multi_gpu_keep", "multi_gpu_keep extends keep, which sets cluster_keep"),
        ("/test light bare_metal", "bare_metal sets cluster_provider"),
        ("/test light {{ lookup('pipe', 'id') }}", "unknown preset"),
        ("/cluster mac6", "there is no cluster 'mac6' (did you mean 'mac5'?); ci_clusters names: mac5"),
        ("/cluster /etc/lab/kubeconfig", "there is no cluster"),
        ("/var cluster_kubeconfig: /etc/lab/kubeconfig", "cluster_kubeconfig can't be set from outside: it is a path"),
    ],
)
def test_what_may_not_be_asked_for_is_refused_with_its_place(comment: str, words: str) -> None:
    assert words in refusal(comment)


def test_an_unknown_preset_is_answered_with_those_that_may_be_asked_for() -> None:
    offered = refusal("/test light nightly").partition("; presets: ")[2].split(", ")
    assert {"light", "gpu", "multi_gpu"} <= set(offered)
    assert not {"keep", "many_jobs", "bare_metal"} & set(offered)
    assert "many_jobs" in refusal("/test light nightly", offer=replace(OFFER, permitted=["many_jobs"]))


def test_a_job_without_a_project_names_those_that_there_are() -> None:
    assert refusal("", CiRequest("")).startswith("ci_project: no project is named; there are fine_tuning, ")


def test_presets_that_the_lab_permits_may_be_asked_for() -> None:
    offer = replace(OFFER, permitted=["keep", "many_jobs"])
    assert request("/test light many_jobs keep", offer=offer).presets == ["many_jobs", "keep"]


def test_presets_of_the_job_itself_need_no_permission() -> None:
    assert request("", CiRequest("fine_tuning", ["many_jobs", "keep"])).presets == ["many_jobs", "keep"]


@pytest.mark.parametrize("comment", ["/project users", "/test light users", "/test light\n/project users"])
def test_presets_of_the_job_need_permission_in_another_project(comment: str) -> None:
    own = CiRequest("fine_tuning", ["light"])
    assert "light sets rehearsal_nodes_real: it starts a real node, as root" in refusal(comment, own)
    assert request(comment, own, replace(OFFER, permitted=["light"])) == CiRequest("users", ["light"])
    assert request(comment.replace("users", "serving"), own) == CiRequest("serving", ["light"])


def test_help_names_what_may_be_asked_for() -> None:
    text = ci_request.help_text(OFFER, OWN, "light")
    assert "/test light [PROJECT] PRESET…" in text and "`fine_tuning_count`" in text and "`mac5`" in text
    presets = next(line for line in text.splitlines() if line.startswith("Presets of fine_tuning"))
    assert "`light`" in presets and "`keep`" not in presets and "many_jobs" not in presets


@given(
    st.lists(
        st.tuples(st.sampled_from(["/skip", "/only"]), st.lists(st.sampled_from(ci_request.STEPS), min_size=1)),
        max_size=6,
    )
)
def test_a_step_runs_if_its_last_directive_says_so(lines: list[tuple[str, list[str]]]) -> None:
    found = request("\n".join(f"{word} {' '.join(steps)}" for word, steps in lines))
    for step in ci_request.STEPS:
        words = [word for word, steps in lines if step in steps]
        runs = words[-1] == "/only" if words else all(word == "/skip" for word, _steps in lines)
        assert (step not in found.skip) is runs


#: What a shipped preset does that only the lab decides. Any other may be asked for.
REFUSED = {
    "keep": "cluster_keep: it keeps the cluster",
    "light_cluster": "cluster_provider: it creates or chooses a cluster",
    "bare_metal": "cluster_provider: it creates or chooses a cluster",
    "fine_tuning rhoai": "stack: it installs operators",
    "fine_tuning rhoai_light": "stack: it installs operators",
    "fine_tuning rhoai2": "stack: it installs operators",
    "fine_tuning rhoai2_light": "stack: it installs operators",
    "fine_tuning fake_gpu": "stack: it installs operators",
    "fine_tuning light_real": "rehearsal_nodes_real: it starts a real node, as root",
    "fine_tuning failures_real": "rehearsal_nodes_real: it starts a real node, as root",
    "fine_tuning kueue": "fine_tuning_queue: it uses the quota of a queue",
    "fine_tuning multi_gpu_keep": "cluster_keep: it keeps the cluster",
    "fine_tuning ilab_2x8xh100_host_network": "fine_tuning_host_network: it uses the network of the nodes",
    "fine_tuning ilab_2x8xh100_secondary_nic": "fine_tuning_pod_network: it uses secondary networks",
    "fine_tuning ilab_secondary_nic": "fine_tuning_pod_network: it uses secondary networks",
    "fine_tuning ilab_2x8xh100_sriov_rdma": "fine_tuning_pod_network: it uses secondary networks",
    "scheduler preemption": "scheduler_priorities: it creates priority classes, whose pods can preempt those of others",
    "scheduler failures_appwrapper": "sets scheduler_tolerations, which only the lab decides",
    "scheduler node_replacement": "sets scheduler_tolerations, which only the lab decides",
    "scheduler dra_light": "is heavy",
    "scheduler kueue_throughput": "is heavy",
    "scheduler kueue_upgrade": "rehearsal_versions",
    "scheduler kueue_change": "rehearsal_versions",
    "scheduler multikueue": "sets cluster_workers, which only the lab decides",
    "scheduler multikueue_loss": "sets cluster_workers, which only the lab decides",
    "users light": "rehearsal_nodes_real: it starts a real node, as root",
    "users light_wait": "users_image: it runs another image",
    "serving light_real": "it starts a real node, as root",
    "serving driver_pods": "it starts a real node, as root",
    "serving kserve_light": "it starts a real node, as root",
    "serving light_model": "it starts a real node, as root",
    "serving light_autoscale": "it starts a real node, as root",
    "serving light_scale_from_zero": "it starts a real node, as root",
    "users notebooks_light": "rehearsal_nodes_real: it starts a real node, as root",
    "users pipelines_light": "rehearsal_nodes_real: it starts a real node, as root",
    "workload_scale real_node": "rehearsal_nodes_real: it starts a real node, as root",
    "workload_scale driver_pods": "rehearsal_nodes_real: it starts a real node, as root",
    "workload_scale api_comparison": "workload_scale_kind: it creates objects of another kind",
    "workload_scale sandbox_light": "workload_scale_kind: it creates objects of another kind",
    **dict.fromkeys(
        [
            f"workload_scale {name}"
            for name in (
                *("failures", "failures_light", "restart_strategies", "restart_variants", "node_loss", "rack_loss"),
                *("gpu_flaky", "api_outage", "etcd_slow", "failures_kueue", "failures_fast", "failures_checkpoints"),
                *("failures_tolerations", "failures_spares", "failures_kueue_versions"),
            )
        ],
        "workload_scale_kind: it creates objects of another kind",
    ),
    "workload_scale runai": "workload_scale_image: it runs another image",
    **dict.fromkeys(("fine_tuning many_jobs", "fine_tuning ray_scale", "scheduler gang_large"), "is heavy"),
    **dict.fromkeys(("workload_scale training_2000", "workload_scale distributed_1000_pvc"), "is heavy"),
    **dict.fromkeys(
        (f"workload_scale {name}" for name in ("burst", "saturation", "saturation_10000", "failures_2000")), "is heavy"
    ),
}
SHIPPED = [
    (project, name) for project in PROJECTS for name in presets_of(project) if name != presets_from_variables.LIST
]


@pytest.mark.parametrize(("project", "name"), SHIPPED)
def test_what_a_shipped_preset_does_decides_whether_it_may_be_asked_for(project: str, name: str) -> None:
    words = REFUSED.get(f"{project} {name}") or REFUSED.get(name)
    if words is None:
        assert request(f"/test light {project} {name}").presets == [name]
    else:
        assert words in refusal(f"/test light {project} {name}")
        assert request(f"/test light {project} {name}", offer=replace(OFFER, permitted=[name])).presets == [name]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"fine_tuning_host_network": False, "stack": [], "rehearsal_nodes_real": 0}, ""),
        ({"fine_tuning_capabilities": ["SYS_ADMIN"]}, "it gives Linux capabilities to containers"),
        ({"fine_tuning_security_context": {"privileged": True}}, "it changes the security context"),
        ({"fine_tuning_environment.LD_PRELOAD": "/x"}, "it sets environment variables"),
        ({"matrix": {"fine_tuning_image": ["a", "b"]}}, "mine sets fine_tuning_image: it runs another image"),
        ({"matrix.fine_tuning_host_network": [True]}, "it uses the network of the nodes"),
        ({"matrix_points": [{"fine_tuning_count": 1}, {"stack": ["nfd"]}]}, "it installs operators"),
        ({"matrix": {"fine_tuning_count": [1, 2]}, "repeat": {"max": 3}}, ""),
        ({"fine_tuning_storage_claim": "theirs"}, "sets fine_tuning_storage_claim, which only the lab decides"),
        ({"rehearsal_components": ["kueue", "olm"]}, ""),
        ({"matrix": {"rehearsal_components": [["kueue"], ["gangs"]]}}, ""),
        ({"rehearsal_components": ["node"]}, "mine sets rehearsal_components to 'node': it starts a real"),
        ({"rehearsal_components": ["kueue", "python-image"]}, "to 'node': it starts a real node, as root"),
        ({"rehearsal_components[0]": "registry"}, "to 'node': it starts a real node, as root"),
        ({"matrix": {"rehearsal_components": [["kueue"], ["node"]]}}, "it starts a real node, as root"),
        ({"matrix_points": [{"rehearsal_components": ["node"]}]}, "it starts a real node, as root"),
        ({"rehearsal_components": ["~/evil"]}, "sets rehearsal_components to '~/evil', which only the lab decides"),
        ({"rehearsal_components": ["mykind"]}, "to 'mykind', which only the lab decides"),
        ({"rehearsal_components": [".."]}, "to '..', which only the lab decides"),
        ({"rehearsal_components": "{{ ['node'] }}"}, "which only the lab decides"),
        ({"olm_operator_timeout": 5}, "sets olm_operator_timeout, which only the lab decides"),
        ({"extends": ["below"]}, "mine extends below, which sets node_scaling_count: it creates machines"),
        ({"extends": ["below"], "node_scaling_count": 0}, ""),
    ],
)
def test_what_a_preset_of_a_lab_does_in_the_end_decides(values: dict[str, Any], words: str) -> None:
    own = {"mine": values, "below": {"node_scaling_count": 3}}
    offer = replace(OFFER, presets=lambda _project: own)
    if words:
        assert words in refusal("/test light mine", offer=offer)
    else:
        assert request("/test light mine", offer=offer).presets == ["mine"]


def test_a_permitted_preset_is_that_of_the_project_of_the_job() -> None:
    """The same name does something else in another project, such as to start a real node."""
    offer = replace(OFFER, permitted=["light_real"], project="fine_tuning")
    assert request("/test light light_real", offer=offer).presets == ["light_real"]
    for comment in ("/test light serving light_real", "/test light light_real\n/project serving"):
        assert "ci_presets must name serving/light_real to permit it" in refusal(comment, offer=offer)
        other = replace(offer, permitted=["serving/light_real"])
        assert request(comment, offer=other) == CiRequest("serving", ["light_real"])
    assert request("/test light serving light_real", offer=replace(offer, project="")).project == "serving"


def test_a_cluster_leads_to_no_other_preset_of_its_name_in_another_project() -> None:
    offer = replace(OFFER, clusters={"real": "light_real"})
    assert request("/cluster real", offer=offer).presets == ["gpu", "light_real"]
    assert "light_real" in refusal("/test light light\n/project serving\n/cluster real", offer=offer)


def test_a_heavy_load_is_not_permitted_by_a_preset_of_another_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ci_request.repeat_and_bisect_keywords, "most_attempts", lambda _effective: 1000)
    context: Any = type("Context", (), {"effective": lambda _self, _request: None, "request": lambda _self: None})()
    offer = replace(OFFER, presets=lambda _name: {"big": {"heavy": True}}, permitted=["big"], project="fine_tuning")
    asked = pull_request_directives.Directives(origins={"test": "/test"})
    ci_request.refuse_heavy_load(asked, CiRequest("fine_tuning", ["big"]), offer, context)
    with pytest.raises(InputError, match="heavy"):
        ci_request.refuse_heavy_load(asked, CiRequest("serving", ["big"]), offer, context)

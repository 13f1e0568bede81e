# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of settings that a project declares in its meta/checks.yml."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import (
    checks_declared_by_roles,
    phase_preconditions,
    setting_templates,
)

ROOT = Path(__file__).resolve().parents[5]
pytestmark = pytest.mark.usefixtures("ansible_plugins")
KEYS = {"setting": "colours", "what": "colour of {{ place }}", "keys": ["red", "green"]}
REFUSED = {"setting": "count", "refuse_when": "count > 1 and place == 'sea'", "because": "there is\n  one only"}


def problem(tmp_path: Path, checks: list[dict[str, Any]], **settings: Any) -> checks_declared_by_roles.Problem | None:
    path = tmp_path / "checks.yml"
    path.write_text(yaml.safe_dump(checks), encoding="utf-8")
    render = setting_templates.create_template_renderer(Templar(loader=DataLoader()), {})
    values: dict[str, Any] = {"colours": {"red": 1}, "place": "sea", "count": 1, "mine": [REFUSED], **settings}
    return checks_declared_by_roles.first_refused_setting(checks_declared_by_roles.read_checks(path), values, render)


@pytest.mark.parametrize("check", [KEYS, REFUSED, {"more": "{{ mine }}"}])
def test_permitted_settings_pass(check: dict[str, Any], tmp_path: Path) -> None:
    assert problem(tmp_path, [check]) is None


def test_an_unknown_key_is_named_with_the_nearest(tmp_path: Path) -> None:
    found = problem(tmp_path, [KEYS], colours={"red": 1, "gren": 2})
    assert found == ("colours", "colours: unknown colour 'gren' of sea (did you mean 'green'?); keys: red, green")
    assert problem(tmp_path, [{**KEYS, "keys": []}], colours={"gren": 2}) is None, "without names any is permitted"


def test_an_unknown_key_of_an_element_is_named_with_the_nearest(tmp_path: Path) -> None:
    found = problem(tmp_path, [KEYS], colours=[{"red": 1}, {"gren": 2}])
    assert found == ("colours", "colours[1]: unknown colour 'gren' of sea (did you mean 'green'?); keys: red, green")
    assert problem(tmp_path, [KEYS], colours=[{"red": 1}, {"green": 2}]) is None


QUEUES: dict[str, Any] = {
    "scheduler_queues": [{"name": "a"}, {"name": "b", "within": "a"}],
    "scheduler_jobs": [{"name": "gang", "queue": "a", "priority": "high"}],
    "scheduler_priorities": [{"name": "high", "value": 1}],
    "scheduler_flavors": [{"name": "default"}],
    "scheduler_cohorts": [{"name": "all"}],
}


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"scheduler_queues": [{"nam": "a"}]}, "unknown key 'nam' of a queue (did you mean 'name'?)"),
        ({"scheduler_jobs": [{"name": "a", "wieght": 3}]}, "unknown key 'wieght' of a kind of jobs"),
        ({"scheduler_queues": [{"name": "a"}, {"name": "a"}]}, "no two have the same"),
        ({"scheduler_queues": [{"name": "a", "within": "c"}]}, "within names a queue"),
        ({"scheduler_jobs": [{"name": "gang", "queue": "c"}]}, "queue is the name of one of scheduler_queues"),
        ({"scheduler_jobs": [{"name": "gang", "priority": "c"}]}, "priority is the name of one of"),
        (
            {"scheduler_jobs": [{"name": "gang", "pods": "four"}]},
            "scheduler_jobs[0]: pods is 'four', it must be a number",
        ),
        ({"scheduler_jobs": [{"name": "gang", "gpus": True}]}, "gpus is 'True', it must be a number"),
        ({"scheduler_queues": [{"name": "a", "weight": [1]}]}, "weight is '[1]', it must be a number"),
        ({"scheduler_priorities": [{"name": "high", "value": "nan"}]}, "value is 'nan', it must be a number"),
    ],
)
def test_queues_and_jobs_that_do_not_fit_are_refused_before_the_run(
    settings: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    checks = checks_declared_by_roles.read_checks(ROOT / "roles" / "scheduler" / "meta" / "checks.yml")
    checks = [check for check in checks if check["setting"] in QUEUES and "multikueue" not in str(check)]
    assert problem(tmp_path, checks, **QUEUES) is None
    found = problem(tmp_path, checks, **{**QUEUES, **settings})
    assert found and found[0] in settings and reason in found[1]


def test_an_objective_without_a_share_is_permitted(tmp_path: Path) -> None:
    checks = checks_declared_by_roles.read_checks(ROOT / "roles" / "serving" / "meta" / "checks.yml")
    checks = [check for check in checks if check.get("setting") == "serving_slo"]
    assert problem(tmp_path, checks, serving_slo={"ttft": 0.2, "share": None}) is None
    assert problem(tmp_path, checks, serving_slo={"ttft": 0.2, "share": 95.0})


@pytest.mark.parametrize("limit", ["ttft", "tpot", "stall"])
def test_an_objective_in_milliseconds_is_refused(limit: str, tmp_path: Path) -> None:
    checks = checks_declared_by_roles.read_checks(ROOT / "roles" / "serving" / "meta" / "checks.yml")
    checks = [check for check in checks if check.get("setting") == "serving_slo"]
    found = problem(tmp_path, checks, serving_slo={limit: 100.0, "total": None}, serving_timeout=120)
    assert found and "in seconds, so 200 ms are 0.2" in found[1]
    assert found and "None" not in found[1], "options that are not set are left out"
    assert problem(tmp_path, checks, serving_slo={limit: 5.0}, serving_timeout=120) is None


@pytest.mark.parametrize("slo", [{"total": 5000}, {"ttft": 0}, {"total": -1}, {"ttft": 0.2, "share": 0}])
def test_an_objective_that_nothing_or_everything_keeps_is_refused(slo: dict[str, float], tmp_path: Path) -> None:
    checks = checks_declared_by_roles.read_checks(ROOT / "roles" / "serving" / "meta" / "checks.yml")
    checks = [check for check in checks if check.get("setting") == "serving_slo"]
    found = problem(tmp_path, checks, serving_slo=slo, serving_timeout=120)
    assert found and found[0] == "serving_slo"
    assert problem(tmp_path, checks, serving_slo={"total": 120, "share": 1}, serving_timeout=120) is None


def test_a_missing_checkout_is_named_by_its_own_setting(tmp_path: Path) -> None:
    checks = checks_declared_by_roles.read_checks(ROOT / "roles" / "scheduler" / "meta" / "checks.yml")
    checks = [check for check in checks if check.get("setting") == "scheduler_checkout"]
    settings = {"rehearsal_sources": {"kueue": "@HEAD"}, "scheduler_checkout_base": "HEAD"}
    found = problem(tmp_path, checks, scheduler_checkout=str(tmp_path / "nowhere"), **settings)
    assert found and found[0] == "scheduler_checkout" and "no such folder" in found[1]
    assert problem(tmp_path, checks, scheduler_checkout=str(tmp_path), **settings) is None


@pytest.mark.parametrize("check", [REFUSED, {"more": "{{ mine }}"}], ids=["own", "of a setting"])
def test_what_a_condition_refuses_is_named_with_its_reason(check: dict[str, Any], tmp_path: Path) -> None:
    assert problem(tmp_path, [KEYS, check], count=2) == ("count", "count is 2: there is one only")
    assert problem(tmp_path, [KEYS, check], count=2, place="land") is None


@pytest.mark.parametrize("other", ["nosuch > 1", "colours.red.nosuch > 1", "colours > 1"])
def test_a_condition_is_found_beside_one_that_can_not_be_evaluated(other: str, tmp_path: Path) -> None:
    checks = [REFUSED, {"setting": "place", "refuse_when": other, "because": "of it"}]
    assert problem(tmp_path, checks, count=2) == ("count", "count is 2: there is one only")


def test_a_project_without_checks_has_no_problem(tmp_path: Path) -> None:
    render = setting_templates.create_template_renderer(Templar(loader=DataLoader()), {})
    assert (
        checks_declared_by_roles.first_refused_setting(
            checks_declared_by_roles.read_checks(tmp_path / "none.yml"), {}, render
        )
        is None
    )


SCHEDULER = phase_preconditions.ROOT / "roles" / "scheduler" / "meta" / "checks.yml"
RACKS = {
    "rehearsal_components": ["kueue", "gangs"],
    "scheduler_topology": "required",
    "scheduler_topology_levels": [{"name": "rack", "label": "example.com/rack"}],
    "fake_gpu_topology": [{"label": "example.com/rack", "nodes": 4}],
}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"scheduler_mode": "job", "rehearsal_components": []}, "until component gangs starts them"),
        ({"rehearsal_components": ["gangs"]}, "scheduler_mode needs the component of its name"),
        ({"scheduler_pods": 1, "rehearsal_components": ["kueue"]}, ""),
        ({"scheduler_jobs": [{"name": "a", "pods": 3}], "scheduler_pods": 1}, "until component gangs starts them"),
        ({"rehearsal_components": [], "cluster_provider": "existing"}, ""),
        ({"rehearsal_components": [], "rehearsal_name": "mine"}, ""),
        (RACKS, ""),
        ({**RACKS, "scheduler_topology_level": "host"}, ""),
        ({**RACKS, "scheduler_topology_level": "rac"}, "'rac' is none of rack, host (did you mean 'rack'?)"),
        ({**RACKS, "scheduler_topology_levels": []}, "scheduler_topology_levels is empty; name them"),
        ({**RACKS, "fake_gpu_topology": []}, "by fake_gpu_topology, which names one of these not"),
        ({**RACKS, "fake_gpu_topology": [], "fake_gpu_labels": {"example.com/rack": "r1"}}, ""),
        ({**RACKS, "fake_gpu_topology": [], "cluster_provider": "existing"}, ""),
        ({**RACKS, "scheduler_mode": "job"}, "only Kueue is asked for a topology"),
    ],
)
def test_what_schedulers_can_not_do_is_known_before_a_run(given: dict[str, Any], words: str) -> None:
    render = setting_templates.create_template_renderer(Templar(loader=DataLoader()), {})
    values = {
        "scheduler_topology": "none",
        "scheduler_topology_level": "",
        "scheduler_topology_levels": [],
        "fake_gpu_topology": [],
        "fake_gpu_labels": {},
        "cluster_provider": "rehearsal",
        "rehearsal_name": "default",
        "rehearsal_components": ["kueue"],
        "scheduler_mode": "kueue",
        "scheduler_pods": 4,
        **QUEUES,
        "scheduler_jobs": [{"name": "a"}],
        **given,
    }
    found = checks_declared_by_roles.first_refused_setting(
        checks_declared_by_roles.read_checks(SCHEDULER), values, render
    )
    assert (found is None) if not words else found is not None and words in found[1]


def test_levels_of_nodes_that_do_not_fit_into_each_other_are_known_before_a_run() -> None:
    checks = checks_declared_by_roles.read_checks(
        phase_preconditions.ROOT / "roles" / "fake_gpu" / "meta" / "checks.yml"
    )
    render = setting_templates.create_template_renderer(Templar(loader=DataLoader()), {})

    def found(*nodes: int) -> Any:
        levels = [{"label": f"example.com/level{place}", "nodes": number} for place, number in enumerate(nodes)]
        return checks_declared_by_roles.first_refused_setting(checks, {"fake_gpu_topology": levels}, render)

    assert found() is found(8, 4, 2) is None
    name, why = found(8, 3)
    assert name == "fake_gpu_topology" and "8 nodes of example.com/level0 can't be divided into parts of 3" in why


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, ""),
        ({"fake_gpu_partitions": []}, ""),
        ({"fake_gpu_devices": False}, "set fake_gpu_devices to true"),
        ({"fake_gpu_partition_slices": 2}, "3g.40gb has slices 3, it must be 1 to 2"),
        ({"fake_gpu_memory_mib": 40000}, "3g.40gb has memory_mib 40960, it must be 1 to 40000"),
    ],
)
def test_partitions_that_no_gpu_has_room_for_are_known_before_a_run(changed: dict[str, Any], words: str) -> None:
    checks = checks_declared_by_roles.read_checks(
        phase_preconditions.ROOT / "roles" / "fake_gpu" / "meta" / "checks.yml"
    )
    render = setting_templates.create_template_renderer(Templar(loader=DataLoader()), {})
    values = {
        "fake_gpu_topology": [],
        "fake_gpu_devices": True,
        "fake_gpu_partitions": [{"profile": "3g.40gb", "slices": 3, "memory_mib": 40960}],
        "fake_gpu_partition_slices": 7,
        "fake_gpu_memory_mib": 81920,
        **changed,
    }
    problem_there = checks_declared_by_roles.first_refused_setting(checks, values, render)
    assert (problem_there is None) if not words else problem_there is not None and words in problem_there[1]


REHEARSAL: dict[str, Any] = {"cluster_provider": "rehearsal", "rehearsal_name": "", "rehearsal_components": []}
PODS = {"workload_run_on": "driver_pod", "cluster_provider": "existing"}
SERVING = phase_preconditions.ROOT / "roles" / "serving"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, ""),
        ({"serving_url": "http://127.0.0.1:8000/v1, https://host/base"}, ""),
        ({"serving_streams": 2}, ""),
        ({"serving_url": "127.0.0.1:8000"}, "serving_url: '127.0.0.1:8000' must be http:// or https://, a host"),
        ({"serving_url": "http://h:99999"}, "serving_url: 'http://h:99999' is not a URL: Port out of range"),
        ({"serving_headers": {"Ho st": "x"}}, "serving_headers: 'Ho st' is not a valid name of a header"),
        (
            {"serving_prompt_tokens": {"type": "lognorml", "mean": 5}},
            "serving_prompt_tokens: unknown distribution 'lognorml' (did you mean 'lognormal'?)",
        ),
        (
            {"serving_output_tokens": {"type": "uniform", "lo": 5, "high": 7}},
            "serving_output_tokens: a distribution has no 'lo'",
        ),
        (
            {"serving_arrival": {"type": "steps", "steps": [{"rte": 5, "duration": 3}]}},
            "serving_arrival: arrival type 'steps': step 1 is {'rte': 5, 'duration': 3}, it must be {rate, duration}",
        ),
        ({"serving_arrival": {"type": "closed"}}, "serving_arrival: arrival.type is closed; for requests use"),
        ({"serving_streams": 2, "serving_count": 0}, "serving_streams: streams need an end"),
        ({"serving_streams": 4, "serving_clients": 2}, ""),
        (
            {"serving_streams": 3, "serving_clients": 2},
            "serving_streams: streams.count (serving_streams) is 3, which is not divisible by the 2 of clients",
        ),
        (
            {"serving_search": {"low": 1}, "serving_streams": 2},
            "serving_search is {'low': 1}: it decides when",
        ),
        (
            {"serving_search": {"low": 1}, "serving_turns": 2},
            "serving_search is {'low': 1}: it decides when",
        ),
        ({"serving_search": {"low": 1}}, ""),
        ({"workload_run_on": "bastion"}, "workload_run_on is bastion: requests are sent by the controller or by pods"),
        ({**PODS, "serving_url": "https://host/base"}, ""),
        ({**PODS, "serving_url": "https://127.example.com/v1"}, ""),
        (
            {**PODS, "serving_url": "http://127.0.0.1:8000/v1"},
            "serving_url is http://127.0.0.1:8000/v1: pods can't reach it, the loopback of this machine",
        ),
        ({**PODS, "serving_url": "https://host,http://localhost"}, "serving_url is https://host,http://localhost"),
        ({**PODS, "serving_url": "http://[::1]:80"}, "serving_url is http://[::1]:80: pods can't reach it"),
        ({**PODS, **REHEARSAL}, "workload_run_on is driver_pod: pods can't reach the simulated servers of component"),
        (
            {**PODS, "serving_url": "https://host", "serving_search": {"low": 1}},
            "serving_search is {'low': 1}: each step of a search follows from the answers",
        ),
        (
            {**PODS, "serving_url": "https://host", "serving_tokenizer": "/t"},
            "serving_tokenizer is /t: the image of the pods has no tokenizer",
        ),
        (
            {**PODS, "serving_deploy": "deployment", "serving_image": "a"}
            | {"serving_autoscale": {"max_replicas": 4, "metrics": [{"type": "Pods"}]}},
            "serving_autoscale is {'max_replicas': 4, 'metrics': [{'type': 'Pods'}]}: clients in pods find",
        ),
        ({"serving_deploy": "./my-servers"}, "serving_deploy is ./my-servers: it is none, deployment, inferenc"),
        ({"serving_deploy": "roles/serving/files/servers/deployment"}, "serving_deploy is roles/serving/files"),
        ({"serving_deploy": "/nowhere"}, "serving_deploy is /nowhere: this folder lacks server.yml"),
        ({"serving_deploy": str(SERVING / "files/servers/deployment")}, ""),
        (
            {"serving_deploy": "tiny_model", "serving_image": "a", "cluster_provider": "existing"},
            "serving_deploy is tiny_model: only rehearsal clusters have the image of the tiny model",
        ),
        (
            {"serving_deploy": "tiny_model", "serving_image": "a", **REHEARSAL},
            "serving_deploy is tiny_model: a rehearsal cluster has the tiny model only with component training-image",
        ),
        (
            {"serving_deploy": "inferenceservice", "serving_image": "a", **REHEARSAL},
            "serving_deploy is inferenceservice: a rehearsal cluster has InferenceServices only with component kserve",
        ),
        (
            {
                "serving_deploy": "inferenceservice",
                "serving_image": "",
                **REHEARSAL,
                "rehearsal_components": ["kserve"],
            },
            "serving_image is empty: the servers that serving_deploy describes need one",
        ),
        (
            {"serving_image": "a"},
            "serving_image is a: the run deploys no servers that would run it; set serving_deploy",
        ),
        ({"serving_replicas": 2}, "serving_replicas is 2: the run deploys no servers; set serving_deploy"),
        (
            {
                "serving_deploy": "inferenceservice",
                "cluster_provider": "existing",
                "serving_predictor": {"model": {"runtime": "vllm"}},
            },
            "",
        ),
        (
            {"serving_autoscale": {"max_replicas": 4, "metrics": [{"type": "Pods"}]}},
            "serving_autoscale is {'max_replicas': 4, 'metrics': [{'type': 'Pods'}]}: the run makes an autoscaler only",
        ),
        (
            {"serving_deploy": "deployment", "serving_image": "a", "serving_replicas": 5}
            | {"serving_autoscale": {"max_replicas": 4, "metrics": [{"type": "Pods"}]}},
            "serving_autoscale is {'max_replicas': 4, 'metrics': [{'type': 'Pods'}]}: max_replicas is less",
        ),
        (
            {"serving_deploy": "deployment", "serving_image": "a"}
            | {"serving_autoscale": {"max_replicas": 4, "metrics": []}},
            "serving_autoscale is {'max_replicas': 4, 'metrics': []}: it needs metrics",
        ),
        (
            {"serving_deploy": "deployment", "serving_image": "a", **REHEARSAL}
            | {"serving_autoscale": {"max_replicas": 4, "metrics": [{"type": "Pods"}]}},
            "serving_autoscale is {'max_replicas': 4, 'metrics': [{'type': 'Pods'}]}: a rehearsal cluster has",
        ),
        (
            {"serving_deploy": "deployment", "serving_image": "a", **REHEARSAL}
            | {"serving_autoscale": {"max_replicas": 4, "metrics": [{"type": "Resource"}]}},
            "",
        ),
        (
            {"serving_deploy": "deployment", "serving_image": "a", **REHEARSAL, "rehearsal_components": ["pod-metrics"]}
            | {"serving_autoscale": {"max_replicas": 4, "metrics": [{"type": "Pods"}]}},
            "",
        ),
        (
            {"serving_predictor": {"minReplicas": 2}},
            "serving_predictor is {'minReplicas': 2}: only an InferenceService",
        ),
        *(
            (
                {"serving_deploy": "inferenceservice", "serving_image": "a", "serving_predictor": predictor}
                | {"cluster_provider": "existing"},
                f"serving_predictor is {predictor}: replicas, containers and their variables are serving_replicas",
            )
            for predictor in (
                {"minReplicas": 2},
                {"maxReplicas": 2},
                {"containers": [{"name": "a"}]},
                {"model": {"env": [{"name": "A", "value": "a"}]}},
            )
        ),
        ({"serving_health_path": "health"}, "serving_health_path is health: it begins with /"),
        ({"serving_environment": {"A": 1, "B": "b", "C": {"fieldRef": {"fieldPath": "spec.nodeName"}}}}, ""),
        ({"serving_environment": {"MY_TOKEN": "kanary", "A": [1]}}, "serving_environment is {'MY_TOKEN': '<secret>'"),
        ({"serving_environment": {"A": {"secretRef": {"name": "a"}}}}, "serving_environment is {'A': {'secretRef'"),
        ({"serving_arrival": {"type": "trace", "src": "none.csv"}}, "serving_arrival: there is no "),
    ],
)
def test_a_load_that_can_not_be_sent_is_refused_before_a_run(changed: dict[str, Any], words: str) -> None:
    check_serving(changed, words)


#: Servers that the run deploys behind the gateway of component scale-from-zero, and that may be none.
FROM_ZERO: dict[str, Any] = {
    **REHEARSAL,
    "rehearsal_components": ["scale-from-zero"],
    "serving_deploy": "deployment",
    "serving_image": "a",
    "serving_namespace": "inference-gateway",
    "serving_gateway": "endpoint_picker",
    "serving_autoscale": {"min_replicas": 0, "max_replicas": 2, "metrics": [{"type": "Object"}]},
}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, ""),
        ({"cluster_provider": "existing", "rehearsal_components": []}, ""),
        ({"rehearsal_components": ["inference-gateway"]}, "serving_gateway is endpoint_picker: before servers that"),
        ({"serving_gateway": "round_robin"}, "serving_gateway is round_robin: before servers that the run deploys"),
        ({"serving_namespace": "serving-a"}, "serving_gateway is endpoint_picker: before servers that the run deploys"),
        ({"serving_port": 8001}, "serving_gateway is endpoint_picker: before servers that the run deploys"),
        ({"serving_url": "http://a"}, "serving_gateway is endpoint_picker: it is the gateway before the simulated"),
    ],
)
def test_a_gateway_is_before_servers_only_where_there_is_one(changed: dict[str, Any], words: str) -> None:
    check_serving({**FROM_ZERO, **changed}, words)


@pytest.mark.parametrize(
    ("autoscale", "why"),
    [
        ({"min_replicas": 0, "metrics": [{"type": "External"}]}, ""),
        ({"min_replicas": 1, "metrics": [{"type": "Resource"}]}, ""),
        (
            {"min_replicas": 0, "metrics": [{"type": "Resource"}]},
            "with min_replicas 0 it needs a metric of type Object",
        ),
        ({"min_replicas": 2, "metrics": [{"type": "Object"}]}, "min_replicas is more than serving_replicas"),
    ],
)
def test_an_autoscaler_that_would_never_add_a_server_to_none_is_refused(autoscale: dict[str, Any], why: str) -> None:
    given = {"max_replicas": 4, **autoscale}
    check_serving({**FROM_ZERO, "serving_autoscale": given}, why and f"serving_autoscale is {given}: {why}")


def check_serving(changed: dict[str, Any], words: str) -> None:
    """Check which setting the checks of serving refuse first, and why; nothing without ``words``."""
    render = setting_templates.create_template_renderer(Templar(loader=DataLoader()), {})
    values = {**yaml.safe_load((SERVING / "defaults" / "main.yml").read_text(encoding="utf-8")), **changed}
    refused = checks_declared_by_roles.first_refused_setting(
        checks_declared_by_roles.read_checks(SERVING / "meta" / "checks.yml"), values, render
    )
    assert (refused is None) if not words else refused is not None and refused[1].startswith(words), refused
    assert refused is None or refused[0] in changed


def test_prompts_and_arrivals_are_read_from_files_before_a_run(tmp_path: Path) -> None:
    prompts, trace = tmp_path / "prompts.txt", tmp_path / "trace.csv"
    prompts.write_text('What is a node?\n{"prompt": "And a pod?"}\n', encoding="utf-8")
    trace.write_text("0\n0.5\n", encoding="utf-8")
    arrival = {"type": "trace", "src": str(trace)}
    check_serving({"serving_prompts_file": str(prompts), "serving_arrival": arrival, "serving_count": 0}, "")
    prompts.write_text('{"promt": "x"}\n', encoding="utf-8")
    words = f"serving_prompts_file: {prompts}, line 1: not a JSON object with prompt"
    check_serving({"serving_prompts_file": str(prompts)}, words)


def test_a_tokenizer_that_can_not_be_used_is_refused_before_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = f"serving_tokenizer: folder {tmp_path} has no tokenizer.json"
    check_serving({"serving_tokenizer": str(tmp_path)}, empty)
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    missing = "serving_tokenizer: the Python package tokenizers is required for it and is not installed: pip install"
    check_serving({"serving_tokenizer": str(tmp_path)}, missing)


WORKLOAD = phase_preconditions.ROOT / "roles" / "workload"


@pytest.mark.parametrize(
    ("failures", "words"),
    [
        ([{"kind": "node_lost", "at": [20, 90]}, {"kind": "pod_killed", "rate": 60, "until": 600}], ""),
        (
            [{"kind": "node_lots", "at": [20]}],
            "workload_failures[0]: kind is 'node_lots', it must be one of node_lost, ",
        ),
        ([{"kind": "pod_killed", "at": [1]}, {"at": [20]}], "workload_failures[1]: kind is '', it must be one of"),
        (
            [{"kind": "node_lost", "at": [1], "durration": 5}],
            "workload_failures[0]: unknown option 'durration' (did you mean 'duration'?)",
        ),
        ([{"kind": "node_lost", "at": ["soon"]}], "workload_failures[0] (node_lost): at has 'soon', a number"),
        (
            [{"kind": "node_lost", "at": [5], "share": 2}],
            "workload_failures[0] (node_lost): share is 2, it must be 0 to 1",
        ),
        ([{"kind": "node_lost"}], "workload_failures[0] (node_lost): exactly one of at"),
        (["node_lost"], "workload_failures[0]: a dictionary is expected, not str"),
        ({"kind": "node_lost"}, "workload_failures: a list of failures is expected, not dict"),
        ([{"kind": "node_lost", "rate": 99999, "until": 3600}], "workload_failures: 10,"),
    ],
)
def test_failures_that_can_not_be_are_refused_before_a_run(failures: Any, words: str) -> None:
    render = setting_templates.create_template_renderer(Templar(loader=DataLoader()), {})
    values = yaml.safe_load((WORKLOAD / "defaults" / "main.yml").read_text(encoding="utf-8"))
    found = checks_declared_by_roles.first_refused_setting(
        checks_declared_by_roles.read_checks(WORKLOAD / "meta" / "checks.yml"),
        {**values, "workload_failures": failures},
        render,
    )
    assert (found is None) if not words else found is not None and found[1].startswith(words), found
    assert found is None or found[0] == "workload_failures"
    assert "node_lots" not in words or (found and found[1].endswith("(did you mean 'node_lost'?)"))


def test_a_kind_that_is_not_restarted_as_a_whole_has_no_number_of_restarts() -> None:
    render = setting_templates.create_template_renderer(Templar(loader=DataLoader()), {})
    checks = checks_declared_by_roles.read_checks(phase_preconditions.ROOT / "roles/workload_scale/meta/checks.yml")
    asked = [check for check in checks if check["setting"] == "workload_scale_max_restarts"]
    values = {"workload_scale_max_restarts": 3, "workload_scale_kind": "JobSet"}
    assert checks_declared_by_roles.first_refused_setting(asked, values, render) is None
    found = checks_declared_by_roles.first_refused_setting(asked, {**values, "workload_scale_kind": "Job"}, render)
    assert found and found[1].startswith("workload_scale_max_restarts is 3: only workloads of kind JobSet or TrainJob")
    asked = [check for check in checks if check["setting"] == "workload_scale_restart_strategy"]
    values = {
        "workload_scale_max_restarts": 0,
        "workload_scale_restart_strategy": "BlockingRecreate",
        "workload_scale_kind": "JobSet",
    }
    found = checks_declared_by_roles.first_refused_setting(asked, values, render)
    assert found and "nothing is restarted as a whole" in found[1]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"scheduler_run_time": {"type": "normal", "mean": 5}}, "scheduler_run_time: unknown distribution 'normal'"),
        ({"scheduler_run_time": {"type": "fixed"}}, "scheduler_run_time: distribution 'fixed' needs 'mean'"),
        ({"scheduler_run_time": 5}, "'5' is not a distribution"),
        (
            {"scheduler_jobs": [{"name": "a"}, {"name": "b", "run_time": {"type": "uniform", "low": 3, "hihg": 4}}]},
            "scheduler_jobs: run_time of b: a distribution has no 'hihg' (did you mean 'high'?)",
        ),
    ],
)
def test_a_distribution_that_can_not_be_drawn_from_is_refused_before_the_run(
    settings: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    checks = checks_declared_by_roles.read_checks(ROOT / "roles" / "scheduler" / "meta" / "checks.yml")
    checks = [check for check in checks if "distributions" in check]
    valid = {"scheduler_run_time": {"type": "exponential", "mean": 5}, "scheduler_jobs": [{"name": "gang"}]}
    assert problem(tmp_path, checks, **valid) is None
    refused = problem(tmp_path, checks, **{**valid, **settings})
    assert refused and refused[0] in settings and reason in refused[1]

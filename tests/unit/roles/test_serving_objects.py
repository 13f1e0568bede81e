# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects of servers that a run deploys, made from the variables of role serving as Ansible does it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jmespath
import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import cluster_requirements
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.cluster_requirements import ExaminedRun

pytestmark = pytest.mark.usefixtures("ansible_plugins")
ROLE = Path(__file__).parents[3] / "roles" / "serving"
LOADER = DataLoader()
SECRET = "kanary-1"


def variables(**settings: Any) -> dict[str, Any]:
    """Return the variables of the templates for these settings."""
    known: dict[str, Any] = {}
    for folder in ("defaults", "vars"):
        known.update(LOADER.load_from_file(str(ROLE / folder / "main.yml"), trusted_as_template=True))
    given = {
        "run_id": "t1",
        "run_point": "001",
        "serving_image": "localhost/server:1",
        "__serving_role_path": str(ROLE),
    }
    known |= {**given, **settings}
    return dict(Templar(loader=LOADER, variables=known).template(known["__serving_variables"]))


def render(file: str, values: dict[str, Any]) -> list[Any]:
    """Return the documents of a file of a folder of servers."""
    text = (ROLE / "files" / "servers" / file).read_text(encoding="utf-8")
    made = Templar(loader=LOADER, variables=values).template(trust_as_template(text))
    return [made] if isinstance(made, dict) else list(yaml.safe_load_all(made))


def objects(servers: str = "deployment", **settings: Any) -> list[dict[str, Any]]:
    """Return the objects of a template for these settings."""
    return render(f"{servers}/template.yaml.j2", variables(**settings))


def test_the_tiny_model_is_served_by_the_program_of_its_folder() -> None:
    program, deployment, service = objects("tiny_model", serving_deploy="tiny_model", serving_port=8100)
    source = (ROLE / "files/servers/tiny_model/serve.py").read_text(encoding="utf-8")
    assert program["data"]["serve.py"] == source.rstrip()
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["python3", "-B", "/program/serve.py", "8100"]
    assert service["spec"]["ports"][0]["port"] == container["ports"][0]["containerPort"] == 8100


def test_a_variable_is_a_text_or_has_its_source_and_a_secret_is_in_no_object() -> None:
    source = {"secretKeyRef": {"name": "hub", "key": "token"}}
    given = {"A": 1, "B": "b", "HF_TOKEN": source, "MY_TOKEN": SECRET}
    deployment, _service = objects(serving_environment=given)
    assert deployment["spec"]["template"]["spec"]["containers"][0]["env"] == [
        {"name": "A", "value": "1"},
        {"name": "B", "value": "b"},
        {"name": "HF_TOKEN", "valueFrom": source},
        {"name": "MY_TOKEN", "valueFrom": {"secretKeyRef": {"name": "serving-t1", "key": "MY_TOKEN"}}},
    ]


def test_the_secret_of_a_run_has_the_secrets_among_the_variables() -> None:
    known = LOADER.load_from_file(str(ROLE / "vars" / "main.yml"), trusted_as_template=True)
    (task,) = [
        task
        for task in LOADER.load_from_file(str(ROLE / "tasks" / "deploy.yml"), trusted_as_template=True)
        if "perfscale.seatrial.inference_deployment" in task
    ]
    for given, wanted in (({"A": "a", "MY_TOKEN": SECRET}, {"serving-t1": {"MY_TOKEN": SECRET}}), ({"A": "a"}, {})):
        templar = Templar(loader=LOADER, variables={**known, "run_id": "t1", "serving_environment": given})
        assert templar.template(task["perfscale.seatrial.inference_deployment"]["secrets"]) == wanted


def test_an_inference_service_has_the_container_of_the_user() -> None:
    service, balanced = objects(
        "inferenceservice",
        serving_command=["serve", "-m"],
        serving_replicas="3",
        serving_environment={"A": 1},
        serving_port="8000",
    )
    predictor = service["spec"]["predictor"]
    (container,) = predictor["containers"]
    assert (predictor["minReplicas"], predictor["maxReplicas"]) == (3, 3)
    assert container["name"] == "kserve-container" and container["image"] == "localhost/server:1"
    assert container["command"] == ["serve", "-m"] and container["env"] == [{"name": "A", "value": "1"}]
    assert container["readinessProbe"]["httpGet"] == {"path": "/health", "port": 8000}
    assert container["ports"] == [{"containerPort": 8000, "protocol": "TCP"}]
    assert balanced["spec"]["selector"] == service["metadata"]["labels"]
    assert balanced["metadata"]["name"] != service["metadata"]["name"]


def test_an_inference_service_takes_a_serving_runtime_and_further_fields() -> None:
    given = {"model": {"runtime": "vllm", "modelFormat": {"name": "vLLM"}, "args": ["-x"]}, "timeout": 30}
    service, _balanced = objects("inferenceservice", serving_image="", serving_predictor=given, serving_gpus=2)
    predictor = service["spec"]["predictor"]
    assert "containers" not in predictor and predictor["timeout"] == 30
    gpus = {"nvidia.com/gpu": "2"}
    assert predictor["model"] == {**given["model"], "env": [], "resources": {"requests": gpus, "limits": gpus}}  # type: ignore[dict-item]


def test_an_inference_service_is_ready_with_as_many_servers_as_were_asked_for() -> None:
    before, _balanced = objects("inferenceservice", serving_replicas=2)
    changed, _balanced = objects("inferenceservice", serving_replicas=2, serving_environment={"A": 1})
    (rules,) = render("inferenceservice/server.yml", variables(serving_replicas=2))
    (expression,) = (rule["jmespath"] for rule in rules["ready"] if rule["kind"] == "Deployment")

    def ready(replicas: int, service: dict[str, Any] = before, **more: Any) -> Any:
        status = {"observedGeneration": 1, "readyReplicas": replicas, "updatedReplicas": replicas, "replicas": replicas}
        template = {"metadata": {"annotations": service["metadata"]["annotations"]}}  # KServe copies them
        spec = {"replicas": replicas, "template": template}
        return jmespath.search(expression, {"metadata": {"generation": 1}, "spec": spec, "status": {**status, **more}})

    assert ready(2) is True
    assert ready(1) is False  # KServe has not scaled its Deployment yet
    assert ready(2, readyReplicas=1) is False
    assert ready(2, changed) is False  # the servers of another point


def test_the_revision_of_servers_changes_with_their_pods_and_not_with_their_number() -> None:
    first = variables()["revision"]
    same = {"serving_replicas": 3, "serving_port": "8000"}
    assert len(first) == 16 and variables(**same)["revision"] == first
    others: list[dict[str, Any]] = [
        {"serving_image": "localhost/server:2"},
        {"serving_command": ["serve", "-m"]},
        {"serving_environment": {"A": 1}},
        {"serving_requests": {"cpu": "3"}},
        {"serving_gpus": 1},
        {"serving_node_selector": {"a": "b"}},
        {"serving_tolerations": [{"operator": "Exists"}]},
        {"serving_port": 8001},
        {"serving_health_path": "/ready"},
        {"serving_predictor": {"model": {"args": ["-x"]}}},
    ]
    assert len({first, *(variables(**other)["revision"] for other in others)}) == len(others) + 1


def test_an_inference_service_that_kserve_can_not_make_has_failed() -> None:
    (rules,) = render("inferenceservice/server.yml", variables())
    (rule,) = rules["failed"]
    status = {"transitionStatus": "InvalidSpec", "lastFailureInfo": {"reason": "RuntimeNotRecognized", "message": "m"}}
    assert jmespath.search(rule["jmespath"], {"status": {"modelStatus": status}}) == "RuntimeNotRecognized: m"
    assert not jmespath.search(rule["jmespath"], {"status": {"modelStatus": {"transitionStatus": "UpToDate"}}})
    assert not jmespath.search(rule["jmespath"], {})


def test_a_deployment_has_an_autoscaler_from_its_servers_on_if_one_is_asked_for() -> None:
    metrics = [{"type": "Pods", "pods": {"metric": {"name": "vllm:num_requests_waiting"}}}]
    given = {"max_replicas": 4, "metrics": metrics, "behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}}}
    deployment, _service, autoscaler = objects(serving_autoscale=given, serving_replicas=2)
    spec = autoscaler["spec"]
    assert spec["scaleTargetRef"]["name"] == deployment["metadata"]["name"] and spec["metrics"] == metrics
    assert (spec["minReplicas"], spec["maxReplicas"]) == (2, 4) and spec["behavior"] == given["behavior"]
    assert autoscaler["metadata"]["labels"] == deployment["metadata"]["labels"]
    assert autoscaler["metadata"]["name"] == f"{deployment['metadata']['name']}-001"
    assert len(objects(serving_autoscale={})) == 2
    assert objects(serving_autoscale={**given, "min_replicas": 0})[2]["spec"]["minReplicas"] == 0


def test_the_service_of_servers_behind_a_gateway_leads_to_the_gateway() -> None:
    deployment, service = objects()
    assert service["spec"]["selector"] == deployment["spec"]["template"]["metadata"]["labels"]
    _deployment, service = objects(serving_gateway="endpoint_picker")
    component = ROLE.parent / "rehearsal" / "files" / "components" / "scale-from-zero" / "objects.yml"
    made = {thing["kind"]: thing for thing in yaml.safe_load(component.read_text(encoding="utf-8"))}
    gateway, pool = made["Pod"], made["InferencePool"]
    assert service["spec"]["selector"] == gateway["metadata"]["labels"]
    ports = {port["name"] for container in gateway["spec"]["containers"] for port in container.get("ports", [])}
    assert ports == {service["spec"]["ports"][0]["targetPort"]}
    assert pool["spec"]["selector"]["matchLabels"].items() <= deployment["metadata"]["labels"].items()


def required(**settings: Any) -> dict[str, Any]:
    """Return what phase test needs of a cluster with these settings."""
    given: dict[str, Any] = {"serving_namespace": "llm", **settings}
    examined = ExaminedRun.resolve("serving", given, given, LOADER, Templar(loader=LOADER, variables=given))
    needs = LOADER.load_from_file(str(ROLE / "meta" / "doctor.yml"))
    return cluster_requirements.requirements_to_check([needs], examined, ["test"], lambda _kind, name: name, "serving")


def verbs(needs: dict[str, Any], resource: str) -> set[str]:
    """Return what phase test does with a resource."""
    entries = [
        entry for entry in needs["permissions"] if entry["resources"] == [resource] and "test" in entry["phases"]
    ]
    return {verb for entry in entries for verb in entry["verbs"]}


@pytest.mark.parametrize("servers", ["none", "deployment", "inferenceservice"])
def test_servers_that_are_watched_are_listed_in_their_namespace(servers: str) -> None:
    needs = required(serving_deploy=servers, serving_url="http://h", serving_pod_selector="app=llm")
    assert needs["namespaces"] == ["llm"]
    assert "list" in verbs(needs, "deployments") and "list" in verbs(needs, "pods")


def test_simulated_servers_are_found_in_their_namespace_whatever_is_watched() -> None:
    for watched in ("", "app=llm"):
        (entry,) = (
            one for one in required(serving_pod_selector=watched)["permissions"] if "configmaps" in one["resources"]
        )
        assert entry["namespace"] == "kube-public"


def test_a_load_on_servers_of_others_needs_nothing_and_an_autoscaler_is_made_and_deleted() -> None:
    needs = required(serving_url="http://h")
    assert needs["namespaces"] == [] and needs["permissions"] == []
    needs = required(serving_deploy="deployment", serving_autoscale={"max_replicas": 2, "metrics": []})
    assert verbs(needs, "horizontalpodautoscalers") == {"get", "list", "create", "patch", "delete"}


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"serving_url": "https://models.example.com"}, SECRET),
        ({"serving_deploy": "tiny_model"}, SECRET),
        ({}, ""),
        ({"serving_gateway": "plain"}, ""),
    ],
)
def test_servers_that_the_cluster_names_get_no_key(settings: dict[str, Any], key: str) -> None:
    known: dict[str, Any] = {}
    for folder in ("defaults", "vars"):
        known.update(LOADER.load_from_file(str(ROLE / folder / "main.yml"), trusted_as_template=True))
    known |= {"run_id": "t1", "run_point": "001", "serving_api_key": SECRET, **settings}
    assert Templar(loader=LOADER, variables=known).template(known["__serving_key"]) == key

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Deploying servers: what is waited for, what is said meanwhile, and when it is given up."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    InputError,
    ProcessError,
    WaitTimeout,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._care.run_cleanup import read_created_kinds
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.http_transport import HttpTransport, tls_context
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference import server_deployment
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference.server_deployment import (
    STAGES,
    ServerDeployment,
    ServerDeploymentSpec,
    secret_objects,
)
from scripted_server import Asked, ScriptedServer, reply

SERVERS = Path(__file__).parents[6] / "roles" / "serving" / "files" / "servers"
RULES = yaml.safe_load((SERVERS / "deployment" / "server.yml").read_text())
RULES.pop("pod_url")  # the role tells clients in pods of it, and not this module
KINDS = {
    "/api/v1": ["Namespace", "Pod", "Secret", "Service"],
    "/apis/apps/v1": ["Deployment"],
    "/apis/autoscaling/v2": ["HorizontalPodAutoscaler"],
}
LABELS = {run_labels.RUN: "t1", run_labels.PART: "server"}
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "s"}, "spec": {"replicas": 2}}
SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
READY = {"observedGeneration": 1, "readyReplicas": 2, "updatedReplicas": 2, "replicas": 2}


class Cluster:
    """An API server with one deployment of two pods and its service, which is also the server of ``/health``."""

    def __init__(self) -> None:
        self.applied: dict[str, dict[str, Any]] = {}
        self.status: dict[str, Any] = {}
        self.service: dict[str, Any] = {}
        self.pods: list[dict[str, Any]] = []
        self.health = 200
        self.gone = "none"
        self.why: dict[str, Any] = {}
        self.autoscalers: list[dict[str, Any]] = []
        self.may_list_autoscalers = True

    def answer(self, asked: Asked) -> Any:
        path = asked.path.partition("?")[0]
        if path in KINDS:
            rows = [
                {"kind": kind, "name": f"{kind.lower()}s", "namespaced": kind != "Namespace"} for kind in KINDS[path]
            ]
            return 200, {"resources": rows}
        if asked.method == "GET" and path.endswith(self.gone):
            return 404, {"kind": "Status", "code": 404}
        if path == "/health":
            return reply(302, Location="/login") if self.health == 302 else (self.health, {})
        if path == "/login":
            return 200, {}
        if "/horizontalpodautoscalers" in path:
            name = path.rpartition("/")[2]
            self.autoscalers = [
                one for one in self.autoscalers if (asked.method, name) != ("DELETE", one["metadata"]["name"])
            ]
            return (200, {"items": self.autoscalers, "metadata": {}}) if self.may_list_autoscalers else (403, {})
        if path.endswith("/pods"):
            return 200, {"items": copy.deepcopy(self.pods), "metadata": {}}
        if asked.method in ("PATCH", "POST"):
            manifest = json.loads(asked.body)
            path = path if asked.method == "PATCH" else f"{path}/{manifest['metadata']['name']}"
            manifest["metadata"]["generation"] = 1
            self.applied[path] = manifest
        if path not in self.applied:
            return 404, {"kind": "Status", "code": 404}
        kind = self.applied[path]["kind"]
        return 200, {**self.applied[path], "status": self.status if kind == "Deployment" else self.service}


def pod(name: str, ready: bool = False, **state: Any) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": str(ready)}]
    statuses = [{"name": "server", "ready": ready, "restartCount": 0, **state}] if state else []
    status = {"conditions": conditions, "containerStatuses": statuses}
    meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "labels": LABELS}
    return {"metadata": meta, "spec": {"nodeName": "n"}, "status": status}


def spec(timeout: float = 60, **more: Any) -> ServerDeploymentSpec:
    options = {"definitions": [DEPLOYMENT, SERVICE], **RULES, "urls": [], "health_path": "/health", **more}
    return ServerDeploymentSpec(run="t1", namespace="ns", timeout=timeout, **options)


def deploy(
    cluster: Cluster, tmp_path: Path, wanted: ServerDeploymentSpec, steps: Any = ()
) -> tuple[Any, Any, list[str]]:
    """Deploy twice on a cluster that changes as ``steps`` say, one with each new line of progress."""
    said: list[str] = []
    folder = tmp_path / "001__serving__test"
    folder.mkdir()
    step = StepDirectory(str(folder))
    coming = iter(steps)

    def say(text: str) -> None:
        said.append(text)
        next(coming, lambda: None)()

    with ScriptedServer(cluster.answer) as server:
        cluster.service = {"loadBalancer": {}, **cluster.why}
        cluster.give_address = lambda: cluster.service.update(  # type: ignore[attr-defined]
            loadBalancer={"ingress": [{"ip": "127.0.0.1"}]}
        )
        SERVICE["spec"]["ports"][0]["port"] = server.port  # type: ignore[index]
        client = Client.from_kubeconfig(server.kubeconfig(tmp_path / "kubeconfig"))
        try:
            transport = HttpTransport(tls_context())
            first = ServerDeployment(client, wanted, transport, say).run(tmp_path / "001", StepDirectory(None))
            return first, ServerDeployment(client, wanted, transport, say).run(tmp_path / "002", step), said
        finally:
            client.close()


def test_every_stage_is_waited_for_and_said_and_recorded(tmp_path: Path) -> None:
    cluster = Cluster()
    running: dict[str, Any] = {"state": {"running": {}}}

    def all_run() -> None:
        cluster.pods = [pod("a", ready=True, **running), pod("b", **running)]

    def start() -> None:
        cluster.pods = [pod("a", state={"waiting": {"reason": "ErrImagePull", "message": "no such tag"}}), pod("b")]

    def be_ready() -> None:
        all_run()
        cluster.status, cluster.health = READY, 503

    steps = [start, all_run, be_ready, lambda: cluster.give_address(), lambda: setattr(cluster, "health", 200)]  # type: ignore[attr-defined]
    result, again, said = deploy(cluster, tmp_path, spec(), steps)
    words = [
        "waits for its controller",
        "no such tag",
        "probe fails",
        "no address yet",
        "HTTP 503",
        ": ready",
        "unchanged",
    ]
    assert len(said) == len(words) and all(word in line for word, line in zip(words, said, strict=True)), said
    assert (
        result["changed"] and result["urls"] == json.loads((tmp_path / "001" / "deployment.json").read_text())["urls"]
    )
    bounds = [result["stages"][stage] for stage in STAGES]
    assert all(low <= high for low, high in bounds) and bounds == sorted(bounds)
    assert bounds[-1][0] > 0
    labels = {"perfscale.seatrial/run": "t1", "perfscale.seatrial/part": "server"}
    created = {manifest["kind"]: manifest["metadata"] for manifest in cluster.applied.values()}
    assert created["Service"]["labels"] == created["Deployment"]["labels"] == labels
    assert created["Namespace"]["labels"] == {"perfscale.seatrial/run": "t1"}
    assert not again["changed"] and again["stages"] == {}


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"restartCount": 5, "lastState": {"terminated": {"exitCode": 2, "reason": "Error"}}}, "5 times.*exit code 2"),
        ({"state": {"waiting": {"reason": "InvalidImageName", "message": "bad:::name"}}}, "can't start.*bad:::name"),
    ],
)
@pytest.mark.parametrize("init", [False, True])
def test_a_container_that_never_serves_ends_the_wait(
    tmp_path: Path, state: dict[str, Any], words: str, init: bool
) -> None:
    cluster = Cluster()
    cluster.pods = [pod("a", **state)]
    if init:
        cluster.pods[0]["status"]["initContainerStatuses"] = cluster.pods[0]["status"].pop("containerStatuses")
    with pytest.raises(ProcessError, match=f"Pod ns/a.*{words}"):
        deploy(cluster, tmp_path, spec(timeout=5))


def test_the_timeout_says_what_was_waited_for(tmp_path: Path) -> None:
    cluster = Cluster()
    message = "exceeded quota: pods=0"
    cluster.status = {"conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "F", "message": message}]}
    with pytest.raises(WaitTimeout, match=r"not ready after 0.3 s: Deployment ns/s: F: exceeded quota"):
        deploy(cluster, tmp_path, spec(timeout=0.3))


def test_a_proxy_that_redirects_to_its_login_is_no_server_that_answers(tmp_path: Path) -> None:
    cluster = Cluster()
    cluster.status, cluster.health = READY, 302
    with pytest.raises(WaitTimeout, match=r"/health answers with HTTP 302"):
        deploy(cluster, tmp_path, spec(timeout=0.5), [lambda: cluster.give_address()])  # type: ignore[attr-defined]


@pytest.mark.parametrize("may_list", [True, False])
def test_the_autoscalers_of_other_points_are_deleted_and_those_of_controllers_stay(
    tmp_path: Path, may_list: bool
) -> None:
    cluster = Cluster()
    cluster.status, cluster.may_list_autoscalers = READY, may_list
    ours = {"labels": LABELS}
    owned = {"name": "of-a-controller", "ownerReferences": [{"kind": "InferenceService"}], **ours}
    cluster.autoscalers = [
        {"metadata": {"name": "s-001", "uid": "u1", **ours}},
        {"metadata": owned},
        {"metadata": {"name": "other"}},
    ]
    deploy(cluster, tmp_path, spec(), [lambda: cluster.give_address()])  # type: ignore[attr-defined]
    left = [one["metadata"]["name"] for one in cluster.autoscalers]
    assert left == (["of-a-controller", "other"] if may_list else ["s-001", "of-a-controller", "other"])


#: The pod of the first point, which is being deleted.
ENDING = pod("a")
ENDING["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("later", "stay"),
    [([pod("a"), pod("b")], True), ([pod("b")], False), ([pod("b"), ENDING], False)],
    ids=["one more", "another", "the old one ends"],
)
def test_it_is_recorded_whether_earlier_servers_stay(tmp_path: Path, later: list[dict[str, Any]], stay: bool) -> None:
    cluster = Cluster()
    cluster.status = READY

    def start_first() -> None:
        cluster.pods = [pod("a")]
        cluster.give_address()  # type: ignore[attr-defined]

    def begin_second() -> None:
        cluster.health = 503

    def change_pods() -> None:
        cluster.pods, cluster.health = later, 200

    deploy(cluster, tmp_path, spec(), [start_first, begin_second, change_pods])
    found = [json.loads((tmp_path / point / "deployment.json").read_text()) for point in ("001", "002")]
    assert [document["earlier_servers"] for document in found] == [False, stay]


def test_a_deleted_object_is_not_ready(tmp_path: Path) -> None:
    cluster = Cluster()
    cluster.status, cluster.gone = READY, "/services/s"
    with pytest.raises(WaitTimeout, match=r"Service ns/s was deleted meanwhile"):
        deploy(cluster, tmp_path, spec(timeout=0.3))


def test_why_there_is_no_address_is_said(tmp_path: Path) -> None:
    cluster = Cluster()
    cluster.status = READY
    cluster.why = {"conditions": [{"type": "Balanced", "status": "False", "message": "port 80: permission denied"}]}
    with pytest.raises(WaitTimeout, match=r"Service ns/s has no address yet, .* gives it: port 80: permission denied"):
        deploy(cluster, tmp_path, spec(timeout=0.3))


def test_cleanup_finds_the_namespaces_in_the_record_which_has_no_secret(tmp_path: Path) -> None:
    cluster = Cluster()
    cluster.status, cluster.pods = READY, []
    (secret,) = secret_objects({"k": {"a": "kanary"}})
    elsewhere = {**SERVICE, "metadata": {"name": "other", "namespace": "ns-2"}}
    wanted = spec(definitions=[DEPLOYMENT, SERVICE, elsewhere, secret])
    deploy(cluster, tmp_path, wanted, [lambda: cluster.give_address()])  # type: ignore[attr-defined]
    assert read_created_kinds(tmp_path) == {
        ("apps", "Deployment"): {"ns"},
        ("", "Service"): {"ns", "ns-2"},
        ("", "Secret"): {"ns"},
    }
    (record,) = tmp_path.glob("*/src/servers.yml")
    assert "kanary" not in record.read_text() and "perfscale.seatrial/run: t1" in record.read_text()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"ready": [{"kind": "Deploymnt", "jmespath": "status"}]}, "did you mean 'Deployment'"),
        ({"url": {}}, "has no kind"),
        ({"health_path": "health"}, "health_path is 'health', it must begin with /"),
        ({"url": {"kind": "Service", "jmespath": "status.("}}, "cannot be parsed"),
    ],
)
def test_rules_that_can_never_hold_are_refused(more: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        spec(**more)


SERVING = {"apiVersion": "example.com/v1", "kind": "Serving", "metadata": {"name": "s"}}
OF_CONTROLLER: dict[str, Any] = {
    "definitions": [SERVING, SERVICE],
    "creates": [{"api_version": "apps/v1", "kind": "Deployment"}],
    "ready": [{"kind": "Deployment", "jmespath": "status.readyReplicas == `1`"}],
    "failed": [{"kind": "Serving", "jmespath": "status.failure"}],
    "urls": [],
}


class ClusterWithController(Cluster):
    """The same with a kind whose controller makes the Deployment."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[dict[str, Any]] = []
        self.failure = ""

    def answer(self, asked: Asked) -> Any:
        path = asked.path.partition("?")[0]
        if path == "/apis/example.com/v1":
            return 200, {"resources": [{"kind": "Serving", "name": "servings", "namespaced": True}]}
        if path.endswith("/deployments") and asked.method == "GET":
            return 200, {"items": self.made, "metadata": {}}
        code, thing = super().answer(asked)
        return code, {**thing, "status": {"failure": self.failure}} if thing.get("kind") == "Serving" else thing


def test_what_a_controller_creates_is_waited_for_and_a_stage(tmp_path: Path) -> None:
    cluster = ClusterWithController()
    made = {"metadata": {"name": "s-predictor", "namespace": "ns", "labels": LABELS}, "status": {}}

    def create() -> None:
        cluster.made = [made]

    def be_ready() -> None:
        cluster.made = [{**made, "status": {"readyReplicas": 1}}]

    steps = [create, be_ready, lambda: cluster.give_address()]  # type: ignore[attr-defined]
    result, _again, said = deploy(cluster, tmp_path, spec(**OF_CONTROLLER), steps)
    assert "no Deployment was created for the servers yet" in said[0]
    assert "Deployment ns/s-predictor: waits for its controller" in said[1]
    assert next(iter(result["stages"])) == "deployment" and result["stages"]["deployment"][0] > 0


def test_a_failure_that_goes_away_is_that_of_the_point_before(tmp_path: Path) -> None:
    cluster = ClusterWithController()
    cluster.failure = "no such runtime"

    def be_ready() -> None:
        cluster.failure = ""
        cluster.made = [
            {"metadata": {"name": "s-predictor", "namespace": "ns", "labels": LABELS}, "status": {"readyReplicas": 1}}
        ]

    deploy(cluster, tmp_path, spec(**OF_CONTROLLER), [be_ready, lambda: cluster.give_address()])  # type: ignore[attr-defined]


def test_a_failure_that_stays_ends_the_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_deployment, "_STALE", 0.0)
    cluster = ClusterWithController()
    cluster.failure = "no such runtime"
    with pytest.raises(ProcessError, match=r"Serving ns/s will never be ready: no such runtime"):
        deploy(cluster, tmp_path, spec(**OF_CONTROLLER))

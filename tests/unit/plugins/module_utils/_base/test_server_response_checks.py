# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever JSON a server answers with, a client has a result or an error of ours that names the server."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, SeatrialError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import (
    expect_documented_form,
    require_json_object,
    require_list_of_json_objects,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.redfish.bmc_machine import (
    BmcConnection,
    RedfishMachine,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.opensearch_connection import OpenSearchServer
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.s3 import (
    S3Location,
    create_s3_client,
    list_pages,
    s3_errors,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import ServedKind
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab import host_search, lab_inventory
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.quads_client import QuadsClient
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.quads_connection import QuadsAccount
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.quads_options import LeaseSelector
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.quads_records import CloudAssignment
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.export.mlflow_export import (
    MlflowRun,
    MlflowServer,
    write_mlflow_runs,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.export.opensearch_export import (
    OpenSearchIndex,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.messages import github, slack
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.read_past_runs import (
    read_runs_from_opensearch,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.metrics import metrics_dump
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.metrics.capture_prometheus_metrics import (
    PrometheusClient,
    PrometheusServer,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.ci import ci_request
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.ci.ci_engines import CiJob
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scripted_server import Asked, ScriptedServer

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
JSON = st.recursive(
    SCALARS,
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=8), part, max_size=3),
    max_leaves=6,
)

#: Calls of a client, by name: valid answers by the end of the path, and the call for the server's address.
Case = tuple[dict[str, Any], Callable[[str, Path], Any]]

MOMENT = "Sat, 21 Nov 2026 04:41:18 GMT"
ASSIGNMENT = {
    "id": 7,
    "cloud": {"name": "cloud02"},
    "owner": "jo",
    "description": "x lease=t1121-abcdef part=1/1 at=20261121T0441Z",
    "active": True,
    "ticket": "9",
    "vlan": {"vlan_id": 1100},
    "qinq": 1,
    "validated": True,
}
SCHEDULE = {
    "id": 3,
    "host": {"name": "h1"},
    "assignment_id": 7,
    "assignment": ASSIGNMENT,
    "start": MOMENT,
    "end": MOMENT,
}
HOST = {
    "name": "h1",
    "model": "r650",
    "can_self_schedule": True,
    "interfaces": [{"name": "em1", "mac_address": "AA", "pxe_boot": True}],
    "processors": [{"processor_type": "CPU", "threads": 4}],
    "memory": [{"size_gb": 16}],
    "disks": [{"disk_type": "nvme", "size_gb": 100, "count": 2}],
}
RUN = {
    "info": {"run_id": "r", "status": "RUNNING", "end_time": 5},
    "data": {"params": [{"key": "a", "value": "b"}], "tags": [{"key": "seatrial.point", "value": "u1"}]},
}
POD = {"metadata": {"name": "p", "namespace": "n", "resourceVersion": "4"}}


def quads(call: Callable[[QuadsClient], Any]) -> Callable[[str, Path], Any]:
    def with_client(url: str, _folder: Path) -> Any:
        return call(QuadsClient(QuadsAccount(url, "jo@example.com", api_token="t", retry_time=0.0)))

    return with_client


def lab_inventory_of(client: QuadsClient) -> Any:
    found = lab_inventory.collect_lease_inventory(client, LeaseSelector(lease_id="t1121-abcdef"), bmc=True)
    machines = {host: machine["about"] for host, machine in found["machines"].items()}
    rules = [{"name": "gpu", "where": {"disks.count__gt": 1, "memory.size_gb__gt": 1, "model": "r650"}}]
    return lab_inventory.assign_groups(machines, rules)


def free_hosts_of(client: QuadsClient) -> Any:
    return host_search.find_available_lab_resources(client, host_search.HostSearch(gather_metadata=True))


def kube(call: Callable[[Client], Any]) -> Callable[[str, Path], Any]:
    def with_kubeconfig(url: str, folder: Path) -> Any:
        server = ScriptedServer(lambda _asked: None)
        server.port = int(url.rpartition(":")[2])
        with Client.from_kubeconfig(server.kubeconfig(folder / "kubeconfig")) as client:
            return call(client)

    return with_kubeconfig


def opensearch(url: str) -> OpenSearchServer:
    return OpenSearchServer(url)


def opensearch_write(url: str, _folder: Path) -> Any:
    index = OpenSearchIndex(opensearch(url))
    index.prepare()
    return index.write([("runs", "r", {"whole": True})])


def mlflow(url: str, _folder: Path) -> Any:
    run = MlflowRun("u1", "n", {"a": "b"}, {"m": 1.0}, {"t": "v"}, 1, 2, failed=False)
    return write_mlflow_runs(MlflowServer(url, token="t"), "p", [run])


def github_messages(url: str, _folder: Path) -> Any:
    target = github.GitHubTarget("a/b", "12", "abc", "check")
    api = github.api_client_from_options({"token": "t", "api_url": url}, target.repository, "", 5.0)
    target = github.target_with_head_commit(api, target)
    github.write_run_comment(api, target, "mark", "text")
    return github.write_check_run(api, target, "run", {"title": "t", "summary": "s"}, "", "")


def pull_request_of(url: str, _folder: Path) -> Any:
    job = CiJob(engine="github", title="x", repository="a/b", pull_request="12")
    return ci_request._fetch_pull_request({"token": "t", "api_url": url}, job)


def slack_thread(url: str, _folder: Path) -> Any:
    return slack.post_to_thread(slack.make_api_client(url, "t", "", 5.0), "c", "thread", "text")


def prometheus_samples(url: str, _folder: Path) -> Any:
    client = PrometheusClient(PrometheusServer(url))
    names = client.names("up", 0.0, 1.0)
    try:
        return metrics_dump._query_metric_samples(client.samples, str(names[0] if names else "up"), "up", 0.0, 1.0)
    except metrics_dump._LeftOut as error:
        return error


def redfish(url: str, _folder: Path) -> Any:
    machine = RedfishMachine(BmcConnection("m", url, "u", "p"), {"contact_timeout": 0.01}, 0.0, lambda _line: None)
    machine.find()
    return machine.state()


def moving(client: QuadsClient) -> Any:
    return [client.moves(), client.move_progress("cloud02"), client.host_counts_by_model(), client.version()]


def watch_of(client: Client) -> Any:
    return client.kinds(), client.list(ServedKind("v1", "Pod", "pods", True)), client.kind("v1", "Pod")


CASES: dict[str, Case] = {
    "quads inventory": (
        {
            "/assignments": [ASSIGNMENT],
            "/schedules/current": [SCHEDULE],
            "/hosts/h1": HOST,
            "_ocpinventory.json": {"nodes": [{"name": "h1", "pm_addr": "b", "pm_password": "p@9", "mac": ["AA"]}]},
        },
        quads(lab_inventory_of),
    ),
    "quads free hosts": (
        {
            "/version": "2.2.6",
            "/available": ["h1"],
            "/hosts/h1": HOST,
            "/clouds/free": [{"name": "cloud03"}],
            "/vlans/free": [{"vlan_id": 1}],
        },
        quads(free_hosts_of),
    ),
    "quads progress": (
        {
            "/moves": [{"host": "h1", "current": "a", "new": "b"}],
            "/moves/progress": [{"host": "h1", "message": "m"}],
            "/hosts": {"r650": 2},
            "/version": "2",
        },
        quads(moving),
    ),
    "quads lease": (
        {"/assignments/self": ASSIGNMENT, "/schedules": SCHEDULE},
        quads(lambda client: (client.create_assignment_once({}), client.schedule_host_once("cloud02", "h1"))),
    ),
    "opensearch history": (
        {
            "-runs/_search": {"hits": {"hits": [{"_source": {"run": "r", "@timestamp": MOMENT}, "sort": ["r"]}]}},
            "-kpis/_search": {
                "hits": {
                    "hits": [
                        {
                            "_source": {
                                "uuid": "u",
                                "run": "r",
                                "name": "k",
                                "value": 1.0,
                                "unit": "s",
                                "point": "001",
                                "labels": {"a": 1},
                                "confidence": {"low": 1, "high": 2},
                            },
                            "sort": ["r"],
                        }
                    ]
                }
            },
        },
        lambda url, _folder: list(read_runs_from_opensearch(opensearch(url), "p", [])),
    ),
    "opensearch export": (
        {
            "seatrial-seatrial": {"acknowledged": True},
            "_mapping": {"seatrial-runs": {"mappings": {"properties": {"value": {"type": "double"}}}}},
            "_bulk": {"items": [{"index": {"result": "created", "status": 201}}]},
        },
        opensearch_write,
    ),
    "prometheus series": (
        {"query_range": {"data": {"resultType": "matrix", "result": [{"metric": {"a": "b"}, "values": [[1, "2"]]}]}}},
        lambda url, _folder: PrometheusClient(PrometheusServer(url)).range("up", 0.0, 1.0, 1.0),
    ),
    "prometheus samples": (
        {"/values": {"data": ["up"]}, "/query": {"data": {"result": [{"metric": {"a": "b"}, "values": [[1, "2"]]}]}}},
        prometheus_samples,
    ),
    "mlflow": (
        {
            "get-by-name": {"experiment": {"experiment_id": "1"}},
            "/runs/search": {"runs": [RUN]},
            "/runs/log-batch": {},
            "/runs/update": {},
        },
        mlflow,
    ),
    "github messages": (
        {
            "/user": {"login": "bot"},
            "/pulls/12": {"head": {"sha": "abc"}},
            "/comments": [{"id": 1, "body": "<!-- mark -->", "user": {"login": "bot"}}],
            "/comments/1": {"id": 1},
            "/check-runs": {"check_runs": [{"id": 2, "external_id": "run"}]},
            "/check-runs/2": {"id": 2},
        },
        github_messages,
    ),
    "github pull request": (
        {
            "/pulls/12": {"number": 12, "base": {"repo": {"full_name": "a/b"}}, "head": {"sha": "a"}, "user": {}},
            "/comments": [{"id": 1, "body": "/test", "user": {"login": "jo"}}],
        },
        pull_request_of,
    ),
    "slack": (
        {
            "/conversations.history": {
                "ok": True,
                "messages": [
                    {
                        "ts": "1",
                        "metadata": {
                            "event_type": "perfscale_seatrial_thread",
                            "event_payload": {"thread": "thread"},
                        },
                    }
                ],
            },
            "/chat.postMessage": {"ok": True, "ts": "2"},
        },
        slack_thread,
    ),
    "redfish": (
        {
            "/redfish/v1/": {"Systems": {"@odata.id": "/redfish/v1/Systems"}, "Vendor": "Dell"},
            "/redfish/v1/Systems": {"Members": [{"@odata.id": "/redfish/v1/Systems/1"}]},
            "/redfish/v1/Systems/1": {
                "Links": {"ManagedBy": [{"@odata.id": "/redfish/v1/Managers/1"}]},
                "Boot": {"BootSourceOverrideTarget": "None"},
                "PowerState": "On",
                "VirtualMedia": {"@odata.id": "/redfish/v1/Media"},
            },
            "/redfish/v1/Media": {"Members": [{"@odata.id": "/redfish/v1/Media/1"}]},
            "/redfish/v1/Media/1": {"Inserted": True, "Image": "x"},
        },
        redfish,
    ),
    "kubernetes": (
        {
            "/api": {"versions": ["v1"]},
            "/apis": {"groups": [{"preferredVersion": {"groupVersion": "v1"}}]},
            "/api/v1": {"resources": [{"name": "pods", "kind": "Pod", "namespaced": True, "verbs": ["get"]}]},
            "/pods": {"metadata": {"resourceVersion": "1"}, "items": [POD]},
        },
        kube(watch_of),
    ),
    "kubernetes object": (
        {"/p": POD},
        kube(lambda client: client.get(ServedKind("v1", "Pod", "pods", True), "p", "n")),
    ),
}


class AnyServer:
    """Answers by the longest end of the path that is known, and else with an empty object."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}

    def answer(self, asked: Asked) -> Any:
        path = asked.path.partition("?")[0]
        end = max((end for end in self.answers if path.endswith(end)), key=len, default=None)
        return 200, json.dumps(self.answers[end] if end else {}).encode()


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[AnyServer, str]]:
    stand_in = AnyServer()
    with ScriptedServer(stand_in.answer) as running:
        yield stand_in, f"http://127.0.0.1:{running.port}"


def places(document: Any) -> list[list[Any]]:
    """The paths of all parts of a document, its whole included."""
    found: list[list[Any]] = [[]]
    listed = document if isinstance(document, list) else []
    for key, part in document.items() if isinstance(document, dict) else enumerate(listed):
        found += [[key, *rest] for rest in places(part)]
    return found


def replaced(document: Any, place: list[Any], value: Any) -> Any:
    if not place:
        return value
    whole = copy.deepcopy(document)
    inner = whole
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return whole


def removed(document: Any, place: list[Any]) -> Any:
    whole = copy.deepcopy(document)
    inner = whole
    for key in place[:-1]:
        inner = inner[key]
    del inner[place[-1]]
    return whole


@pytest.mark.parametrize("name", CASES)
def test_the_valid_answers_of_the_test_are_understood(name: str, server: tuple[AnyServer, str], tmp_path: Path) -> None:
    server[0].answers, call = CASES[name]
    assert call(server[1], tmp_path) is not None


@pytest.mark.parametrize("name", CASES)
@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_an_answer_of_another_form_is_an_error_of_ours(
    name: str, server: tuple[AnyServer, str], tmp_path: Path, data: st.DataObject
) -> None:
    answers, call = CASES[name]
    end = data.draw(st.sampled_from(sorted(answers)))
    place = data.draw(st.sampled_from(places(answers[end])))
    if place and data.draw(st.booleans()):
        changed = removed(answers[end], place)
    else:
        changed = replaced(answers[end], place, data.draw(JSON))
    server[0].answers = {**answers, end: changed}
    try:
        call(server[1], tmp_path)
    except SeatrialError as error:
        assert str(error)


SAMPLES: list[Any] = [5, "12", [1, "1", 3], ["x", "1"], [float("inf"), "1"], [float("nan"), "1"], [10**400, "1"]]


@pytest.mark.parametrize("wrong", [{"values": [sample]} for sample in SAMPLES] + [{"metric": [1]}, {"metric": "ab"}])
@pytest.mark.parametrize("call", ["range", "samples"])
def test_samples_of_another_form_are_an_error_of_ours(
    call: str, wrong: dict[str, Any], server: tuple[AnyServer, str]
) -> None:
    result = [{"metric": {"a": "b"}, "values": [[1, "2"]], **wrong}]
    server[0].answers = {"": {"data": {"resultType": "matrix", "result": result}}}
    client = PrometheusClient(PrometheusServer(server[1]))
    with pytest.raises(AccessError, match="unexpected form"):
        client.range("up", 0.0, 1.0, 1.0) if call == "range" else client.samples("up", 0.0, 1.0)


LISTS = [b"<ListBucketResult><Contents><Size>3</Size></Contents></ListBucketResult>", b"<x/>", b"not XML", b"[]"]


@pytest.mark.parametrize("body", LISTS)
def test_a_listing_of_s3_of_another_form_is_an_error_of_ours(body: bytes) -> None:
    with ScriptedServer(lambda _asked: (200, body)) as running:
        where = S3Location("b", "p", f"http://127.0.0.1:{running.port}", access_key="a", secret_key="s")
        try:
            with s3_errors(where):
                assert [page.get("Contents") for page in list_pages(create_s3_client(where, 5.0, 1), "b", "p")] == [
                    None
                ]
        except SeatrialError as error:
            assert "s3://b/p" in str(error)


def test_the_error_names_the_server_and_what_was_found_without_its_values() -> None:
    answer = {"a": "hush-hush", "b": 1}
    with (
        pytest.raises(AccessError, match="S: GET /x: .*: an object with a, b without 'c'") as raised,
        expect_documented_form("S: GET /x", answer),
    ):
        assert answer["c"]
    assert "hush" not in str(raised.value)
    with pytest.raises(AccessError, match="not a JSON object but a list of 2"):
        require_json_object("S", [1, 2])
    with pytest.raises(AccessError, match="S: keys: an entry of the list: .* but text"):
        require_json_object("S", {"keys": ["hush-hush"]}, ("keys",))
    with pytest.raises(AccessError, match="but null"):
        require_list_of_json_objects("S", None)


def test_an_error_of_ours_passes_and_what_is_read_is_returned() -> None:
    with pytest.raises(SeatrialError, match="^mine$"), expect_documented_form("S", {}):
        raise AccessError("mine")
    assert require_list_of_json_objects("S", [{"a": 1}]) == [{"a": 1}]
    assert CloudAssignment.from_json(ASSIGNMENT).vlan_number == 1100


@pytest.mark.parametrize("names", [["a"] * 50_001, ["a" * 1001]])
def test_more_names_of_metrics_than_a_cluster_has_are_refused(names: list[str]) -> None:
    with ScriptedServer(lambda _asked: (200, {"status": "success", "data": names})) as running:
        client = PrometheusClient(PrometheusServer(f"http://127.0.0.1:{running.port}"))
        with pytest.raises(AccessError, match=f"it names {len(names):,} metrics, and at most 50,000 .* are dumped"):
            client.names("up", 0.0, 1.0)

"""Metrics of the real API server through a real Prometheus: captured, computed, drawn; no server is needed later."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import rehearsal as support
import servers
from ansible_collections.perfscale.seatrial.plugins.module_utils import _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import AccessError, SeatrialError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kpi.write_kpis import write_kpis
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._metrics import capture_metrics, metrics_file
from ansible_collections.perfscale.seatrial.plugins.module_utils._metrics.prometheus import (
    PrometheusServer,
    of_openshift,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._report.write_report import write_report
from ansible_collections.perfscale.seatrial.plugins.module_utils._step_files import stamp
from ansible_collections.perfscale.seatrial.plugins.module_utils._timeline.write_timeline import write_timeline
from ansible_collections.perfscale.seatrial.plugins.module_utils._verdict.write_verdict import write_verdict
from playbook import play
from run_directory import World, write_run

ROLES = Path(__file__).parents[2] / "roles"
SECONDS = 12


def credentials(kubeconfig: str, folder: Path) -> dict[str, str]:
    """Write what a kubeconfig holds as the files that Prometheus reads."""
    import base64

    config = _files.read_yaml(Path(kubeconfig))
    user, cluster = config["users"][0]["user"], config["clusters"][0]["cluster"]
    held = {
        "ca_file": cluster.get("certificate-authority-data"),
        "cert_file": user.get("client-certificate-data"),
        "key_file": user.get("client-key-data"),
    }
    files = {
        "ca_file": cluster.get("certificate-authority"),
        "cert_file": user.get("client-certificate"),
        "key_file": user.get("client-key"),
    }
    for name, data in held.items():
        if data:
            (folder / name).write_bytes(base64.b64decode(data))
            files[name] = str(folder / name)
    return files


@pytest.fixture(scope="module")
def address(rehearsal: support.Rehearsal, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus that scrapes the API server every second, and has for some seconds."""
    folder = tmp_path_factory.mktemp("prometheus")
    host = rehearsal.cluster["api_host"]
    scrape = {
        "job_name": "apiserver",
        "scheme": "https",
        "tls_config": credentials(rehearsal.kubeconfig, folder),
        "static_configs": [{"targets": [host]}],
    }
    with servers.prometheus(folder, scrape) as found:
        client = rehearsal.client()
        over = time.monotonic() + SECONDS
        while time.monotonic() < over:  # something to be measured
            client.request("GET", "/api/v1/namespaces")
            time.sleep(0.05)
        yield found


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run whose point was measured in the last seconds."""
    top = write_run(tmp_path / "run", [(World(count=10, canary=5.0), {})])
    point = _files.read_yaml(top / "points/000/point.yml")
    now = time.time()
    point.update(started=stamp(now - SECONDS + 3), ended=stamp(now))
    _files.write_yaml(top / "points/000/point.yml", point, "point/2")
    return top


QUERIES = str(ROLES / "metrics" / "files" / "control_plane.yml")


def test_the_shipped_queries_find_the_api_server(address: str, run: Path) -> None:
    result = capture_metrics.capture(str(run), PrometheusServer(address), [QUERIES], step=1.0, look_back=5.0)
    assert result["warnings"] == []
    found = metrics_file.read(run / "points" / "000" / metrics_file.FILE)
    with_values = {name for name, one in found.items() if one.series}
    assert with_values >= {"apiserver_requests", "apiserver_latency_p99", "apiserver_inflight", "apiserver_memory"}
    moments, values = found["apiserver_memory"].together("sum")
    assert len(moments) >= 5 and 50e6 < values.mean() < 5e9
    lists = next(one for one in found["apiserver_requests"].series if one.labels["verb"] == "LIST")
    assert max(value or 0 for value in lists.values) > 1
    lines = (run / "points/000/metrics/apiserver_memory.csv").read_text().splitlines()
    assert lines[0] == "epoch,since_start_s,instance,apiserver_memory"
    assert len(lines) == len(moments) + 1


def test_kpis_and_a_plot_are_made_from_them_without_the_server(address: str, run: Path, tmp_path: Path) -> None:
    capture_metrics.capture(str(run), PrometheusServer(address), [QUERIES], step=1.0, look_back=5.0)
    mine = tmp_path / "kpis.yml"
    kpi = {"name": "memory", "unit": "bytes", "direction": "lower", "help": "Most memory of the API server."}
    kpi["source"] = {"function": "metric", "name": "apiserver_memory", "statistic": "max"}
    _files.write_yaml(mine, [kpi, {**kpi, "name": "none", "source": {"function": "metric", "name": "unknown"}}])
    write_timeline(str(run))
    write_kpis(str(run), [str(mine)])
    write_verdict(str(run), 0.5)
    memory, none = _files.read_json(run / "points/000/kpis.json")["kpis"]
    assert memory["value"] > 50e6 and 5 <= memory["n"] <= memory["of"]
    assert (none["value"], none["note"]) == (None, "no metric with this name was captured")
    result = write_report(str(run), str(ROLES / "results/templates/report.html.j2"))
    assert any(path.endswith("000_metrics.png") for path in result["plots"])


def test_a_wrong_query_is_a_warning_and_the_others_are_captured(address: str, run: Path, tmp_path: Path) -> None:
    mine = tmp_path / "queries.yml"
    _files.write_yaml(mine, [{"name": "wrong", "query": "sum(", "unit": ""}, {"name": "up", "query": "up", "unit": ""}])
    result = capture_metrics.capture(str(run), PrometheusServer(address), [str(mine)])
    assert "metric wrong:" in result["warnings"][0] and "parse error" in result["warnings"][0]
    found = metrics_file.read(run / "points" / "000" / metrics_file.FILE)
    assert found["wrong"].error and found["up"].series


def test_tls_is_verified_and_a_server_that_is_not_there_is_told(address: str, run: Path, tmp_path: Path) -> None:
    with servers.tls(tmp_path, address) as (secure, authority):
        with pytest.raises(AccessError, match="certificate verify failed"):
            capture_metrics.capture(str(run), PrometheusServer(secure, "token-of-some-length"), [QUERIES])
        trusted = PrometheusServer(secure, "token-of-some-length", authority.read_text())
        assert capture_metrics.capture(str(run), trusted, [QUERIES], 1.0, 5.0)["points"][0]["series"] > 3
    with pytest.raises(AccessError, match="Connection refused"):
        capture_metrics.capture(str(run), PrometheusServer("http://127.0.0.1:9"), [QUERIES])


#: As much of OpenShift's Route as the look-up reads; a stand-in, since the definition itself can't be had here.
ROUTES = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "routes.route.openshift.io"},
    "spec": {
        "group": "route.openshift.io",
        "scope": "Namespaced",
        "names": {"kind": "Route", "plural": "routes", "singular": "route"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


def test_on_openshift_the_route_to_thanos_is_found_with_token_and_authority(
    address: str, run: Path, rehearsal: support.Rehearsal, tmp_path: Path
) -> None:
    client = rehearsal.client()
    with servers.tls(tmp_path, address) as (secure, authority):
        for space in ("openshift-monitoring", "openshift-config-managed"):
            client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
        client.apply(ROUTES)
        route = {"apiVersion": "route.openshift.io/v1", "kind": "Route"}
        route["metadata"] = {"name": "thanos-querier", "namespace": "openshift-monitoring"}
        route["spec"] = {"host": secure.removeprefix("https://")}
        bundle = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"ca-bundle.crt": authority.read_text()}}
        bundle["metadata"] = {"name": "default-ingress-cert", "namespace": "openshift-config-managed"}
        account = {"apiVersion": "v1", "kind": "ServiceAccount"}
        account["metadata"] = {"name": "reader", "namespace": "openshift-monitoring"}
        binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding"}
        binding["metadata"] = {"name": "reader"}
        binding["roleRef"] = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
        binding["subjects"] = [{"kind": "ServiceAccount", "name": "reader", "namespace": "openshift-monitoring"}]
        apply_when_served(client, route)
        for one in (bundle, account, binding):
            client.apply(one)
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
        path = "/api/v1/namespaces/openshift-monitoring/serviceaccounts/reader/token"
        token = client.request("POST", path, asked)["status"]["token"]
        config = _files.read_yaml(Path(rehearsal.kubeconfig))
        config["users"][0]["user"] = {"token": token}
        _files.write_yaml(tmp_path / "kubeconfig", config)
        with Client.from_kubeconfig(tmp_path / "kubeconfig") as other:
            found = of_openshift(other)
        assert (found.url, found.token, found.authority) == (secure, token, authority.read_text())
        assert capture_metrics.capture(str(run), found, [QUERIES], 1.0, 5.0)["points"][0]["series"] > 3
        with pytest.raises(AccessError, match="has no token"):
            of_openshift(client)


def apply_when_served(client: Client, manifest: dict) -> None:
    """Apply an object of a kind that was defined a moment ago."""
    over = time.monotonic() + 30
    while True:
        try:
            client.apply(manifest)
            return
        except SeatrialError:
            if time.monotonic() > over:
                raise
            time.sleep(0.3)


def test_the_role_captures_before_the_report_when_a_server_is_named(address: str, run: Path, tmp_path: Path) -> None:
    (tmp_path / "play.yml").write_text(
        "- hosts: localhost\n  gather_facts: false\n  tasks:\n"
        "    - ansible.builtin.set_fact: {run_dir: " + str(run) + ", run_id: t1121-abcdef}\n"
        "    - ansible.builtin.include_role: {name: perfscale.seatrial.metrics}\n"
    )
    words = ["-e", f"metrics_url={address}", "-e", "metrics_step=1", "-e", "metrics_range=5"]
    done = play(*words, artifacts=tmp_path, path=tmp_path / "play.yml", env={"SEATRIAL_METRICS_TOKEN": "canary-9c"})
    assert done.code == 0, done.output[-4000:]
    assert (run / "points/000/metrics.jsonl").exists()
    assert "canary-9c" not in done.output

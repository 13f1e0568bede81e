"""Metrics of the real API server through a real Prometheus: captured, computed, drawn; no server is needed later."""

from __future__ import annotations

import contextlib
import gzip
import http.server
import json
import os
import subprocess
import sys
import threading
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest
import rehearsal as support
import servers
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    AccessError,
    DataError,
    InputError,
    OwnershipError,
    SeatrialError,
    WaitTimeout,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import format_utc_timestamp
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.server_side_apply import ObjectDiff
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.write_verdict import write_verdict
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.write_kpis import write_kpis
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.metrics import (
    capture_prometheus_metrics,
    metrics_dump,
    metrics_file,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.metrics import (
    capture_prometheus_metrics as prometheus_requests,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.metrics import (
    user_workload_monitoring as monitoring,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.metrics.capture_prometheus_metrics import (
    PrometheusServer,
    openshift_thanos_querier,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.report.write_report import write_report
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.write_timeline import write_timeline
from playbook import play
from run_directory import RUN, World, write_run

ROLES = Path(__file__).parents[2] / "roles"
SECONDS = 12
PROGRAM = servers.prometheus_program()


@contextlib.contextmanager
def cadvisor() -> Iterator[dict[str, object]]:
    """A server with the metrics of a kubelet, as a scrape_config: half a CPU and 300 MB in each of two pods."""

    class Kubelet(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            lines = []
            for pod, share in ((f"{RUN}-000-0-master-0", 1), (f"{RUN}-000-0-worker-0", 1), ("another-0", 100)):
                for container in ("pytorch", ""):  # the cgroup of the pod has no container, and counts all of them
                    labels = f'{{container="{container}",namespace="n",pod="{pod}"}}'
                    lines += [f"container_cpu_usage_seconds_total{labels} {time.monotonic() / 2 * share}"]
                    lines += [f"container_memory_working_set_bytes{labels} {3e8 * share}"]
            body = "\n".join([*lines, ""]).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_words: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Kubelet) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield {"job_name": "cadvisor", "static_configs": [{"targets": [f"127.0.0.1:{server.server_port}"]}]}
        server.shutdown()


@pytest.fixture(scope="module")
def address(rehearsal: support.Rehearsal, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus that scrapes the API server every second, and has for some seconds."""
    folder = tmp_path_factory.mktemp("prometheus")
    host = rehearsal.cluster["api_host"]
    scrape = {
        "job_name": "apiserver",
        "scheme": "https",
        "tls_config": servers.credentials(rehearsal.kubeconfig, folder),
        "static_configs": [{"targets": [host]}],
    }
    with cadvisor() as target, servers.prometheus(folder, scrape, target) as found:
        over = threading.Event()
        reads = threading.Thread(target=read_until, args=(rehearsal, over), daemon=True)
        reads.start()
        time.sleep(SECONDS)
        yield found
        over.set()
        reads.join()


def read_until(rehearsal: support.Rehearsal, over: threading.Event) -> None:
    """Give the API server something to be measured, in whichever seconds a test looks at."""
    with rehearsal.client() as client:
        while not over.wait(0.1):
            client.request("GET", "/api/v1/namespaces")


def newest(address: str) -> float:
    """Return when the server has last scraped, once it has six samples of the last nine seconds.

    On a busy machine, a scrape takes longer than its time limit, which is the interval of one second.
    """
    count = urllib.parse.quote("min(count_over_time(process_resident_memory_bytes[9s])) >= 6")
    last = urllib.parse.quote("max(timestamp(process_resident_memory_bytes))")
    deadline = time.monotonic() + 180
    while True:
        if servers.get(f"{address}/api/v1/query?query={count}")["data"]["result"]:
            return float(servers.get(f"{address}/api/v1/query?query={last}")["data"]["result"][0]["value"][1])
        assert time.monotonic() < deadline, "the API server was not scraped"
        time.sleep(0.5)


@pytest.fixture
def run(address: str, tmp_path: Path) -> Path:
    """A run whose point was measured in the last seconds, of which the server has all samples."""
    top = write_run(tmp_path / "run", [(World(count=10, canary=5.0), {})])
    point = files.read_yaml(top / "points/000/point.yml")
    now = newest(address)
    point.update(started=format_utc_timestamp(now - SECONDS + 3), ended=format_utc_timestamp(now))
    files.write_yaml(top / "points/000/point.yml", point, "point/2")
    return top


QUERIES = str(ROLES / "metrics" / "files" / "control_plane.yml")


def test_the_shipped_queries_find_the_api_server(address: str, run: Path) -> None:
    lists = sorted(str(path) for path in (ROLES / "metrics" / "files").glob("*.yml"))
    result = capture_prometheus_metrics.capture_metrics_of_points(
        str(run), PrometheusServer(address), lists, step=1.0, look_back=5.0
    )
    assert result["warnings"] == [], "a query that the server refuses would be named here"
    found = metrics_file.read_metrics_jsonl(run / "points" / "000" / metrics_file.FILE)
    with_values = {name for name, one in found.items() if one.series}
    assert with_values >= {"apiserver_requests", "apiserver_latency_p99", "apiserver_inflight", "apiserver_memory"}
    moments, values = found["apiserver_memory"].together("sum")
    assert len(moments) >= 5 and 50e6 < values.mean() < 5e9
    reads = next(one for one in found["apiserver_requests"].series if one.labels["verb"] == "LIST")
    assert max(value or 0 for value in reads.values) > 1
    lines = (run / "points/000/metrics/apiserver_memory.csv").read_text().splitlines()
    assert lines[0] == "epoch,since_start_s,instance,apiserver_memory"
    assert len(lines) == len(moments) + 1


def test_kpis_and_a_plot_are_made_from_them_without_the_server(address: str, run: Path, tmp_path: Path) -> None:
    capture_prometheus_metrics.capture_metrics_of_points(
        str(run), PrometheusServer(address), [QUERIES], step=1.0, look_back=5.0
    )
    mine = tmp_path / "kpis.yml"
    kpi = {"name": "memory", "unit": "bytes", "direction": "lower", "help": "Most memory of the API server."}
    kpi["source"] = {"function": "metric", "name": "apiserver_memory", "statistic": "max"}
    files.write_yaml(mine, [kpi, {**kpi, "name": "none", "source": {"function": "metric", "name": "unknown"}}])
    write_timeline(str(run))
    write_kpis(str(run), [str(mine)])
    write_verdict(str(run), 0.5)
    memory, none = files.read_json(run / "points/000/kpis.json")["kpis"]
    assert memory["value"] > 50e6 and 5 <= memory["n"] <= memory["of"]
    assert (none["value"], none["note"]) == (None, "no metric with this name was captured")
    result = write_report(str(run), str(ROLES / "results/templates/report.html.j2"))
    assert any(path.endswith("000_metrics.png") for path in result["plots"])


def test_cpu_and_memory_are_those_of_the_pods_of_the_run(address: str, run: Path) -> None:
    queries = str(ROLES / "metrics" / "files" / "pods.yml")
    result = capture_prometheus_metrics.capture_metrics_of_points(
        str(run), PrometheusServer(address), [queries], step=1.0, look_back=5.0
    )
    assert result["warnings"] == []
    write_timeline(str(run))
    write_kpis(str(run), [str(ROLES / "fine_tuning" / "files" / "kpis.yml")])
    kpis = {one["name"]: one["value"] for one in files.read_json(run / "points/000/kpis.json")["kpis"]}
    # A rate over scrapes of a busy machine; a pod of another run, or the cgroup of a pod too, would at least double it.
    assert 0.2 < kpis["pod_cpu_mean"] < 0.9
    assert kpis["pod_memory_mean"] == kpis["pod_memory_max"] == 3e8
    found = metrics_file.read_metrics_jsonl(run / "points" / "000" / metrics_file.FILE)["pod_memory"]
    assert {one.labels["pod"] for one in found.series} == {f"{RUN}-000-0-master-0", f"{RUN}-000-0-worker-0"}


def test_a_wrong_query_is_a_warning_and_the_others_are_captured(address: str, run: Path, tmp_path: Path) -> None:
    mine = tmp_path / "queries.yml"
    files.write_yaml(mine, [{"name": "wrong", "query": "sum(", "unit": ""}, {"name": "up", "query": "up", "unit": ""}])
    result = capture_prometheus_metrics.capture_metrics_of_points(str(run), PrometheusServer(address), [str(mine)])
    assert "metric wrong:" in result["warnings"][0] and "parse error" in result["warnings"][0]
    found = metrics_file.read_metrics_jsonl(run / "points" / "000" / metrics_file.FILE)
    assert found["wrong"].error and found["up"].series


def test_tls_is_verified_and_a_server_that_is_not_there_is_told(address: str, run: Path, tmp_path: Path) -> None:
    with servers.tls(tmp_path, address) as (secure, authority):
        with pytest.raises(AccessError, match="certificate verify failed"):
            capture_prometheus_metrics.capture_metrics_of_points(
                str(run), PrometheusServer(secure, "token-of-some-length"), [QUERIES]
            )
        trusted = PrometheusServer(secure, "token-of-some-length", authority.read_text())
        assert (
            capture_prometheus_metrics.capture_metrics_of_points(str(run), trusted, [QUERIES], 1.0, 5.0)["points"][0][
                "series"
            ]
            > 3
        )
    with pytest.raises(AccessError, match="Connection refused"):
        capture_prometheus_metrics.capture_metrics_of_points(
            str(run), PrometheusServer("http://127.0.0.1:9"), [QUERIES]
        )


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
        config = files.read_yaml(Path(rehearsal.kubeconfig))
        config["users"][0]["user"] = {"token": token}
        files.write_yaml(tmp_path / "kubeconfig", config)
        with Client.from_kubeconfig(tmp_path / "kubeconfig") as other:
            wait_until_permitted(other)
            found = openshift_thanos_querier(other)
        assert (found.url, found.token, found.authority) == (secure, token, authority.read_text())
        assert (
            capture_prometheus_metrics.capture_metrics_of_points(str(run), found, [QUERIES], 1.0, 5.0)["points"][0][
                "series"
            ]
            > 3
        )
        with pytest.raises(AccessError, match="has no token"):
            openshift_thanos_querier(client)


def wait_until_permitted(client: Client) -> None:
    """Wait until the API server has taken over the account's binding, which it does by a watch."""
    deadline = time.monotonic() + 120
    while client.raw("GET", "/api/v1/nodes").status == 403:
        assert time.monotonic() < deadline, "the account has no rights"
        time.sleep(0.1)


def apply_when_served(client: Client, manifest: dict) -> None:
    """Apply an object of a kind that was defined a moment ago."""
    over = time.monotonic() + 120
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


UWM = "openshift-user-workload-monitoring"
CONFIG = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": monitoring.NAME, "namespace": monitoring.NAMESPACE},
}


@pytest.fixture
def openshift(rehearsal: support.Rehearsal) -> Iterator[Client]:
    """A cluster with the namespaces of OpenShift's monitoring and a Prometheus of user workloads without pods."""
    client = rehearsal.client()
    for space in (monitoring.NAMESPACE, UWM):
        client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
    labels = {"app": "uwm"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "prometheus", "image": "prometheus"}]}}
    spec = {"replicas": 0, "serviceName": "uwm", "selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": "prometheus-user-workload", "namespace": UWM}
    client.apply({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec})
    yield client
    client.delete(client.kind("apps/v1", "StatefulSet"), metadata["name"], UWM)
    client.delete(client.kind("v1", "ConfigMap"), monitoring.NAME, monitoring.NAMESPACE)
    client.close()


def text_of(client: Client) -> str | None:
    found = client.get(client.kind("v1", "ConfigMap"), monitoring.NAME, monitoring.NAMESPACE)
    return None if found is None else found["data"][monitoring.KEY]


def switched_on(client: Client, path: Path) -> bool:
    return monitoring.switch_on_user_workload_monitoring(client, path, 240.0, lambda _text: None, ObjectDiff())


@pytest.mark.parametrize("before", [None, "# ours\nprometheusK8s: {retention: 15d}\nenableUserWorkload: false\n"])
def test_user_workload_monitoring_is_switched_on_and_restored_byte_by_byte(
    openshift: Client, tmp_path: Path, before: str | None
) -> None:
    if before is not None:
        openshift.create({**CONFIG, "data": {monitoring.KEY: before}})
    path = tmp_path / monitoring.FILE
    assert switched_on(openshift, path) is True and switched_on(openshift, path) is False
    during = yaml.safe_load(text_of(openshift) or "")
    assert during.pop(monitoring.SWITCH) is True
    assert during == ({} if before is None else {"prometheusK8s": {"retention": "15d"}})
    assert monitoring.restore_monitoring_config(openshift, path, ObjectDiff(), check=True) is True and path.exists()
    assert monitoring.restore_monitoring_config(openshift, path, ObjectDiff()) is True
    assert text_of(openshift) == before and not path.exists()
    assert monitoring.restore_monitoring_config(openshift, path, ObjectDiff()) is False


def test_monitoring_that_somebody_else_has_changed_is_left_as_it_is(openshift: Client, tmp_path: Path) -> None:
    path = tmp_path / monitoring.FILE
    switched_on(openshift, path)
    theirs = "enableUserWorkload: true\nprometheusK8s: {retention: 1d}\n"
    openshift.apply({**CONFIG, "data": {monitoring.KEY: theirs}})
    with pytest.raises(OwnershipError, match="changed by somebody else"):
        monitoring.restore_monitoring_config(openshift, path, ObjectDiff())
    assert text_of(openshift) == theirs and path.exists()


def test_monitoring_that_does_not_become_ready_says_what_it_lacks(openshift: Client, tmp_path: Path) -> None:
    openshift.delete(openshift.kind("apps/v1", "StatefulSet"), "prometheus-user-workload", UWM)
    with pytest.raises(WaitTimeout, match="not ready after 0 s: its Prometheus does not exist yet"):
        monitoring.switch_on_user_workload_monitoring(
            openshift, tmp_path / monitoring.FILE, 0.0, lambda _text: None, ObjectDiff()
        )
    assert monitoring.restore_monitoring_config(openshift, tmp_path / monitoring.FILE, ObjectDiff()) is True


def dumped(address: str, run: Path, **more: object) -> dict:
    """Dump what the server has of the run's time, and return the result."""
    return metrics_dump.write_metrics_dump(
        str(run), PrometheusServer(address), 64 << 20, 300.0, lambda _text: None, **more
    )


def captured(run: Path) -> dict[str, metrics_file.CapturedMetric]:
    return metrics_file.read_metrics_jsonl(run / "points" / "000" / metrics_file.FILE)


def test_figures_from_the_dump_equal_those_of_the_server(address: str, run: Path, tmp_path: Path) -> None:
    capture_prometheus_metrics.capture_metrics_of_points(
        str(run), PrometheusServer(address), [QUERIES], step=1.0, look_back=5.0
    )
    asked = {name: one.series for name, one in captured(run).items()}
    result = dumped(address, run)
    assert result["warnings"] == [] and result["left_out"] == [] and result["metrics"] > 100
    assert result["bytes"] == (run / metrics_dump.FILE).stat().st_size
    (run / "points" / "000" / metrics_file.FILE).unlink()
    with metrics_dump.run_prometheus_on_dump(str(run), str(PROGRAM)) as server:
        assert server.url.startswith("http://127.0.0.1:")
        again = capture_prometheus_metrics.capture_metrics_of_points(
            str(run), server, [QUERIES], step=1.0, look_back=5.0, keep=True
        )
    assert again["warnings"] == []
    now = {name: one.series for name, one in captured(run).items()}
    assert asked["apiserver_memory"] and asked["apiserver_requests"]
    for name, series in asked.items():
        here = {tuple(sorted(one.labels.items())): dict(zip(one.moments, one.values, strict=True)) for one in now[name]}
        for one in series:
            # After a scrape that failed, the server shows no value at once, and the dump only after some seconds.
            found = here[tuple(sorted(one.labels.items()))]
            assert {moment: found[moment] for moment in one.moments} == dict(zip(one.moments, one.values, strict=True))
    with pytest.raises(AccessError):
        capture_prometheus_metrics.capture_metrics_of_points(str(run), server, [QUERIES])
    assert not list(run.glob(".metrics*")), "the database is removed"


def test_a_metric_that_was_not_captured_comes_from_the_dump_and_others_are_kept(
    address: str, run: Path, tmp_path: Path
) -> None:
    capture_prometheus_metrics.capture_metrics_of_points(
        str(run), PrometheusServer(address), [QUERIES], step=2.0, look_back=5.0
    )
    before = captured(run)
    dumped(address, run, matchers=['__name__=~"go_.*"'])
    mine = tmp_path / "queries.yml"
    files.write_yaml(mine, [{"name": "goroutines", "query": "go_goroutines", "unit": ""}])
    with metrics_dump.run_prometheus_on_dump(str(run), str(PROGRAM)) as server:
        capture_prometheus_metrics.capture_metrics_of_points(
            str(run), server, [QUERIES, str(mine)], look_back=5.0, keep=True
        )
    after = captured(run)
    assert {name: after[name] for name in before} == before
    assert after["goroutines"].series[0].values[0] > 1 and after["goroutines"].step == 2.0


def test_a_dump_stays_below_its_limit_and_names_what_it_lacks(address: str, run: Path) -> None:
    most = 20_000
    result = metrics_dump.write_metrics_dump(
        str(run), PrometheusServer(address), most, 300.0, lambda _text: None, queries=[QUERIES]
    )
    assert 0 < result["bytes"] <= most and result["metrics"] > 0
    assert {one["why"] for one in result["left_out"]} == {"the limit of 20,000 bytes"}
    assert "not dumped" in result["warnings"][0]
    none = metrics_dump.write_metrics_dump(str(run), PrometheusServer(address), most, 0.0, lambda _text: None)
    assert (none["metrics"], none["left_out"][0]["why"]) == (0, "the time limit of 0 s")


def test_an_answer_that_is_too_large_is_read_in_parts(address: str, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_dump, "BEFORE", 30.0)
    monkeypatch.setattr(metrics_dump, "LEAST_TIME", 1.0)
    whole = dumped(address, run, matchers=['__name__="process_cpu_seconds_total"'])
    text = gzip.decompress((run / metrics_dump.FILE).read_bytes())
    monkeypatch.setattr(prometheus_requests, "MOST_ANSWER", 400)
    parts = dumped(address, run, matchers=['__name__="process_cpu_seconds_total"'])
    assert whole["samples"] >= 5 and parts["left_out"] == []
    assert gzip.decompress((run / metrics_dump.FILE).read_bytes()) == text


def test_a_dump_that_was_changed_is_refused(address: str, run: Path) -> None:
    with (
        pytest.raises(InputError, match="has no dump of metrics"),
        metrics_dump.run_prometheus_on_dump(str(run), str(PROGRAM)),
    ):
        pass
    dumped(address, run, matchers=['__name__="up"'])
    (run / metrics_dump.FILE).write_bytes(b"other")
    with pytest.raises(DataError, match="is damaged"), metrics_dump.run_prometheus_on_dump(str(run), str(PROGRAM)):
        pass
    with pytest.raises(InputError, match="metrics_prometheus: there is no program"):
        metrics_dump.run_prometheus_on_dump(str(run), "/no/prometheus").__enter__()


def test_a_replot_adds_a_figure_that_nobody_asked_for_at_the_time(address: str, run: Path, tmp_path: Path) -> None:
    capture_prometheus_metrics.capture_metrics_of_points(
        str(run), PrometheusServer(address), [QUERIES], step=1.0, look_back=5.0
    )
    dumped(address, run, matchers=['__name__="go_goroutines"'])
    files.write_yaml(tmp_path / "more.yml", [{"name": "goroutines", "query": "go_goroutines", "unit": ""}])
    kpi = {"name": "goroutines", "unit": "", "direction": "lower", "help": "Most goroutines."}
    kpi["source"] = {"function": "metric", "name": "goroutines", "statistic": "max"}
    files.write_yaml(tmp_path / "kpis.yml", [kpi])
    more = {
        "metrics_query_files": [str(tmp_path / "more.yml")],
        "metrics_prometheus": str(PROGRAM),
        "results_kpi_files": [str(tmp_path / "kpis.yml")],
    }
    words = ["-e", f"source={run}", "-e", json.dumps(more)]
    done = play(*words, artifacts=tmp_path, path=ROLES.parent / "playbooks" / "replot.yml")
    assert done.code == 0, done.output[-4000:]
    again = tmp_path / f"{run.name}-replot"
    kpis = {one["name"]: one["value"] for one in files.read_json(again / "points/000/kpis.json")["kpis"]}
    assert kpis["goroutines"] > 1
    kept = metrics_file.read_metrics_jsonl(again / "points/000" / metrics_file.FILE)
    assert kept["goroutines"].series
    before = {name: one for name, one in captured(run).items() if one.series}
    assert before and {name: kept[name] for name in before} == before


def test_the_local_server_ends_with_a_process_that_is_killed(address: str, run: Path) -> None:
    dumped(address, run, matchers=['__name__="up"'])
    code = (
        "import sys, time\n"
        f"from {metrics_dump.__name__} import run_prometheus_on_dump\n"
        f"with run_prometheus_on_dump({str(run)!r}, {str(PROGRAM)!r}) as server:\n"
        "    print(server.url, flush=True)\n"
        "    time.sleep(600)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROLES.parent / "collections")}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=env) as child:
        assert child.stdout is not None
        url = child.stdout.readline().strip()
        assert servers.get(f"{url}/api/v1/query?query=up")["status"] == "success"
        child.kill()
    deadline = time.monotonic() + 120
    while True:
        try:
            servers.get(f"{url}/api/v1/query?query=up")
        except OSError:
            break
        assert time.monotonic() < deadline, "the local Prometheus runs without its parent"
        time.sleep(0.1)

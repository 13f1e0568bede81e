"""The client against a real API server: trust, credentials, discovery, watches."""

from __future__ import annotations

import shlex
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import ssh_server
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import ThreadPool
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.watch import (
    WatchConnection,
    events_of_watch_connection,
)


def changed(
    rehearsal: Any, folder: Path, cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None
) -> str:
    """Write the cluster's kubeconfig with some entries changed; None takes one away."""
    document = yaml.safe_load(Path(rehearsal.kubeconfig).read_text())
    for entries, changes in ((document["clusters"][0]["cluster"], cluster), (document["users"][0]["user"], user)):
        entries.update(changes or {})
        for key in [key for key, value in entries.items() if value is None]:
            del entries[key]
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return str(path)


def test_a_server_that_nobody_vouches_for_is_not_spoken_to(rehearsal: Any, tmp_path: Path) -> None:
    plain = changed(rehearsal, tmp_path, {"certificate-authority-data": None, "certificate-authority": None})
    with pytest.raises(AccessError, match="its certificate is not trusted"):
        Client.from_kubeconfig(plain).text("/readyz")
    with pytest.raises(AccessError, match="its certificate is not trusted"):
        Client.from_kubeconfig(changed(rehearsal, tmp_path, {"tls-server-name": "elsewhere"})).text("/readyz")
    named = changed(rehearsal, tmp_path, {"tls-server-name": "localhost"})
    assert Client.from_kubeconfig(named).text("/readyz") == "ok"


def test_without_good_credentials_the_error_says_whose_they_were(rehearsal: Any, tmp_path: Path) -> None:
    certificate = {
        "client-certificate-data": None,
        "client-key-data": None,
        "client-certificate": None,
        "client-key": None,
    }
    path = changed(rehearsal, tmp_path, user={**certificate, "token": "canary-8d2f"})
    with pytest.raises(AccessError, match=f"refuses our credentials .401. from kubeconfig {path}") as caught:
        Client.from_kubeconfig(path).request("GET", "/api/v1/pods")
    assert "canary-8d2f" not in str(caught.value)


def test_a_service_accounts_token_works_as_text_and_from_a_file(rehearsal: Any, tmp_path: Path) -> None:
    with Client.from_kubeconfig(rehearsal.kubeconfig) as client:
        path = "/api/v1/namespaces/kube-system/serviceaccounts/default/token"
        token = client.request("POST", path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"})[
            "status"
        ]["token"]
    (tmp_path / "token").write_text(token)
    certificate = {
        "client-certificate-data": None,
        "client-key-data": None,
        "client-certificate": None,
        "client-key": None,
    }
    for user in ({"token": token}, {"tokenFile": "token"}):
        client = Client.from_kubeconfig(changed(rehearsal, tmp_path, user={**certificate, **user}))
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        me = client.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
        assert me["status"]["userInfo"]["username"] == "system:serviceaccount:kube-system:default"


def test_every_kind_is_found_once(rehearsal: Any) -> None:
    with Client.from_kubeconfig(rehearsal.kubeconfig) as client:
        kinds = client.kinds()
        assert client.kind("batch/v1", "Job") in kinds
    found = [(one.api_version.rpartition("/")[0], one.resource) for one in kinds]
    assert len(found) == len(set(found)) > 40
    assert {"list", "watch", "delete"} <= next(one.verbs for one in kinds if one.kind == "ConfigMap")


def test_a_watch_shows_what_was_written_after_its_list_and_ends_when_closed(rehearsal: Any) -> None:
    labels = {"test-kube": "watch"}
    with Client.from_kubeconfig(rehearsal.kubeconfig) as client:
        kind = client.kind("v1", "ConfigMap")
        present, version = client.list(kind, "default", "test-kube=watch", limit=2)
        assert present == []
        watch = WatchConnection(client, kind, version, "default", "test-kube=watch")
        objects = [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"test-kube-{i}", "labels": labels}}
            for i in range(7)
        ]
        with ThreadPool(4) as pool:
            assert len(list(pool.map(client.create, objects))) == 7
        listed, _version = client.list(kind, "default", "test-kube=watch", limit=2)
        assert sorted(one["metadata"]["name"] for one in listed) == [one["metadata"]["name"] for one in objects]
        for one in objects:
            client.delete(kind, one["metadata"]["name"], "default")
        seen = []
        for event in events_of_watch_connection(watch):
            if event["type"] != "BOOKMARK":
                seen.append((event["type"], event["object"]["metadata"]["name"]))
            if len(seen) == 14:
                watch.close()
                break
        assert sorted(seen) == sorted(
            (kind_, one["metadata"]["name"]) for one in objects for kind_ in ("ADDED", "DELETED")
        )
        assert (
            client.delete(kind, "test-kube-0", "default") is False
            and client.get(kind, "test-kube-0", "default") is None
        )


@pytest.mark.skipif(bool(ssh_server.usable()), reason=ssh_server.usable() or "there is an sshd")
def test_the_way_leads_through_a_bastion_that_ssh_makes_a_socks_proxy(rehearsal: Any, tmp_path: Path) -> None:
    server, port = ssh_server.Server(tmp_path / "sshd"), ssh_server.free_port()
    said = server.variables()
    words = ["ssh", "-N", "-D", f"127.0.0.1:{port}", "-p", str(server.port), "-i", said["ansible_ssh_private_key_file"]]
    ssh = subprocess.Popen([*words, *shlex.split(said["ansible_ssh_common_args"]), "127.0.0.1"])
    try:
        deadline = time.monotonic() + 120
        path = changed(rehearsal, tmp_path, {"proxy-url": f"socks5://127.0.0.1:{port}"})
        while True:
            try:
                assert Client.from_kubeconfig(path).text("/readyz") == "ok"
                break
            except AccessError:
                assert time.monotonic() < deadline and ssh.poll() is None
                time.sleep(0.1)
        closed = changed(
            rehearsal, tmp_path, {"proxy-url": f"socks5://127.0.0.1:{port}", "server": "https://127.0.0.1:1"}
        )
        with pytest.raises(AccessError, match="the proxy closed the connection instead of connecting to 127.0.0.1:1"):
            Client.from_kubeconfig(closed).text("/readyz")
    finally:
        ssh.kill()
        ssh.wait(120)
        server.cut()

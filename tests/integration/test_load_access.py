"""A load with credentials that run out, on the real server: a bound token, a plugin's certificate, a pod's account."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any

import drive_workload
import pytest
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import kubeconfig
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from load_world import CONFIG, World, final, wait_until_created


def token(world: World, account: str) -> str:
    path = f"/api/v1/namespaces/{world.namespace}/serviceaccounts/{account}/token"
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
    return str(world.client.request("POST", path, asked)["status"]["token"])


@pytest.fixture
def account(world: World) -> Any:
    """A service account that may do everything, made anew: its old tokens are then refused."""
    binding = f"load-{world.namespace}"

    def make(name: str) -> None:
        kind = world.client.kind("v1", "ServiceAccount")
        world.client.delete(kind, name, world.namespace)
        world.client.create(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": world.namespace}}
        )

    world.client.create(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": binding},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "load", "namespace": world.namespace}],
        }
    )
    yield make
    world.client.delete(world.client.kind("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"), binding)


def with_user(world: World, user: dict[str, Any]) -> str:
    document = yaml.safe_load(Path(world.kubeconfig).read_text(encoding="utf-8"))
    document["users"][0]["user"] = user
    path = world.folder / "kubeconfig-user"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return str(path)


def test_a_token_that_ends_in_mid_run_is_read_anew_and_the_load_is_exact(world: World, account: Any) -> None:
    account("load")
    file = world.folder / "token"
    file.write_text(token(world, "load"), encoding="ascii")
    load = {"count": 120, "arrival": {"rate": 20}, "templates": [{"name": "cm", "content": CONFIG}], "stages": []}
    process = world.start(**load, kubeconfig=with_user(world, {"tokenFile": str(file)}))
    wait_until_created(world, 10)
    account("load")  # the old account is gone, and its token with it
    file.write_text(token(world, "load"), encoding="ascii")
    found = drive_workload.result(process)
    assert found.get("counts", {}).get("created") == 120, found
    assert set(final(world.rows("ledger", "attempt")).values()) == {1}
    assert len(world.names("v1", "ConfigMap")) == 120


def test_the_service_account_of_a_pod_is_enough(
    world: World, account: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account("load")
    document = yaml.safe_load(Path(world.kubeconfig).read_text(encoding="utf-8"))
    authority = document["clusters"][0]["cluster"]
    data = authority.get("certificate-authority-data")
    pem = base64.b64decode(data) if data else Path(authority["certificate-authority"]).read_bytes()
    for name, content in (("token", token(world, "load").encode()), ("ca.crt", pem), ("namespace", b"somewhere")):
        (tmp_path / name).write_bytes(content)
    monkeypatch.setattr(kubeconfig, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(world.client.access.port))
    with Client.from_kubeconfig("in-cluster") as client:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        me = client.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
        assert me["status"]["userInfo"]["username"].endswith(":load") and client.access.namespace == "somewhere"


def test_an_insecure_line_is_used_with_a_warning(world: World) -> None:
    document = yaml.safe_load(Path(world.kubeconfig).read_text(encoding="utf-8"))
    cluster = document["clusters"][0]["cluster"]
    for key in ("certificate-authority", "certificate-authority-data"):
        cluster.pop(key, None)
    cluster["insecure-skip-tls-verify"] = True
    path = world.folder / "insecure"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    found = world.submit(count=2, kubeconfig=str(path))
    assert found["counts"]["created"] == 2
    assert "insecure-skip-tls-verify is set" in found["warnings"][0]


EXEC_CREDENTIAL = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}


def test_a_plugins_certificate_that_runs_out_is_replaced_for_new_connections(world: World) -> None:
    document = yaml.safe_load(Path(world.kubeconfig).read_text(encoding="utf-8"))
    user = document["users"][0]["user"]

    def text(key: str) -> str:
        data = user.get(f"{key}-data")
        return base64.b64decode(data).decode() if data else Path(user[key]).read_text(encoding="ascii")

    # So near its end that each new connection asks the plugin anew.
    ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 5))
    status = {
        "clientCertificateData": text("client-certificate"),
        "clientKeyData": text("client-key"),
        "expirationTimestamp": ends,
    }
    (world.folder / "status.json").write_text(json.dumps({**EXEC_CREDENTIAL, "status": status}), encoding="utf-8")
    plugin = world.folder / "login"
    plugin.write_text("#!/bin/sh\necho x >> $(dirname $0)/calls\ncat $(dirname $0)/status.json\n", encoding="ascii")
    plugin.chmod(0o755)
    entry = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin), "interactiveMode": "Never"}
    found = world.submit(count=30, arrival={"rate": 15}, kubeconfig=with_user(world, {"exec": entry}))
    assert found.get("counts", {}).get("created") == 30, found
    assert (world.folder / "calls").read_text().count("x") >= 2

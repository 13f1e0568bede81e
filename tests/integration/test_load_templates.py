"""Templates as people have them, on a real API server: what kubectl apply would create is created."""

from __future__ import annotations

import base64
import datetime
import http.server
import ipaddress
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from load_world import SUSPENDED, World

OWN = "{name: '{{ name }}', namespace: '{{ name }}'}"
EACH = "\n---\n".join(
    [
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: '{{ name }}'}",
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {OWN}\ndata: {{a: '1'}}",
        f"apiVersion: v1\nkind: ServiceAccount\nmetadata: {OWN}",
        SUSPENDED.replace('{name: "{{ name }}"}', OWN),
    ]
)
ACCOUNT_AND_POD = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: "{{ name }}"}
---
apiVersion: v1
kind: Pod
metadata: {name: "{{ name }}"}
spec: {serviceAccountName: "{{ name }}", containers: [{name: c, image: none}]}
"""
YAML = """
apiVersion: v1
kind: List
items:
  - apiVersion: v1
    kind: ConfigMap
    metadata: {name: "{{ name }}", annotations: {window: 12:30:45, operator: =, day: 2026-11-26}}
"""
CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: "things{{ index }}.{{ name }}.example.com"}
spec:
  group: "{{ name }}.example.com"
  scope: Namespaced
  names: {plural: "things{{ index }}", singular: "thing{{ index }}", kind: "Thing{{ index }}"}
  versions:
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
"""
CRD_STAGES = {
    "api_version": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "stages": [
        {"name": "created", "field": "metadata.creationTimestamp", "writer": "api-server"},
        {"name": "established", "condition": "Established", "writer": "controller", "ends": "succeeded"},
    ],
}


def template(content: str) -> list[dict[str, Any]]:
    return [{"name": "own", "content": content}]


def test_each_workload_has_a_namespace_of_its_own(world: World) -> None:
    found = world.submit(count=4, templates=template(EACH))
    assert "counts" in found, found
    assert found["counts"]["created"] == 4 and found["counts"]["blocked"] == found["counts"]["refused"] == 0, found
    for index in range(4):
        name = f"{world.run_id}-001-{index}"
        assert world.client.get(world.client.kind("batch/v1", "Job"), name, name) is not None
    again = world.submit(count=4, templates=template(EACH))
    assert again["changed"] is False and again["counts"]["created"] == 4
    wrong = world.submit(
        count=4, templates=template(EACH.replace("\ndata: ", "\ndta: ")), point_dir=str(world.folder / "p2")
    )
    assert "template 'own': the API server refuses its first ConfigMap" in wrong["msg"], wrong


def test_a_pod_may_need_an_account_of_the_same_template(world: World) -> None:
    found = world.submit(count=2, templates=template(ACCOUNT_AND_POD))
    assert found["counts"]["created"] == 2, found


def test_yaml_is_read_as_kubectl_reads_it(world: World) -> None:
    found = world.submit(count=1, templates=template(YAML))
    assert found["counts"]["created"] == 1, found
    kind = world.client.kind("v1", "ConfigMap")
    held = world.client.get(kind, f"{world.run_id}-001-0", world.namespace)
    assert held is not None
    assert held["metadata"]["annotations"] == {"window": "12:30:45", "operator": "=", "day": "2026-11-26"}


def test_a_definition_of_a_kind_is_a_workload(world: World) -> None:
    kind = world.client.kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    try:
        found = world.submit(count=2, templates=template(CRD), stages=[CRD_STAGES], wait=True, timeout=60)
        assert found["counts"]["succeeded"] == 2, found
        again = world.submit(count=2, templates=template(CRD), stages=[CRD_STAGES], wait=True, timeout=60)
        assert again["changed"] is False and again["counts"]["created"] == 2, again
    finally:
        for index in range(2):
            world.client.delete(kind, f"things{index}.{world.run_id}-001-{index}.example.com")


@contextmanager
def failing_webhook(folder: Path) -> Iterator[tuple[int, str, list[int]]]:
    """A validating webhook; yields its port, its CA, and [requests so far, requests to fail from now on]."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "webhook")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
    )
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    authority = certificate.public_bytes(serialization.Encoding.PEM)
    (folder / "hook.pem").write_bytes(authority + key.private_bytes(serialization.Encoding.PEM, form, plain))
    state = [0, 0]

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
            state[0] += 1
            state[1] -= 1
            response = {"uid": review["uid"], "allowed": True}
            answer = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
            body = json.dumps(answer).encode()
            self.send_response(500 if state[1] >= 0 else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_words: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "hook.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port, base64.b64encode(authority).decode(), state
    finally:
        server.shutdown()
        server.server_close()


def test_a_webhook_that_fails_at_first_is_tried_again(world: World) -> None:
    with failing_webhook(world.folder) as (port, authority, state):
        hook = {
            "name": "policy.example.com",
            "clientConfig": {"url": f"https://127.0.0.1:{port}/", "caBundle": authority},
            "rules": [{"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}},
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        configuration = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": world.run_id},
            "webhooks": [hook],
        }
        kind = world.client.kind_of(configuration)
        world.client.create(configuration)
        try:
            job = {**yaml.safe_load(SUSPENDED), "metadata": {"name": "probe", "namespace": world.namespace}}
            deadline = time.monotonic() + 60
            while not state[0] and time.monotonic() < deadline:  # the API server does not know the webhook yet
                world.client.create(job, {"dryRun": "All"})
            state[1] = 2
            found = world.submit(count=3)
            assert found["counts"]["created"] == 3 and found["counts"]["retries"] == 0, found
            state[1] = 1000
            never = world.submit(count=3, retry_time=0.1, point_dir=str(world.folder / "q"), run_id=f"{world.run_id}x")
            assert "template 'job': the API server could not check its first Job: " in never["msg"], never
        finally:
            world.client.delete(kind, world.run_id)

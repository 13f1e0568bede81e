"""Servers of models and datasets in pods on a real node: a site with HTTPS, S3, and a model hub."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import servers
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client

IMAGE = "localhost/seatrial/training:1"  # has Python
REAL = "perfscale.seatrial/real"

#: A site with a certificate that nobody trusts; it serves a folder.
SITE = """
import http.server, os, ssl
os.chdir("/opt/seatrial")
server = http.server.ThreadingHTTPServer(("", 8443), http.server.SimpleHTTPRequestHandler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/etc/site/server.crt", "/etc/site/server.key")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""

#: A model hub with the tiny model, which requires a token and prints what it serves.
HUB = """
import hashlib, http.server, json, os
FOLDER = "/opt/seatrial/tiny-llama"
class Hub(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        path, files = self.path.partition("?")[0], {}
        for name in sorted(os.listdir(FOLDER)):
            files[name] = open(os.path.join(FOLDER, name), "rb").read()
        if self.headers.get("Authorization") != "Bearer " + os.environ["TOKEN"]:
            return self.answer(401, b"")
        if path == "/api/models/org/tiny/revision/main":
            def entry(name):
                body = files[name]
                git = hashlib.sha1(b"blob %d\\0" % len(body) + body).hexdigest()
                return {"rfilename": name, "size": len(body), "blobId": git}
            return self.answer(200, json.dumps({"sha": "c0ffee", "siblings": [entry(one) for one in files]}).encode())
        name = path.removeprefix("/org/tiny/resolve/c0ffee/")
        self.answer(200 if name in files else 404, files.get(name, b""))
    def answer(self, status, body):
        print("served", status, self.path, flush=True)
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.ThreadingHTTPServer(("", 8000), Hub).serve_forever()
"""


def wait_for(truth: Callable[[], Any], what: str, timeout: float = 120) -> Any:
    deadline = time.monotonic() + timeout
    while not (found := truth()):
        assert time.monotonic() < deadline, f"waited for {what}"
        time.sleep(0.2)
    return found


def server(client: Client, name: str, port: int, command: list[str], volumes: list[dict[str, Any]], **more: Any) -> str:
    """Run a server in a pod on the real node; return its address once the port answers."""
    mounts = [{"name": one["name"], "mountPath": f"/etc/{one['name']}"} for one in volumes]
    probe = {"tcpSocket": {"port": port}, "periodSeconds": 1}
    container = {"name": "main", "image": IMAGE, "command": command, "volumeMounts": mounts, "readinessProbe": probe}
    spec = {
        "terminationGracePeriodSeconds": 1,
        "nodeSelector": {REAL: "true"},
        "tolerations": [{"key": REAL, "operator": "Exists"}],
        "containers": [{**container, **more}],
        "volumes": volumes,
    }
    meta = {"name": name, "namespace": "default"}
    client.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    kind = client.kind("v1", "Pod")

    def address() -> str:
        status = (client.get(kind, name, "default") or {}).get("status") or {}
        ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions") or [])
        return str(status.get("podIP") or "") if ready else ""

    return str(wait_for(address, f"pod {name}"))


def config_map(client: Client, name: str, **data: str) -> dict[str, Any]:
    meta = {"name": name, "namespace": "default"}
    client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data})
    return {"name": name, "configMap": {"name": name}}


def s3(client: Client, fill: str) -> str:
    """Run an S3 server whose buckets are the folders of /tmp/s3, which the script ``fill`` makes; return its URL."""
    gateway = servers._tool().built("versitygw")
    if gateway is None:
        pytest.skip("no versitygw here (tools/fetch_test_servers.py versitygw)")
    program = {"name": "s3", "hostPath": {"path": str(gateway.parent)}}
    access, secret = servers.S3_KEYS
    keys = [{"name": "ROOT_ACCESS_KEY", "value": access}, {"name": "ROOT_SECRET_KEY", "value": secret}]
    start = f"mkdir -p /tmp/meta; {fill}; exec /etc/s3/{gateway.name} --port :7070 posix --sidecar /tmp/meta /tmp/s3"
    return f"http://{server(client, 's3', 7070, ['bash', '-c', start], [program], env=keys)}:7070"


def site(client: Client, crt: Path, key: Path) -> str:
    """Run a site with the tiny model and dataset; return the address of its pod."""
    data = {"server.crt": crt.read_text(), "server.key": key.read_text(), "site.py": SITE}
    return server(client, "site", 8443, ["python3", "/etc/site/site.py"], [config_map(client, "site", **data)])


def hub(client: Client, token: str) -> str:
    """Run a model hub; return its URL."""
    files = config_map(client, "hub", **{"hub.py": HUB})
    env = [{"name": "TOKEN", "value": token}]
    return f"http://{server(client, 'hub', 8000, ['python3', '/etc/hub/hub.py'], [files], env=env)}:8000"

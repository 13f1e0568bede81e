"""The programs that run in the pods of users, against a server that answers as an API server does."""

from __future__ import annotations

import base64
import importlib.util
import io
import json
import os
import sys
import tarfile
import threading
import time
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan import (
    rendered_workload_templates,
    template_renderer,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote import pod_files_through_configmaps
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import workload_kinds

FILES = Path(__file__).parents[3] / "roles" / "users" / "files"
#: The folder of presigned_upload.py, which the role mounts beside the files above.
UPLOAD = FILES.parents[2] / "plugins" / "module_utils" / "_load" / "remote"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/n/leases"
NOTEBOOKS = "/apis/kubeflow.org/v1/namespaces/n/notebooks"


class Store:
    """Objects by path, with watches."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.objects: dict[str, dict[str, dict[str, Any]]] = {}
        self.events: list[tuple[str, str, dict[str, Any]]] = []  # collection, type, object
        self.asked: list[tuple[str, str, Any]] = []
        self.failures = 0

    def put(self, collection: str, name: str, kind: str, **fields: Any) -> None:
        with self.changed:
            held = self.objects.setdefault(collection, {})
            event = "MODIFIED" if name in held else "ADDED"
            thing = {"kind": kind, "metadata": {"name": name, "uid": name}, **held.get(name, {}), **fields}
            held[name] = thing
            self.events.append((collection, event, json.loads(json.dumps(thing))))
            self.changed.notify_all()

    def remove(self, collection: str, name: str) -> None:
        with self.changed:
            thing = self.objects[collection].pop(name)
            self.events.append((collection, "DELETED", thing))
            self.changed.notify_all()


def handler(store: Store) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_arguments: Any) -> None:
            pass

        def answer(self, status: int, document: Any) -> None:
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            query = parse_qs(url.query)
            only = query.get("fieldSelector", [""])[0].rpartition("=")[2]
            if store.failures:
                store.failures -= 1
                self.answer(503, {"message": "later"})
            elif "watch" in query:
                self.watch(url.path, only, int(query["resourceVersion"][0]))
            else:
                with store.changed:
                    items = [one for name, one in store.objects.get(url.path, {}).items() if only in ("", name)]
                    kind = f"{items[0]['kind']}List" if items else "NoneList"
                    version = str(len(store.events))
                self.answer(200, {"kind": kind, "metadata": {"resourceVersion": version}, "items": items})

        def watch(self, path: str, only: str, after: int) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.flush()
            end = time.monotonic() + 20
            while time.monotonic() < end:
                with store.changed:
                    if len(store.events) == after:
                        store.changed.wait(0.2)
                    fresh, after = store.events[after:], len(store.events)
                for collection, event, thing in fresh:
                    if collection == path and only in ("", thing["metadata"]["name"]):
                        self.wfile.write(json.dumps({"type": event, "object": thing}).encode() + b"\n")
                        self.wfile.flush()

        def other(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length) or b"null")
            store.asked.append((self.command, self.path, body))
            if self.command == "DELETE" and self.path.startswith(NOTEBOOKS):
                store.remove(NOTEBOOKS, self.path.rpartition("/")[2])
            if self.command == "POST" and self.path == NOTEBOOKS:
                fields = {key: value for key, value in body.items() if key != "kind"}
                store.put(NOTEBOOKS, body["metadata"]["name"], "Notebook", **fields)
            self.answer(200, {"metadata": {}})

        def do_PUT(self) -> None:
            """Refuse an upload, as an S3 server does whose URL has expired."""
            self.rfile.read(int(self.headers["Content-Length"]))
            store.asked.append((self.command, self.path, None))
            self.send_response(403)
            self.end_headers()
            self.wfile.write(b"<Error><Code>AccessDenied</Code></Error>")

        do_PATCH = do_POST = do_DELETE = other

    return Handler


def load(name: str) -> Any:
    specification = importlib.util.spec_from_file_location(name, FILES / f"{name}.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Store, Path]]:
    """The module user.py in the environment of a pod, the store of its server, the folder for files."""
    store = Store()
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(store))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.syspath_prepend(str(FILES))
    monkeypatch.syspath_prepend(str(UPLOAD))
    pod_api, user = load("pod_api"), load("user")
    folder = tmp_path / "files"
    folder.mkdir()
    (tmp_path / "token").write_text("secret\n")
    values = {
        "SEATRIAL_NAMESPACE": "n", "SEATRIAL_POD": "p-1", "SEATRIAL_INDEX": "1", "SEATRIAL_RELEASE": "r",
        "SEATRIAL_RUN": "run-aa", "SEATRIAL_POINT": "001", "SEATRIAL_UID": "u", "SEATRIAL_FILES": str(folder),
        "SEATRIAL_FILES_LIMIT": "100000", "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": str(server.server_port),
    }  # fmt: skip
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(pod_api, "ACCOUNT", str(tmp_path))
    monkeypatch.setattr(user, "REPORT", str(tmp_path / "report"))
    monkeypatch.setattr(pod_api, "PAUSE", 0.01)
    monkeypatch.setattr(pod_api.ssl, "create_default_context", lambda cafile: None)
    monkeypatch.setattr(user.signal, "signal", lambda *_: None)

    def plain(host: str, port: int, timeout: float, context: Any) -> Any:
        return pod_api.http.client.HTTPConnection(host, port, timeout=timeout)

    monkeypatch.setattr(pod_api.http.client, "HTTPSConnection", plain)
    yield user, store, folder
    server.shutdown()
    server.server_close()
    for name in ("user", "pod_api", "sent_files", "presigned_upload"):
        sys.modules.pop(name, None)


def states(store: Store) -> list[str]:
    return [
        body["metadata"]["annotations"]["seatrial-user"] for method, _path, body in store.asked if method == "PATCH"
    ]


def released_when_ready(store: Store, number: int) -> None:
    deadline = time.monotonic() + 120
    while "ready" not in states(store) and time.monotonic() < deadline:
        time.sleep(0.01)
    store.put(LEASES, "r", "Lease", spec={"leaseTransitions": number})


def test_the_helper_waits_runs_the_command_and_reports(pod: Any, tmp_path: Path) -> None:
    user, store, folder = pod
    store.failures = 1  # is asked again
    store.put(LEASES, "r", "Lease", spec={})
    store.put(LEASES, "other", "Lease", spec={"leaseTransitions": 9})
    threading.Thread(target=released_when_ready, args=(store, 1), daemon=True).start()
    late = threading.Timer(0.5, lambda: store.put(LEASES, "r", "Lease", spec={"leaseTransitions": 2}))
    late.start()
    code = user.main(["run", "sh", "-c", f"echo hello > {folder}/a; head -c 200000 /dev/zero > {folder}/big; exit 3"])
    assert code == 3
    assert states(store) == ["ready", "begun", "ended"]
    report = json.loads((tmp_path / "report").read_text())
    assert report["exit_code"] == 3
    moments = report["moments"]
    order = ["ready_sent", "ready_answered", "received", "started", "begun", "begun_sent", "ended", "ended_answered"]
    assert sorted(order, key=lambda one: moments[one]) == order
    assert moments["received"] >= 0.2, "the number of this user is 1, so the first release was not its own"
    assert report["files"]["left_out"] == 1 and report["files"]["first_left_out"][0]["name"] == "big"
    (sent,) = [body for method, path, body in store.asked if path.endswith("/configmaps")]
    assert sent["metadata"]["name"] == "p-1-files-0001" and sent["metadata"]["ownerReferences"][0]["uid"] == "u"
    piece = sent["binaryData"][pod_files_through_configmaps._KEY]
    with tarfile.open(fileobj=io.BytesIO(zlib.decompress(base64.b64decode(piece)))) as archive:
        assert archive.getnames() == ["a"]


def test_files_that_the_s3_server_refuses_are_sent_as_far_as_the_api_server_takes_them(
    pod: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user, store, folder = pod
    store.put(LEASES, "r", "Lease", spec={"leaseTransitions": 5})
    url = f"http://127.0.0.1:{os.environ['KUBERNETES_SERVICE_PORT']}/bucket/1.gz?X-Amz-Signature=5ec2e7"
    for name, value in {"URL": url, "AUTHORITY": "", "LIMIT": "1000000"}.items():
        monkeypatch.setenv(f"SEATRIAL_UPLOAD_{name}", value)
    write = f"env > {folder}/env; head -c 200000 /dev/zero > {folder}/z"
    assert user.main(["run", "sh", "-c", write]) == 0
    assert [path for method, path, _body in store.asked if method == "PUT"] == [url.partition("://127.0.0.1")[2][6:]]
    text = (tmp_path / "report").read_text()
    files = json.loads(text)["files"]
    assert "5ec2e7" not in text and "SEATRIAL_UPLOAD" not in (folder / "env").read_text()
    assert files["error"] == "the S3 server did not take them: Refused: HTTP 403 AccessDenied"
    assert (files["parts"], files["left_out"], files["limit"]) == (1, 1, "users_files_limit_bytes")
    assert {one.name for one in folder.iterdir()} == {"env", "z"}


def test_files_within_the_limit_of_the_api_server_are_not_uploaded(
    pod: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user, store, folder = pod
    store.put(LEASES, "r", "Lease", spec={"leaseTransitions": 5})
    monkeypatch.setenv("SEATRIAL_UPLOAD_URL", "http://127.0.0.1:9/never")
    assert user.main(["run", "sh", "-c", f"echo hello > {folder}/a"]) == 0
    files = json.loads((tmp_path / "report").read_text())["files"]
    assert files["parts"] == 1 and "error" not in files and "limit" not in files


def test_the_report_of_files_with_long_names_can_be_read(pod: Any, tmp_path: Path) -> None:
    user, store, folder = pod
    store.put(LEASES, "r", "Lease", spec={"leaseTransitions": 5})
    deep = folder.joinpath(*["\N{BAR CHART}" * 60] * 4)
    deep.mkdir(parents=True)
    for number in range(5):
        (deep / f"{number}").write_bytes(bytes(200_000))
    assert user.main(["run", "true"]) == 0
    text = (tmp_path / "report").read_bytes()
    files = json.loads(text)["files"]
    assert len(text) <= 4096 and files["left_out"] == 5 and len(files["first_left_out"]) == 3
    assert all(one["bytes"] == 200_000 and one["name"].startswith("\N{BAR CHART}") for one in files["first_left_out"])
    error = user.shortened("\N{BAR CHART}" * 1000, 800)
    assert error and len(json.dumps(error)) <= 800


def test_a_user_that_is_late_begins_at_once(pod: Any) -> None:
    user, store, _folder = pod
    store.put(LEASES, "r", "Lease", spec={"leaseTransitions": 5})
    assert user.main(["wait"]) == 0
    assert states(store) == ["ready"]


def test_a_command_that_does_not_exist_fails_as_in_a_shell(pod: Any, capsys: pytest.CaptureFixture[str]) -> None:
    user, store, _folder = pod
    store.put(LEASES, "r", "Lease", spec={"leaseTransitions": 5})
    assert user.main(["run", "no-such-command"]) == 127
    assert "no-such-command: No such file" in capsys.readouterr().err
    assert states(store) == ["ready"]


def test_a_simulated_user_creates_uses_and_deletes_one_after_another(
    pod: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _user, store, folder = pod
    behaviour = load("behaviour")
    stages = workload_kinds.load_kind_by_name_or_path("Notebook").definition["stages"]
    shipped = yaml.safe_load((FILES / "behaviours" / "notebook.yml").read_text())
    given = {
        "path": shipped["path"], "object": shipped["object"], "stages": stages, "image": "img", "iterations": 3,
        "think": {"type": "uniform", "high": 0.01}, "use": {"type": "fixed", "mean": 0.01}, "timeout": 1.5, "seed": 1,
    }  # fmt: skip
    (tmp_path / "given.json").write_text(json.dumps(given))

    def controller() -> None:
        for name in ("p-1-0", "p-1-2"):  # the second one is never ready
            deadline = time.monotonic() + 120
            while name not in store.objects.get(NOTEBOOKS, {}) and time.monotonic() < deadline:
                time.sleep(0.01)
            store.put(NOTEBOOKS, name, "Notebook", status={"readyReplicas": 1})

    threading.Thread(target=controller, daemon=True).start()
    monkeypatch.setattr(sys.modules["pod_api"], "WATCH", 1)
    assert behaviour.main(str(tmp_path / "given.json")) == 1
    rows = [json.loads(line) for line in (folder / "operations.jsonl").read_text().splitlines()]
    assert [row["outcome"] for row in rows] == ["succeeded", "timed out", "succeeded"]
    assert (
        rows[0]["times"]["created"]
        <= rows[0]["times"]["usable"]
        <= rows[0]["times"]["delete"]
        <= rows[0]["times"]["gone"]
    )
    made = [body for method, path, body in store.asked if (method, path) == ("POST", NOTEBOOKS)]
    assert [one["metadata"]["name"] for one in made] == ["p-1-0", "p-1-1", "p-1-2"]
    assert made[0]["metadata"]["labels"]["perfscale.seatrial/index"] == "1"
    assert made[0]["spec"]["template"]["spec"]["containers"][0]["image"] == "img"
    assert store.objects[NOTEBOOKS] == {}, "all were deleted"


@pytest.mark.parametrize(
    ("what", "low", "high"),
    [
        ({"type": "fixed", "mean": 3}, 3, 3),
        ({"type": "uniform", "low": 2, "high": 4}, 2, 4),
        ({"type": "exponential", "mean": 5, "high": 6}, 0, 6),
        ({"type": "lognormal", "mean": 5, "sigma": 0.5, "low": 4}, 4, 1e9),
    ],
)
def test_times_are_drawn_within_their_bounds_and_the_same_for_a_seed(
    pod: Any, what: Any, low: float, high: float
) -> None:
    behaviour = load("behaviour")
    draws = [[behaviour.drawn(behaviour.random.Random("1/2"), what) for _ in range(3)] for _ in range(2)]
    assert draws[0] == draws[1] and all(low <= one <= high for one in draws[0])


def test_the_stand_in_writes_what_its_kind_shows(pod: Any) -> None:
    _user, store, _folder = pod
    stand_in = load("stand_in")
    one = stand_in.StandIn(NOTEBOOKS)
    stand_in.LIVES["Notebook"] = [(0.01, {"readyReplicas": 1, "x": {"at": "{now}"}})]
    store.put(NOTEBOOKS, "before", "Notebook")
    watching = threading.Thread(target=one.watch, daemon=True)
    watching.start()
    serving = threading.Thread(target=one.serve, daemon=True)
    serving.start()
    store.put(NOTEBOOKS, "after", "Notebook")
    store.put(NOTEBOOKS, "after", "Notebook", status={"readyReplicas": 1})
    deadline = time.monotonic() + 120
    while len(store.asked) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert sorted(path for _method, path, _body in store.asked) == [
        f"{NOTEBOOKS}/after/status",
        f"{NOTEBOOKS}/before/status",
    ], "each once"
    assert store.asked[0][2]["status"]["x"]["at"].endswith("Z")
    one.over = True
    store.put(NOTEBOOKS, "last", "Notebook")
    for thread in (watching, serving):
        thread.join(120)
        assert not thread.is_alive()


PARAMETERS: dict[str, Any] = {
    "account": "a", "config_map": "c", "release": "r", "count": 2, "image": "img", "helper_image": "", "limits": {},
    "command": ["sh", "-c", "x $Y"], "environment": {"B": 1, "A": "x: y"}, "secrets_environment": ["s1"],
    "secrets_files": [{"name": "s2", "path": "/s"}], "requests": {"cpu": "1"}, "node_selector": {"a": "b"},
    "tolerations": [], "annotations": {}, "files": "/data", "files_limit": 10,
    "upload": "run-aa-001-upload", "upload_limit": 20,
}  # fmt: skip


@pytest.mark.parametrize("wait", [False, True])
def test_the_pod_of_a_user_is_rendered_once_for_all(wait: bool) -> None:
    text = (FILES.parent / "templates" / "user.yaml.j2").read_text()
    parameters = {**PARAMETERS, "helper_image": "helper" if wait else "", "files": "" if wait else "/data"}
    template = rendered_workload_templates.WorkloadTemplate("user", text, 1, parameters)
    (document,) = template_renderer.render_template_for_indices(template, "run-aa", "001", "n", range(100)).documents
    assert document.bodies is None, "index and name are only printed"
    pod = document.manifest(7)
    (container,) = pod["spec"]["containers"]
    assert pod["metadata"]["name"] == "run-aa-001-7"
    names = {one["name"]: one.get("value") for one in container["env"]}
    assert (names["SEATRIAL_INDEX"], names["A"], names["B"]) == ("7", "x: y", "1")
    key = {"secretKeyRef": {"name": "run-aa-001-upload", "key": "7"}}
    given = [one["valueFrom"] for one in container["env"] if one["name"] == "SEATRIAL_UPLOAD_URL"]
    assert given == ([] if wait else [key]), "a pod gets its own URL only, and not in plain text"
    helped = ["python3", "-B", "/seatrial/user.py", "run"]
    assert container["command"] == ([] if wait else helped) + ["sh", "-c", "x $Y"]
    assert [one["image"] for one in pod["spec"].get("initContainers", [])] == (["helper"] if wait else [])
    mounts = {one["mountPath"] for one in container["volumeMounts"]}
    assert mounts == {"/seatrial", "/s"} | (set() if wait else {"/data"})
    assert {one["name"] for one in pod["spec"]["volumes"]} >= {one["name"] for one in container["volumeMounts"]}

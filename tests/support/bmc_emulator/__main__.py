"""Start emulated BMCs:  python tests/support/bmc_emulator --folder=/tmp/bmcs --machine=one=02:11:22:33:01:00

They run until they are stopped and then forget everything.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from wsgiref.types import StartResponse

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "collections")]

import bcrypt
from quads_simulator.server import certificate
from sushy_tools.emulator import main as sushy
from sushy_tools.emulator.resources.systems import fakedriver
from werkzeug.serving import WSGIRequestHandler, make_server

#: How a Dell's job queue is emptied.
DELL_JOBS = "/redfish/v1/Dell/Managers/iDRAC.Embedded.1/DellJobService/Actions/DellJobService.DeleteJobQueue"
CHANGING = ("POST", "PATCH", "PUT", "DELETE")


class Quiet(WSGIRequestHandler):
    """Logs nothing."""

    def log(self, type: str, message: str, *args: Any) -> None:
        """Do nothing."""


class Front:
    """The BMC of one machine: shows only its System, with injected faults."""

    def __init__(self, name: str, uuid: str) -> None:
        self.name = name
        self.uuid = uuid
        self.busy = 0
        self.jobs = False
        self.image_only = False
        self.several = False
        self.log: list[str] = []

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"].rstrip("/")
        if method in CHANGING:
            self.log.append(f"{method} {path.replace(self.uuid, 'ID')}")
            if path == DELL_JOBS:
                self.jobs = False
                return _answer(start_response, "202 Accepted", {})
            if self.jobs:
                return _refuse(start_response, "400 Bad Request", "A configuration job is already in the job queue.")
            if self.busy:
                self.busy -= 1
                return _refuse(start_response, "503 Service Unavailable", "The service is busy. Retry later.")
            if self.image_only and path.endswith("InsertMedia") and b"WriteProtected" in _body(environ):
                return _refuse(start_response, "400 Bad Request", "The property WriteProtected is unknown.")
        if path == "/redfish/v1/Systems" and self.several:
            return sushy.app(environ, start_response)
        if path in ("/redfish/v1/Systems", "/redfish/v1/Managers"):
            return _answer(start_response, "200 OK", {"Members": [{"@odata.id": f"{path}/{self.uuid}"}]})
        if path == "/redfish/v1" and self.jobs:
            plain = sushy.app(environ, lambda *_answer: None)
            return _answer(start_response, "200 OK", {**json.loads(b"".join(plain)), "Vendor": "Dell"})
        return sushy.app(environ, start_response)


def _body(environ: dict[str, Any]) -> bytes:
    """The content of a request, which stays readable."""
    content: bytes = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    environ["wsgi.input"] = io.BytesIO(content)
    return content


def _answer(start: StartResponse, status: str, document: dict[str, Any]) -> list[bytes]:
    body = json.dumps(document).encode()
    start(status, [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]


def _refuse(start: StartResponse, status: str, message: str) -> list[bytes]:
    return _answer(start, status, {"error": {"message": message, "@Message.ExtendedInfo": [{"Message": message}]}})


class Bmcs:
    """All machines, their ports, and the steering."""

    def __init__(self, folder: Path, macs: dict[str, str]) -> None:
        self.folder = folder
        self.fronts = {name: Front(name, f"00000000-0000-4000-8000-{at:012d}") for at, name in enumerate(macs)}
        self.macs = macs
        self.servers: dict[str, Any] = {}
        self.ports: dict[str, int] = {}
        self.tls = tuple(str(path) for path in certificate(folder))

    def start(self, name: str) -> None:
        """Listen for one machine, on its old port when it had one."""
        port = self.ports.get(name, 0)
        server = make_server("127.0.0.1", port, self.fronts[name], True, request_handler=Quiet, ssl_context=self.tls)
        self.ports[name] = server.port
        self.servers[name] = server
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self, name: str) -> None:
        """Be dead: nobody listens."""
        server = self.servers.pop(name, None)
        if server:
            server.shutdown()
            server.server_close()

    def state(self) -> dict[str, Any]:
        """What the emulator says of each machine."""
        with sushy.app.app_context():
            return {name: self._one(front) for name, front in self.fronts.items()}

    def _one(self, front: Front) -> dict[str, Any]:
        media = {}
        for device in sushy.app.vmedia.devices:
            info = sushy.app.vmedia.get_device_image_info(front.uuid, device)
            if info.inserted and info.image_url:
                media[device] = info.image_url
        return {
            "mac": self.macs[front.name],
            "power": sushy.app.systems.get_power_state(front.uuid),
            "boot": sushy.app.systems.get_boot_device(front.uuid),
            "media": media,
            "log": front.log,
            "alive": front.name in self.servers,
        }

    def steer(self, given: dict[str, Any]) -> None:
        """Do what a POST asks for."""
        for name, faults in (given.get("faults") or {}).items():
            for fault, value in faults.items():
                setattr(self.fronts[name], fault, value)
        for name in given.get("dead") or ():
            self.stop(name)
        for name in given.get("alive") or ():
            self.start(name)

    def steering(self) -> Callable[[dict[str, Any], StartResponse], Iterable[bytes]]:
        """The application behind the steering port."""

        def application(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
            if environ["REQUEST_METHOD"] == "POST":
                self.steer(json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))))
            return _answer(start_response, "200 OK", self.state())

        return application


def main() -> None:
    """Serve until stopped."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="folder for certificate, state and emulator.json")
    parser.add_argument("--machine", action="append", required=True, help="<name>=<MAC>, once a machine")
    parser.add_argument("--user", default="quads", help="user of all BMCs")
    parser.add_argument("--password", default="made-up", help="the user's password")
    parser.add_argument("--delay", type=int, default=1, help="seconds, at most, until power changes")
    given = parser.parse_args()
    macs = dict(one.rsplit("=", 1) for one in given.machine)
    folder = given.folder.resolve()
    (folder / "state").mkdir(parents=True, exist_ok=True)
    tempfile.tempdir = str(folder / "state")
    bmcs = Bmcs(folder, macs)
    secret = bcrypt.hashpw(given.password.encode(), bcrypt.gensalt(4)).decode()
    (folder / "htpasswd").write_text(f"{given.user}:{secret}\n", encoding="utf-8")
    fakedriver.random = random.Random(1)
    fakedriver.random.randint = lambda _low, _high: given.delay
    systems = [
        {"uuid": front.uuid, "name": name, "power_state": "Off", "nics": [{"mac": macs[name], "ip": "192.0.2.1"}]}
        for name, front in bmcs.fronts.items()
    ]
    sushy.app.configure(
        extra_config={
            "SUSHY_EMULATOR_FAKE_DRIVER": True,
            "SUSHY_EMULATOR_FAKE_SYSTEMS": systems,
            "SUSHY_EMULATOR_STATE_DIR": str(folder / "state"),
            "SUSHY_EMULATOR_AUTH_FILE": str(folder / "htpasswd"),
        }
    )
    for name in macs:
        bmcs.start(name)
    steering = make_server("127.0.0.1", 0, bmcs.steering(), True, request_handler=Quiet)
    machines = {name: {"address": f"127.0.0.1:{bmcs.ports[name]}", "mac": macs[name]} for name in macs}
    state = {
        "steer": f"http://127.0.0.1:{steering.port}",
        "ca": bmcs.tls[0],
        "machines": machines,
        "user": given.user,
        "password": given.password,
        "pid": os.getpid(),
    }
    (folder / ".emulator.json").write_text(json.dumps(state), encoding="utf-8")
    (folder / ".emulator.json").rename(folder / "emulator.json")
    steering.serve_forever()


if __name__ == "__main__":
    main()

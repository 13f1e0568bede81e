"""The simulator behind a real HTTPS port on loopback, with its own certificate authority.

Beside the API there is /simulator, by which a test (or curl) steers it: GET shows the state, POST takes JSON with any
of ``advance`` (seconds), ``config`` and ``faults`` (values to set), ``users`` (e-mail -> password), ``hosts`` (name ->
fields to set, such as broken), ``schedule`` (host -> cloud, asking nobody), ``expire_tokens``, ``write_inventories``
and ``end`` (numbers of assignments).
"""

from __future__ import annotations

import datetime
import ipaddress
import json
import ssl
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from quads_simulator import answers, cron
from quads_simulator.answers import Request
from quads_simulator.core import Simulator


def certificate(folder: Path) -> tuple[Path, Path]:
    """Create a self-signed certificate for 127.0.0.1 and localhost; return the files of certificate and key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "quads simulator")])
    now = datetime.datetime.now(datetime.timezone.utc)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=7))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    folder.mkdir(parents=True, exist_ok=True)
    ca, private = folder / "ca.crt", folder / "server.key"
    ca.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    private.chmod(0o600)
    return ca, private


def steer(simulator: Simulator, given: dict[str, Any]) -> None:
    """Execute a POST to /simulator."""
    with simulator.lock:
        for part in ("config", "faults"):
            for name, value in (given.get(part) or {}).items():
                target = getattr(simulator, part)
                setattr(target, name, set(value) if isinstance(getattr(target, name), set) else value)
        for email, password in (given.get("users") or {}).items():
            simulator.access.add(email, password)
        for name, fields in (given.get("hosts") or {}).items():
            simulator.hosts[name].update(fields)
        now = simulator.clock.now()
        for host, cloud in (given.get("schedule") or {}).items():
            one = next(one for one in simulator.assignments.values() if one.active and one.cloud == cloud)
            simulator.insert(one, host, now, now + 5 * 86400)
        for number in given.get("end") or ():
            simulator.end(simulator.assignments[number])
        if given.get("expire_tokens"):
            simulator.access.expire_all()
        if given.get("advance"):
            simulator.clock.advance(float(given["advance"]))
        cron.run(simulator)
        if given.get("write_inventories"):
            cron.write_inventories(simulator)


def state(simulator: Simulator) -> dict[str, Any]:
    """Return the reply to GET /simulator."""
    with simulator.lock:
        now = simulator.clock.now()
        return {
            "now": now,
            "assignments": [
                {
                    "id": one.id,
                    "cloud": one.cloud,
                    "owner": one.owner,
                    "active": one.active,
                    "description": one.description,
                    "provisioned": one.provisioned,
                    "validated": one.validated,
                    "hosts": sorted(
                        row.host for row in simulator.schedules.values() if row.assignment is one and row.current(now)
                    ),
                }
                for one in simulator.assignments.values()
            ],
            "log": [list(entry) for entry in simulator.log],
        }


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    simulator: Simulator
    chatty = False

    def _serve(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.command, self.path, headers, self.rfile.read(length))
        if request.path == "/simulator":
            if self.command == "POST":
                steer(self.simulator, json.loads(request.body))
            self._send(answers.data(state(self.simulator)))
            return
        self.simulator.received.append((request.method, request.path))
        delay = self.simulator.delay_of(request)
        if delay:
            time.sleep(delay)
        self._send(self.simulator.handle(request))

    def _send(self, answer: answers.Answer) -> None:
        body = answer.text.encode()
        self.send_response_only(answer.status, answers.NAMES.get(answer.status, "OTHER"))
        self.send_header("Server", "gunicorn")
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Connection", "close")
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing unless asked to."""
        if self.chatty:
            super().log_message(format, *args)


class Server(ThreadingHTTPServer):
    """Threads that die with the process; a client that went away is no news."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore broken connections."""


@dataclass
class Running:
    """A server that runs in this process."""

    simulator: Simulator
    url: str
    ca: Path
    server: Server

    def stop(self) -> None:
        """Close the port."""
        self.server.shutdown()
        self.server.server_close()


def start(simulator: Simulator, folder: Path, port: int = 0, chatty: bool = False) -> Running:
    """Serve on 127.0.0.1 from a thread; port 0: any that is free."""
    ca, key = certificate(folder)
    handler = type("Bound", (Handler,), {"simulator": simulator, "chatty": chatty})
    server = Server(("127.0.0.1", port), handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ca, key)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return Running(simulator, f"https://127.0.0.1:{server.server_port}", ca, server)

"""An HTTP server on loopback with scripted replies, for faults that a real API server can't produce on demand."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

#: What an answer function may return instead of (status, body) or bytes: end the connection without an answer.
RESET = "reset"


@dataclass
class Asked:
    """One received request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class ScriptedServer:
    """Calls ``answer(asked)`` for every request; keeps the requests, in order."""

    answer: Callable[[Asked], Any]
    asked: list[Asked] = field(default_factory=list)

    def __enter__(self) -> ScriptedServer:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._held: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        # shutdown wakes the accept that a thread is blocked in
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for one in self._held:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def kubeconfig(self, path: Any, user: dict[str, Any] | None = None) -> str:
        """Write a kubeconfig of this server and return its path."""
        document = {
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
            "users": [{"name": "u", "user": user or {}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path.write_text(json.dumps(document), encoding="utf-8")
        return str(path)

    def _accept(self) -> None:
        while True:
            try:
                one, _address = self._socket.accept()
            except OSError:
                return
            self._held.append(one)
            threading.Thread(target=self._serve, args=(one,), daemon=True).start()

    def _serve(self, one: socket.socket) -> None:
        with contextlib.suppress(OSError), one.makefile("rb") as stream:
            while line := stream.readline():
                method, path, _version = line.decode().split()
                headers = {}
                while (text := stream.readline().decode().strip()) != "":
                    name, _colon, value = text.partition(":")
                    headers[name.lower()] = value.strip()
                body = stream.read(int(headers.get("content-length", 0)))
                asked = Asked(method, path, headers, body)
                self.asked.append(asked)
                said = self.answer(asked)
                if said == RESET:
                    one.close()
                    return
                one.sendall(said if isinstance(said, bytes) else reply(*said))


def reply(status: int, body: Any = b"", **headers: str) -> bytes:
    """Return an answer as bytes; a body other than bytes is sent as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(data)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + data


def status_object(code: int, reason: str, message: str) -> dict[str, Any]:
    """Return a Kubernetes Status."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }

"""An artificial API server that is bound by latency alone: each create is answered after a fixed time.

usage: latency_bound_server.py FOLDER SECONDS     writes FOLDER/kubeconfig when it listens; ends with its stdin

It takes any number of connections and has no queue, no limit and no etcd, so a client's rate is its requests in flight
divided by SECONDS, and clients do not slow each other down. It stores only Leases, by which several clients start
together.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

LEASES = "/leases"
RESOURCES = {
    "resources": [
        {"name": "jobs", "kind": "Job", "namespaced": True, "verbs": ["create"]},
        {"name": "leases", "kind": "Lease", "namespaced": True, "verbs": ["create", "list", "watch", "delete"]},
    ]
}


class Store:
    """Leases by name, their watchers, and the revision."""

    def __init__(self) -> None:
        self.leases: dict[str, dict[str, Any]] = {}
        self.watchers: list[tuple[str, Connection]] = []
        self._revisions = itertools.count(1)
        self.revision = 0

    def next(self) -> str:
        """Return the next resourceVersion."""
        self.revision = next(self._revisions)
        return str(self.revision)

    def create(self, lease: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Store a Lease unless there is one of its name, and tell its watchers."""
        metadata = lease["metadata"]
        if metadata["name"] in self.leases:
            return 409, {"kind": "Status", "status": "Failure", "reason": "AlreadyExists", "code": 409}
        metadata |= {"uid": f"lease-{metadata['name']}", "resourceVersion": self.next()}
        self.leases[metadata["name"]] = lease
        for selector, connection in self.watchers:
            if selector == f"metadata.name={metadata['name']}":
                connection.chunk({"type": "ADDED", "object": lease})
        return 201, lease

    def listed(self, query: dict[str, list[str]]) -> dict[str, Any]:
        """Return the Leases that a label selector of equalities or a field selector chooses."""
        wanted = [one.split("=", 1) for one in query.get("labelSelector", [""])[0].split(",") if " in " not in one]
        name = query.get("fieldSelector", [""])[0].removeprefix("metadata.name=")
        items = [
            one
            for one in self.leases.values()
            if (not name or one["metadata"]["name"] == name)
            and all(one["metadata"].get("labels", {}).get(pair[0]) == pair[1] for pair in wanted if len(pair) == 2)
        ]
        return {"kind": "LeaseList", "metadata": {"resourceVersion": str(self.revision)}, "items": items}


class Connection(asyncio.Protocol):
    """One connection: a request at a time."""

    store = Store()
    seconds = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._held = b""

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a watcher."""
        self.store.watchers[:] = [one for one in self.store.watchers if one[1] is not self]

    def data_received(self, data: bytes) -> None:
        """Answer a request that is whole."""
        self._held += data
        while (end := self._held.find(b"\r\n\r\n")) >= 0:
            head = self._held[:end]
            at = head.lower().find(b"content-length: ")
            length = int(head[at + 16 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self._held) < end + 4 + length:
                return
            body, self._held = self._held[end + 4 : end + 4 + length], self._held[end + 4 + length :]
            method, target, _version = head.split(b"\r\n", 1)[0].decode().split()
            self._take(method, target, body)

    def _take(self, method: str, target: str, body: bytes) -> None:
        parts = urlsplit(target)
        query = parse_qs(parts.query)
        if LEASES in parts.path:
            self._lease(method, unquote(parts.path), query, body)
        elif method == "POST" and "dryRun" not in query:
            found = {"name": "x", "uid": f"u-{self.store.next()}", "resourceVersion": str(self.store.revision)}
            loop = asyncio.get_running_loop()
            loop.call_later(self.seconds, self._answer, 201, {"kind": "PartialObjectMetadata", "metadata": found})
        else:
            self._answer(201 if method == "POST" else 200, RESOURCES)

    def _lease(self, method: str, path: str, query: dict[str, list[str]], body: bytes) -> None:
        if method == "POST":
            self._answer(*self.store.create(json.loads(body)))
        elif method == "DELETE":
            self.store.leases.pop(path.rpartition("/")[2], None)
            self._answer(200, {"kind": "Status", "status": "Success"})
        elif "watch" in query:
            self._transport.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            selector = query["fieldSelector"][0]
            self.store.watchers.append((selector, self))
            for one in self.store.listed({"fieldSelector": [selector]})["items"]:
                if int(one["metadata"]["resourceVersion"]) > int(query.get("resourceVersion", ["0"])[0]):
                    self.chunk({"type": "ADDED", "object": one})
        else:
            self._answer(200, self.store.listed(query))

    def chunk(self, event: dict[str, Any]) -> None:
        """Send an event of a watch."""
        line = json.dumps(event).encode() + b"\n"
        self._transport.write(b"%x\r\n%b\r\n" % (len(line), line))

    def _answer(self, status: int, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self._transport.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body))


def take_precedence() -> None:
    """Be served before other processes, if permitted: the server stands for another machine. Leads its session."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -10)
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text("-10", encoding="ascii")


async def main(folder: Path, seconds: float) -> None:
    """Listen until stdin ends."""
    take_precedence()
    Connection.seconds = seconds
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", 0)
    document = {
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"}}],
        "users": [{"name": "u", "user": {"token": "none"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    temporary = folder / "kubeconfig.new"
    temporary.write_text(json.dumps(document), encoding="utf-8")
    temporary.rename(folder / "kubeconfig")
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), float(sys.argv[2])))

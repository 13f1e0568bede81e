"""A control plane that a test may break: its API server ends, its etcd forgets."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import ssl
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import rehearsal as support
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import (
    cluster_lifecycle,
    cluster_status,
)

#: Seconds in which an API server that ends answers the requests that it has.
_ANSWERED = 5.0


class BreakableCluster:
    """A control plane that a test may break."""

    def __init__(self, options: cluster_lifecycle.RehearsalOptions) -> None:
        self.options = options
        self.info = cluster_lifecycle.create_or_repair_instance(options, support.quiet)
        self.instance = options.instance

    def restart_api_server(
        self, between: Callable[[], None] = lambda: None, how: signal.Signals = signal.SIGKILL
    ) -> None:
        """End the API server, do something, have it started again.

        SIGTERM lets it answer, and log, what it has begun. Its watches, for which it then waits a minute, are cut.
        """
        pid = self.pid("kube-apiserver")
        os.kill(pid, how)
        deadline = time.monotonic() + _ANSWERED
        while processes.start_ticks_of(pid) is not None and time.monotonic() < deadline:
            time.sleep(0.05)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        between()
        cluster_lifecycle.create_or_repair_instance(self.options, support.quiet)

    def pid(self, name: str) -> int:
        """Return the process of a component."""
        return next(
            int(one["pid"])
            for one in cluster_status.read_instance_state(self.options)["processes"]
            if one["name"] == name
        )

    def compact(self) -> int:
        """Compact etcd up to its present revision, through its own HTTP interface."""
        pki = Path(self.options.data_dir) / self.options.name / "pki"
        context = ssl.create_default_context(cafile=str(pki / "etcd-ca.crt"))
        context.load_cert_chain(str(pki / "etcd-client.crt"), str(pki / "etcd-client.key"))
        port = json.loads(self.instance.ports_file.read_text(encoding="ascii"))["etcd.client"]

        def ask(path: str, body: bytes) -> bytes:
            url = f"https://127.0.0.1:{port}/v3/kv/{path}"
            with urllib.request.urlopen(urllib.request.Request(url, body), context=context, timeout=10) as reply:
                return bytes(reply.read())

        revision = int(json.loads(ask("range", b'{"key":"AA==","limit":"1"}'))["header"]["revision"])
        ask("compaction", json.dumps({"revision": str(revision), "physical": True}).encode())
        return revision

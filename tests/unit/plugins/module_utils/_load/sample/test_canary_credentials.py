"""The canary goes on when a program that had no credentials for it has some again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.api_server_access import ServerCredentials
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.sample.canary_lease import CanaryObjectWriter
from scripted_server import Asked, ScriptedServer


def test_the_canary_writes_again_after_a_failure_of_the_credentials_and_notes_it(tmp_path: Path) -> None:
    given: list[str] = []

    def read() -> ServerCredentials:
        given.append("")
        if len(given) < 3:
            raise AccessError("SSO is down")
        return ServerCredentials("Bearer new")

    def answer(asked: Asked) -> Any:
        fresh = asked.headers.get("authorization") == "Bearer new"
        return (200, {"metadata": {"resourceVersion": "7"}}) if fresh else (401, {})

    written: list[str] = []
    with ScriptedServer(answer) as server, Client.from_kubeconfig(server.kubeconfig(tmp_path / "k")) as client:
        client.access.held, client.access.reader = "Bearer old", read
        writer = CanaryObjectWriter(
            client, "r", "001", "n", 50.0, lambda _sent, _answered, version: written.append(version)
        )
        writer.begin(time.monotonic())
        deadline = time.monotonic() + 60.0
        while len(written) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        writer.close(5.0)
    assert len(written) >= 3 and writer.failure == "SSO is down" and len(given) == 3

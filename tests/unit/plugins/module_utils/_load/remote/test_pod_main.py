"""What is sent out of a pod is sent again while nobody answers, and given up when the pod is to end and is refused."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, ApiError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.connection import Broken
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote import pod_main


def failing(*errors: Exception) -> Callable[[], str]:
    left = list(errors)

    def do() -> str:
        if left:
            raise left.pop(0)
        return "done"

    return do


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_main.time, "sleep", lambda _seconds: None)


@pytest.mark.parametrize("ending", [False, True])
def test_no_answer_and_a_busy_server_are_met_again(ending: bool) -> None:
    over = threading.Event()
    if ending:
        over.set()
    errors = (Broken("reset", True), ApiError("busy", 429), ApiError("trouble", 503))
    assert pod_main.retry_api_call(failing(*errors), over) == "done"


def test_a_refusal_may_pass_unless_we_are_to_end() -> None:
    over = threading.Event()
    errors = (ApiError("may not", 403), AccessError("refuses our credentials (401)"))
    assert pod_main.retry_api_call(failing(*errors), over) == "done"
    over.set()
    with pytest.raises(ApiError, match="may not"):
        pod_main.retry_api_call(failing(*errors), over)


class Client:
    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def request(self, _method: str, path: str, body: dict[str, Any], content_type: str) -> None:
        self.sent.append({"path": path, "type": content_type, **body["data"]})


def test_the_last_lines_are_told_and_how_many_there_were() -> None:
    client: Any = Client()
    desk = pod_main.StateConfigMap(client, "ns", "load-x")
    desk.add([f"line {n}" for n in range(500)])
    desk.write("running")
    desk.write("ended", result={"a": 1})
    first, last = client.sent
    assert first["path"].endswith("/namespaces/ns/configmaps/load-x-state") and first["count"] == "500"
    assert pod_main.json.loads(first["lines"]) == [f"line {n}" for n in range(300, 500)]
    assert last["result"] == '{"a": 1}' and last["state"] == "ended"

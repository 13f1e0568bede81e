"""Who follows a load in pods gives up when a client that the others wait for cannot come."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, ApiError
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote import host_or_pod_load, load_in_pods
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote.load_in_pods import (
    PodsFollower,
    _unready_clients_text,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote.load_pods_lifecycle import (
    ClientState,
    DriverPod,
    PodsState,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote.pod_manifests import DriverPodSpec

WAITS = "ErrImagePull: failed to pull image"


def follower(started: bool) -> PodsFollower:
    pod = DriverPod(None, DriverPodSpec("run-aa", "001", "image", clients=2), print, 1.0)  # type: ignore[arg-type]
    return PodsFollower(pod, lambda _counts, _seconds: "progress", 600.0, lambda: started)


def state(beat: str = "", why: str = WAITS, lost: dict[int, str] | None = None) -> PodsState:
    return PodsState(True, (ClientState(beat="17"), ClientState(beat=beat)), {0: "Running", 1: why}, lost or {})


@pytest.mark.parametrize(("started", "given_up"), [(False, {1: "exit code 1, Error"}), (True, {})])
def test_a_lost_client_ends_the_load_unless_it_has_started(started: bool, given_up: dict[int, str]) -> None:
    found = state(beat="17", why="exit code 1, Error", lost={1: "exit code 1, Error"})
    assert follower(started)._unstarted(found) == given_up


def test_an_image_that_cannot_be_pulled_gets_some_time(monkeypatch: pytest.MonkeyPatch) -> None:
    follows = follower(started=False)
    assert follows._unstarted(state()) == {}
    monkeypatch.setattr(load_in_pods, "TERMINAL_TOLERANCE", 0.0)
    assert follows._unstarted(state()) == {1: WAITS}
    assert follows._unstarted(state(why="ImagePullBackOff: of a")) == {1: "ImagePullBackOff: of a"}
    assert follows._unstarted(state(why="ContainerCreating")) == {}, "it is tried again, and may come"
    assert follows._unstarted(state(why="Unschedulable: 0/1 nodes")) == {}, "a node may be added"
    assert follows._unstarted(state(beat="17")) == {}, "it has started before"


def test_clients_with_the_same_reason_are_named_together() -> None:
    assert _unready_clients_text({2: "a", 0: "a", 1: "b"}) == "client 0, 2 was not ready: a; client 1 was not ready: b"


def test_a_refusal_after_an_answer_is_not_believed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_or_pod_load, "_PAUSE", 0.0)
    pod = DriverPod(None, DriverPodSpec("run-aa", "001", "image"), lambda _line: None, 1.0)  # type: ignore[arg-type]
    forbidden = ApiError("GET /x: 403 Forbidden", 403, "Forbidden")
    replies: list[Any] = [forbidden]

    def ask() -> str:
        reply = replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return str(reply)

    with pytest.raises(ApiError, match="403"):
        pod.retry.call("looking for it", ask)
    replies[:] = ["there", AccessError("refused"), forbidden, forbidden, "again"]
    assert [pod.retry.call("following it", ask) for _ in range(2)] == ["there", "again"]
    monkeypatch.setattr(host_or_pod_load, "_REFUSED", -1.0)
    replies[:] = [forbidden]
    with pytest.raises(ApiError, match="403"):
        pod.retry.call("following it", ask)

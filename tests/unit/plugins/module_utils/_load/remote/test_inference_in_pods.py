# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clients in pods of a load of requests: their shares, what they get, what can't work, and a pod that is made again."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import model_servers as support
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import signals
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, ProcessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import MonotonicWallClock
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import ProgressLog, StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference.inference_load import LoadCall
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference.inference_spec import InferenceSpec
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference.planned_and_past_requests import (
    PastRequests,
    open_request_log,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan.workload_plan import ClientPart
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote import (
    inference_client_in_pod,
    pod_manifests,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote.inference_client_in_pod import (
    END,
    RemoteInferenceClient,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote.inference_in_pods import (
    InferenceLoadInPods,
)
from hypothesis import given, settings
from hypothesis import strategies as st

URL = "http://serving.example.svc:8000"
DRIVER: dict[str, Any] = {"kubeconfig": "-", "context": "", "urls": [], "start_timeout": 600.0, "canary_rate": 5.0}


def params_of(folder: Path, **more: Any) -> dict[str, Any]:
    load = {"count": 12, "arrival": {"type": "constant", "rate": 10}, "driver": DRIVER, **more}
    return support.options(folder, [load.pop("url", URL)], **load)


def load_in_pods(folder: Path, **more: Any) -> InferenceLoadInPods:
    params = params_of(folder, **more)
    return InferenceLoadInPods(InferenceSpec.from_params(params), StepDirectory(None), ProgressLog(None), params)


@settings(max_examples=15, deadline=None)
@given(
    conversations=st.integers(1, 60),
    turns=st.integers(1, 4),
    clients=st.integers(1, 8),
    streams=st.integers(0, 3),
    seed=st.integers(0, 99),
)
def test_shares_of_clients_in_pods_are_a_partition_of_one_plan(
    tmp_path_factory: pytest.TempPathFactory, conversations: int, turns: int, clients: int, streams: int, seed: int
) -> None:
    clients = min(clients, conversations)
    model: dict[str, Any] = {"arrival": {"type": "poisson", "rate": 50}, "streams": {}}
    if streams:
        model = {"arrival": {}, "streams": {"count": streams * clients}}
    folder = tmp_path_factory.getbasetemp() / "001"
    params = params_of(folder, count=conversations, turns=turns, clients=clients, seed=seed, **model)
    params["models"] = [{"name": "a", "weight": 3.0}, {"name": "b", "weight": 1.0}]
    alone = inference_client_in_pod.plan_inference_load(
        {**params, "clients": 1} if not streams else {**params, "clients": clients}
    )
    load = InferenceLoadInPods(InferenceSpec.from_params(params), StepDirectory(None), ProgressLog(None), params)
    plan = inference_client_in_pod.plan_inference_load(load.request())
    assert plan == alone, "the plan is that of one process"
    taken: list[int] = []
    for number in range(clients):
        schedule = load.requests.make_schedule(plan, PastRequests(), ClientPart(number, clients), 0.0)
        schedule.begin(0)
        while (request := schedule.pop(10**18)) is not None:
            assert request.conversation % clients == number
            taken.append(request.index)
            request.outcome, request.ended = "succeeded", 1
            schedule.note_ended(request)
    assert sorted(taken) == [row.index for row in plan.workloads]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"url": "http://127.0.0.1:8000"}, "pods can't reach http://127.0.0.1:8000: it is the loopback"),
        ({"url": "http://localhost:8000/v1"}, "pods can't reach http://localhost:8000/v1"),
        ({"url": "http://[::1]:8000"}, "pods can't reach"),
        (
            {"count": 0, "arrival": {}, "search": {"low": 1, "high": 9, "step": 2, "timespan": 9}, "slo": {"ttft": 1}},
            "search is not possible with clients in pods",
        ),
        ({"count": 1, "clients": 2}, "clients is 2, but there are only 1 requests"),
    ],
)
def test_what_pods_cannot_send_is_refused_before_anything_is_written(
    tmp_path: Path, more: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=None) as caught:
        load_in_pods(tmp_path / "001", **more)
    assert words in str(caught.value)
    assert not (tmp_path / "001").exists()


def test_another_address_for_pods_may_stand_beside_one_on_loopback(tmp_path: Path) -> None:
    load = load_in_pods(tmp_path / "001", url="http://127.0.0.1:8000", driver={**DRIVER, "urls": [URL]})
    assert load.request()["urls"] == [URL] and load.spec.urls == ["http://127.0.0.1:8000"]


def test_key_and_authorities_are_in_the_secret_only(tmp_path: Path) -> None:
    authorities = tmp_path / "ca.crt"
    authorities.write_text("the authorities\n", encoding="utf-8")
    load = load_in_pods(tmp_path / "001", api_key="the-key", ca_file=str(authorities))
    request = load.request()
    assert "the-key" not in json.dumps(request) and str(tmp_path) not in json.dumps(request)
    spec = pod_manifests.DriverPodSpec("run-aa", "001", "image", clients=2)
    asked = {"request": request, "lock": None}
    made = pod_manifests.objects_owned_by_job(spec, "uid", asked, load.secrets())
    [secret] = [thing for thing in made if thing["kind"] == "Secret" and thing["metadata"]["name"] == spec.name]
    assert {inference_client_in_pod.API_KEY, inference_client_in_pod.AUTHORITIES} < set(secret["data"])
    encoded = secret["data"][inference_client_in_pod.API_KEY]
    assert [thing["kind"] for thing in made if encoded in json.dumps(thing)] == ["Secret"]


def client_made_again(folder: Path, past: PastRequests, clock: MonotonicWallClock, **more: Any) -> Any:
    """Return client 1 of 2 and its call, which finds that the common start is over."""
    folder.mkdir(exist_ok=True)
    params = load_in_pods(folder, clients=2, **more).request() | {"point_dir": str(folder), "client": 1}
    client = RemoteInferenceClient({**params, "secret_dir": str(folder)}, StepDirectory(None), ProgressLog(None), print)
    plan = client.requests.make_plan()
    log, _none = open_request_log(folder / "requests.jsonl")
    return client, LoadCall([], plan, past, clock, log, signals.Interrupt(), {})


def begun(clock: MonotonicWallClock, ago: float) -> PastRequests:
    past = PastRequests()
    past.take({"type": "client", "client": 1, "clients": 2, "anchor": clock.anchor(), "started": clock.now() - ago})
    return past


def test_a_pod_that_is_made_again_sends_nothing_whose_fate_is_unknown(tmp_path: Path) -> None:
    clock = MonotonicWallClock.start()
    past = begun(clock, 650)  # request i is due after 100 i seconds: 1, 3 and 5 of client 1 were due
    past.take({"type": "sent", "index": 1, "due": 0.0, "sent": 0.0})
    client, call = client_made_again(tmp_path / "001", past, clock, arrival={"type": "constant", "rate": 0.01})
    started = client._earlier_start(call)
    client._lose_unknown(call, started)
    call.log.close()
    rows = [json.loads(line) for line in (tmp_path / "001" / "requests.jsonl").read_text().splitlines()]
    assert [(row["type"], row["index"], row["sent"]) for row in rows] == [("sent", 3, None), ("sent", 5, None)]
    assert rows[0]["due"] == pytest.approx(started + 300, abs=1e-5)
    schedule = client.requests.make_schedule(call.plan, past, ClientPart(1, 2), 0.0)
    schedule.begin(time.monotonic_ns())
    left = []
    while (request := schedule.pop(2**62)) is not None:
        left.append(request.index)
    assert left == [7, 9, 11] and past.lost == 3


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("nothing", "had not reported its start"),
        ("boot", "runs on another node now"),
        ("closed", "nobody knows what it had sent since its last report"),
    ],
)
def test_a_client_that_cannot_go_on_says_so_in_one_sentence(tmp_path: Path, case: str, words: str) -> None:
    clock = MonotonicWallClock.start()
    past = PastRequests() if case == "nothing" else begun(clock, 1)
    if case == "boot":
        past.client["anchor"] = {**past.client["anchor"], "boot": "another"}
    more = {"arrival": {}, "streams": {"count": 2}} if case == "closed" else {}
    client, call = client_made_again(tmp_path / "001", past, clock, **more)
    with pytest.raises(ProcessError, match=words):
        client._earlier_start(call)
    call.log.close()


def test_a_client_of_a_closed_model_goes_on_after_a_pod_that_ended_by_itself(tmp_path: Path) -> None:
    clock = MonotonicWallClock.start()
    past = begun(clock, 1)
    past.take({"type": END, "at": clock.now(), "reason": "interrupted by SIGTERM"})
    client, call = client_made_again(tmp_path / "001", past, clock, arrival={}, streams={"count": 2})
    assert client._earlier_start(call) == past.client["started"]
    call.log.close()

"""What answers mean, when requests are due, and what they ask."""

from __future__ import annotations

import json
import os
import ssl
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.capacity_search import CapacitySearch
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.load_generator_health import (
    client_bottleneck,
    raised_thread_priority,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import MonotonicWallClock
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import ProgressLog, StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference.inference_load import InferenceLoad
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference.inference_request import (
    InferenceRequest,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference.inference_spec import (
    SPEC,
    InferenceSpec,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference.planned_and_past_requests import (
    PastRequests,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference.request_bodies import (
    WORDS,
    PromptTexts,
    draw_token_count,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference.request_connection import (
    InferenceServer,
    KernelStamps,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference.request_engine import (
    EngineLimits,
    RequestEngine,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference.request_schedule import (
    RequestSchedule,
    SearchSchedule,
    SearchSpec,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference.several_clients import (
    ClientReport,
    join_reports,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference.streamed_response import (
    StreamedResponse,
    error_text,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan.workload_plan import ClientPart
from hypothesis import given
from hypothesis import strategies as st
from scripted_server import Asked, ScriptedServer

STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


def answered(*events: Any, head: bytes = STREAM) -> InferenceRequest:
    """Return a request that got these events, one in each read."""
    request = InferenceRequest(0, "r", "m", 2, 1)
    request.begin_attempt(1)
    request.take(head, 2, 0)
    for moment, event in enumerate(events, 3):
        text = event if isinstance(event, str) else json.dumps(event)
        request.take(f"data: {text}\n\n".encode(), moment * 1_000_000, 0)
    request.decide_outcome(99_000_000)
    return request


def content(text: str, **more: Any) -> dict[str, Any]:
    return {"choices": [{"delta": {"content": text}}], **more}


def test_a_role_without_text_is_no_token_and_thoughts_and_tools_are() -> None:
    request = answered(
        {"choices": [{"delta": {"role": "assistant", "content": ""}}]},
        {"choices": [{"delta": {"reasoning_content": "hm"}}]},
        {"choices": [{"delta": {"tool_calls": [{"index": 0}]}}]},
        content("a"),
        {"choices": [{"delta": {}, "finish_reason": "stop"}]},
        "[DONE]",
    )
    assert request.answer.times == [4_000_000, 5_000_000, 6_000_000]
    assert (request.outcome, request.answer.finish_reason, request.answer.tokens) == ("succeeded", "stop", 3)
    row = request.record(MonotonicWallClock(1000.0, 0.0))
    assert row["times"] == [1000, 2000] and row["first_token"] == 1000.004 and row["tokens_from"] == "chunks"


def test_continuous_usage_says_how_many_tokens_each_piece_has() -> None:
    request = answered(
        content("a b", usage={"completion_tokens": 2}), content("c", usage={"completion_tokens": 3}), "[DONE]"
    )
    assert request.answer.chunk_tokens == [2, 1] and request.answer.tokens == 3


@pytest.mark.parametrize(
    ("events", "cause"),
    [
        ([content("a"), {"error": {"message": "no memory"}}], "error_event"),
        ([content("a"), "{"], "error_event"),
        ([content("a")], "truncated"),
        (["[DONE]"], "empty"),
        ([[1]], "error_event"),
    ],
)
def test_a_stream_that_is_not_complete_is_no_success(events: list[Any], cause: str) -> None:
    request = answered(*events)
    assert (request.outcome, request.cause) == ("failed", cause)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["delta", "content", "message", "finish_reason", "error", "x"]), inner, max_size=2
        )
    ),
    max_leaves=6,
)
USAGE = JSON | st.dictionaries(
    st.sampled_from(["prompt_tokens", "completion_tokens", "prompt_tokens_details", "cached_tokens"]), JSON, max_size=3
)


@given(st.lists(st.fixed_dictionaries({"choices": JSON, "usage": USAGE}), max_size=3))
def test_an_event_of_whatever_form_ends_its_request_and_not_the_load(events: list[dict[str, Any]]) -> None:
    request = answered(*events, "[DONE]")
    assert request.outcome in ("succeeded", "failed")
    row = {**request.record(MonotonicWallClock(1000.0, 0.0)), "outcome": request.outcome}
    files.validate_schema_if_enabled("requests/1", row)
    assert (request.answer.tokens or 0) >= 0


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"error": {"message": "a"}}, "a"),
        ({"error": "b"}, "b"),
        ({"detail": "c"}, "c"),
        ({"object": "error", "message": "d"}, "d"),
        ({"choices": []}, ""),
        ([], ""),
    ],
)
def test_the_message_of_an_error_is_found_in_the_forms_of_servers(value: Any, text: str) -> None:
    assert error_text(value) == text


def test_a_whole_answer_has_its_usage() -> None:
    answer = StreamedResponse()
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}}
    answer.take(json.dumps({"choices": [{"message": {"content": "a b"}}], "usage": usage}).encode(), 5)
    assert (answer.prompt, answer.tokens, answer.cached, answer.times) == (3, 2, 1, [5])


def make(index: int, due: int) -> InferenceRequest:
    return InferenceRequest(index, f"r{index}", "m", 1, due, last_turn=index % 2 == 1)


def ended(request: InferenceRequest, outcome: str, moment: int) -> InferenceRequest:
    request.outcome, request.ended = outcome, moment
    return request


def test_the_next_turn_is_due_after_the_answer_and_the_time_to_think() -> None:
    schedule = RequestSchedule(make, iter([(0, 0.0), (2, 1.0)]), turns=2, think=lambda _index: 0.5)
    schedule.begin(1_000)
    first = schedule.pop(1_000)
    assert first is not None and first.index == 0 and schedule.pop(10_000) is None
    schedule.note_ended(ended(first, "succeeded", 2_000))
    following = schedule.peek()
    assert following is not None and (following.index, following.due) == (1, 500_002_000)
    assert schedule.pop(500_002_000) is following
    second = schedule.pop(1_000_001_000)
    assert second is not None and second.index == 2
    schedule.note_ended(ended(second, "failed", 1_000_002_000))  # its second turn would lack the first
    assert schedule.next_moment() is None


def test_streams_take_the_next_conversation_until_their_time_is_over() -> None:
    schedule = RequestSchedule(
        lambda index, due: InferenceRequest(index, "", "m", 1, due),
        iter([(index, None) for index in range(9)]),
        streams=2,
        duration=1.0,
    )
    schedule.begin(0)
    requests = [schedule.pop(0), schedule.pop(0)]
    assert [request.index for request in requests if request] == [0, 1] and schedule.pop(0) is None
    assert requests[0] and requests[1]
    schedule.note_ended(ended(requests[0], "failed", 5))
    later = schedule.pop(5)
    assert later is not None and (later.index, later.closed_stream, later.due) == (2, 0, 5)
    schedule.note_ended(ended(requests[1], "succeeded", 1_000_000_000))
    assert schedule.next_moment() is None


def test_failures_in_a_row_end_a_search_only_until_a_step_kept_the_objective() -> None:
    spec = SearchSpec(low=1, high=100, step=1, timespan=600, precision=0.1, slo={"total": 1})
    search = CapacitySearch(spec.low, spec.high, spec.share)
    schedule = SearchSchedule(make, 0, 1, spec, search, lambda request: request.outcome == "succeeded", lambda *_: None)
    server = InferenceServer.from_url(0, "http://127.0.0.1:1", ssl.create_default_context())
    engine = RequestEngine([server], EngineLimits(1, 1, 0, 10), lambda *_: b"", MonotonicWallClock(1000.0, 0.0))

    def fail(number: int) -> str:
        engine.stopped = ""
        for _each in range(number):
            request = schedule.pop(1 << 62)
            assert request is not None
            request.begin_attempt(1)
            engine.open[request] = None
            engine._lost(None, request, "timeout", "no answer", schedule)
        return engine.stopped

    try:
        schedule.begin(time.monotonic_ns())
        assert fail(6) == "" and "no request has succeeded" in fail(20)
        while not search.kept:
            request = schedule.pop(1 << 62)
            assert request is not None
            schedule.note_ended(ended(request, "succeeded", 5))
        assert fail(30) == ""
    finally:
        engine.close()


@pytest.mark.parametrize("clients", [1, 2, 3, 4])
def test_each_client_sends_to_all_servers_in_turn(clients: int) -> None:
    context = ssl.create_default_context()
    servers = [InferenceServer.from_url(number, f"http://127.0.0.1:{number + 1}", context) for number in range(2)]
    clock = MonotonicWallClock(1000.0, 0.0)
    engine = RequestEngine(servers, EngineLimits(1, 1, 0, 10), lambda *_: b"", clock, clients)
    try:
        for client in range(clients):
            own = range(client, client + 6 * clients, clients)
            requests = [replace(make(0, 0), conversation=conversation) for conversation in own]
            found = [engine._server_of(request).number for request in requests]
            assert found in ([0, 1] * 3, [1, 0] * 3)
    finally:
        engine.close()


def test_pauses_between_sessions_are_no_time_of_the_load() -> None:
    past = PastRequests()
    for index, (start, seconds) in enumerate(((1000, 60), (4660, 30), (9000, 10))):
        past.take({"type": "start", "at": start})
        past.take({"type": "sent", "index": index, "due": start, "sent": start})
        past.take({"type": "request", "index": index, "outcome": "succeeded", "ended": start + seconds})
    assert past.spent == 100


def test_prompts_have_their_lengths_and_different_beginnings() -> None:
    assert len(WORDS) == len(set(WORDS)) == 128
    texts = PromptTexts(7, "a", shared=50)
    lengths = [1, 2, 3, 17, 20_000]
    assert [len(texts.text(i, words).split()) for i, words in enumerate(lengths)] == [50 + words for words in lengths]
    assert len(texts.text(1, 9, first=False).split()) == 9
    beginnings = {tuple(texts.text(index, 8).split()[50:53]) for index in range(3_000)}
    assert len(beginnings) == 3_000
    assert (
        texts.text(5, 100) == PromptTexts(7, "a", shared=50).text(5, 100) != PromptTexts(8, "a", shared=50).text(5, 100)
    )
    other = PromptTexts(7, "b", shared=50).text(5, 100).split()
    assert other[:50] != texts.text(5, 100).split()[:50] and other[53:69] != texts.text(5, 100).split()[53:69]
    assert PromptTexts(1, "a", given=["a", "b"]).text(3, 9) == "b"


def test_a_number_of_tokens_follows_from_index_and_seed() -> None:
    spec = {"type": "lognormal", "mean": 100, "sigma": 1, "high": 200}
    drawn = [draw_token_count(index, spec, 1, "prompt") for index in range(200)]
    assert drawn == [draw_token_count(index, spec, 1, "prompt") for index in range(200)]
    assert min(drawn) >= 1 and max(drawn) <= 200 and len(set(drawn)) > 50
    assert draw_token_count(3, 12.0, 1, "prompt") == 12


def test_stamps_are_converted_and_survive_that_the_wall_clock_is_set() -> None:
    stamps = KernelStamps()
    now = 5_000_000_000_000
    stamps.difference = 1_000
    assert stamps.moment(now + 1_000 - 70, now) == now - 70
    assert stamps.moment(now + 1_000 + 70, now) == now  # within the accuracy of the measurement
    measured: list[int] = []
    stamps.measure = lambda: measured.append(1)  # type: ignore[method-assign]  # the clock of this machine is not set
    assert stamps.moment(now - 3_600_000_000_000, now) == now and measured


@pytest.mark.parametrize(
    ("lag", "lateness", "cpu", "words"),
    [
        ({"p99": 0.02}, {"p99": 0.0}, 0.1, "read 1 % of what it received 20 ms late"),
        ({"p99": 0.0}, {"p99": 0.5}, 0.1, "sent 1 % of the requests 500 ms late"),
        ({"p99": 0.0}, None, 9.9, "used 99% of a processor"),
        ({"p99": 0.001}, {"p99": 0.001}, 1.0, ""),
    ],
)
def test_a_client_that_was_the_bottleneck_says_so(lag: Any, lateness: Any, cpu: float, words: str) -> None:
    text = client_bottleneck(lag, lateness, cpu, 10.0)
    assert words in text and bool(text) == bool(words)


@pytest.mark.parametrize(
    ("load", "late"),
    [
        ({"search": {"low": 1}, "slo": {"ttft": 1}}, True),
        ({"count": 3, "arrival": {"type": "constant", "rate": 1}}, True),
        ({"count": 3, "streams": {"count": 2}}, False),
    ],
)
def test_a_client_that_sends_late_was_the_bottleneck_of_an_open_model(
    load: dict[str, Any], late: bool, tmp_path: Path
) -> None:
    params = {name: option.get("default") for name, option in SPEC.items()}
    given = {"run_id": "r-1", "point_dir": str(tmp_path / "001"), "urls": ["http://h"], **load}
    step = StepDirectory(None)
    sent = InferenceLoad(InferenceSpec.from_params({**params, **given}), step, ProgressLog("", step))
    report = ClientReport(open_max=1, most_open=9, cpu=0.1, lateness={"p99": 0.5})
    assert ("sent 1 % of the requests 500 ms late" in sent._bottleneck(report, 10.0)) == late


def test_of_several_clients_the_worst_one_counts_and_numbers_are_added() -> None:
    summary = {"p50": 0.1, "p95": 0.2, "p99": 0.3, "max": 0.4}
    one = ClientReport(3, 1, 2, 9, 30, 0.1, Counter(succeeded=2, failed=1), 0.2, summary, None)
    other = ClientReport(4, 0, 5, 9, 40, 0.3, Counter(succeeded=4), None, {**summary, "p99": 0.9}, None, "no answer")
    total = join_reports([one, other])
    assert (total.sent, total.open, total.open_max, total.tokens) == (7, 1, 7, 70)
    assert total.outcomes == Counter(succeeded=6, failed=1) and total.cpu == pytest.approx(0.4)
    assert total.lag == {**summary, "p99": 0.9} and total.lateness is None and total.stopped == "no answer"
    assert ClientReport.from_record(json.loads(json.dumps(vars(one)))) == one


@pytest.mark.parametrize("turns", [1, 2])
@pytest.mark.parametrize("load", [{"arrival": {"type": "constant", "rate": 1}}, {"streams": {"count": 6}}])
def test_each_conversation_belongs_to_one_client(load: dict[str, Any], turns: int, tmp_path: Path) -> None:
    params = {name: option.get("default") for name, option in SPEC.items()}
    given = {"run_id": "r-1", "point_dir": str(tmp_path / "001"), "urls": ["http://h"], "count": 11, "turns": turns}
    spec = InferenceSpec.from_params({**params, **given, "clients": 3, "models": [{"name": "m"}], **load})
    requests = InferenceLoad(spec, StepDirectory(None), ProgressLog(None)).requests
    past = PastRequests(sent={4 * turns})
    found: list[list[int]] = []
    for client in range(3):
        schedule = requests.make_schedule(requests.make_plan(), past, ClientPart(client, 3), 0.0)
        schedule.begin(0)
        own = []
        while (request := schedule.pop(10**18)) is not None:
            own.append(request.conversation)
            if spec.streams:
                request.last_turn, request.ended = True, 1
                schedule.note_ended(request)
        found.append(sorted(own))
    assert found == [[0, 3, 6, 9], [1, 7, 10], [2, 5, 8]]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"urls": []}, "urls is empty"),
        ({"streams": {"count": 0, "duration": 5}}, "streams.count is 0"),
        ({"streams": {"count": 5}}, "streams need an end"),
        ({"arrival": {"type": "closed"}, "count": 3}, "use streams.count"),
        ({"arrival": {"type": "poison", "rate": 3}, "count": 3}, "did you mean 'poisson'"),
        ({"count": 600_000, "turns": 2}, "1,200,000 requests"),
        ({"count": 600_000, "turns": 2, "streams": {"count": 3}}, "1,200,000 requests"),
        ({"count": 3, "streams": {"count": 3, "duration": -5}}, "streams.duration is -5"),
        ({"count": 3, "turns": 0}, "turns is 0"),
        (
            {"count": 11, "streams": {"count": 5}, "clients": 3},
            r"\(serving_streams\) is 5, .* the 3 of clients \(serving_clients\), .*: 6 is the nearest number",
        ),
        ({"count": 9, "streams": {"count": 100_000}, "clients": 47}, ": 99969 is the nearest number"),
        ({"count": 3, "prompt_tokens": "many"}, "prompt_tokens is 'many'"),
        ({"count": 3, "output_tokens": {"type": "fix", "mean": 3}}, "output_tokens: unknown distribution 'fix'"),
        ({"count": 3, "headers": {"a b": "c"}}, "'a b' is not a valid name"),
        ({"count": 3, "headers": {"a": "c\r\nd: e"}}, "contains a line break"),
        ({"count": 3, "api_key": "a\nb"}, "api_key contains a space"),
        ({"count": 3, "timeout": 0}, "timeout is 0, it must be above 0"),
        ({"count": 3, "seed": -1}, "seed is -1"),
        ({"search": {"low": 1}, "slo": {"ttft": 1, "share": 0}}, "slo.share is 0, it must be above 0"),
        ({"search": {"low": 1}, "slo": {"ttft": 1, "share": 1.5}}, "slo.share is 1.5, it must be above 0"),
    ],
)
def test_an_invalid_option_is_refused_with_its_value(changes: dict[str, Any], words: str, tmp_path) -> None:
    params = {name: option.get("default") for name, option in SPEC.items()}
    given = {"run_id": "r-1", "point_dir": str(tmp_path / "001"), "urls": ["http://h"], **changes}
    with pytest.raises(InputError, match=words):
        InferenceSpec.from_params({**params, **given})


def test_streams_that_end_by_their_duration_need_not_be_divisible_by_the_clients(tmp_path: Path) -> None:
    params = {name: option.get("default") for name, option in SPEC.items()}
    given = {"run_id": "r-1", "point_dir": str(tmp_path / "001"), "urls": ["http://h"], "clients": 3}
    assert InferenceSpec.from_params({**params, **given, "streams": {"count": 5, "duration": 9}}).streams == 5


@pytest.mark.parametrize("user", ["someone:kanary@", ":kanary@"])
def test_a_password_in_an_address_is_refused_and_not_shown(user: str) -> None:
    with pytest.raises(InputError, match="contains a user name or a password") as refused:
        InferenceServer.from_url(0, f"http://{user}127.0.0.1:8000", ssl.create_default_context())
    assert "kanary" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["http://me:kanary@h:99999", "me:kanary@h:8000", "http://h:99999?key=kanary", "http://h?key=kanary"]
)
def test_a_secret_in_a_wrong_address_is_not_shown(url: str) -> None:
    with pytest.raises(InputError) as refused:
        InferenceServer.from_url(0, url, ssl.create_default_context())
    assert "kanary" not in str(refused.value)


def answer_whole(asked: Asked) -> Any:
    """Answer as a server with one model, without streams."""
    if asked.path == "/v1/models":
        return 200, {"data": [{"id": "m", "owned_by": "o"}]}
    if asked.path == "/metrics":
        return 200, b"a_total 1\n"
    usage = {"prompt_tokens": 3, "completion_tokens": 1}
    return 200, {"choices": [{"text": "a", "finish_reason": "length"}], "usage": usage}


def test_the_key_and_the_headers_go_only_to_the_servers_that_they_were_given_for(tmp_path: Path) -> None:
    params = {name: option.get("default") for name, option in SPEC.items()}
    with ScriptedServer(answer_whole) as gateway, ScriptedServer(answer_whole) as behind:
        urls = {server.port: f"http://127.0.0.1:{server.port}" for server in (gateway, behind)}
        given = {
            "run_id": "t1126-abcdef",
            "point_dir": str(tmp_path / "001"),
            "urls": [f"{urls[gateway.port]}/v1"],
            "metrics_urls": [urls[gateway.port], urls[behind.port]],
            "stream": False,
            "api": "completions",
            "count": 2,
            "arrival": {"type": "constant", "rate": 50},
            "api_key": "kanary-1",
            "headers": {"X-Team": "a"},
        }
        step = StepDirectory(None)
        result = InferenceLoad(InferenceSpec.from_params({**params, **given}), step, ProgressLog("", step)).run()
    assert result["counts"]["succeeded"] == 2
    credentials = {"authorization": "Bearer kanary-1", "x-team": "a"}
    assert [asked.path for asked in behind.asked] == ["/metrics", "/metrics"]
    assert all(not credentials.keys() & asked.headers.keys() for asked in behind.asked)
    assert [asked.path for asked in gateway.asked].count("/metrics") == 2
    assert all(credentials.items() <= asked.headers.items() for asked in gateway.asked)


def test_only_the_thread_that_sends_runs_in_real_time_and_only_while_it_sends() -> None:
    others: list[int] = []
    real_time = os.SCHED_RR | os.SCHED_RESET_ON_FORK
    try:
        os.sched_setscheduler(0, real_time, os.sched_param(1))
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    except OSError:
        real_time = os.SCHED_OTHER  # not permitted
    with raised_thread_priority():
        policy = os.sched_getscheduler(0)
        thread = threading.Thread(target=lambda: others.append(os.sched_getscheduler(0)))
        thread.start()
        thread.join()
    assert policy == real_time
    assert others == [os.SCHED_OTHER] and os.sched_getscheduler(0) == os.SCHED_OTHER


def test_who_may_not_clear_the_flag_of_real_time_leaves_it_and_ends_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    policies = [os.SCHED_OTHER]

    def set_policy(_pid: int, policy: int, _parameter: Any) -> None:
        if policies[-1] & os.SCHED_RESET_ON_FORK and not policy & os.SCHED_RESET_ON_FORK:
            raise PermissionError(1, "Operation not permitted")
        policies.append(policy)

    monkeypatch.setattr(os, "sched_setscheduler", set_policy)
    monkeypatch.setattr(os, "sched_getscheduler", lambda _pid: policies[-1])
    real_time, usual = os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK
    for _load in range(2):
        with raised_thread_priority():
            assert policies[-1] == real_time
        assert policies[-1] == usual
    assert policies == [os.SCHED_OTHER, real_time, usual, real_time, usual]


def test_a_policy_that_the_user_has_chosen_is_kept() -> None:
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    try:
        with raised_thread_priority():
            assert os.sched_getscheduler(0) == os.SCHED_BATCH
        assert os.sched_getscheduler(0) == os.SCHED_BATCH
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


@pytest.mark.parametrize("counts", [(5, 2), (3, 3, 1), (2, -4), (2, 10**12)])
def test_usage_that_goes_back_or_is_impossible_says_nothing_of_the_pieces(counts: tuple[int, ...]) -> None:
    pieces = [content("a", usage={"completion_tokens": count}) for count in counts]
    row = answered(*pieces, "[DONE]").record(MonotonicWallClock(1000.0, 0.0))
    assert min(row.get("chunk_tokens") or [0]) >= 0 and row["output_tokens"] >= 0


def test_the_reason_of_an_end_has_a_limit() -> None:
    request = answered(content("a"), {"choices": [{"delta": {}, "finish_reason": "x" * 100_000}]}, "[DONE]")
    assert request.outcome == "succeeded" and len(request.answer.finish_reason or "") <= 300


@pytest.mark.parametrize("claimed", [10**5, 10**8])
def test_a_count_that_the_answer_cannot_have_fails_the_request(claimed: int) -> None:
    request = answered(content("a"), {"choices": [], "usage": {"completion_tokens": claimed}}, "[DONE]")
    request.count_tokens()
    assert request.outcome == "failed" and request.answer.tokens == 1
    assert request.error is not None and request.error.startswith(f"the server counted {claimed:,} tokens; ")
    permitted = answered(content("a"), {"choices": [], "usage": {"completion_tokens": claimed}}, "[DONE]")
    permitted.most = claimed
    permitted.count_tokens()
    assert permitted.outcome == "succeeded" and permitted.answer.tokens == claimed


def test_pieces_with_more_tokens_than_their_answer_are_not_recorded() -> None:
    piece = content("a", usage={"completion_tokens": 90})
    request = answered(piece, {"choices": [], "usage": {"completion_tokens": 5}}, "[DONE]")
    row = request.record(MonotonicWallClock(1000.0, 0.0))
    assert row["output_tokens"] == 5 and "chunk_tokens" not in row

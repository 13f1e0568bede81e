"""Loads of requests to simulated inference servers: every request is joined with what the server did."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import model_servers as support
import pytest
import servers as tls_servers
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan import workload_plan
from model_servers import ModelServers
from servers import tokenizers_importable

OPEN = {"type": "constant", "rate": 200}
CLOSED = {"count": 4, "think_time": 0, "duration": 0}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelServers]:
    with support.model_servers(tmp_path_factory.mktemp("servers")) as running:
        yield running


@pytest.fixture
def point(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose name no other test uses, so that the requests of each test are told apart."""
    monkeypatch.setenv("SEATRIAL_VALIDATE", "1")
    point.number += 1  # type: ignore[attr-defined]  # a counter of this function
    return tmp_path / f"{point.number:03d}"  # type: ignore[attr-defined]


point.number = 0  # type: ignore[attr-defined]


def join(servers: ModelServers, folder: Path, count: int) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return each request with its line of the truth log: exactly one for each attempt at ``count`` requests."""
    rows = support.read_rows(folder, "request")
    truth = servers.truth_of(folder.name, sum(row["attempts"] for row in rows))
    assert len(rows) == count == len({row["index"] for row in rows}) == len(truth)
    assert all(row["attempts"] == len(truth[row["name"]]) for row in rows)
    return [(row, truth[row["name"]][-1]) for row in rows]


def expect_same(row: dict[str, Any], truth: dict[str, Any]) -> None:
    """Both say the same of a request that has succeeded."""
    assert row["outcome"] == "succeeded", row
    assert row["output_tokens"] == truth["output_tokens"] == row["asked_tokens"]
    assert row["chunks"] == len(truth["writes"]) == len(row["times"]) + 1
    assert (row["prompt_tokens"], row["cached_tokens"]) == (truth["prompt_tokens"], truth["cached_tokens"])
    assert row["due"] <= row["sent"] + 1e-5 <= row["headers"] + 2e-5 and row["headers"] <= row["first_token"]
    assert row["first_token"] <= row["last_token"] <= row["ended"]
    assert sorted(row["times"]) == row["times"]
    assert row["server"] == truth["server"] and row["finish_reason"] == "length" and row["tokens_from"] == "usage"


@pytest.mark.parametrize("api", ["chat", "completions"])
@pytest.mark.parametrize("model", [{"arrival": OPEN}, {"streams": CLOSED}, {"arrival": OPEN, "clients": 3}])
def test_every_request_and_token_is_the_server_s(
    servers: ModelServers, point: Path, api: str, model: dict[str, Any]
) -> None:
    lengths = {"type": "uniform", "low": 1, "high": 30}
    result = support.send(point, servers.urls, api=api, count=60, output_tokens=lengths, warm_up=6, **model)
    joined = join(servers, point, 60)
    for row, truth in joined:
        expect_same(row, truth)
    assert result["counts"]["succeeded"] == 60 and result["simulated"]
    assert result["tokens"] == sum(truth["output_tokens"] for _row, truth in joined)
    assert len({truth["output_tokens"] for _row, truth in joined}) > 5
    machine = support.read_rows(point, "end")[0]["machine"]
    assert machine["cpus"] == os.cpu_count() and machine["load"] > 0


@pytest.mark.parametrize("faults", ["split,crlf,ping", "tokens_per_chunk=3", "close", "split,tokens_per_chunk=2"])
def test_the_form_of_the_stream_changes_nothing(servers: ModelServers, point: Path, faults: str) -> None:
    support.send(point, servers.urls, count=30, arrival=OPEN, output_tokens=7, headers={"X-Simulate": faults})
    for row, truth in join(servers, point, 30):
        expect_same(row, truth)
        assert row["reused"] is False or "close" not in faults


@pytest.mark.parametrize("stream", [True, False])
def test_a_tokenizer_counts_prompts_and_answers(
    servers: ModelServers, point: Path, tmp_path: Path, stream: bool
) -> None:
    """The server makes a token of each word: this tokenizer of the same kind needs neither usage nor single tokens."""
    with tokenizers_importable():
        import tokenizers

        words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"?": 0}, unk_token="?"))
        words.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
        words.save(str(tmp_path / "tokenizer.json"))
        faults = {"X-Simulate": "no_usage,tokens_per_chunk=3"}
        lengths = {"type": "uniform", "low": 5, "high": 30}
        more = {"headers": faults, "prompt_tokens": lengths, "stream": stream, "shared_prefix_tokens": 7}
        support.send(point, servers.urls, count=20, arrival=OPEN, output_tokens=10, tokenizer=str(tmp_path), **more)
    plan = [row.parameters for row in workload_plan.read_complete_plan(point / "plan.jsonl").workloads]
    for row, truth in join(servers, point, 20):
        assert (row["output_tokens"], row["tokens_from"]) == (truth["output_tokens"], "tokenizer")
        assert truth["output_tokens"] == 10 > row["chunks"] == (4 if stream else 1)
        asked = plan[row["index"]]
        assert truth["prompt_tokens"] == asked["prompt_tokens"] + asked["prefix_tokens"] and asked["prefix_tokens"] == 7


@pytest.mark.parametrize("most", [1, 3])
def test_a_connection_carries_so_many_requests_and_no_more(servers: ModelServers, point: Path, most: int) -> None:
    support.send(point, servers.urls[:1], count=30, arrival=OPEN, output_tokens=7, connection_requests=most)
    carried = Counter(row["connection"] for row, _truth in join(servers, point, 30))
    # The request before the load and those of the warm-up are on connections of their own count.
    assert max(carried.values()) == most and sum(carried.values()) == 30


@pytest.mark.parametrize(
    ("faults", "outcome", "cause", "words"),
    [
        ("error_after=3", "failed", "error_event", "simulated error"),
        ("reset_after=3", "failed", "reset", "broke"),
        ("truncate_after=3", "failed", "truncated", "middle of the answer"),
        ("status=500", "failed", "status", "HTTP 500: simulated refusal"),
        ("status=429", "refused", "status", "HTTP 429: simulated refusal"),
    ],
)
def test_an_answer_that_breaks_is_recorded_with_its_cause(
    servers: ModelServers, point: Path, monkeypatch, faults: str, outcome: str, cause: str, words: str
) -> None:
    # The first request, which is not counted, would show the error already.
    monkeypatch.setattr(support.inference_load.ServerProbe, "try_request", lambda *_: 0.0)
    result = support.send(point, servers.urls, count=10, arrival=OPEN, headers={"X-Simulate": faults})
    for row, truth in join(servers, point, 10):
        assert (row["outcome"], row["cause"]) == (outcome, cause), row
        assert words in row["error"]
        assert row["chunks"] == len(truth["writes"]) == (3 if "after" in faults else 0)
    assert result["counts"][outcome] == 10


def test_a_refused_request_is_sent_again_after_the_time_that_the_server_names(
    servers: ModelServers, point: Path, monkeypatch
) -> None:
    monkeypatch.setattr(support.inference_load.ServerProbe, "try_request", lambda *_: 0.0)
    headers = {"X-Simulate": "status=429,retry_after=1,times=1"}
    support.send(point, servers.urls, count=6, arrival=OPEN, retries=2, headers=headers)
    for row, truth in join(servers, point, 6):
        expect_same(row, truth)
        assert row["attempts"] == 2 and row["first_token"] - row["sent"] > 1


def test_an_answer_as_a_whole_has_its_text_at_one_time(servers: ModelServers, point: Path) -> None:
    support.send(point, servers.urls, count=10, arrival=OPEN, stream=False)
    for row, truth in join(servers, point, 10):
        expect_same(row, truth)
        assert row["chunks"] == 1


@pytest.mark.parametrize("clients", [1, 2])
def test_turns_of_a_conversation_contain_the_earlier_ones_and_are_cached(
    servers: ModelServers, point: Path, clients: int
) -> None:
    load = {"count": 4, "turns": 3, "streams": CLOSED, "clients": clients}
    support.send(point, servers.urls, prompt_tokens=40, shared_prefix_tokens=100, **load)
    joined = join(servers, point, 12)
    for row, truth in joined:
        expect_same(row, truth)
        assert row["conversation"] == row["index"] // 3 and row["turn"] == row["index"] % 3
        # Earlier questions of 40 words and answers of 5 tokens, and this question.
        assert truth["prompt_tokens"] == 100 + 40 * (row["turn"] + 1) + 5 * row["turn"]
        assert truth["cached_tokens"] >= 16 * ((100 + 45 * row["turn"]) // 16) - 16 or not row["turn"]


def test_a_later_point_finds_nothing_of_an_earlier_one_in_the_caches(servers: ModelServers, tmp_path: Path) -> None:
    cached = {}
    for number in ("901", "902"):  # names that no other test uses
        load = {"count": 20, "streams": CLOSED, "prompt_tokens": 64, "shared_prefix_tokens": 160}
        support.send(tmp_path / number, servers.urls, **load)
        cached[number] = [truth["cached_tokens"] for _row, truth in join(servers, tmp_path / number, 20)]
    # The words that all share, which the first request of each point has brought, and nothing of the prompts.
    assert cached["901"] == cached["902"] == [160] * 20


@pytest.mark.parametrize("clients", [1, 2])
def test_streams_end_after_their_duration(servers: ModelServers, point: Path, clients: int) -> None:
    streams = {"count": 3, "think_time": 0.01, "duration": 0.5}
    result = support.send(point, servers.urls, streams=streams, clients=clients)
    sent = result["counts"]["sent"]
    joined = join(servers, point, sent)
    assert sent >= 3 and result["counts"]["succeeded"] == sent
    start = support.read_rows(point, "start")[0]["at"]
    assert all(row["due"] < start + 0.5 for row, _truth in joined)
    open_at = [(row["sent"], 1) for row, _truth in joined] + [(row["ended"], -1) for row, _truth in joined]
    level = most = 0
    for _at, step in sorted(open_at):
        level += step
        most = max(most, level)
    assert most <= 3


def test_several_models_get_their_shares(servers: ModelServers, point: Path) -> None:
    models = [{"name": "simulated-model", "weight": 3}, {"name": "simulated-model-b", "weight": 1}]
    support.send(point, servers.urls, models=models, count=80, arrival=OPEN, output_tokens=1)
    used = [truth["model"] for row, truth in join(servers, point, 80) if truth["model"] == row["model"]]
    assert len(used) == 80 and 45 <= used.count("simulated-model") <= 75


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        (
            {"models": [{"name": "simulated-modle"}]},
            InputError,
            r"has no model 'simulated-modle' \(did you mean 'simul",
        ),
        ({"models": []}, InputError, "does not have exactly one model, but simulated-model, simulated-model-b"),
        ({"headers": {"X-Simulate": "no_stream"}}, InputError, "answered as a whole.*set stream to false"),
        ({"urls": ["http://127.0.0.1:1"]}, AccessError, "http://127.0.0.1:1: Connection refused"),
        ({"urls": ["ftp://127.0.0.1"]}, InputError, "'ftp://127.0.0.1' must be http:// or https://"),
        ({"count": 0}, InputError, "arrival does not say how many"),
        ({"prompt_tokens": {"type": "uniform"}}, InputError, "prompt_tokens: distribution 'uniform' needs 'low'"),
        ({"output_tokens": 0}, InputError, "output_tokens is 0"),
        ({"streams": CLOSED}, InputError, "give only one of them"),
        ({"headers": {"Host": "x"}}, InputError, "Host is set by the load itself"),
        (
            {"arrival": {}, "streams": {"count": 9}, "max_open": 8},
            InputError,
            "streams.count is 9, and max_open permits 8",
        ),
        (
            {"arrival": {}, "count": 0, "search": {"high": 9.0}, "slo": {"ttft": 1.0}, "clients": 2},
            InputError,
            "clients must be 1 with search",
        ),
        (
            {"arrival": {}, "streams": {"count": 2}, "clients": 3},
            InputError,
            "clients is 3, more than the 2",
        ),
        ({"clients": 65}, InputError, "clients is 65, it must be 1 to 64"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_measured(
    servers: ModelServers, point: Path, changes: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        support.send(point, **{"urls": servers.urls, "count": 5, "arrival": OPEN, **changes})
    assert not (point / "plan.jsonl").exists()
    assert servers.truth_of(point.name, 0) == {}


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("", r"requires a key, and api_key gives none \(HTTP 401: Unauthorized\): set it"),
        ("old", r"refuses the key \(HTTP 401: the key has expired\); api_key must be one"),
    ],
)
def test_a_missing_and_an_expired_key_are_told_apart(tmp_path: Path, key: str, words: str) -> None:
    with support.model_servers(tmp_path, 1, api_key="good", expired_key="old") as running:
        with pytest.raises(AccessError, match=words):
            support.send(tmp_path / "001", running.urls, count=1, api_key=key)
        assert support.send(tmp_path / "002", running.urls, count=2, api_key="good")["counts"]["succeeded"] == 2
        assert "good" not in (tmp_path / "002" / "requests.jsonl").read_text(encoding="utf-8")


def test_a_server_with_tls_needs_its_authority(tmp_path: Path, servers: ModelServers, point: Path) -> None:
    """The own authority, none, that of another server, nobody verified, and URLs with the wrong scheme."""
    plain, load = servers.urls[0], {"count": 5, "arrival": OPEN}
    for name in ("own", "other"):
        (tmp_path / name).mkdir()
    other, _key = tls_servers.certificate(tmp_path / "other")
    with tls_servers.tls(tmp_path / "own", plain) as (url, authority):
        assert support.send(point, [url], ca_file=str(authority), **load)["counts"]["succeeded"] == 5
        expect_same(*join(servers, point, 5)[0])
        anyone = support.send(tmp_path / "902", [url], validate_certs=False, **load)
        assert anyone["counts"]["succeeded"] == 5
        for trusted, address, words in (
            ({}, url, "certificate is not accepted .*; ca_file names the authorities"),
            ({"ca_file": str(other)}, url, "certificate is not accepted .*; ca_file names the authorities"),
            ({}, url.replace("https", "http"), "the URL of a server with TLS begins with https://"),
            ({}, plain.replace("http", "https"), "does not speak TLS; the URL of such a server begins with http://"),
        ):
            with pytest.raises(AccessError, match=words):
                support.send(tmp_path / "903", [address], **trusted, **load)
    assert not (tmp_path / "903" / "plan.jsonl").exists()


def test_more_open_requests_than_files_are_permitted_are_refused_or_said(servers: ModelServers, tmp_path: Path) -> None:
    code = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (230, 230))"
    late: dict[str, Any] = {"arrival": {"type": "constant", "rate": 1000}, "output_tokens": 40}
    streams: dict[str, Any] = {"streams": {"count": 50}}
    refused = drive(tmp_path / "001", servers.urls, code, count=60, **streams)
    assert "count is 50, and the limit of open files (ulimit -n) permits 30" in refused.communicate(timeout=60)[0]
    said = drive(tmp_path / "002", servers.urls, code, count=200, **late)
    assert "200 of 200 requests succeeded" in said.communicate(timeout=60)[0]
    assert support.read_rows(tmp_path / "002", "end")[0]["open_max"] == 30


@pytest.mark.long
@pytest.mark.parametrize("clients", [1, 4])
@pytest.mark.skipif(
    resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 10_400, reason="needs 10,400 open files (ulimit -n)"
)
def test_ten_thousand_requests_are_open_at_a_time(tmp_path: Path, clients: int, monkeypatch) -> None:
    monkeypatch.delenv("SEATRIAL_VALIDATE")  # it would check 20,000 lines
    most = {"max_num_seqs": 20_000, "max_num_batched_tokens": 10**9}
    with support.model_servers(tmp_path, 1, step_ms=500, **most) as running:
        streams = {"count": 10_000}
        load = {"count": 10_000, "streams": streams, "prompt_tokens": 8, "output_tokens": 20, "timeout": 300}
        result = support.send(tmp_path / "001", running.urls, clients=clients, **load)
        assert result["counts"]["succeeded"] == 10_000
        assert support.read_rows(tmp_path / "001", "end")[0]["open_max"] > 9_000
        for row, truth in join(running, tmp_path / "001", 10_000):
            expect_same(row, truth)


@pytest.mark.parametrize("clients", [1, 2])
def test_a_server_that_is_gone_ends_the_load_with_one_sentence(tmp_path: Path, clients: int) -> None:
    with support.model_servers(tmp_path, 1) as running:
        arrival = {"type": "constant", "rate": 50}
        load = drive(tmp_path / "001", running.urls, count=2000, arrival=arrival, clients=clients)
        await_rows(tmp_path / "001", 20)
        running.process.kill()
        output, _none = load.communicate(timeout=60)
    assert load.returncode == 1
    assert "AccessError: the load was stopped, because no request has succeeded for" in output
    assert "Connection refused" in output
    rows = support.read_rows(tmp_path / "001", "request")
    assert len(rows) == len(support.read_rows(tmp_path / "001", "sent"))
    assert support.read_rows(tmp_path / "001", "end")[0]["reason"].startswith("stopped: no request has succeeded")


@pytest.mark.parametrize("clients", [1, 2])
def test_a_load_goes_on_when_one_of_two_servers_is_gone(tmp_path: Path, clients: int) -> None:
    for name in ("gone", "stays"):
        (tmp_path / name).mkdir()
    with support.model_servers(tmp_path / "gone", 1) as gone, support.model_servers(tmp_path / "stays", 1) as stays:
        urls = [*gone.urls, *stays.urls]
        arrival = {"type": "constant", "rate": 50}
        load = drive(tmp_path / "001", urls, count=500, output_tokens=5, arrival=arrival, clients=clients)
        await_rows(tmp_path / "001", 20)
        gone.process.kill()
        output, _none = load.communicate(timeout=60)
    assert load.returncode == 0, output
    rows = support.read_rows(tmp_path / "001", "request")
    assert len(rows) == 500 and {row["server"] for row in rows if row["outcome"] != "succeeded"} == {0}
    assert sum(row["outcome"] == "succeeded" for row in rows) >= 250


#: Sends a load in a process that can be killed.
DRIVER = """
import sys
sys.path[:0] = {path!r}
from pathlib import Path
import model_servers as support
print(support.send(Path({point!r}), {urls!r}, **{more!r})["msg"])
"""


def drive(point: Path, urls: list[str], before: str = "", **more: Any) -> subprocess.Popen[str]:
    """Send a load in a process of its own, which runs ``before`` first."""
    code = before + DRIVER.format(path=[one for one in sys.path if one], point=str(point), urls=urls, more=more)
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def await_rows(point: Path, count: int) -> None:
    """Wait until so many requests have ended, of all clients."""
    deadline = time.monotonic() + 60
    files = (point / "requests.jsonl", *(point / "clients" / f"{number:03d}.jsonl" for number in range(4)))
    while sum(path.read_text(encoding="utf-8").count('"outcome"') for path in files if path.exists()) < count:
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("clients", [1, 3])
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_load_continues_and_sends_nothing_twice(
    servers: ModelServers, point: Path, ending: int, clients: int
) -> None:
    load = {"count": 400, "arrival": {"type": "constant", "rate": 100}, "output_tokens": 20, "clients": clients}
    first = drive(point, servers.urls, **load)
    await_rows(point, 50)
    os.kill(first.pid, ending)
    output, _none = first.communicate(timeout=30)
    if ending == signal.SIGTERM:
        assert "Interrupted: interrupted by SIGTERM" in output
        assert support.read_rows(point, "end")[0]["reason"] == "interrupted by SIGTERM"
        assert {row["index"] for row in support.read_rows(point, "sent")} == {
            row["index"] for row in support.read_rows(point, "request")
        }
    result = support.send(point, servers.urls, **load)
    counts = result["counts"]
    assert counts["planned"] == counts["sent"] == 400 and counts["unsent"] == 0
    assert counts["succeeded"] + counts["lost"] == 400
    truth = servers.truth_of(point.name, counts["succeeded"])
    assert all(len(lines) == 1 for lines in truth.values())
    rows = {row["name"]: row for row in support.read_rows(point, "request") if row["outcome"] == "succeeded"}
    for name, row in rows.items():
        expect_same(row, truth[name][0])
    again = support.send(point, servers.urls, **load)
    assert not again["changed"] and again["counts"] == counts


@pytest.mark.parametrize("model", [{"arrival": {"type": "constant", "rate": 100}}, {"streams": {"count": 6}}])
def test_a_client_that_is_killed_is_started_again_and_sends_nothing_twice(
    servers: ModelServers, point: Path, model: dict[str, Any]
) -> None:
    """The clients have one plan and one start; the one that died sends what is missing of its share."""
    load = drive(point, servers.urls, count=300, output_tokens=60, clients=3, **model)
    await_rows(point, 60)
    victim = next(
        pid for pid in map(str, processes.list_pids()) if f"{point}/clients/001.jsonl" in open_files_of(int(pid))
    )
    indices = {json.loads(line).get("index", 1) for line in (point / "clients" / "001.jsonl").read_text().splitlines()}
    os.kill(int(victim), signal.SIGKILL)
    killed = time.time()
    output, _none = load.communicate(timeout=60)
    assert load.returncode == 0, output
    assert indices and {index % 3 for index in indices} == {1}
    assert not (point / "clients").exists()
    sent, rows = support.read_rows(point, "sent"), support.read_rows(point, "request")
    assert sorted(row["index"] for row in sent) == list(range(300))
    assert len(rows) == len({row["index"] for row in rows}) and {row["outcome"] for row in rows} == {"succeeded"}
    lost = {row["index"] for row in sent} - {row["index"] for row in rows}
    assert {index % 3 for index in lost} <= {1}
    assert all(row["sent"] < killed + 0.1 for row in sent if row["index"] in lost)
    truth = servers.truth_of(point.name, 300)
    assert len(truth) >= 300 - len(lost) and all(len(lines) == 1 for lines in truth.values())
    for row in rows:
        expect_same(row, truth[row["name"]][0])
    if "arrival" in model:
        start = support.read_rows(point, "start")[0]["at"]
        assert all(row["due"] == pytest.approx(start + row["index"] / 100, abs=1e-4) for row in sent)


def open_files_of(pid: int) -> list[str]:
    """Return the paths of the files that a process has open, none of one that has ended."""
    try:
        return [str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return []


def test_a_request_without_an_answer_ends_after_its_timeout(servers: ModelServers, point: Path, monkeypatch) -> None:
    monkeypatch.setattr(support.inference_load.ServerProbe, "try_request", lambda *_: 0.0)
    headers = {"X-Simulate": "stall_after=1,stall_ms=3000"}
    support.send(point, servers.urls, count=3, arrival=OPEN, timeout=0.5, headers=headers)
    rows = support.read_rows(point, "request")
    assert [(row["outcome"], row["cause"]) for row in rows] == [("failed", "timeout")] * 3
    assert all("the answer is not complete after 0.5 s" in row["error"] and row["chunks"] == 1 for row in rows)


def test_a_search_measures_near_the_capacity_and_ends_once(tmp_path: Path, point: Path) -> None:
    """Four requests at a time of 0.1 s each: no server answers more than 40 a second."""
    with support.model_servers(tmp_path, 1, step_ms=10, max_num_seqs=4) as slow:
        search = {"low": 5.0, "high": 300.0, "step": 1.0, "timespan": 12.0}
        more = {"search": search, "slo": {"ttft": 0.4, "share": 0.9}, "output_tokens": 10}
        result = support.send(point, slow.urls, **more)
        steps, rows = support.read_rows(point, "step"), join(slow, point, result["counts"]["sent"])
        assert len(steps) >= 3 and len({step["rate"] for step in steps}) == len(steps)
        assert steps[0]["rate"] == pytest.approx((5 * 300) ** 0.5, rel=0.1)
        # The first two rates: the middle, which is nearly the capacity, or less if the machine is busy, then beside it.
        assert max(step["rate"] for step in steps[2:]) < 200
        # Each step begins when all requests of the one before have ended.
        by_index = {row["index"]: row for row, _truth in rows}
        for step in steps[1:]:
            before = [row["ended"] for index, row in by_index.items() if index < step["index"]]
            assert by_index[step["index"]]["sent"] >= max(before)
        again = support.send(point, slow.urls, **more)
        assert again["counts"] == result["counts"]

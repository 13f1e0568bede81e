"""The client of every server beside an API server: what it sends where, what it sends again, and where it stops."""

from __future__ import annotations

import hashlib
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._http import s3
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.http_client import (
    HttpClient,
    HttpClock,
    HttpPolicy,
    limit_number_of_pages,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.http_transport import (
    MOST_REDIRECTS,
    HttpRefused,
    HttpReply,
    NoAnswer,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.quads_client import QuadsClient
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.quads_connection import QuadsAccount
from scripted_server import RESET, Asked, ScriptedServer, reply
from servers import tls


class Clock:
    """A clock on which only sleeping takes time."""

    def __init__(self) -> None:
        self.now, self.slept = 1000.0, list[float]()

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    @property
    def clock(self) -> HttpClock:
        return HttpClock(lambda: self.now, lambda: self.now, self.sleep, lambda: 0.5)


def address(server: ScriptedServer) -> str:
    return f"http://127.0.0.1:{server.port}"


def client(server: ScriptedServer, clock: Clock | None = None, **policy: Any) -> HttpClient:
    limits = {"retry_time": 100.0, "timeout": 5.0, **policy}
    made = clock.clock if clock else None
    return HttpClient("the server", address(server), "Basic secret", policy=HttpPolicy(**limits), clock=made)


# One request


def test_the_answer_is_read() -> None:
    with ScriptedServer(lambda _asked: (200, b"whole")) as server:
        assert client(server).send("GET", "/x").content == b"whole"
    assert server.asked[0].headers["authorization"] == "Basic secret"


def test_a_refusal_has_its_status_and_what_the_server_told() -> None:
    with (
        ScriptedServer(lambda _asked: (422, b"not this query")) as server,
        pytest.raises(HttpRefused, match="the server: GET /x: 422 .*: not this query") as caught,
    ):
        client(server).send("GET", "/x")
    assert (caught.value.status, caught.value.reply.text) == (422, "not this query")


def test_a_server_that_says_nothing_is_named() -> None:
    with ScriptedServer(lambda _asked: RESET) as server, pytest.raises(NoAnswer, match="the server: ") as caught:
        client(server, retry_time=0.0).send("GET", "/x")
    assert caught.value.sent and not caught.value.permanent


def test_who_is_not_vouched_for_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with (
        ScriptedServer(lambda _asked: (200, b"")) as server,
        tls(tmp_path, address(server)) as (url, authority),
    ):
        with pytest.raises(NoAnswer, match="configure the CA that signed its certificate") as caught:
            HttpClient("the server", url, "Basic secret", policy=HttpPolicy(retry_time=100.0)).send("GET", "/x")
        assert caught.value.permanent and not caught.value.sent
        assert server.asked == []
        for trusted in (authority, Path(authority).read_text(encoding="ascii")):
            assert HttpClient("the server", url, authority=str(trusted)).send("GET", "/x").status == 200


def test_credentials_of_a_netrc_file_are_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login somebody password secret\n", encoding="utf-8")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    with ScriptedServer(lambda _asked: (200, b"")) as server:
        HttpClient("the server", address(server)).send("GET", "/x")
    assert "authorization" not in server.asked[0].headers


def test_the_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with ScriptedServer(lambda _asked: (200, b"by proxy")) as proxy:
        monkeypatch.setenv("http_proxy", address(proxy))
        assert HttpClient("the server", "http://lab.example.com").send("GET", "/x").content == b"by proxy"
    assert proxy.asked[0].path == "http://lab.example.com/x"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_what_is_sent_to_this_machine_leaves_it_through_no_proxy(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    """Its credentials may go over plain HTTP, so a proxy could read them."""
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with ScriptedServer(lambda _asked: (200, b"x")) as proxy, ScriptedServer(lambda _asked: (200, b"direct")) as server:
        monkeypatch.setenv("http_proxy", address(proxy))
        sender = HttpClient("the server", f"http://{host}:{server.port}", "Basic secret")
        assert sender.send("GET", "/x").content == b"direct"
        location = s3.S3Location("bucket", endpoint=f"http://{host}:{server.port}", access_key="k", secret_key="s")
        assert s3.create_s3_client(location).get_object(Bucket="bucket", Key="k")["Body"].read() == b"direct"
    assert not proxy.asked


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("lab.example.com", "is not https://host:port"),
        ("ftp://lab.example.com", "is not https://host:port"),
        ("file:///etc/passwd", "is not https://host:port"),
        ("https://jo:secret@lab.example.com", "contains a user name"),
        ("http://lab.example.com", "http is allowed for this machine only"),
    ],
)
def test_an_address_that_is_unusable_or_unsafe_is_refused(url: str, why: str) -> None:
    with pytest.raises(InputError, match=why) as caught:
        HttpClient("the server", url, "Basic secret")
    assert "secret" not in str(caught.value)


# Redirects


def test_a_redirect_on_the_same_server_keeps_the_credentials_and_one_to_another_loses_them() -> None:
    def here(asked: Asked) -> Any:
        if asked.path == "/x":
            return reply(302, b"", Location="/y")
        return reply(302, b"", Location=f"{address(other)}/z")

    with ScriptedServer(lambda _asked: (200, b"there")) as other, ScriptedServer(here) as server:
        assert client(server).send("GET", "/x").content == b"there"
    assert [one.headers.get("authorization") for one in server.asked] == ["Basic secret", "Basic secret"]
    assert "authorization" not in other.asked[0].headers


def test_https_never_becomes_http(tmp_path: Path) -> None:
    with (
        ScriptedServer(lambda _asked: (200, b"plain")) as other,
        ScriptedServer(lambda _asked: reply(302, b"", Location=f"{address(other)}/x")) as server,
        tls(tmp_path, address(server)) as (url, authority),
    ):
        with pytest.raises(NoAnswer, match="which is not https"):
            HttpClient("the server", url, authority=str(authority)).send("GET", "/x")
        assert other.asked == []


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/x", "https://", "http://["])
def test_a_redirect_to_something_else_is_refused(target: str) -> None:
    with ScriptedServer(lambda _asked: reply(302, b"", Location=target)) as server, pytest.raises(NoAnswer):
        client(server, retry_time=0.0).send("GET", "/x")


def test_redirects_have_an_end() -> None:
    with ScriptedServer(lambda _asked: reply(302, b"", Location="/x")) as server:
        with pytest.raises(NoAnswer, match="redirects"):
            client(server).send("GET", "/x")
        assert len(server.asked) == MOST_REDIRECTS + 1


def test_what_changes_something_follows_no_redirect() -> None:
    with ScriptedServer(lambda _asked: reply(307, b"", Location="/y")) as server:
        with pytest.raises(HttpRefused, match="307"):
            client(server).send("POST", "/x", {})
        assert len(server.asked) == 1


def test_a_path_that_would_name_another_server_is_refused() -> None:
    with ScriptedServer(lambda _asked: (200, b"")) as server:
        for path in ("@example.com/x", ".example.com/x", "1/x"):
            with pytest.raises((AccessError, InputError)):
                client(server).send("GET", path)
        assert server.asked == []


@pytest.mark.parametrize("sign", ["\n", "\r", "\x00", "\u2026"])
def test_a_secret_that_no_request_can_have_is_not_quoted(sign: str) -> None:
    with ScriptedServer(lambda _asked: (200, b"")) as server:
        secret = f"planted{sign}secret"
        for authorization, path in ((f"Bearer {secret}", "/x"), ("", f"/{secret}")):
            with pytest.raises(NoAnswer) as caught:
                HttpClient("test", address(server), authorization).send("GET", path, what="test")
            assert "planted" not in str(caught.value)
        assert server.asked == []


# Limits


def test_an_answer_that_is_too_large_is_not_read() -> None:
    with ScriptedServer(lambda _asked: (200, b"x" * 1001)) as server:
        with pytest.raises(NoAnswer, match="more than 1000 bytes"):
            client(server, max_bytes=1000).send("GET", "/x")
        assert len(server.asked) == 1
        assert len(client(server, max_bytes=1001).send("GET", "/x").content) == 1001


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_an_answer_that_drips_ends_with_the_time_of_the_request(head: bytes) -> None:
    """Each byte comes within the timeout, in the headers as in the body."""

    def serve() -> None:
        connection, _peer = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(head)
            while not ended.wait(0.05):
                try:
                    connection.sendall(b"x")
                except OSError:
                    return

    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        slow = HttpClient("the server", f"http://127.0.0.1:{listener.getsockname()[1]}", policy=HttpPolicy(5.0, 0.5))
        began = time.monotonic()
        try:
            with pytest.raises(NoAnswer, match="not complete after 500 ms"):
                slow.send("GET", "/x")
        finally:
            ended.set()
            thread.join()
    assert time.monotonic() - began < 4.0


def test_a_chunk_of_a_negative_size_is_refused_and_not_read_without_end() -> None:
    def serve() -> None:
        connection, _peer = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n" + b"x" * 1000)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        reader = HttpClient("the server", f"http://127.0.0.1:{listener.getsockname()[1]}")
        with pytest.raises(NoAnswer, match="a chunk of the answer has a negative size"):
            reader.send("GET", "/x")
        thread.join()


def test_a_question_has_twice_the_time_that_may_pass_without_data() -> None:
    policy = HttpPolicy.of_query(30.0, retry_time=5.0)
    assert (policy.timeout, policy.total, policy.retry_time) == (30.0, 60.0, 5.0)
    assert QuadsClient(QuadsAccount("https://lab.example.com", timeout=20.0)).policy.total == 40.0


def test_a_list_has_a_maximum_of_pages() -> None:
    assert list(limit_number_of_pages("the list", range(3), most=3)) == [0, 1, 2]
    with pytest.raises(AccessError, match="the list has more than 3 pages"):
        list(limit_number_of_pages("the list of runs", iter(int, 1), most=3))


# Repeats


@pytest.mark.parametrize(
    ("fault", "pause"),
    [
        (reply(429, {"message": "slow down"}, retry_after="7"), 7.0),
        (reply(503, b"", retry_after="Thu, 01 Jan 1970 00:17:10 GMT"), 30.0),
        (reply(403, {"message": "rate limit"}, x_ratelimit_remaining="0", x_ratelimit_reset="1030"), 30.0),
        (reply(403, {"message": "secondary"}, retry_after="60"), 60.0),
        (reply(502, b"bad gateway"), 1.0),
        (reply(503, b""), 1.0),
        (reply(503, b"", retry_after="0"), 1.0),
        (reply(429, b""), 60.0),
        # No numbers: str.isdigit() accepts a superscript two, which float() refuses.
        (reply(429, b"", retry_after="@").replace(b"@", b"\xb2"), 60.0),
        (reply(503, b"", retry_after="9" * 400), 1.0),
        (reply(403, b"", x_ratelimit_remaining="0", x_ratelimit_reset="@").replace(b"@", b"\xb2"), 60.0),
    ],
)
def test_a_request_that_is_refused_for_now_is_sent_again_after_the_asked_time(fault: Any, pause: float) -> None:
    answers = [fault, (200, {"id": 1})]
    clock = Clock()
    with ScriptedServer(lambda _asked: answers.pop(0)) as server:
        assert client(server, clock).json("POST", "/x", {}) == {"id": 1}
    assert clock.slept == [pause]


def test_a_wait_beyond_the_budget_is_an_error_that_says_so() -> None:
    clock = Clock()
    late = "rate-limited for 500 s, which exceeds the 100 s budget"
    with (
        ScriptedServer(lambda _asked: reply(429, b"", retry_after="500")) as server,
        pytest.raises(HttpRefused, match=late),
    ):
        client(server, clock).send("GET", "/x")
    assert clock.slept == []


def test_errors_of_the_server_are_tried_again_until_the_time_is_over() -> None:
    clock = Clock()
    with ScriptedServer(lambda _asked: (500, b"")) as server, pytest.raises(HttpRefused, match="500"):
        client(server, clock, retry_time=20.0).send("GET", "/x")
    assert clock.slept == [1.0, 2.0, 4.0, 8.0]


def test_the_budget_is_for_all_requests_of_a_client() -> None:
    clock = Clock()
    with ScriptedServer(lambda _asked: (500, b"")) as server:
        one = client(server, clock, budget=10.0)
        for _request in range(2):
            with pytest.raises(HttpRefused):
                one.send("GET", "/x")
    assert clock.slept == [1.0, 2.0, 4.0, 1.0]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 422])
def test_a_refusal_is_not_tried_again_and_its_reason_is_shown(status: int) -> None:
    with ScriptedServer(lambda _asked: (status, {"message": "the reason"})) as server:
        with pytest.raises(HttpRefused, match=f"POST /x: {status} .*the reason"):
            client(server, Clock()).send("POST", "/x", {})
        assert len(server.asked) == 1
        assert client(server).send("POST", "/x", {}, accept=(status,)).status == status


def test_what_may_have_arrived_is_sent_again_only_if_that_does_no_harm() -> None:
    clock = Clock()
    with ScriptedServer(lambda _asked: RESET) as server:
        with pytest.raises(NoAnswer) as caught:
            client(server, clock).send("POST", "/x", {})
        assert caught.value.sent and len(server.asked) == 1
        with pytest.raises(NoAnswer, match="it was tried for"):
            client(server, clock, retry_time=4.0).send("PATCH", "/x", {})
        assert len(server.asked) > 2


def test_what_must_not_be_sent_twice_is_sent_again_only_if_nobody_got_it() -> None:
    clock = Clock()
    with ScriptedServer(lambda _asked: (503, b"")) as server:
        with pytest.raises(HttpRefused):
            client(server, clock).send("POST", "/x", {}, repeat="unsent")
        assert len(server.asked) == 1
    with pytest.raises(NoAnswer, match="it was tried for") as caught:  # nobody listens any more
        client(server, clock).send("POST", "/x", {}, repeat="unsent")
    assert not caught.value.sent


# Files


def test_a_file_is_written_and_its_checksum_told(tmp_path: Path) -> None:
    body = bytes(range(256)) * 12000
    with ScriptedServer(lambda _asked: (200, body)) as server:
        found = client(server).download("/x", tmp_path / "x")
    assert found == hashlib.sha256(body).hexdigest() and (tmp_path / "x").read_bytes() == body


@pytest.mark.parametrize(("answer", "why"), [((404, b""), "404"), ("reset", "")])
def test_what_cannot_be_fetched_is_named_with_the_reason(answer: Any, why: str, tmp_path: Path) -> None:
    with (
        ScriptedServer(lambda _asked: answer) as server,
        pytest.raises(AccessError, match=f"{address(server)}/x cannot be fetched: .*{why}"),
    ):
        client(server).download("/x", tmp_path / "x")


def test_a_file_that_is_too_large_or_ends_early_is_no_file(tmp_path: Path) -> None:
    with ScriptedServer(lambda _asked: (200, b"x" * 1001)) as server, pytest.raises(NoAnswer, match="1000 bytes"):
        client(server, max_bytes=1000).download("/x", tmp_path / "x")


@pytest.mark.parametrize("length", ["100", "99999999999999999999"])
def test_an_answer_that_ends_early_is_no_answer(length: str) -> None:
    answer = f"HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{{}}".encode()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def send_and_close() -> None:
            connection, _address = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        threading.Thread(target=send_and_close, daemon=True).start()
        with pytest.raises(NoAnswer, match=r"GET /x: the answer ended 9\d+ bytes early"):
            HttpClient("S", f"http://127.0.0.1:{listener.getsockname()[1]}").json("GET", "/x")


def test_what_is_no_http_is_told_in_one_line_without_control_characters() -> None:
    garbage = b"\x1b[2J\x07 no http\nat all\r\n\r\n"
    with ScriptedServer(lambda _asked: garbage) as server, pytest.raises(NoAnswer) as raised:
        HttpClient("S", f"http://127.0.0.1:{server.port}").send("GET", "/x")
    assert str(raised.value).isprintable()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b'{"message": "m", "error": "Bad Request"}', "m"),
        (b"<html><head><title>400</title></head><body>a  b</body></html>", "a b"),
        (b"<title" * 100_000, ""),
    ],
)
def test_what_a_server_tells_is_one_short_line(text: bytes, told: str) -> None:
    began = time.monotonic()
    assert HttpReply(400, text).explanation.startswith(told)
    assert time.monotonic() - began < 1.0


# What a refusal repeats


def _repeats_the_request(asked: Asked) -> Any:
    return 403, {"message": f"you sent {asked.headers}"}


@pytest.mark.parametrize("scheme", ["Bearer", "Basic"])
def test_a_refusal_that_repeats_the_credentials_is_told_without_them(scheme: str) -> None:
    secret = "c2VlOmNhbmFyeS1wYXNzd29yZA=="  # of see:canary-password
    with ScriptedServer(_repeats_the_request) as server:
        http = HttpClient("the server", address(server), f"{scheme} {secret}")
        with pytest.raises(HttpRefused) as refused:
            http.send("GET", "/x")
    assert "you sent" in str(refused.value) and f"{scheme} <secret>" in refused.value.reply.text
    assert secret not in str(refused.value) + refused.value.reply.text


def test_a_refusal_that_repeats_the_address_of_a_webhook_is_told_without_it() -> None:
    with ScriptedServer(lambda asked: (404, {"message": f"no {asked.path}"})) as server:
        http = HttpClient("the server", f"{address(server)}/hook/canary42", secrets=("hook/canary42",))
        with pytest.raises(HttpRefused, match="404 Not Found: no /<secret>$"):
            http.send("POST", "", {}, what="POST webhook")


@pytest.mark.parametrize(
    "proxy",
    ["http:/jo:canary42@p:1", "http://jo:canary42@127.0.0.1:abc", "jo:canary42@h:x", "http://jo:canary42/x@h:1"],
)
def test_an_unusable_address_of_a_proxy_is_told_without_its_password(
    monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    monkeypatch.setenv("https_proxy", proxy)
    http = HttpClient("the server", "https://h.example.com", policy=HttpPolicy(timeout=2, retry_time=0))
    with pytest.raises(NoAnswer) as failed:
        http.send("GET", "/x")
    assert "canary42" not in str(failed.value)

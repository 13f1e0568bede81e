"""One request to a server that is neither an API server nor a lab."""

from __future__ import annotations

import hashlib
import ssl
import urllib.request

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, ProcessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._http import https_request
from scripted_server import ScriptedServer
from servers import tls


def ask(server: ScriptedServer) -> bytes:
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}/x")
    with https_request.opened(request, ssl.create_default_context(), "the server", timeout=5) as answer:
        return answer.read()


def test_the_answer_is_read():
    with ScriptedServer(lambda _asked: (200, b"whole")) as server:
        assert ask(server) == b"whole"


def test_a_refusal_has_its_status_and_what_the_server_told():
    with (
        ScriptedServer(lambda _asked: (422, b"not this query")) as server,
        pytest.raises(https_request.HttpRefused, match="the server: 422") as caught,
    ):
        ask(server)
    assert (caught.value.status, caught.value.body) == (422, "not this query")


def test_a_server_that_says_nothing_is_named():
    with (
        ScriptedServer(lambda _asked: "reset") as server,
        pytest.raises(AccessError, match="the server: ") as caught,
    ):
        ask(server)
    assert not isinstance(caught.value, https_request.HttpRefused)


def test_who_is_not_vouched_for_is_refused_with_what_to_do(tmp_path):
    with (
        ScriptedServer(lambda _asked: (200, b"")) as server,
        tls(tmp_path, f"http://127.0.0.1:{server.port}") as (url, _authority),
        pytest.raises(AccessError, match="configure the CA that signed its certificate"),
        https_request.opened(urllib.request.Request(url), ssl.create_default_context(), "the server"),
    ):
        pytest.fail("it was trusted")


def test_a_file_is_written_and_its_checksum_told(tmp_path):
    body = bytes(range(256)) * 12000
    with ScriptedServer(lambda _asked: (200, body)) as server:
        found = https_request.download(f"http://127.0.0.1:{server.port}/x", tmp_path / "x")
    assert found == hashlib.sha256(body).hexdigest() and (tmp_path / "x").read_bytes() == body


@pytest.mark.parametrize(("answer", "why"), [((404, b""), "404"), ("reset", "")])
def test_what_cannot_be_fetched_is_named_with_the_reason(answer, why):
    with (
        ScriptedServer(lambda _asked: answer) as server,
        pytest.raises(ProcessError, match=f"http://127.0.0.1:{server.port}/x cannot be fetched: .*{why}"),
    ):
        https_request.fetch(f"http://127.0.0.1:{server.port}/x")

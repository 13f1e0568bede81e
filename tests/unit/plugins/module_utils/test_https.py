"""One request to a server that is neither an API server nor a lab."""

from __future__ import annotations

import ssl
import urllib.request

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils import _https
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import AccessError
from scripted_server import ScriptedServer
from servers import tls


def ask(server: ScriptedServer) -> bytes:
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}/x")
    with _https.opened(request, ssl.create_default_context(), "the server", timeout=5) as answer:
        return answer.read()


def test_the_answer_is_read():
    with ScriptedServer(lambda _asked: (200, b"whole")) as server:
        assert ask(server) == b"whole"


def test_a_refusal_has_its_status_and_what_the_server_told():
    with (
        ScriptedServer(lambda _asked: (422, b"not this query")) as server,
        pytest.raises(_https.Refused, match="the server: 422") as caught,
    ):
        ask(server)
    assert (caught.value.status, caught.value.told) == (422, "not this query")


def test_a_server_that_says_nothing_is_named():
    with (
        ScriptedServer(lambda _asked: "reset") as server,
        pytest.raises(AccessError, match="the server: ") as caught,
    ):
        ask(server)
    assert not isinstance(caught.value, _https.Refused)


def test_who_is_not_vouched_for_is_refused_with_what_to_do(tmp_path):
    with (
        ScriptedServer(lambda _asked: (200, b"")) as server,
        tls(tmp_path, f"http://127.0.0.1:{server.port}") as (url, _authority),
        pytest.raises(AccessError, match="name who signed its certificate"),
        _https.opened(urllib.request.Request(url), ssl.create_default_context(), "the server"),
    ):
        pytest.fail("it was trusted")

"""Requests to a BMC: what is sent, and which part of an answer a user sees."""

from __future__ import annotations

import base64

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.redfish.bmc_requests_and_vendors import (
    SERVICE_ROOT,
    BmcRequests,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.http_client import HttpClock
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.http_transport import HttpRefused
from scripted_server import Asked, ScriptedServer, reply

SYSTEM = "/redfish/v1/Systems/1"


def requests(server: ScriptedServer) -> BmcRequests:
    """Requests on a clock on which only pauses take time."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    clock = HttpClock(lambda: now[0], lambda: now[0], sleep, lambda: 0.5)
    return BmcRequests(f"http://127.0.0.1:{server.port}", "quads", "pass:wörd", {"timeout": 5}, clock)


def test_the_service_root_is_read_without_credentials_and_the_rest_with_them():
    with ScriptedServer(lambda _asked: (200, {"Id": "1"})) as server:
        assert requests(server).get(SERVICE_ROOT) == {"Id": "1"}
        requests(server).get(SYSTEM)
    root, system = server.asked
    assert "authorization" not in root.headers
    assert base64.b64decode(system.headers["authorization"].removeprefix("Basic ")).decode() == "quads:pass:wörd"


def test_a_redirect_to_another_host_gets_no_credentials():
    with (
        ScriptedServer(lambda _asked: (200, {"Id": "2"})) as other,
        ScriptedServer(lambda asked: reply(302, b"", Location=f"http://127.0.0.1:{other.port}{asked.path}")) as server,
    ):
        assert requests(server).get(SYSTEM) == {"Id": "2"}
    assert "authorization" not in other.asked[0].headers


def test_a_path_that_would_name_another_host_is_refused():
    with (
        ScriptedServer(lambda _asked: (200, {})) as server,
        pytest.raises(AccessError, match="GET @example.com/x: the path in its response does not begin with /"),
    ):
        requests(server).get("@example.com/x")
    assert server.asked == []


@pytest.mark.parametrize("answer", [reply(200, {}, ETag='"7"'), (200, {"@odata.etag": '"7"'})])
def test_a_change_names_the_version_that_was_read(answer):
    with ScriptedServer(lambda asked: answer if asked.method == "GET" else (204, b"")) as server:
        requests(server).patch(SYSTEM, {"Boot": {}})
    changed = server.asked[-1]
    assert (changed.method, changed.path, changed.body) == ("PATCH", SYSTEM, b'{"Boot": {}}')
    assert changed.headers["if-match"] == '"7"'


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ({"@Message.ExtendedInfo": [{"Message": "Queue full."}, {"Message": "Wait."}]}, "Queue full.; Wait."),
        ({"@Message.ExtendedInfo": {"Message": "One."}, "message": "General"}, "One."),
        ({"message": "General"}, "General"),
        ({"@Message.ExtendedInfo": [{"MessageId": "x" * 3000}], "message": "General"}, "General"),
    ],
)
def test_a_refusal_shows_the_messages_of_the_bmc(error, message):
    with (
        ScriptedServer(lambda _asked: (400, {"error": error})) as server,
        pytest.raises(HttpRefused, match=f"POST {SYSTEM}: 400 .*: {message}$") as caught,
    ):
        requests(server).post(SYSTEM, {})
    assert caught.value.status == 400


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"error": "x"}', b'{"error": {"@Message.ExtendedInfo": [1]}}'])
def test_an_error_page_and_an_odd_document_are_named(body):
    def answer(asked: Asked):
        return (500, body) if asked.method == "POST" else (200, body)

    with ScriptedServer(answer) as server:
        with pytest.raises(HttpRefused, match=f"POST {SYSTEM}: 500"):
            requests(server).post(SYSTEM, {})
        if not body.startswith(b"{"):
            with pytest.raises(AccessError, match=f"GET {SYSTEM}: "):
                requests(server).get(SYSTEM)


@pytest.mark.parametrize(("status", "asked"), [(500, 4), (503, 4), (404, 1)])
def test_only_a_bmc_that_fails_is_read_again(status, asked):
    with ScriptedServer(lambda _asked: (status, {})) as server:
        with pytest.raises(HttpRefused, match=f"GET {SYSTEM}: {status}"):
            requests(server).get(SYSTEM)
        assert len(server.asked) == asked
    with ScriptedServer(lambda _asked: (500, {}) if len(server.asked) < 3 else (200, {"Id": "1"})) as server:
        assert requests(server).get(SYSTEM) == {"Id": "1"}


def test_an_action_is_sent_once_even_if_the_bmc_fails():
    with ScriptedServer(lambda _asked: (500, {})) as server, pytest.raises(HttpRefused):
        requests(server).post(SYSTEM, {})
    assert len(server.asked) == 1

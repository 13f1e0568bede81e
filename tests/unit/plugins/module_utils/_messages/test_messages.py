# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages to GitHub and Slack, against servers on this machine that behave as their APIs do."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils import _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import AccessError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._messages import github, send_messages, slack
from ansible_collections.perfscale.seatrial.plugins.module_utils._messages.web_api import WebApi
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from message_servers import GitHubStandIn, SlackStandIn, address
from scripted_server import RESET, ScriptedServer, reply

Hub = tuple[GitHubStandIn, str]
Chat = tuple[SlackStandIn, str]
RUN = "t1122-abcdef"
SECRET = "a-very-secret-value"
SUMMARY = f"""# regression: fine\\_tuning light

- makespan (point 000): 2 min 24 s is outside the limit, max 2 min

| figure | value | before | change | reading |
|---|---|---|---|---|
| makespan | 2 min 24 s | 2 min | +20 % (18 to 22 %) | regression |

- run: {RUN}
- directory: /builds/x/artifacts/run
- report: report/index.html
- s3: s3://results/pull/12
"""


class Clock:
    """A clock on which only sleeping takes time."""

    def __init__(self) -> None:
        self.now, self.slept = 1000.0, list[float]()

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def hub() -> Iterator[tuple[GitHubStandIn, str]]:
    stand_in = GitHubStandIn()
    with ScriptedServer(stand_in.answer) as server:
        yield stand_in, address(server)


@pytest.fixture
def chat() -> Iterator[tuple[SlackStandIn, str]]:
    stand_in = SlackStandIn()
    with ScriptedServer(stand_in.answer) as server:
        yield stand_in, address(server)


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    record = {"schema": "run/1", "id": RUN, "project": "fine_tuning", "presets": ["light"], "status": "failed"}
    held = [{"what": "existing cluster api.lab", "since": "x", "until": None}]
    _files.write_yaml(tmp_path / "run.yml", {**record, "held": held})
    _files.write_json(tmp_path / "verdict.json", {"schema": "verdict/2", "verdict": "regression", "exit_status": 1})
    (tmp_path / "summary.md").write_text(SUMMARY, encoding="utf-8")
    (tmp_path / "FAILURES").write_text("point 000: 3 <pods> failed @team\nb\nc\nd\ne\nf\n", encoding="utf-8")
    return tmp_path


def options(run_dir: Path, hub: str = "", chat: str = "", **more: Any) -> dict[str, Any]:
    services = [*(["github"] if hub else []), *(["slack"] if chat else [])]
    to_hub = {"api_url": hub, "repository": "example/product", "pull_request": "12", "revision": "c0ffee"}
    given = {
        "text": "",
        "key": "",
        "run_dir": str(run_dir),
        "state": "ended",
        "services": services,
        "links": {"job": "https://ci.example.com/77"},
        "timeout": 5,
        "ca_file": None,
        "github": {**to_hub, "check": "seatrial", "token": "t0ken-of-tests"},
        "slack": {"api_url": chat, "channel": "C1", "thread": "example/product#12", "token": "slack-t0ken"},
        "secrets": {"some_password": SECRET},
        "kubeconfigs": [],
    }
    return {**given, **more}


# GitHub


def test_a_run_has_one_comment_and_one_check_run_which_are_edited(run_dir: Path, hub: Hub) -> None:
    stand_in, url = hub
    first = send_messages.send(options(run_dir, url, state="started"))
    assert first["warnings"] == [] and first["sent"] == ["comment on example/product#12", "check run seatrial"]
    (text,) = stand_in.comments.values()
    assert text.startswith(f"<!-- perfscale.seatrial: run {RUN} -->\n# running: fine\\_tuning light")
    (check,) = stand_in.checks.values()
    assert check["status"] == "in_progress" and check["details_url"] == "https://ci.example.com/77"
    last = send_messages.send(options(run_dir, url))
    assert last["warnings"] == []
    (text,) = stand_in.comments.values()
    (check,) = stand_in.checks.values()
    assert (check["status"], check["conclusion"], check["external_id"]) == ("completed", "failure", RUN)
    assert check["output"]["title"] == "regression: fine_tuning light" and check["head_sha"] == "c0ffee"
    for expected in (
        "+20 % (18 to 22 %)",
        "s3://results/pull/12",
        "existing cluster api.lab",
        "- job: https://ci",
        "1 further",
    ):
        assert expected in text
    assert "/builds" not in text and "@team" not in text and "<pods>" not in text.replace("\\<pods\\>", "")


def test_the_check_run_is_written_to_the_newest_commit_of_the_pull_request(run_dir: Path, hub: Hub) -> None:
    given = options(run_dir, hub[1])
    given["github"]["revision"] = ""
    assert send_messages.send(given)["warnings"] == []
    assert [one["head_sha"] for one in hub[0].checks.values()] == ["c0ffee"]


def test_a_session_without_the_ids_finds_what_another_one_wrote(run_dir: Path, hub: Hub) -> None:
    stand_in, url = hub
    stand_in.comments = dict.fromkeys(range(150), "text")
    send_messages.send(options(run_dir, url, state="started"))
    (run_dir / send_messages.RECORD).unlink()
    assert send_messages.send(options(run_dir, url))["warnings"] == []
    assert len(stand_in.comments) == 151 and len(stand_in.checks) == 1


def test_a_comment_that_somebody_deleted_is_written_again(run_dir: Path, hub: Hub) -> None:
    stand_in, url = hub
    send_messages.send(options(run_dir, url, state="started"))
    stand_in.comments.clear()
    assert send_messages.send(options(run_dir, url))["warnings"] == []
    assert len(stand_in.comments) == 1


def test_a_comment_whose_answer_was_lost_is_not_written_twice(run_dir: Path, hub: Hub) -> None:
    stand_in, url = hub
    stand_in.lost = 1
    assert send_messages.send(options(run_dir, url))["sent"][0] == "comment on example/product#12"
    assert len(stand_in.comments) == 1
    assert send_messages.send(options(run_dir, url))["warnings"] == []
    assert len(stand_in.comments) == 1


def test_an_app_signs_in_with_its_key(run_dir: Path, hub: Hub) -> None:
    stand_in, url = hub
    stand_in.app, stand_in.tokens = "installation-token", set()
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    given = options(run_dir, url)
    given["github"] |= {"token": "", "app_id": "Iv1.x", "app_key": key.private_bytes(*form).decode()}
    assert send_messages.send(given)["warnings"] == []
    signed, _dot, signature = stand_in.web_tokens[0].rpartition(".")
    raw = base64.urlsafe_b64decode(signature + "==")
    key.public_key().verify(raw, signed.encode(), padding.PKCS1v15(), hashes.SHA256())
    claims = json.loads(base64.urlsafe_b64decode(signed.split(".")[1] + "=="))
    assert claims["iss"] == "Iv1.x" and 0 < claims["exp"] - claims["iat"] <= 600


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"token": "wrong"}, "401"),
        ({"token": ""}, "neither a token nor an App"),
        ({"token": "", "app_id": "1", "app_key": "no key"}, "no key in PEM"),
        ({"repository": "product"}, "needs the form owner/name"),
        ({"repository": "example/other"}, "404"),
        ({"pull_request": "1/../2"}, "is no number"),
        ({"pull_request": "", "revision": ""}, "neither a pull request nor a revision"),
        ({"api_url": "http://github.example.com"}, "http is allowed for this machine only"),
    ],
)
def test_a_failure_to_send_is_a_warning(run_dir: Path, hub: Hub, changed: Any, words: str) -> None:
    given = options(run_dir, hub[1])
    given["github"] |= changed
    found = send_messages.send(given)
    assert (
        found["sent"] == []
        and words in found["warnings"][0]
        and found["warnings"][0].startswith("no message to GitHub: ")
    )
    assert "wrong" not in found["warnings"][0]


def test_without_the_right_to_check_runs_the_comment_is_written(run_dir: Path, hub: Hub) -> None:
    stand_in, url = hub

    def answer(asked: Any) -> Any:
        refused = 403, {"message": "Resource not accessible by personal access token"}
        return refused if "check-runs" in asked.path else stand_in.answer(asked)

    with ScriptedServer(answer) as server:
        found = send_messages.send(options(run_dir, address(server)))
    assert found["sent"] == ["comment on example/product#12"]
    assert "Resource not accessible" in found["warnings"][0]


@pytest.mark.parametrize("answered", [(200, []), (200, b"<html>"), (200, {"id": None}), (200, b"")])
def test_an_unexpected_answer_is_a_warning(run_dir: Path, answered: Any) -> None:
    with ScriptedServer(lambda _asked: answered) as server:
        found = send_messages.send(options(run_dir, address(server)))
    assert len(found["warnings"]) <= 1


# Limits, faults


def api(url: str, clock: Clock, timeout: float = 100.0) -> WebApi:
    return WebApi("GitHub", url, {}, "", timeout, clock, clock, clock.sleep)


@pytest.mark.parametrize(
    ("fault", "pause"),
    [
        ((429, {"message": "slow down"}, {"retry_after": "7"}), 7.0),
        ((403, {"message": "rate limit"}, {"x_ratelimit_remaining": "0", "x_ratelimit_reset": "1030"}), 30.0),
        ((403, {"message": "secondary"}, {"retry_after": "60"}), 60.0),
        ((502, b"bad gateway", {}), 1.0),
        ((503, b"", {}), 1.0),
        ((429, b"", {}), 60.0),
    ],
)
def test_a_request_that_is_refused_for_now_is_sent_again_after_the_asked_time(fault: Any, pause: float) -> None:
    answers = [fault, (200, {"id": 1})]
    clock = Clock()
    with ScriptedServer(lambda _asked: _reply(answers.pop(0))) as server:
        assert api(address(server), clock).call("POST", "/x", {}) == {"id": 1}
    assert clock.slept == [pause]


def _refused(words: str) -> Any:
    return pytest.raises(AccessError, match=words)


def _reply(answer: Any) -> Any:
    return reply(answer[0], answer[1], **(answer[2] if len(answer) > 2 else {}))


def test_a_wait_beyond_the_timeout_is_an_error_that_says_so() -> None:
    clock = Clock()
    late = "asks to wait 500 s, and the time for messages is over"
    with ScriptedServer(lambda _asked: _reply((429, b"", {"retry_after": "500"}))) as server, _refused(late):
        api(address(server), clock).call("GET", "/x")
    assert clock.slept == []


def test_errors_of_the_server_are_tried_again_until_the_timeout() -> None:
    clock = Clock()
    with ScriptedServer(lambda _asked: (500, b"")) as server, pytest.raises(AccessError, match="500"):
        api(address(server), clock, timeout=20.0).call("GET", "/x")
    assert clock.slept == [1.0, 2.0, 4.0, 8.0]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 422])
def test_a_refusal_is_not_tried_again_and_its_reason_is_shown(status: int) -> None:
    clock = Clock()
    with ScriptedServer(lambda _asked: (status, {"message": "the reason"})) as server:
        with pytest.raises(AccessError, match=f"POST /x: {status} .*the reason"):
            api(address(server), clock).call("POST", "/x", {})
        assert len(server.asked) == 1


def test_what_may_have_arrived_is_not_sent_again() -> None:
    clock = Clock()
    with ScriptedServer(lambda _asked: RESET) as server:
        with pytest.raises(AccessError, match="unknown whether it arrived"):
            api(address(server), clock).call("POST", "/x", {})
        assert len(server.asked) == 1
        with pytest.raises(AccessError, match="time for messages is over"):
            api(address(server), clock, timeout=4.0).call("PATCH", "/x", {})
        assert len(server.asked) > 2


def test_a_server_that_does_not_answer_ends_with_the_timeout(run_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        given = options(run_dir, f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=0.5)
        found = send_messages.send(given)
    assert found["sent"] == [] and "timed out" in found["warnings"][0]


# Slack


def test_a_pull_request_has_one_thread(run_dir: Path, chat: Chat) -> None:
    stand_in, url = chat
    send_messages.send(options(run_dir, chat=url, state="started"))
    found = send_messages.send(options(run_dir, chat=url))
    assert found["warnings"] == []
    (run_dir / send_messages.RECORD).unlink()
    send_messages.send(options(run_dir, chat=url, state="started"))
    roots = [one for one in stand_in.messages if "thread_ts" not in one]
    assert [one["text"] for one in roots] == ["example/product#12"]
    assert {one["thread_ts"] for one in stand_in.messages if "thread_ts" in one} == {roots[0]["ts"]}


def test_what_is_still_held_is_a_message_that_the_channel_sees(run_dir: Path, chat: Chat) -> None:
    stand_in, url = chat
    send_messages.send(options(run_dir, chat=url))
    shown = [one["text"] for one in stand_in.messages if one.get("reply_broadcast")]
    assert len(shown) == 1 and "existing cluster api.lab" in shown[0]


def test_a_webhook_gets_the_message(run_dir: Path, chat: Chat) -> None:
    stand_in, url = chat
    given = options(run_dir, chat=url)
    given["slack"] = {"webhook": f"{url}/hook"}
    assert send_messages.send(given)["warnings"] == []
    assert stand_in.messages[0]["text"].startswith("*regression: fine_tuning light*\n")
    assert "• makespan · 2 min 24 s · 2 min · +20 % (18 to 22 %) · regression" in stand_in.messages[0]["text"]
    assert "&lt;pods&gt;" in stand_in.messages[0]["text"]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"token": "wrong"}, "invalid_auth"),
        ({"channel": "C2"}, "channel_not_found"),
        ({"token": ""}, "neither a webhook nor a token"),
        ({"webhook": "http://hooks.example.com/x"}, "http is allowed for this machine only"),
    ],
)
def test_what_slack_refuses_is_a_warning_without_the_secret(
    run_dir: Path, chat: Chat, changed: Any, words: str
) -> None:
    given = options(run_dir, chat=chat[1])
    given["slack"] |= changed
    found = send_messages.send(given)
    assert found["sent"] == [] and words in found["warnings"][0] and "hooks.example.com/x" not in found["warnings"][0]


def test_the_address_of_a_webhook_is_not_shown(run_dir: Path) -> None:
    with ScriptedServer(lambda _asked: (404, b"no_service")) as server:
        given = options(run_dir, chat="x")
        given["slack"] = {"webhook": f"{address(server)}/services/T0/B0/hidden"}
        found = send_messages.send(given)
    assert "no_service" in found["warnings"][0] and "hidden" not in str(found)


@pytest.mark.parametrize("text", ["<!channel> & <@U1>", "a <b> & c"])
def test_no_text_mentions_anybody_in_slack(text: str) -> None:
    assert not set(slack.of_markdown(text)) & set("<>")


# Both


def test_an_answer_is_a_comment_of_no_run(hub: Hub, run_dir: Path) -> None:
    given = options(run_dir, hub[1], state="answered", text="Directives", key="pull/o_r/12/job/1")
    given["run_dir"] = None
    for _twice in range(2):
        found = send_messages.send(given)
        assert found["warnings"] == [] and found["sent"] == ["comment on example/product#12"]
    assert list(hub[0].comments.values()) == ["<!-- perfscale.seatrial: run pull/o_r/12/job/1 -->\nDirectives"]
    assert hub[0].checks == {}


def test_one_service_does_not_keep_the_other_one_from_its_message(run_dir: Path, hub: Hub, chat: Chat) -> None:
    hub[0].tokens.clear()
    found = send_messages.send(options(run_dir, hub[1], chat[1]))
    assert len(found["warnings"]) == 1 and found["sent"] and chat[0].messages


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text.replace("2 min 24 s", SECRET),
        lambda text: text.replace("2 min 24 s", base64.b64encode(SECRET.encode()).decode()),
        lambda text: text + "\n-----BEGIN RSA " + "PRIVATE KEY-----\n",
        lambda text: text + "\nAuthorization: Bearer abcdef0123456789abcdef\n",
    ],
)
def test_a_text_with_a_secret_is_not_sent(run_dir: Path, hub: Hub, chat: Chat, spoil: Callable[[str], str]) -> None:
    (run_dir / "summary.md").write_text(spoil(SUMMARY), encoding="utf-8")
    found = send_messages.send(options(run_dir, hub[1], chat[1]))
    assert found["sent"] == [] and found["warnings"][0].startswith("no message: its text contains ")
    assert not hub[0].comments and not hub[0].checks and not chat[0].messages
    assert SECRET not in str(found)


def test_without_a_service_nothing_is_sent(run_dir: Path) -> None:
    assert send_messages.send(options(run_dir)) == {
        "changed": False,
        "sent": [],
        "warnings": [],
        "summary": "nothing to send",
    }


def test_a_wrong_target_is_refused() -> None:
    with pytest.raises(InputError):
        github.GitHubTarget("a/b/c")

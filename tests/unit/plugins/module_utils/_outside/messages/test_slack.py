# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One thread for each pull request, or messages to a webhook."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.messages import send_messages, slack
from message_servers import SlackStandIn, address
from messages_of_a_run import options
from scripted_server import ScriptedServer

Chat = tuple[SlackStandIn, str]


def test_a_pull_request_has_one_thread(run_dir: Path, chat: Chat) -> None:
    stand_in, url = chat
    send_messages.send_notifications(options(run_dir, chat=url, state="started"))
    found = send_messages.send_notifications(options(run_dir, chat=url))
    assert found["warnings"] == []
    (run_dir / send_messages.RECORD).unlink()
    send_messages.send_notifications(options(run_dir, chat=url, state="started"))
    roots = [one for one in stand_in.messages if "thread_ts" not in one]
    assert [one["text"] for one in roots] == ["example/product#12"]
    assert {one["thread_ts"] for one in stand_in.messages if "thread_ts" in one} == {roots[0]["ts"]}


def test_what_is_still_held_is_a_message_that_the_channel_sees(run_dir: Path, chat: Chat) -> None:
    stand_in, url = chat
    send_messages.send_notifications(options(run_dir, chat=url))
    shown = [one["text"] for one in stand_in.messages if one.get("reply_broadcast")]
    assert len(shown) == 1 and "existing cluster api.lab" in shown[0]


def test_a_webhook_gets_the_message(run_dir: Path, chat: Chat) -> None:
    stand_in, url = chat
    given = options(run_dir, chat=url)
    given["slack"] = {"webhook": f"{url}/hook"}
    assert send_messages.send_notifications(given)["warnings"] == []
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
    found = send_messages.send_notifications(given)
    assert found["sent"] == [] and words in found["warnings"][0] and "hooks.example.com/x" not in found["warnings"][0]


def test_the_address_of_a_webhook_is_not_shown(run_dir: Path) -> None:
    with ScriptedServer(lambda _asked: (404, b"no_service")) as server:
        given = options(run_dir, chat="x")
        given["slack"] = {"webhook": f"{address(server)}/services/T0/B0/hidden"}
        found = send_messages.send_notifications(given)
    assert "no_service" in found["warnings"][0] and "hidden" not in str(found)


@pytest.mark.parametrize("text", ["<!channel> & <@U1>", "a <b> & c"])
def test_no_text_mentions_anybody_in_slack(text: str) -> None:
    assert not set(slack.convert_markdown_to_slack(text)) & set("<>")

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A message to both services; what is not sent."""

from __future__ import annotations

import base64
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.messages import send_messages
from message_servers import GitHubStandIn, SlackStandIn
from messages_of_a_run import SECRET, SUMMARY, options

Hub = tuple[GitHubStandIn, str]
Chat = tuple[SlackStandIn, str]


def test_an_answer_is_a_comment_of_no_run(hub: Hub, run_dir: Path) -> None:
    given = options(run_dir, hub[1], state="answered", text="Directives", key="pull/o_r/12/job/1")
    given["run_dir"] = None
    for _twice in range(2):
        found = send_messages.send_notifications(given)
        assert found["warnings"] == [] and found["sent"] == ["comment on example/product#12"]
    assert list(hub[0].comments.values()) == ["<!-- perfscale.seatrial: run pull/o_r/12/job/1 -->\nDirectives"]
    assert hub[0].checks == {}


def test_one_service_does_not_keep_the_other_one_from_its_message(run_dir: Path, hub: Hub, chat: Chat) -> None:
    hub[0].tokens.clear()
    found = send_messages.send_notifications(options(run_dir, hub[1], chat[1]))
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
    found = send_messages.send_notifications(options(run_dir, hub[1], chat[1]))
    assert found["sent"] == [] and found["warnings"][0].startswith("no message: its text contains ")
    assert not hub[0].comments and not hub[0].checks and not chat[0].messages
    assert SECRET not in str(found)


def test_without_a_service_nothing_is_sent(run_dir: Path) -> None:
    assert send_messages.send_notifications(options(run_dir)) == {
        "changed": False,
        "sent": [],
        "warnings": [],
        "summary": "nothing to send",
    }


def test_a_server_that_does_not_answer_ends_with_the_timeout(run_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        given = options(run_dir, f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=0.5)
        found = send_messages.send_notifications(given)
    assert found["sent"] == [] and "timed out" in found["warnings"][0]

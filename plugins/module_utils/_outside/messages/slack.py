# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slack: messages by an incoming webhook, or by a bot in one thread for each pull request or nightly job."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode, urlsplit

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import expect_documented_form
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.http_client import HttpClient, HttpPolicy

#: Timeout of one request in seconds.
REQUEST = 15.0
#: Maximum length of a message; messages of a channel in which a thread is looked for.
LONGEST, SEARCHED = 3500, 200
_EVENT = "perfscale_seatrial_thread"
_CELLS = re.compile(r"(?<!\\)\|")


def make_api_client(url: str, token: str, authority: str, timeout: float) -> HttpClient:
    """Return the client of the API, or without a token that of a webhook, whose address is a secret."""
    if not token and not urlsplit(url).path.strip("/"):
        raise InputError("Slack: the webhook is not an https address with a path")
    return HttpClient(
        "Slack",
        url,
        f"Bearer {token}" if token else "",
        authority,
        https_only=True,
        headers={"Content-Type": "application/json; charset=utf-8"},  # Slack warns about a missing charset
        secrets=() if token else (urlsplit(url).path.strip("/"), *urlsplit(url).path.strip("/").split("/")[-1:]),
        policy=HttpPolicy.within(timeout, REQUEST),
    )


def post_to_webhook(api: HttpClient, text: str) -> None:
    """Send a message. A webhook can't reply to a thread that it began: it does not return the id of a message."""
    api.send("POST", "", {"text": text}, what="Slack: POST webhook")


def post_to_thread(
    api: HttpClient, channel: str, thread: str, text: str, known: str = "", broadcast: bool = False
) -> str:
    """Send a message to a thread, which is begun if the channel does not have it; return the id of the thread.

    thread: its title. known: its id, empty if unknown. broadcast: whether the channel shows the message too.
    """
    root = known or _find_newest_thread(api, channel, thread) or _begin_thread(api, channel, thread)
    body = {"channel": channel, "text": text, "thread_ts": root, "unfurl_links": False}
    _call_api_method(api, "POST", "/chat.postMessage", {**body, **({"reply_broadcast": True} if broadcast else {})})
    return root


def _begin_thread(api: HttpClient, channel: str, thread: str) -> str:
    metadata = {"event_type": _EVENT, "event_payload": {"thread": thread}}
    body = {"channel": channel, "text": escape_message_text(thread), "metadata": metadata, "unfurl_links": False}
    answer = _call_api_method(api, "POST", "/chat.postMessage", body)
    with expect_documented_form("Slack: POST /chat.postMessage", answer):
        return str(answer["ts"])


def _find_newest_thread(api: HttpClient, channel: str, thread: str) -> str:
    """Return the id of the newest thread with this title, empty if the last messages of the channel have none."""
    words = urlencode({"channel": channel, "limit": SEARCHED, "include_all_metadata": "true"})
    answer = _call_api_method(api, "GET", f"/conversations.history?{words}")
    with expect_documented_form("Slack: GET /conversations.history", answer):
        for message in answer.get("messages") or []:
            metadata = message.get("metadata") or {}
            if metadata.get("event_type") == _EVENT and (metadata.get("event_payload") or {}).get("thread") == thread:
                return str(message["ts"])
    return ""


def _call_api_method(api: HttpClient, method: str, path: str, body: Any = None) -> dict[str, Any]:
    """Send a request; Slack answers with 200 to most of those that it refuses."""
    answer = api.send(method, path, body).body
    if not isinstance(answer, dict) or not answer.get("ok"):
        why = answer.get("error") if isinstance(answer, dict) else "the answer is not a JSON object"
        needed = f", needed: {answer['needed']}" if isinstance(answer, dict) and answer.get("needed") else ""
        raise AccessError(f"Slack: {method} {path.partition('?')[0]}: {why}{needed}")
    return answer


def escape_message_text(text: str) -> str:
    """Return text in which nothing mentions anybody or is a link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def convert_markdown_to_slack(text: str) -> str:
    """Return a text of ours in Markdown as Slack shows it: headings bold, rows of tables as lists, no escapes."""
    lines = []
    for line in text.splitlines():
        if re.fullmatch(r"\|[-|]+\|", line):
            continue
        heading = line.startswith("#")
        if line.startswith("| "):
            line = "• " + " · ".join(cell.strip() for cell in _CELLS.split(line)[1:-1])
        plain = escape_message_text(re.sub(r"\\(.)", r"\1", line.lstrip("# ") if heading else line))
        lines.append(f"*{plain}*" if heading else plain)
    short = "\n".join(lines).strip()
    return short if len(short) <= LONGEST else f"{short[:LONGEST]}…"

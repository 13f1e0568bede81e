# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slack: messages by an incoming webhook, or by a bot in one thread for each pull request or nightly job."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode, urlsplit

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, InputError

from .web_api import WebApi

#: Maximum length of a message; messages of a channel in which a thread is looked for.
LONGEST, SEARCHED = 3500, 200
_EVENT = "perfscale_seatrial_thread"
_CELLS = re.compile(r"(?<!\\)\|")


def of_webhook(url: str, authority: str, timeout: float) -> WebApi:
    """Return the API of a webhook, whose address is a secret."""
    parts = urlsplit(url)
    if not parts.path.strip("/"):
        raise InputError("Slack: the webhook is no https address with a path")
    return WebApi("Slack", url, {}, authority, timeout)


def post_to_webhook(api: WebApi, text: str) -> None:
    """Send a message. A webhook can't reply to a thread that it began: it does not return the id of a message."""
    api.call("POST", "", {"text": text}, shown="webhook")


def reply(api: WebApi, channel: str, thread: str, text: str, known: str = "", broadcast: bool = False) -> str:
    """Send a message to a thread, which is begun if the channel does not have it; return the id of the thread.

    thread: its title. known: its id, empty if unknown. broadcast: whether the channel shows the message too.
    """
    root = known or _thread(api, channel, thread) or _begin(api, channel, thread)
    body = {"channel": channel, "text": text, "thread_ts": root, "unfurl_links": False}
    _call(api, "POST", "/chat.postMessage", {**body, **({"reply_broadcast": True} if broadcast else {})})
    return root


def _begin(api: WebApi, channel: str, thread: str) -> str:
    metadata = {"event_type": _EVENT, "event_payload": {"thread": thread}}
    body = {"channel": channel, "text": escaped(thread), "metadata": metadata, "unfurl_links": False}
    return str(_call(api, "POST", "/chat.postMessage", body)["ts"])


def _thread(api: WebApi, channel: str, thread: str) -> str:
    """Return the id of the newest thread with this title, empty if the last messages of the channel have none."""
    words = urlencode({"channel": channel, "limit": SEARCHED, "include_all_metadata": "true"})
    for one in _call(api, "GET", f"/conversations.history?{words}").get("messages") or []:
        metadata = one.get("metadata") or {}
        if metadata.get("event_type") == _EVENT and (metadata.get("event_payload") or {}).get("thread") == thread:
            return str(one["ts"])
    return ""


def _call(api: WebApi, method: str, path: str, body: Any = None) -> dict[str, Any]:
    """Send a request; Slack answers with 200 to most of those that it refuses."""
    found = api.call(method, path, body)
    if not isinstance(found, dict) or not found.get("ok"):
        why = found.get("error") if isinstance(found, dict) else "the answer is no JSON object"
        needed = f", needed: {found['needed']}" if isinstance(found, dict) and found.get("needed") else ""
        raise AccessError(f"Slack: {method} {path.partition('?')[0]}: {why}{needed}")
    return found


def escaped(text: str) -> str:
    """Return text in which nothing mentions anybody or is a link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def of_markdown(text: str) -> str:
    """Return a text of ours in Markdown as Slack shows it: headings bold, rows of tables as lists, no escapes."""
    lines = []
    for line in text.splitlines():
        if re.fullmatch(r"\|[-|]+\|", line):
            continue
        heading = line.startswith("#")
        if line.startswith("| "):
            line = "• " + " · ".join(cell.strip() for cell in _CELLS.split(line)[1:-1])
        plain = escaped(re.sub(r"\\(.)", r"\1", line.lstrip("# ") if heading else line))
        lines.append(f"*{plain}*" if heading else plain)
    short = "\n".join(lines).strip()
    return short if len(short) <= LONGEST else f"{short[:LONGEST]}…"

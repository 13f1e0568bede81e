"""Stand-ins for the APIs of GitHub and Slack on loopback: they keep what is written, and refuse the same."""

from __future__ import annotations

import json
import re
from collections import deque
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from scripted_server import Asked, ScriptedServer

#: (status, body, headers), or anything else that ScriptedServer may be given.
Fault = Any


@dataclass
class GitHubStandIn:
    """Comments and check runs of one repository. faults: answers to the next requests instead of real ones.

    tokens: those that are accepted. app: what an App's web token is exchanged for.
    """

    repository: str = "example/product"
    tokens: set[str] = field(default_factory=lambda: {"t0ken-of-tests"})
    app: str = ""
    comments: dict[int, str] = field(default_factory=dict)
    checks: dict[int, dict[str, Any]] = field(default_factory=dict)
    faults: deque[Fault] = field(default_factory=deque)
    #: Requests that are served although their answer is lost.
    lost: int = 0
    #: Association of the author of the pull request, and its text; name and association of the authors of comments.
    body: tuple[str, str] = ("MEMBER", "")
    authors: dict[int, tuple[str, str]] = field(default_factory=dict)
    web_tokens: list[str] = field(default_factory=list)

    def answer(self, asked: Asked) -> Any:
        if self.faults:
            return self.faults.popleft()
        token = asked.headers.get("authorization", "").removeprefix("Bearer ")
        parts = urlsplit(asked.path)
        if self.app and token.count(".") == 2:
            return self._as_app(asked, parts.path, token)
        if token not in self.tokens:
            return 401, {"message": "Bad credentials"}
        if parts.path == "/user":  # the token of an App is no user's
            return (403, {"message": "Resource not accessible"}) if token == self.app else (200, {"login": "bot"})
        said = self._served(asked, parts.path, parse_qs(parts.query), json.loads(asked.body) if asked.body else {})
        if self.lost and asked.method == "POST":
            self.lost -= 1
            return "reset"
        return said

    def _comment(self, number: int, text: str) -> dict[str, Any]:
        login, association = self.authors.get(number, ("bot", "NONE"))
        user = {"login": login, "type": "Bot" if login == "bot" else "User"}
        return {"id": number, "body": text, "user": user, "author_association": association}

    def _as_app(self, asked: Asked, path: str, token: str) -> Any:
        self.web_tokens.append(token)
        if path == f"/repos/{self.repository}/installation":
            return 200, {"id": 7}
        if asked.method == "POST" and path == "/app/installations/7/access_tokens":
            self.tokens.add(self.app)
            return 201, {"token": self.app}
        return 404, {"message": "Not Found"}

    def _served(self, asked: Asked, path: str, query: dict[str, list[str]], body: dict[str, Any]) -> Any:
        base = f"/repos/{self.repository}"
        if path == f"{base}/issues/12/comments":
            if asked.method == "POST":
                number = len(self.comments) + 100
                self.comments[number] = body["body"]
                return 201, {"id": number}
            size, page = int(query["per_page"][0]), int(query["page"][0])
            listed = [self._comment(number, text) for number, text in self.comments.items()]
            return 200, listed[(page - 1) * size : page * size]
        if (found := re.fullmatch(f"{base}/issues/comments/([0-9]+)", path)) and int(found[1]) in self.comments:
            self.comments[int(found[1])] = body["body"]
            return 200, {"id": int(found[1])}
        if path == f"{base}/pulls/12":
            pull = {"number": 12, "head": {"sha": "c0ffee"}, "base": {"repo": {"full_name": self.repository}}}
            return 200, {**pull, "user": {"login": "ann"}, "author_association": self.body[0], "body": self.body[1]}
        if path == f"{base}/check-runs" and asked.method == "POST":
            self.checks[len(self.checks) + 500] = body
            return 201, {"id": len(self.checks) + 499}
        if (found := re.fullmatch(f"{base}/check-runs/([0-9]+)", path)) and int(found[1]) in self.checks:
            self.checks[int(found[1])].update(body)
            return 200, {"id": int(found[1])}
        if path == f"{base}/commits/c0ffee/check-runs":
            return 200, {"check_runs": [{"id": number, **one} for number, one in self.checks.items()]}
        return 404, {"message": "Not Found"}


@dataclass
class SlackStandIn:
    """A channel, and a webhook at /hook."""

    token: str = "slack-t0ken"
    channel: str = "C1"
    messages: list[dict[str, Any]] = field(default_factory=list)
    faults: deque[Fault] = field(default_factory=deque)

    def answer(self, asked: Asked) -> Any:
        if self.faults:
            return self.faults.popleft()
        parts = urlsplit(asked.path)
        body = json.loads(asked.body) if asked.body else {}
        if parts.path == "/hook":
            self.messages.append(body)
            return 200, b"ok"
        if asked.headers.get("authorization") != f"Bearer {self.token}":
            return 200, {"ok": False, "error": "invalid_auth"}
        asked_channel = body.get("channel") or parse_qs(parts.query).get("channel", [""])[0]
        if asked_channel != self.channel:
            return 200, {"ok": False, "error": "channel_not_found"}
        if parts.path == "/chat.postMessage":
            body["ts"] = f"17000000{len(self.messages):02d}.0"
            self.messages.append(body)
            return 200, {"ok": True, "ts": body["ts"]}
        if parts.path == "/conversations.history":
            roots = [one for one in self.messages if "thread_ts" not in one]
            return 200, {"ok": True, "messages": roots[::-1]}
        return 404, b"not found"


def address(server: ScriptedServer) -> str:
    """Return the address of a server."""
    return f"http://127.0.0.1:{server.port}"

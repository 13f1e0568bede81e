"""Reading recorded exchanges with a QUADS server: a curl command, an empty line, the answer with its headers."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from quads_simulator.answers import Request


@dataclass(frozen=True)
class Exchange:
    """One transcript. ``user``: the argument of curl's -u; ``token``: the bearer token, if any."""

    name: str
    request: Request
    user: str
    token: str
    status: int
    content_type: str
    date: datetime
    text: str

    @property
    def body(self) -> Any:
        """The answer's body, parsed where it is JSON."""
        try:
            return json.loads(self.text)
        except ValueError:
            return self.text


def read(path: Path) -> Exchange | None:
    """Parse a transcript, None if it is not an answered curl command."""
    command, _, answer = path.read_text(encoding="utf-8").partition("\n\n")
    if not command.startswith("$ curl") or not answer.startswith("HTTP/"):
        return None
    words = shlex.split(command.removeprefix("$ "))
    method, headers, data, user, token = "GET", {}, "", "", ""
    at = iter(words[1:])
    target = ""
    for word in at:
        if word == "-X":
            method = next(at)
        elif word == "-H":
            name, _, value = next(at).partition(": ")
            headers[name.lower()] = value
        elif word == "-d":
            data = next(at)
            headers.setdefault("content-type", "application/x-www-form-urlencoded")
        elif word == "-u":
            user = next(at)
        elif not word.startswith("-"):
            parts = urlsplit(word)
            target = parts.path + (f"?{parts.query}" if parts.query else "")
    if headers.get("authorization", "").startswith("Bearer "):
        token = headers.pop("authorization").removeprefix("Bearer ")
    head, _, text = answer.partition("\n\n")
    first, *lines = head.splitlines()
    given = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return Exchange(
        name=path.stem,
        request=Request(method, target, headers, data.encode()),
        user=user,
        token=token,
        status=int(first.split()[1]),
        content_type=given["content-type"],
        date=parsedate_to_datetime(given["date"]).astimezone(timezone.utc),
        text=text.rstrip("\n"),
    )


def shape(value: Any) -> Any:
    """Return the keys and the types of a JSON value, without values that differ between calls."""
    if isinstance(value, dict):
        return {key: shape(one) for key, one in value.items()}
    if isinstance(value, list):
        return sorted((shape(one) for one in value), key=str)  # a database has no order of its own
    return type(value).__name__

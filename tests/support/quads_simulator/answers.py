"""Requests, answers and the many ways in which the server words a refusal."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

JSON = "application/json"
HTML = "text/html; charset=utf-8"
NAMES = {200: "OK", 201: "CREATED", 400: "BAD REQUEST", 401: "UNAUTHORIZED", 403: "FORBIDDEN", 404: "NOT FOUND"}
NAMES |= {415: "UNSUPPORTED MEDIA TYPE", 500: "INTERNAL SERVER ERROR", 502: "BAD GATEWAY"}
NAMES |= {503: "SERVICE UNAVAILABLE", 504: "GATEWAY TIME-OUT"}
TITLES = {400: "Bad Request", 403: "Forbidden"}

CRASH = (
    "The server encountered an internal error and was unable to complete your request. Either the server is overloaded "
    "or there is an error in the application."
)


@dataclass
class Request:
    """A request as it comes in. Header names in lower case."""

    method: str
    target: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def path(self) -> str:
        """The path without query and without a slash at its end."""
        return urlsplit(self.target).path.rstrip("/")

    @property
    def query(self) -> list[tuple[str, str]]:
        """The query's parameters in order."""
        return parse_qsl(urlsplit(self.target).query, keep_blank_values=True)

    def basic(self) -> tuple[str, str] | None:
        """The user and password of HTTP Basic, None without."""
        kind, _, value = self.headers.get("authorization", "").partition(" ")
        if kind.lower() != "basic":
            return None
        user, _, password = base64.b64decode(value).decode().partition(":")
        return user, password


@dataclass
class Answer:
    """A reply."""

    status: int
    content_type: str
    text: str
    headers: dict[str, str] = field(default_factory=dict)


class Refusal(Exception):
    """Raised anywhere in a handler to end it with this answer."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.text)
        self.answer = answer


def data(value: Any, status: int = 200) -> Answer:
    """JSON as Flask prints it: keys sorted, compact, a line end."""
    return Answer(status, JSON, json.dumps(value, sort_keys=True, separators=(",", ":")) + "\n")


def bad(message: str, status: int = 400) -> Refusal:
    """An error as most handlers word it."""
    return Refusal(data({"error": TITLES[status], "message": message, "status_code": status}, status))


def bare(value: dict[str, Any], status: int) -> Refusal:
    """JSON text that is sent as text/html: everything from the check of access and from register."""
    return Refusal(Answer(status, HTML, json.dumps(value)))


def page(status: int, title: str, text: str) -> Answer:
    """An HTML page of the framework."""
    body = f"<!doctype html>\n<html lang=en>\n<title>{status} {title}</title>\n<h1>{title}</h1>\n<p>{text}</p>\n"
    return Answer(status, HTML, body)


def crash() -> Refusal:
    """An unhandled exception in the application."""
    return Refusal(page(500, "Internal Server Error", CRASH))


def missing() -> Answer:
    """No such address, or no such method there."""
    text = (
        "The requested URL was not found on the server. If you entered the URL manually please check your spelling and "
        "try again."
    )
    return page(404, "Not Found", text)


def broken_gateway(status: int) -> Answer:
    """Reply of the web server in front if the application does not answer."""
    title = NAMES[status].title()
    text = f"<html>\r\n<head><title>{status} {title}</title></head>\r\n<body><center><h1>{status} {title}</h1></center>"
    return Answer(status, "text/html", text + "</body>\r\n</html>\r\n")

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an installer's log says: lines for people, the first cause of a failure, nothing secret."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

#: time="…" level=info msg="…", as logrus writes it; the message may hold escaped quotes.
LINE = re.compile(r'level=(?P<level>\w+) msg=(?P<message>"(?:[^"\\]|\\.)*"|\S+)')

#: Errors that say that something failed, and not what.
EMPTY = (
    "failed to wait for bootstrapping",
    "bootstrap failed to complete",
    "attempted to gather",
    "failed waiting for",
    "failed to initialize the cluster",
    "cluster initialization failed",
    "use the following commands to gather",
    "failed to fetch",
)

_SECRETS = (
    (re.compile(r'(password:? ?[=:]? ?\\?["\']?)[^\s"\'\\]+', re.IGNORECASE), r"\1<secret>"),
    (re.compile(r'("auth"\s*:\s*")[^"]+'), r"\1<secret>"),
    (re.compile(r'((?:token|secret)[a-z_]*\s*[=:]\s*\\?["\']?)[^\s"\'\\]{8,}', re.IGNORECASE), r"\1<secret>"),
)


def masked(text: str) -> str:
    """Return a log without passwords: the last line of a good install tells kubeadmin's."""
    for pattern, by in _SECRETS:
        text = pattern.sub(by, text)
    return text


def messages(text: str, levels: Iterable[str]) -> list[str]:
    """Return the messages of these levels, in order, secrets masked."""
    wanted = tuple(levels)
    found = []
    for one in LINE.finditer(text):
        if one["level"] in wanted:
            message = one["message"]
            if message.startswith('"'):
                message = message[1:-1].replace('\\"', '"').replace("\\n", " ")
            found.append(masked(message))
    return found


def first_cause(text: str) -> str:
    """Return the first error that says what failed, else the first error, else the last words; one line."""
    errors = messages(text, ("error", "fatal"))
    telling = [one for one in errors if not one.lower().startswith(EMPTY)]
    last = [line for line in masked(text).splitlines() if line.strip()]
    return (telling or errors or last[-1:] or ["the installer said nothing"])[0][:500]


class InstallerLogTail:
    """Messages of a log that grows."""

    def __init__(self, path: Path, levels: tuple[str, ...] = ("info", "warning", "error", "fatal")) -> None:
        self.path = path
        self.levels = levels
        self.offset = path.stat().st_size if path.exists() else 0

    def new(self) -> list[str]:
        """Return the messages of the whole lines that were appended since the last look."""
        try:
            with open(self.path, "rb") as stream:
                stream.seek(self.offset)
                data = stream.read()
        except OSError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self.offset += len(whole)
        return messages(whole.decode("utf-8", "replace"), self.levels)

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading an installer's log: progress messages, the first cause of a failure, secrets masked."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

#: time="…" level=info msg="…", the format of logrus; the message may contain escaped quotes.
LINE = re.compile(r'level=(?P<level>\w+) msg=(?P<message>"(?:[^"\\]|\\.)*"|\S+)')

#: Errors without a cause: they only report that something failed.
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
    (
        re.compile(r'((?:token|secret)[a-z_]{0,40}\s{0,4}[=:]\s{0,4}\\?["\']?)[^\s"\'\\]{8,}', re.IGNORECASE),
        r"\1<secret>",
    ),
)


def mask_passwords(text: str) -> str:
    """Return a log without passwords: the last line of a successful installation has kubeadmin's."""
    for pattern, by in _SECRETS:
        text = pattern.sub(by, text)
    return text


def messages_of_levels(text: str, levels: Iterable[str]) -> list[str]:
    """Return the messages of these levels, in order, secrets masked."""
    wanted = tuple(levels)
    masked_messages = []
    for match in LINE.finditer(text):
        if match["level"] in wanted:
            message = match["message"]
            if message.startswith('"'):
                message = message[1:-1].replace('\\"', '"').replace("\\n", " ")
            masked_messages.append(mask_passwords(message))
    return masked_messages


def first_cause(text: str) -> str:
    """Return the first error with a cause, else the first error, else the last line; at most 500 characters."""
    errors = messages_of_levels(text, ("error", "fatal"))
    causes = [error for error in errors if not error.lower().startswith(EMPTY)]
    last = [line for line in mask_passwords(text).splitlines() if line.strip()]
    return (causes or errors or last[-1:] or ["the installer logged nothing"])[0][:500]


class InstallerLogTail:
    """Messages of a growing log file."""

    def __init__(self, path: Path, levels: tuple[str, ...] = ("info", "warning", "error", "fatal")) -> None:
        self.path = path
        self.levels = levels
        self.offset = path.stat().st_size if path.exists() else 0

    def new(self) -> list[str]:
        """Return the messages of the complete lines that were appended since the last call."""
        try:
            with open(self.path, "rb") as stream:
                stream.seek(self.offset)
                data = stream.read()
        except OSError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self.offset += len(whole)
        return messages_of_levels(whole.decode("utf-8", "replace"), self.levels)

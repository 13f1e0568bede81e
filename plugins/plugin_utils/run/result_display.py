# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of tasks as lines of text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

#: Maximum number of lines of a program's output that are shown with its failure.
MOST = 20


def debug_output(result: Mapping[str, Any]) -> list[str]:
    """Return the output of a debug task: the lines of its message, or the variable with its value."""
    if "msg" in result:
        message = result["msg"]
        return [line for one in (message if isinstance(message, list) else [message]) for line in _lines(one)]
    shown = {name: value for name, value in result.items() if name not in ("changed", "failed") and name[0] != "_"}
    return [f"{name}: {_text(value)}" for name, value in shown.items()]


def failure(result: Mapping[str, Any], origin: str = "") -> list[str]:
    """Return why a task failed: its message, or that of each failed item, and the end of what a program printed."""
    items = [one for one in result.get("results") or () if isinstance(one, Mapping) and one.get("failed")]
    if items:
        return [line for one in items for line in _labelled(one)]
    return [*_message(result), *_lines(origin.strip())]


def _labelled(item: Mapping[str, Any]) -> list[str]:
    label = _text(item.get("_ansible_item_label", item.get("item", "")))
    first, *rest = _message(item)
    return [f"{label}: {first}", *rest]


def _message(result: Mapping[str, Any]) -> list[str]:
    streams = ("module_stderr", "stderr", "module_stdout", "stdout")
    printed = next((result[name] for name in streams if result.get(name)), "")
    message = _text(result.get("msg") or "no message").removeprefix("Task failed: ")
    return [*_lines(message), *_lines(printed)[-MOST:]]


def _lines(value: Any) -> list[str]:
    return [line.rstrip() for line in _text(value).splitlines()] if value not in (None, "") else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)

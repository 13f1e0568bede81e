# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Foreign text for places that interpret it: terminals, Markdown with mentions, spreadsheets.

Names, events, logs and messages of servers may contain anything. What writes them uses these functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

#: Control characters, those that reverse the order of a text, and line separators; not newline and tab.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
#: An ampersand too: GitHub takes ``&#64;name`` for a mention.
_MARKDOWN = re.compile(r"([\\`*_\[\]<>|#&])")
#: How a formula of a spreadsheet begins, and a number, which may begin with a sign.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_NUMBER = re.compile(r"[-+]?(?:[0-9]{1,400}(?:\.[0-9]{0,400})?|\.[0-9]{1,400})(?:[eE][-+]?[0-9]{1,4})?")


def visible_text(text: str) -> str:
    """Return a text in which no character controls a terminal; each such character is a visible one."""
    return _CONTROL.sub(_visible_character, text) if _CONTROL.search(text) else text


def _visible_character(match: re.Match[str]) -> str:
    code = ord(match.group())
    return chr(0x2400 + code) if code < 0x20 else "\u2421" if code == 0x7F else "\ufffd"


def markdown_line(text: object, longest: int = 300) -> str:
    """Return a text on one line in which nothing is Markdown, HTML, a mention or a control character."""
    flat = " ".join(visible_text(str(text)).split())
    cut = flat if len(flat) <= longest else f"{flat[: longest - 1]}…"
    return _MARKDOWN.sub(r"\\\1", cut).replace("@", "@\u200b")


def csv_cell(value: Any) -> Any:
    """Return the value of a cell that no spreadsheet takes for a formula. Numbers stay."""
    if not isinstance(value, str):
        return value
    plain = visible_text(value)
    if plain.startswith(_FORMULA) and _NUMBER.fullmatch(plain) is None:
        return f"'{plain}"
    return plain


def csv_row(values: Iterable[Any]) -> list[Any]:
    """Return the cells of a row, see csv_cell."""
    return [csv_cell(value) for value in values]

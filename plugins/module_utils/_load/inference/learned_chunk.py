# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recognises a chunk of a stream by its bytes: usually it differs from the one before it in its text only.

To parse HTTP, the event and its JSON for each token costs more than to receive it. So one chunk is parsed, and the
bytes before and after its text are kept. A chunk with the same bytes around another text means the same with that text.
Whatever else arrives is parsed.
"""

from __future__ import annotations

from collections.abc import Sequence

#: Bytes of text, beyond which several chunks have probably arrived together; of a size and its line break.
_LONG_TEXT, _SIZE_LINE = 64, 10
#: Size lines of chunks by the length of the whole chunk, in lower and upper case; the most that are kept.
_LOWER_LINES: dict[int, bytes] = {}
_UPPER_LINES: dict[int, bytes] = {}
_MOST_LINES = 10_000


class LearnedChunk:
    """The bytes before and after the text of a chunk of a body in HTTP/1.1."""

    __slots__ = ("_before", "_lines", "_longest", "after")

    def __init__(self, lines: dict[int, bytes], before: bytes, after: bytes) -> None:
        self._lines = lines
        self._before = before
        self.after = after
        self._longest = len(before) + len(after) + _LONG_TEXT

    @classmethod
    def learn(cls, data: bytes, text: str) -> LearnedChunk | None:
        """Return what chunks like this one have in common, None if it is not certain where its text is.

        Args:
            data: Received bytes, not in the middle of a chunk or an event, and all that was parsed is ``text``.
            text: Of the one event in them.
        """
        line, _end, body = data.partition(b"\r\n")
        size = len(body) - 2
        lower = line == b"%x" % size
        if not (lower or line == b"%X" % size) or not body.endswith(b"\r\n") or b"\\" in data:
            return None
        # Without a backslash, every string is written as it is. A single place can only be that of the text.
        quoted = b'"%s"' % text.encode()
        place = body.find(quoted)
        if place < 0 or body.rfind(quoted) != place:
            return None
        begin = place + 1
        return cls(_LOWER_LINES if lower else _UPPER_LINES, body[:begin], body[begin + len(quoted) - 2 :])

    def texts_of(self, data: bytes) -> tuple[Sequence[str], int]:
        """Return the texts of the chunks that received bytes begin with, and the number of their bytes.

        What follows them must be parsed. No text is empty.
        """
        if len(data) <= self._longest:
            text = self._text_of(data)
            if text:
                return (text,), len(data)
        texts = []
        place = 0
        while (end := data.find(b"\r\n", place, place + _SIZE_LINE)) > place:
            try:
                following = end + 4 + int(data[place:end], 16)
            except ValueError:
                break
            text = self._text_of(data[place:following]) if following <= len(data) else ""
            if not text:
                break
            texts.append(text)
            place = following
        return texts, place

    def _text_of(self, data: bytes) -> str:
        """Return the text of bytes that are one whole chunk like the learnt one, an empty string for any others."""
        length = len(data)
        line = self._lines.get(length)
        if line is None:
            line = _size_line(length, self._lines)
        begin, after = len(line), self.after
        if not (line and data.startswith(line) and data.startswith(self._before, begin) and data.endswith(after)):
            return ""
        try:
            text = data[begin + len(self._before) : length - len(after)].decode()
        except UnicodeDecodeError:
            return ""
        # Printable characters stand for themselves in a string of JSON, but for two.
        return text if text.isprintable() and '"' not in text and "\\" not in text else ""


def _size_line(length: int, lines: dict[int, bytes]) -> bytes:
    """Return the size line of a chunk of ``length`` bytes in all, empty if there is no such chunk; keep it."""
    size_format = b"%X\r\n" if lines is _UPPER_LINES else b"%x\r\n"
    most = len(size_format % length) - 2
    fitting = b""
    for digits in (most, most - 1):
        size = length - digits - 4  # a line break after its size, and one at its end
        if size > 0 and len(line := size_format % size) == digits + 2:
            fitting = line
    if len(lines) < _MOST_LINES:
        lines[length] = fitting
    return fitting

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the answer of an OpenAI-style server says: when each piece of text arrived, tokens, its end or its error.

To parse HTTP, the event and its JSON for each token costs more than to receive it, and a chunk usually differs from the
one before it in its text only. So one chunk is parsed, and the bytes before and after its text are kept. A chunk with
the same bytes around another text means the same with that text. Whatever else arrives is parsed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import (
    parse_json_allowing_surrogates,
    replace_half_characters,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import partial_json_decoder

#: Data of the event that ends a stream.
DONE = b"[DONE]"
#: Keys of a choice that have what it adds to an answer.
_TEXTS = ("content", "reasoning_content", "reasoning", "tool_calls", "refusal")
#: Most characters of an error that are kept.
MOST_ERROR = 300


def _truncated(text: Any) -> str:
    words = " ".join(replace_half_characters(str(text)).split())
    return words if len(words) <= MOST_ERROR else f"{words[: MOST_ERROR - 3]}..."


def error_text(value: Any) -> str:
    """Return the message of an error in the forms that servers use, an empty string if there is none."""
    if not isinstance(value, dict):
        return ""
    error = value.get("error", value.get("detail"))
    if isinstance(error, dict):
        return _truncated(error.get("message") or error)
    if error:
        return _truncated(error)
    if value.get("object") == "error" or value.get("type") == "error":
        return _truncated(value.get("message") or value)
    return ""


class StreamedResponse:
    """An answer as it arrives. Moments in nanoseconds of the monotonic clock.

    times: of each event that has text. sizes: tokens of each, as far as the server says so. ``text``: None if it is not
    kept. counted: tokens of the text by ``count``, after ``count_tokens``.
    """

    __slots__ = (
        "_count",
        "_tokens",
        "cached",
        "completion",
        "counted",
        "done",
        "error",
        "finish_reason",
        "prompt",
        "sizes",
        "text",
        "times",
    )

    def __init__(self, keep_text: bool = False, count: Callable[[str], int] | None = None) -> None:
        self.times: list[int] = []
        self.sizes: list[int] = []
        self._count = count
        self.counted: int | None = None
        self.text: list[str] | None = [] if keep_text or count else None
        self.prompt: int | None = None
        self.completion: int | None = None
        self.cached: int | None = None
        self.finish_reason: str | None = None
        self.error = ""
        self.done = False
        self._tokens = 0

    def take(self, data: bytes, moment: int) -> str | None:
        """Take the data of one event, or the body of an answer that is not streamed.

        Return its text if it says nothing else.
        """
        if data == DONE:
            self.done = True
            return None
        try:
            event = _decode_event(data)
        except ValueError:
            self.error = self.error or f"an event is not JSON: {data[:60]!r}"
            return None
        if not isinstance(event, dict):
            self.error = self.error or f"an event is not an object: {data[:60]!r}"
            return None
        try:
            return self._take_event(event, moment)
        except (AttributeError, LookupError, TypeError):
            self.error = self.error or f"an event has an unknown form: {data[:60]!r}"
            return None

    def take_texts(self, texts: Sequence[str], moment: int) -> None:
        """Take events that have these texts and say nothing else."""
        for _text in texts:
            self.times.append(moment)
        if self.text is not None:
            self.text += texts

    def _take_event(self, event: dict[str, Any], moment: int) -> str | None:
        choices = event.get("choices")
        usage = event.get("usage")
        if usage:
            self._take_usage(usage)
        if choices:
            choice = choices[0]
            text = _choice_text(choice)
            if text:
                self.times.append(moment)
                if usage and self.completion is not None and self.completion >= self._tokens:  # continuous usage
                    self.sizes.append(self.completion - self._tokens)
                    self._tokens = self.completion
                if self.text is not None and isinstance(text, str):
                    self.text.append(text)
            reason = choice.get("finish_reason")
            if reason and isinstance(reason, str):
                self.finish_reason = _truncated(reason)
            return text if isinstance(text, str) and text and not usage and not reason else None
        if not usage:
            self.error = self.error or error_text(event)
        return None

    def _take_usage(self, usage: dict[str, Any]) -> None:
        self.prompt = _count(usage.get("prompt_tokens"), self.prompt)
        self.completion = _count(usage.get("completion_tokens"), self.completion)
        details = usage.get("prompt_tokens_details") or {}
        self.cached = _count(details.get("cached_tokens"), self.cached)

    def count_tokens(self) -> None:
        """Count the tokens of an answer that has ended, unless there is no tokenizer or it has more than text."""
        if self._count is not None and self.text is not None and len(self.text) == len(self.times) > 0:
            self.counted = self._count("".join(self.text))

    @property
    def tokens(self) -> int | None:
        """Number of tokens of the answer: as we counted, else as the server says, else one for each event with text."""
        if self.counted is not None:
            return self.counted
        return self.completion if self.completion is not None else len(self.times) or None

    @property
    def tokens_from(self) -> str:
        """Who counted the tokens."""
        if self.counted is not None:
            return "tokenizer"
        return "usage" if self.completion is not None else "chunks"

    @property
    def chunk_tokens(self) -> list[int] | None:
        """Tokens of each event with text, if the server says so and any has several."""
        known = len(self.sizes) == len(self.times) and self._tokens <= (self.completion or 0)
        return self.sizes if known and any(size != 1 for size in self.sizes) else None


#: More tokens than any prompt and any answer have.
_MOST_TOKENS = 10**8


def _count(value: object, known: int | None) -> int | None:
    """Return a number of tokens, what is known if the server gives none, or one that no answer can have."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS else known


decode_json = partial_json_decoder.create_document_decoder(None)
_ANY = partial_json_decoder.ANY
_CHOICE = {**dict.fromkeys(("text", "finish_reason", "message"), _ANY), "delta": dict.fromkeys(_TEXTS, _ANY)}
_decode_event = partial_json_decoder.create_document_decoder(
    {"choices": [_CHOICE], **dict.fromkeys(("usage", "error", "detail", "object", "type", "message"), _ANY)},
    parse_json_allowing_surrogates,
)


def _choice_text(choice: dict[str, Any]) -> Any:
    """Return what a choice adds to the answer: text, thoughts or calls of tools; a false value if it adds nothing."""
    delta = choice.get("delta") or choice.get("message")
    if delta is None:
        return choice.get("text")
    return (
        delta.get("content")
        or delta.get("reasoning_content")
        or delta.get("reasoning")
        or delta.get("tool_calls")
        or delta.get("refusal")
    )


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

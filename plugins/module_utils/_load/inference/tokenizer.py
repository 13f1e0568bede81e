# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many tokens a text has: by the tokenizer of a model, or a token for each word.

Texts of exact numbers of tokens are made without encoding them: a word has the same number of tokens in any text, which
is checked once for each tokenizer, so that those of a text are a sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from string import ascii_lowercase
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError

FILE, OPTION = "tokenizer.json", "tokenizer"
#: Words that complete a text, besides those that it consists of: a vocabulary of bytes has a token for each letter.
_LETTERS = [letter * count for letter in ascii_lowercase for count in (1, 2, 3)]


class TextTokenizer:
    """The tokenizer of a model, without special tokens."""

    def __init__(self, path: Path, implementation: Any) -> None:
        self.path = path
        self._implementation = implementation

    @classmethod
    def from_path(cls, path: str | Path) -> TextTokenizer:
        """Read tokenizer.json, or that of a folder. Raises InputError."""
        path = Path(path)
        file = path / FILE if path.is_dir() else path
        if not file.is_file():
            what = f"folder {path} has no {FILE}" if path.is_dir() else f"{path} does not exist"
            raise InputError(f"{OPTION}: {what}", setting=OPTION)
        try:
            import tokenizers
        except ImportError as error:
            text = "the Python package tokenizers is required for it and is not installed: pip install tokenizers"
            raise InputError(f"{OPTION}: {text}", setting=OPTION) from error
        try:
            implementation = tokenizers.Tokenizer.from_str(file.read_text(encoding="utf-8"))
        except Exception as error:  # the library raises this class itself
            text = f"{OPTION}: {file} is not a tokenizer of the library tokenizers: {error}"
            raise InputError(text, setting=OPTION) from error
        implementation.no_truncation()  # what a model can take at most is its server's business
        implementation.no_padding()
        return cls(file, implementation)

    def count(self, text: str) -> int:
        """Return the number of tokens of a text."""
        try:
            text.encode()
        except UnicodeEncodeError:  # halves of a character, as events of JSON may contain them
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return len(self._implementation.encode(text, add_special_tokens=False).ids)


class WordCosts:
    """The tokens of words, at the beginning of a text and after another word.

    Attributes:
        least: Every number of tokens from this one on can be completed, after a word and at the beginning of a text.
    """

    def __init__(self, words: Sequence[str], tokenizer: TextTokenizer | None = None) -> None:
        """Count the tokens of words; without a tokenizer each has one. Raises InputError for one that can't be used."""
        candidates = [*words, *(_LETTERS if tokenizer else ())]
        self._first = self._following = dict.fromkeys(candidates, 1)
        if tokenizer is not None:
            self._first = {word: tokenizer.count(word) for word in candidates}
            before = self._first[words[0]]
            self._following = {word: tokenizer.count(f"{words[0]} {word}") - before for word in candidates}
        largest = max(max(self._first[word], self._following[word]) for word in words)
        most = 4 * largest
        self._after, self._alone = self._completions(candidates, most)
        gaps = (count for count in range(1, most + 1) if count not in self._after or count not in self._alone)
        self.least = max(gaps, default=0) + 1
        if tokenizer is not None:
            lacks = any(self._first[word] < 1 or self._following[word] < 1 for word in words)
            if lacks or self.least + largest > most or not self._is_sum(words, tokenizer):
                text = (
                    f"{OPTION}: {tokenizer.path} can't make prompts of exact lengths: in its vocabulary, common English"
                )
                raise InputError(f"{text} words have no tokens, or share one with another word", setting=OPTION)

    def _completions(self, candidates: Sequence[str], most: int) -> tuple[dict[int, list[str]], dict[int, list[str]]]:
        """Return words with each number of tokens up to ``most``: after another word, and those that begin a text."""
        sizes = {self._following[word]: word for word in reversed(candidates) if self._following[word] > 0}
        after: dict[int, list[str]] = {0: []}
        for count in range(1, most + 1):
            words = next(([word, *after[count - size]] for size, word in sizes.items() if count - size in after), None)
            if words:
                after[count] = words
        alone: dict[int, list[str]] = {}
        for word in candidates:
            for count, rest in after.items() if self._first[word] > 0 else ():
                alone.setdefault(self._first[word] + count, [word, *rest])
        return after, alone

    def _is_sum(self, words: Sequence[str], tokenizer: TextTokenizer) -> bool:
        """Return whether the tokens of a text are those of its words, whatever word follows another."""
        completing = (word for texts in (self._after, self._alone) for text in texts.values() for word in text)
        used = sorted({*words, *completing})
        text = [word for one in used for other in used for word in (one, other)]
        return tokenizer.count(" ".join(text)) == self.of(text, begins=True)

    def of(self, words: Sequence[str], begins: bool) -> int:
        """Return the tokens of words. ``begins``: at the beginning of a text."""
        total = sum(map(self._following.__getitem__, words))
        return total - self._following[words[0]] + self._first[words[0]] if begins and words else total

    def completion(self, count: int, begins: bool) -> list[str] | None:
        """Return words with a small number of tokens, None if none have it. ``begins``: at the beginning of a text."""
        return (self._alone if begins else self._after).get(count)

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What requests ask: prompts, whose lengths depend only on seed and index, and the bytes of each request.

A prompt consists of common English words. With a tokenizer it has exactly the planned tokens. Without one, each word
counts as a token, as in most vocabularies, and the server's ``usage`` says how many tokens it counted.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from copy import copy
from itertools import accumulate
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.files import encode

from ..plan.random_draws import draw_number_for_workload, uniform_number_by_index
from .inference_request import SUCCEEDED, InferenceRequest
from .request_connection import InferenceServer
from .tokenizer import WordCosts

CHAT, COMPLETIONS = "chat", "completions"
PATHS = {CHAT: "/v1/chat/completions", COMPLETIONS: "/v1/completions"}

#: 128 words, so that seven bits of an index are one.
_TEXT = """
time year people way day man thing woman life child world school state family student group country problem
hand part place case week company system program question work government number night point home water room
mother area money story fact month lot right study book eye job word business issue side kind head house
service friend father power hour game line end member law car city community name president team minute idea
kid body information back parent face others level office door health person art war history party result
change morning reason research girl guy moment air teacher force education foot boy age policy music market
sense nation plan college interest death course someone experience behavior field answer paper table bank king
road tree voice summer winter spring
"""
WORDS = _TEXT.split()
#: Words of the text that prompts are cut from.
_TEXT_WORDS = 1 << 14


class PromptTexts:
    """Texts of any number of tokens, by index. Those of two indices differ in their first words.

    Those of two loads differ too, so that no load finds what an earlier one left in the prefix caches of the servers.

    Attributes:
        shared_tokens: Tokens that all texts begin with.
    """

    def __init__(
        self, seed: int, load: str, shared: int = 0, given: Sequence[str] = (), costs: WordCosts | None = None
    ) -> None:
        """Draw the words that texts are cut from.

        Args:
            seed: Of the texts.
            load: Name of the load, which all its sessions share.
            shared: Tokens that all texts begin with.
            given: Texts that are used in turn instead, the same in every load.
            costs: Tokens of the words; without them, each has one.
        """
        self._given = given
        seed = int.from_bytes(hashlib.sha256(f"{seed} {load}".encode()).digest()[:8], "big")
        words = [WORDS[int(uniform_number_by_index(i, seed, "text") * len(WORDS))] for i in range(_TEXT_WORDS)]
        self._words = words + words
        self._seed = seed
        self._costs = costs or WordCosts(WORDS)
        self._sums = list(accumulate((self._costs.of([word], begins=False) for word in self._words), initial=0))
        self.shared_tokens = self.possible(shared) if shared else 0
        self._shared = self._cut(words[:1], 1, self.shared_tokens, begins=True) if shared else ""

    def possible(self, count: int) -> int:
        """Return the number of tokens of a text for which ``count`` are planned: very few are not always possible."""
        return max(count, self._costs.least)

    def _cut(self, head: Sequence[str], place: int, count: int, begins: bool) -> str:
        """Return a text with ``count`` tokens: words of ``head``, and those from a place on.

        begins: whether nothing is before it.
        """
        costs, sums = self._costs, self._sums
        while head and 0 != count - costs.of(head, begins) < costs.least:
            head = head[1:]
        if not head:
            return " ".join(costs.completion(count, begins) or ())
        rest = count - costs.of(head, begins)
        rounds = max(0, (rest - costs.least) // sums[_TEXT_WORDS])
        rest -= rounds * sums[_TEXT_WORDS]
        end = bisect_right(sums, sums[place] + rest) - 1
        while (last := costs.completion(rest - sums[end] + sums[place], begins=False)) is None:
            end -= 1
        whole = self._words[:_TEXT_WORDS] * rounds if rounds else ()  # the slice alone takes longer than all else here
        return " ".join([*head, *whole, *self._words[place:end], *last])

    def text(self, index: int, count: int, first: bool = True) -> str:
        """Return a prompt: ``count`` tokens, and before them, in a ``first`` turn, those that all share."""
        if self._given:
            return self._given[index % len(self._given)]
        # Three words are the index, as digits: 2,097,152 different beginnings.
        digits = [WORDS[index >> shift & 127] for shift in (14, 7, 0)]
        place = int(uniform_number_by_index(index, self._seed, "place") * _TEXT_WORDS)
        shared = self._shared if first else ""
        own = self._cut(digits, place, self.possible(count), begins=not shared)
        return f"{shared} {own}" if shared else own


def draw_token_count(index: int, spec: Any, seed: int, what: str) -> int:
    """Return a number of tokens, 1 or more, that a number or a distribution gives for an index."""
    if isinstance(spec, Mapping):
        return max(1, round(draw_number_for_workload(index, spec, seed, what)))
    return int(spec)


def _most_tokens(body: Mapping[str, Any]) -> int:
    """Return how many tokens the answers to a body can have."""
    limits, answers = (
        max((body[name] for name in names if isinstance(body.get(name), int)), default=1)
        for names in (("max_tokens", "max_completion_tokens"), ("n", "best_of"))
    )
    return limits * answers


class RequestBodies:
    """Makes the bytes of each request, and keeps what was said in conversations that are under way."""

    def __init__(
        self,
        api: str,
        streamed: bool,
        texts: PromptTexts,
        lengths: Any,
        seed: int,
        headers: Mapping[str, str],
        extra: Mapping[str, Any],
    ) -> None:
        """Make the bodies.

        Args:
            api: CHAT or COMPLETIONS.
            streamed: Whether streams are asked for.
            texts: The texts of prompts.
            lengths: Tokens of a prompt, a number or a distribution.
            seed: Of the lengths.
            headers: Of every request, credentials included.
            extra: Further keys of every body.
        """
        self._api = api
        self._texts = texts
        self._lengths = lengths
        self._seed = seed
        self._head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._fixed: dict[str, Any] = {"temperature": 0, **extra}
        if streamed:
            self._fixed = {"stream": True, "stream_options": {"include_usage": True}, **self._fixed}
        self._said: dict[int, list[dict[str, str]]] = {}

    @property
    def has_key(self) -> bool:
        """Whether requests carry credentials."""
        return "authorization:" in self._head.lower()

    @property
    def shared_tokens(self) -> int:
        """The number of tokens that all conversations begin with."""
        return self._texts.shared_tokens

    def without_headers(self) -> RequestBodies:
        """Return the same bodies without headers and credentials, for servers that these were not given for."""
        other = copy(self)
        other._head = ""
        return other

    def prompt_length(self, index: int) -> int:
        """Return the planned number of tokens of a prompt, without those that all share."""
        return self._texts.possible(draw_token_count(index, self._lengths, self._seed, "prompt"))

    def encode(self, request: InferenceRequest, server: InferenceServer) -> bytes:
        """Return the bytes of a request."""
        text = self._texts.text(request.index, self.prompt_length(request.index), not request.turn)
        body: dict[str, Any] = {"model": request.model, **self._fixed}
        body.setdefault("max_tokens", request.asked)
        request.most = _most_tokens(body)
        said = self._said.get(request.conversation, [])
        if self._api == CHAT:
            body["messages"] = [*said, {"role": "user", "content": text}]
        else:
            body["prompt"] = " ".join([*(message["content"] for message in said), text])
        return self.encode_message(server, "POST", PATHS[self._api], request.name, encode(body).encode())

    def encode_message(self, server: InferenceServer, method: str, path: str, name: str, body: bytes = b"") -> bytes:
        """Return the bytes of a message to a server."""
        content = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if method == "POST" else ""
        head = (
            f"{method} {server.path}{path} HTTP/1.1\r\nHost: {server.authority}\r\nAccept: */*\r\n"
            f"X-Request-Id: {name}\r\n{content}{self._head}\r\n"
        )
        return head.encode("utf-8") + body

    def note_ended(self, request: InferenceRequest) -> None:
        """Keep what was said in a conversation for its next turn."""
        if request.last_turn or request.outcome != SUCCEEDED:
            self._said.pop(request.conversation, None)
            return
        text = self._texts.text(request.index, self.prompt_length(request.index), not request.turn)
        answer = "".join(request.answer.text or ())
        self._said.setdefault(request.conversation, []).extend(
            ({"role": "user", "content": text}, {"role": "assistant", "content": answer})
        )

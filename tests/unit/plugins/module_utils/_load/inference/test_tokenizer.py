# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prompts of exact numbers of tokens, and counted answers, by tokenizers that are trained here."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import MonotonicWallClock
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference.inference_request import (
    InferenceRequest,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference.request_bodies import (
    WORDS,
    PromptTexts,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference.tokenizer import (
    TextTokenizer,
    WordCosts,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from servers import tokenizers_importable

#: What the vocabularies are trained on: some of the words of prompts, and parts of others.
CORPUS = [" ".join(WORDS[place::3]) for place in (0, 1)] * 3 + ["a stage in an age of tokens, in and out of order"] * 5


@pytest.fixture(scope="module")
def library() -> Iterator[ModuleType]:
    with tokenizers_importable():
        import tokenizers

        yield tokenizers


def trained(library: ModuleType, kind: str) -> Any:
    """Return a tokenizer: words take one token, several, or one for each letter."""
    models, before, trainers = library.models, library.pre_tokenizers, library.trainers
    alphabet = before.ByteLevel.alphabet()
    if kind == "words":
        made, before_words = library.Tokenizer(models.WordLevel(unk_token="?")), before.Whitespace()
        trainer = trainers.WordLevelTrainer(special_tokens=["?"])
    elif kind == "pieces":  # as BERT
        made, before_words = library.Tokenizer(models.WordPiece(unk_token="?")), before.Whitespace()
        trainer = trainers.WordPieceTrainer(vocab_size=150, special_tokens=["?"])
    elif kind == "sentence":  # as Llama 2: spaces are a part of words, and nothing is split before
        made, before_words = library.Tokenizer(models.Unigram()), before.Metaspace()
        trainer = trainers.UnigramTrainer(vocab_size=200, unk_token="?", special_tokens=["?"])
    else:  # as GPT, and the tiny Llama of the training image
        made, before_words = library.Tokenizer(models.BPE()), before.ByteLevel(add_prefix_space=False)
        size = {"bytes": 256, "few": 300, "many": 2048}[kind]
        trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, special_tokens=["<s>"])
    made.pre_tokenizer = before_words
    made.train_from_iterator(CORPUS, trainer)
    return made


KINDS = ["words", "pieces", "sentence", "bytes", "few", "many"]


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request: pytest.FixtureRequest, library: ModuleType, tmp_path_factory: Any) -> TextTokenizer:
    """A tokenizer that was read from its file, which also adds a special token, cuts texts and fills them up."""
    folder = tmp_path_factory.mktemp(request.param)
    made = trained(library, request.param)
    if made.token_to_id("<s>") is not None:
        made.post_processor = library.processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 0)])
    made.enable_truncation(16)
    made.enable_padding(length=64)
    made.save(str(folder / "tokenizer.json"))
    return TextTokenizer.from_path(folder)


@pytest.fixture(scope="module")
def costs(tokenizer: TextTokenizer) -> WordCosts:
    return WordCosts(WORDS, tokenizer)


@pytest.fixture(scope="module")
def loads(costs: WordCosts) -> list[PromptTexts]:
    """The texts of loads with different seeds and shared prefixes."""
    return [PromptTexts(seed, "a", shared, costs=costs) for seed, shared in enumerate((0, 1, 2, 50, 1000))]


@settings(max_examples=60)
@given(data=st.data())
def test_each_prompt_has_exactly_its_tokens(
    tokenizer: TextTokenizer, loads: list[PromptTexts], data: st.DataObject
) -> None:
    texts = data.draw(st.sampled_from(loads))
    index = data.draw(st.integers(0, 1 << 21))
    count = data.draw(st.one_of(st.integers(1, 40), st.integers(1, 40_000)))
    planned = texts.possible(count)
    assert planned == count or count < planned <= 2
    assert tokenizer.count(texts.text(index, planned)) == planned + texts.shared_tokens
    assert tokenizer.count(texts.text(index, planned, first=False)) == planned


def test_prompts_differ_in_their_first_words(tokenizer: TextTokenizer, costs: WordCosts) -> None:
    texts = PromptTexts(1, "a", 50, costs=costs)
    shared = len(texts._shared.split())
    beginnings = {tuple(texts.text(index, 64).split()[shared : shared + 3]) for index in range(3_000)}
    assert len(beginnings) == 3_000
    assert texts.text(5, 64).split()[:shared] == texts._shared.split()
    assert tokenizer.count(texts._shared) == 50


def test_a_tokenizer_that_joins_words_is_refused(library: ModuleType, tmp_path: Path) -> None:
    made = library.Tokenizer(library.models.BPE())
    made.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    alphabet = library.pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(CORPUS, library.trainers.BpeTrainer(vocab_size=500, initial_alphabet=alphabet))
    made.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(InputError, match=r"tokenizer.json can't make prompts of exact lengths: .* share one"):
        WordCosts(WORDS, TextTokenizer.from_path(tmp_path))


def test_a_tokenizer_without_english_letters_is_refused(library: ModuleType, tmp_path: Path) -> None:
    made = library.Tokenizer(library.models.BPE())
    made.train_from_iterator(["1234"], library.trainers.BpeTrainer())
    made.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(InputError, match=r"common English words have no tokens"):
        WordCosts(WORDS, TextTokenizer.from_path(tmp_path))


def test_what_is_no_tokenizer_is_one_sentence(library: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text('{"model_type": "llama"}')
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for path, words in (
        (tmp_path, f"tokenizer: folder {tmp_path} has no tokenizer.json"),
        (tmp_path / "none.json", f"tokenizer: {tmp_path}/none.json does not exist"),
        (tmp_path / "model.json", f"tokenizer: {tmp_path}/model.json is not a tokenizer of the library tokenizers: "),
        (tmp_path / "binary", f"tokenizer: {tmp_path}/binary is not a tokenizer of the library tokenizers: "),
    ):
        with pytest.raises(InputError) as caught:
            TextTokenizer.from_path(path)
        assert str(caught.value).startswith(words) and caught.value.setting == "tokenizer"
        assert "\n" not in str(caught.value)


def test_without_the_library_it_is_said_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(InputError, match=r"tokenizer: .* tokenizers .* is not installed: pip install tokenizers"):
        TextTokenizer.from_path(tmp_path)


STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


def answered(tokenizer: TextTokenizer, *deltas: dict[str, Any]) -> InferenceRequest:
    """Return a request that got these pieces, and a server's own number of tokens."""
    request = InferenceRequest(0, "r", "m", 2, 1, count=tokenizer.count)
    request.begin_attempt(1)
    request.take(STREAM, 2, 0)
    for delta in deltas:
        request.take(f"data: {json.dumps({'choices': [{'delta': delta}]})}\n\n".encode(), 3, 0)
    request.take(b'data: {"choices": [], "usage": {"completion_tokens": 99}}\n\ndata: [DONE]\n\n', 4, 0)
    request.decide_outcome(5)
    request.answer.count_tokens()
    return request


def test_the_tokens_of_an_answer_are_those_of_its_whole_text(tokenizer: TextTokenizer) -> None:
    request = answered(tokenizer, {"content": "the qu"}, {"content": "estion of"}, {"reasoning": " time"})
    row = request.record(MonotonicWallClock(1000.0, 0.0))
    assert (row["output_tokens"], row["tokens_from"]) == (tokenizer.count("the question of time"), "tokenizer")
    assert row["output_tokens"] != row["usage_tokens"] == 99 and row["chunks"] == 3


@pytest.mark.parametrize(
    ("pieces", "text"),
    [(("a \ud83d", "\ude00"), "a \N{GRINNING FACE}"), (("a \ud83d", "b"), "a \N{REPLACEMENT CHARACTER}b")],
)
def test_a_character_in_two_events_or_half_of_one_is_counted(
    tokenizer: TextTokenizer, pieces: tuple[str, str], text: str
) -> None:
    answer = answered(tokenizer, *({"content": piece} for piece in pieces)).answer
    assert (answer.tokens, answer.tokens_from) == (tokenizer.count(text), "tokenizer")


def test_what_is_recorded_of_an_answer_beside_its_text_has_whole_characters(tokenizer: TextTokenizer) -> None:
    request = answered(tokenizer, {"content": "a"})
    request.answer.take(json.dumps({"choices": [{"finish_reason": "\ud83d"}]}).encode(), 3)
    request.answer.take(json.dumps({"error": {"message": "no \udfff"}}).encode(), 4)
    assert (request.answer.finish_reason, request.answer.error) == (
        "\N{REPLACEMENT CHARACTER}",
        "no \N{REPLACEMENT CHARACTER}",
    )


def test_an_answer_with_more_than_text_has_the_tokens_that_the_server_counted(tokenizer: TextTokenizer) -> None:
    answer = answered(tokenizer, {"content": "a"}, {"tool_calls": [{"index": 0}]}).answer
    assert (answer.tokens, answer.tokens_from) == (99, "usage")
    nothing = answered(tokenizer).answer
    assert nothing.tokens_from == "usage"

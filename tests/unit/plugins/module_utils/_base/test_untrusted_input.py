"""YAML of others is read with its aliases, but not if these expand to more than memory holds."""

from __future__ import annotations

import re
import signal
import threading

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, untrusted_input
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import limit_processor_time
from hypothesis import given
from hypothesis import strategies as st


def bomb(levels: int, width: int, form: str = "[{}]") -> str:
    """Return a document in which each level repeats the one below it, width times."""
    lines = [f"l0: &l0 {form.format('x')}" if form == "[{}]" else "l0: &l0 {x: 1}"]
    lines += [f"l{n}: &l{n} {form.format(','.join([f'*l{n - 1}'] * width))}" for n in range(1, levels)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("text", [bomb(9, 9), bomb(40, 2), bomb(9, 9, "{{<<: [{}]}}"), bomb(300, 9)])
def test_aliases_that_expand_to_too_much_are_refused(tmp_path, text):
    path = tmp_path / "settings.yml"
    path.write_text(text)
    with pytest.raises(DataError, match=r"settings.yml: not readable as YAML: its aliases expand .* more than 100,000"):
        files.read_yaml(path)


@pytest.mark.parametrize("text", ["a: &a [1, *a]", "a: &a {b: [{c: *a}]}", "&a [*a]"])
def test_a_part_that_contains_itself_is_refused(text):
    with pytest.raises(DataError, match="an alias refers to a part that contains it"):
        untrusted_input.parse_yaml(text, "x")


@pytest.mark.parametrize("text", ["[" * 5000, "? [a]\n: b", "a: !!python/object:os.system 1", "a: *b"])
def test_other_documents_that_can_not_be_read_are_refused(text):
    with pytest.raises(DataError, match="x: not readable as YAML"):
        untrusted_input.parse_yaml(text, "x")


def test_aliases_merge_keys_and_unsafe_texts_are_read():
    text = "a: &a {x: 1, y: !unsafe '{{ z }}'}\nb: {<<: *a, x: 2}\nc: [*a, *a]\n"
    a = {"x": 1, "y": "{{ z }}"}
    assert untrusted_input.parse_yaml(text, "x") == {"a": a, "b": {**a, "x": 2}, "c": [a, a]}


def test_a_large_document_without_aliases_is_read():
    text = "- &a 1\n" + "- [1, 2, '*']\n" * 26_000
    assert len(untrusted_input.parse_yaml(text, "x")) == 26_001


def test_several_documents_are_read_only_where_they_are_expected():
    assert untrusted_input.parse_yaml_documents("a: 1\n---\nb: 2\n", "x") == [{"a": 1}, {"b": 2}]
    assert untrusted_input.parse_yaml("", "x") is None
    with pytest.raises(DataError, match="it has 2 documents"):
        untrusted_input.parse_yaml("a: 1\n---\nb: 2\n", "x")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=30,
)


@given(VALUES)
def test_what_was_written_is_read_with_all_its_aliases(value):
    import yaml

    shared = {"a": value, "b": [value, value]}  # written with an anchor and aliases
    assert untrusted_input.parse_yaml(yaml.safe_dump(shared), "x") == shared


def test_an_exponential_search_ends_with_what_was_searched() -> None:
    with pytest.raises(InputError, match="searching x took more than 0.1 s"), limit_processor_time(0.1, "searching x"):
        re.fullmatch("(a+)+", "a" * 60 + "!")


def test_the_handler_of_before_is_back_whatever_happens() -> None:
    before = signal.getsignal(signal.SIGVTALRM)
    with pytest.raises(ZeroDivisionError), limit_processor_time(10, "x"):
        _ = 1 / 0
    assert signal.getsignal(signal.SIGVTALRM) == before
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


def test_in_another_thread_a_block_runs_without_a_limit() -> None:
    results: list[bool] = []

    def search() -> None:
        with limit_processor_time(0.001, "x"):
            results.append(re.fullmatch("a+", "a" * 1000) is not None)

    thread = threading.Thread(target=search)
    thread.start()
    thread.join(10)
    assert results == [True]


@pytest.mark.parametrize("number", [":".join(["1"] * 300), ":".join(["1"] * 300) + ".5", "0x" + "f" * 400, "1" * 401])
def test_a_number_of_yaml_that_takes_long_to_convert_is_refused(number: str) -> None:
    with pytest.raises(DataError, match="a number has more than 400 characters"):
        untrusted_input.parse_yaml(f"a: {number}", "file")
    assert untrusted_input.parse_yaml("[1:30:00, 0x1f, 1.5, 010, 1_000]", "file") == [5400, 31, 1.5, 8, 1000]


@pytest.mark.parametrize("document", ["[" + "[]," * 2000 + "1]", b"[" + b"{}," * 2000 + b"1]", "1," * 2000])
def test_a_document_of_many_small_values_does_not_fill_the_memory(
    document: str | bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(untrusted_input, "MOST_JSON_VALUES", 1000)
    with pytest.raises(ValueError, match="more than 1,000 values"):
        untrusted_input.parse_json(document)
    assert untrusted_input.parse_json('"' + "x" * 2000 + '"') == "x" * 2000


@pytest.mark.parametrize(
    "text",
    [
        b'["\xed\xa0\x80", 1]',
        '["\ud800", 1]',
        '["\ud800", 1]'.encode("utf-16", "surrogatepass"),
        r'["\udfff", 1]'.encode("utf-16"),
    ],
)
def test_half_characters_in_any_encoding_of_json_are_replaced(text: str | bytes) -> None:
    assert untrusted_input.parse_json(text) == ["\ufffd", 1]


@pytest.mark.parametrize("parse", [untrusted_input.parse_json, untrusted_input.parse_finite_json])
def test_half_characters_of_json_are_replaced_and_whole_ones_stay(parse) -> None:
    value = parse(rb'{"a\ud800": ["\udfff b", "\ud83d\ude00", {"c": 1}]}')
    assert value == {"a\ufffd": ["\ufffd b", "\U0001f600", {"c": 1}]}
    repr(value).encode()


@pytest.mark.parametrize("text", ["[" + "a," * 1_000_001 + "]", "- a\n" * 1_000_001, "a: {" + "{}, " * 1_000_001])
def test_a_document_with_too_many_values_is_refused_before_it_is_parsed(text: str) -> None:
    with pytest.raises(DataError, match="x: not readable as YAML: it has more than 1,000,000 values"):
        untrusted_input.parse_yaml(text, "x")


def test_a_document_with_a_giant_text_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(DataError, match="x: not readable as YAML: it has 16,777,217 characters, and 16,777,216 are"):
        untrusted_input.parse_yaml("a" * (untrusted_input.MOST_YAML + 1), "x")
    assert untrusted_input.parse_yaml(text := "a" * 1_100_000, "x") == text

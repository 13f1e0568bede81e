# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What others have written: read within limits, checked for its form, and escaped for places that interpret it.

Whatever is wrong with JSON is a ValueError, also too many levels. A YAML document of some hundred bytes can stand for
billions of values, because an alias repeats a whole part of it. Templates and texts get a limit of processor time.

Messages about the answer of a server describe it and don't quote it: it may hold a secret. Names, events, logs and
messages of servers may contain anything; what writes them to a terminal, as Markdown or as CSV uses the functions here.
"""

from __future__ import annotations

import json
import re
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import isfinite
from typing import Any

from .errors import AccessError, DataError, InputError, SeatrialError

#: A number that may be too large for a float, as 1e999.
_LARGE = re.compile(rb"[0-9][eE]\+?[0-9]{3,}\s*[,}\]]")
#: Most values of a JSON document, counted by its signs: [] has two bytes, and takes 64 of memory.
MOST_JSON_VALUES = 10_000_000
#: An escape that may be a half of a character outside of the first 65,536, without its other half.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON document. Raises ValueError."""
    return _with_whole_characters(json.loads, text)


def parse_finite_json(raw: bytes) -> Any:
    """Return the value of a JSON document. Raises ValueError also for NaN, Infinity, and what no float holds."""
    return _with_whole_characters(
        _decode_checking_numbers if _LARGE.search(raw) else _decode_without_constants, raw.decode()
    )


def parse_json_allowing_surrogates(text: str | bytes) -> Any:
    """Return the value of a JSON document whose texts are parts of others: one may end with half of a character.

    ``replace_half_characters`` is for what is made of the parts. Raises ValueError.
    """
    return _without_recursion_error(json.loads, text)


def _with_whole_characters(decode: Callable[[Any], Any], text: str | bytes) -> Any:
    if not isinstance(text, str):
        text = text.decode(json.detect_encoding(text), "surrogatepass")  # as json.loads does
    if not _SURROGATE.search(text) and _is_encodable(text):
        return _without_recursion_error(decode, text)
    return _without_recursion_error(lambda text: replace_half_characters(decode(text)), text)


def _is_encodable(text: str) -> bool:
    """Return whether a text has no half characters, which no file can hold."""
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def _without_recursion_error(decode: Callable[[Any], Any], text: str | bytes) -> Any:
    document: Any = text
    signs = ",[{" if isinstance(text, str) else (b",", b"[", b"{")
    if len(text) > MOST_JSON_VALUES and sum(map(document.count, signs)) > MOST_JSON_VALUES:
        raise ValueError(f"the JSON document has more than {MOST_JSON_VALUES:,} values")
    try:
        return decode(text)
    except RecursionError as error:
        raise ValueError("the JSON document is nested too deeply") from error


def replace_half_characters(value: Any) -> Any:
    """Return a value in whose texts U+FFFD is in place of each half of a character, which no file can hold."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [replace_half_characters(element) for element in value]
    if isinstance(value, dict):
        return {replace_half_characters(key): replace_half_characters(entry) for key, entry in value.items()}
    return value


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    return number if isfinite(number) else _refuse_constant(text)


_decode_without_constants = json.JSONDecoder(parse_constant=_refuse_constant).decode
_decode_checking_numbers = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite).decode


#: Values that a document may have with its aliases expanded, if aliases make it more than EXPANSION times as large.
MOST_VALUES, EXPANSION = 100_000, 10
#: Most values of a YAML document, counted by its signs and lines, and most characters.
MOST_YAML_VALUES, MOST_YAML = 1_000_000, 1 << 24
#: Most characters of a number in YAML.
_LONGEST_NUMBER = 400


def parse_yaml(text: str, where: str, unsafe: type[str] = str) -> Any:
    """Return the document of ``text``, None for an empty text.

    Args:
        text: YAML with one document.
        where: Where it is from, for messages.
        unsafe: The type of texts with the tag ``!unsafe``.

    Raises:
        DataError: It is not YAML, has several documents, too many values, or aliases that expand to too many.
    """
    documents = parse_yaml_documents(text, where, unsafe)
    if len(documents) > 1:
        raise DataError(f"{where}: not readable as YAML: it has {len(documents)} documents, and one is expected")
    return documents[0] if documents else None


def parse_yaml_documents(text: str, where: str, unsafe: type[str] = str) -> list[Any]:
    """Return all documents of ``text``. Arguments and errors are those of parse_yaml."""
    import yaml

    try:
        check_number_of_yaml_values(text)
        return list(yaml.load_all(text, _limited_loader_class(yaml, unsafe, "*" in text)))
    except (yaml.YAMLError, ValueError, TypeError, RecursionError, OverflowError) as error:
        why = "it has too many levels" if isinstance(error, RecursionError) else error
        raise DataError(f"{where}: not readable as YAML: {why}") from error


def check_number_of_yaml_values(text: str) -> None:
    """Raise ValueError for a YAML text that may have too many values, before it is parsed: each takes about 7 µs."""
    if len(text) > MOST_YAML:
        raise ValueError(f"it has {len(text):,} characters, and {MOST_YAML:,} are the most")
    if len(text) > MOST_YAML_VALUES and sum(map(text.count, ",[{:\n")) > MOST_YAML_VALUES:
        raise ValueError(f"it has more than {MOST_YAML_VALUES:,} values")


def _limited_loader_class(yaml: Any, unsafe: type[str], aliases: bool) -> Any:
    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class LimitedLoader(base):
        """A separate class: its constructors must not change other loaders."""

        def construct_document(self, node: Any) -> Any:
            # Before anything is constructed: merge keys (<<) are expanded then.
            if aliases:
                check_alias_expansion(yaml, node)
            return super().construct_document(node)

    def construct_number(loader: Any, node: Any) -> Any:
        # 1:30:00 is a number with the base 60, whose conversion takes quadratic time; a long one is in no other format.
        if len(node.value) > _LONGEST_NUMBER:
            raise yaml.YAMLError(f"a number has more than {_LONGEST_NUMBER} characters")
        return base.yaml_constructors[node.tag](loader, node)

    for kind in ("int", "float"):
        LimitedLoader.add_constructor(f"tag:yaml.org,2002:{kind}", construct_number)
    LimitedLoader.add_constructor("!unsafe", lambda loader, node: unsafe(loader.construct_scalar(node)))
    return LimitedLoader


def check_alias_expansion(yaml: Any, top: Any) -> None:
    """Raise YAMLError if the document has too many values, or a part that contains itself."""
    size_by_node: dict[int, int] = {}
    path: list[tuple[Any, bool]] = [(top, False)]
    being_counted: set[int] = set()
    while path:
        node, counted = path.pop()
        if id(node) in size_by_node:
            continue
        children = _child_nodes(yaml, node)
        if counted:
            size_by_node[id(node)] = 1 + sum(size_by_node[id(child)] for child in children)
            being_counted.discard(id(node))
            continue
        being_counted.add(id(node))
        path.append((node, True))
        for child in children:
            if id(child) in being_counted:
                raise yaml.YAMLError("an alias refers to a part that contains it")
            path.append((child, False))
    size = size_by_node[id(top)]
    if size > MOST_VALUES and size > EXPANSION * len(size_by_node):
        raise yaml.YAMLError(
            f"its aliases expand {len(size_by_node):,} values to {_short_number(size)}, more than {MOST_VALUES:,}"
        )


def _short_number(number: int) -> str:
    return f"{number:,}" if number < 10**15 else "over 10^15"


def _child_nodes(yaml: Any, node: Any) -> list[Any]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []


#: Why a regular expression takes long.
HINT = "; a repeat in a repeat, as in (a+)+, takes for ever"


@contextmanager
def limit_processor_time(seconds: float, what: str, hint: str = HINT) -> Iterator[None]:
    """Raise InputError in a block that has used ``seconds`` of the process's processor time.

    what: begin of the sentence that says what took too long. hint: its end. Only the main thread of a process can be
    interrupted, and elsewhere the block has no limit. Python's regular expressions look for signals while they search.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_number: int, _frame: object) -> None:
        raise InputError(f"{what} took more than {seconds:g} s of processor time{hint}")

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


#: Keys of an answer in a message, and characters of each.
_KEYS, _LONGEST = 6, 40
#: What reading a document of another form raises: a missing key, another type, a text that is no number.
_FORM_ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@contextmanager
def expect_documented_form(what: str, answer: Any, error_type: type[SeatrialError] = AccessError) -> Iterator[None]:
    """Read an answer in the body; one of another form than expected is the server's error, not one of ours.

    Args:
        what: Server, method and path; or the object that a pod has written.
        answer: The document that the body reads.
        error_type: Of the error; DataError for what no repeated request changes.

    Raises:
        AccessError: The body met another form; it says what was found.
    """
    try:
        yield
    except _FORM_ERRORS as error:
        lacking = f" without {error}" if isinstance(error, KeyError) else ""
        raise error_type(f"{what}: the answer has an unexpected form: {_described(answer)}{lacking}") from error


def require_json_object(what: str, answer: Any, lists: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return an answer that is a JSON object. Raises AccessError for another one.

    Args:
        what: Server, method and path.
        answer: The document.
        lists: Keys whose values, where they are given, are lists of objects.
    """
    if not isinstance(answer, dict):
        raise AccessError(f"{what}: the answer is not a JSON object but {_described(answer)}")
    for key in lists:
        require_list_of_json_objects(f"{what}: {key}", answer.get(key) or [])
    return answer


def require_list_of_json_objects(what: str, answer: Any) -> list[dict[str, Any]]:
    """Return an answer that is a list of JSON objects. Raises AccessError for another one."""
    if not isinstance(answer, list):
        raise AccessError(f"{what}: the answer is not a list of JSON objects but {_described(answer)}")
    for entry in answer:
        require_json_object(f"{what}: an entry of the list", entry)
    return answer


def _described(answer: Any) -> str:
    """Return what an answer is, without its values."""
    if isinstance(answer, dict):
        keys = [str(key)[:_LONGEST] for key in answer]
        more = ", …" if len(keys) > _KEYS else ""
        return f"an object with {', '.join(keys[:_KEYS])}{more}" if keys else "an empty object"
    if isinstance(answer, list):
        return f"a list of {len(answer)}"
    return {str: "text", bool: "true or false", type(None): "null"}.get(type(answer), "a number")


#: Keys of a result that Ansible takes for itself: facts become variables of the play, one of them the Python to run.
_KEYS_OF_ANSIBLE = frozenset(("ansible_facts", "deprecations", "exception", "invocation", "warnings"))


def without_keys_of_ansible(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result of a task, which may have what a pod or a host reports, without keys that Ansible interprets."""
    kept = {key: value for key, value in result.items() if key not in _KEYS_OF_ANSIBLE}
    return {key: value for key, value in kept.items() if not str(key).startswith("_ansible_")}


#: Control characters, those that reverse the order of a text, and line separators; not newline and tab.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
#: Signs that nobody sees, in which a text may be hidden.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200d\u2060-\u2065\u3164\uffa0\U000e0000-\U000e0fff]"
)
#: An ampersand too: GitHub takes ``&#64;name`` for a mention.
_MARKDOWN = re.compile(r"([\\`*_~\[\]<>|#&])")
#: GitHub makes GH-1 a link to an issue. Addresses stay links: our own are written the same way.
_ISSUE = re.compile(r"(?<![A-Za-z0-9])([Gg][Hh])(?=-[0-9])")
#: How a formula of a spreadsheet begins, and a number, which may begin with a sign.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_NUMBER = re.compile(r"[-+]?(?:[0-9]{1,400}(?:\.[0-9]{0,400})?|\.[0-9]{1,400})(?:[eE][-+]?[0-9]{1,4})?")


def escape_control_characters(text: str) -> str:
    """Return a text in which no character controls a terminal; each such character is a visible one."""
    return _CONTROL.sub(_visible_character, text) if _CONTROL.search(text) else text


def _visible_character(match: re.Match[str]) -> str:
    code = ord(match.group())
    return chr(0x2400 + code) if code < 0x20 else "\u2421" if code == 0x7F else "\ufffd"


def escape_markdown_line(text: object, longest: int = 300) -> str:
    """Return a text on one line in which nothing is Markdown, HTML, a mention, an issue or hidden, nor controls."""
    flat = " ".join(_INVISIBLE.sub("\ufffd", escape_control_characters(str(text))).split())
    cut = flat if len(flat) <= longest else f"{flat[: longest - 1]}…"
    return _ISSUE.sub("\\1\u200b", _MARKDOWN.sub(r"\\\1", cut)).replace("@", "@\u200b")


def escape_csv_cell(value: Any) -> Any:
    """Return the value of a cell that no spreadsheet takes for a formula. Numbers stay."""
    if not isinstance(value, str):
        return value
    plain = escape_control_characters(value)
    if plain.startswith(_FORMULA) and _NUMBER.fullmatch(plain) is None:
        return f"'{plain}"
    return plain


def escape_csv_row(values: Iterable[Any]) -> list[Any]:
    """Return the cells of a row, see escape_csv_cell."""
    return [escape_csv_cell(value) for value in values]

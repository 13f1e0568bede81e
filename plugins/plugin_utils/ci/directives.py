# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Directives in the text of a pull request and in a comment on it: what a run is asked to do.

    /test NAME argument…   /var key: value   /skip step…   /only step…   /project NAME   /cluster NAME   /help

A directive begins its line; other lines are ignored. Of one key the last value wins, and a comment comes after the
text. Only a comment has /test and /help. Nothing here decides who may ask or what may be set.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError

#: Limits of the value of one /var: characters, levels of nesting.
LONGEST, DEEPEST = 4096, 16
_LINE = re.compile(r"/(?P<word>test|var|skip|only|project|cluster|help)(?:[ \t]+(?P<rest>.*))?")
_PLAIN = (str, int, float, bool, type(None))


@dataclass(frozen=True)
class Text:
    """A text with directives. where: its name in messages. comment: whether it is a comment."""

    where: str
    content: str
    comment: bool = False


@dataclass
class Directives:
    """What the directives of all texts ask for.

    arguments: those of all /test lines. steps: step -> whether it shall run. variables: key -> value. origins: key of
    a variable, step or word -> where it was written.
    """

    arguments: list[str] = field(default_factory=list)
    variables: dict[str, Any] = field(default_factory=dict)
    steps: dict[str, bool] = field(default_factory=dict)
    only: bool = False
    project: str = ""
    cluster: str = ""
    help: bool = False
    origins: dict[str, str] = field(default_factory=dict)

    def left_out(self, steps: Sequence[str]) -> list[str]:
        """Return those of all ``steps`` that are not to run."""
        return [one for one in steps if not self.steps.get(one, not self.only)]


def addressed(content: str, test: str, by_help: bool = True) -> bool:
    """Return whether a comment has a /test line for this test, or /help if that counts. test: empty for any test."""
    found = list(_lines(content))
    return any(
        (word == "help" and by_help) or (word == "test" and _of_test(rest, test)) for _number, word, rest in found
    )


def present(content: str) -> bool:
    """Return whether a text has any directive, also one that parse() would refuse."""
    return next(_lines(content), None) is not None


def parse(texts: Sequence[Text], test: str = "") -> Directives:
    """Return what the texts ask for, the text of a pull request first.

    test: name of this test; /test lines for others are ignored. Empty: all count, and NAME is an argument.
    Raises InputError for a directive that is incomplete, and for a value that is no YAML.
    """
    found = Directives()
    for text in texts:
        for number, word, rest in _lines(text.content):
            where = f"/{word} in line {number} of {text.where}"
            if word == "test" and text.comment and _of_test(rest, test):
                names = rest.split()
                found.arguments += names[1:] if test else names
                found.origins.setdefault("test", where)
            elif word == "help":
                found.help = found.help or text.comment
            elif word == "var":
                values = _variables(rest, where)
                found.variables |= values
                found.origins |= dict.fromkeys(values, where)
            elif word in ("skip", "only"):
                steps = _needed(rest, where, "a step").split()
                found.only = found.only or word == "only"
                found.steps |= dict.fromkeys(steps, word == "only")
                found.origins |= dict.fromkeys(steps, where)
            elif word in ("project", "cluster"):
                setattr(found, word, _needed(rest, where, "a name"))
                found.origins[word] = where
    return found


def _lines(content: str) -> Iterator[tuple[int, str, str]]:
    """Yield number, word and rest of each directive. Browsers send lines that end with CR and LF."""
    for number, line in enumerate(content.split("\n"), 1):
        if found := _LINE.fullmatch(line.rstrip("\r")):
            yield number, found["word"], (found["rest"] or "").strip()


def _of_test(rest: str, test: str) -> bool:
    names = rest.split()
    return bool(names) and (not test or names[0] == test)


def _needed(rest: str, where: str, what: str) -> str:
    if not rest:
        raise InputError(f"{where}: {what} is missing")
    return rest


def _variables(text: str, where: str) -> dict[str, Any]:
    """Return the mapping that one /var line sets. Raises InputError if it is none."""
    import yaml

    if len(text) > LONGEST:
        raise InputError(f"{where} has {len(text)} characters; {LONGEST} are the most")
    try:
        found = yaml.load(text, _loader())  # a subclass of SafeLoader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        why = getattr(error, "problem", None) or "it can't be read"
        raise InputError(f"{where}: {_short(text)} is no YAML of one line: {why}") from error
    if not isinstance(found, dict) or not found:
        raise InputError(f"{where}: {_short(text)} is no 'key: value'")
    _check_plain(found, where, DEEPEST)
    return {str(key): value for key, value in found.items()}


def _loader() -> Any:
    """Return a YAML loader without aliases, whose texts could grow exponentially, and without dates."""
    import yaml

    class Loader(yaml.SafeLoader):
        """A separate class: other loaders keep their dates."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.events.AliasEvent):
                raise yaml.composer.ComposerError(None, None, "aliases are not accepted", None)
            return super().compose_node(parent, index)

    Loader.yaml_implicit_resolvers = {
        first: [one for one in known if one[0] != "tag:yaml.org,2002:timestamp"]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    return Loader


def _check_plain(value: Any, where: str, levels: int) -> None:
    """Raise InputError for a value that JSON does not have, and for one with too many levels."""
    if levels == 0:
        raise InputError(f"{where}: the value has more than {DEEPEST} levels")
    if isinstance(value, dict):
        for key, one in value.items():
            _check_plain(key, where, 1)
            _check_plain(one, where, levels - 1)
    elif isinstance(value, list):
        for one in value:
            _check_plain(one, where, levels - 1)
    elif not isinstance(value, _PLAIN):
        raise InputError(f"{where}: a {type(value).__name__} is no value of a setting")


def _short(text: str) -> str:
    return f"'{text if len(text) <= 60 else text[:57] + '...'}'"

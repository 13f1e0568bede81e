# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pull request, and the directives in its text and in a comment on it: what a run is asked to do, and by whom.

    /test NAME argument…   /var key: value   /skip step…   /only step…   /project NAME   /cluster NAME   /help

A directive begins its line; other lines are ignored. Of one key the last value wins, and a comment comes after the
text. Only a comment has /test and /help. Nothing here decides who may ask or what may be set.

A pull request is read from the file with the event that started a job (GitHub: pull_request, issue_comment and others;
GitLab: note) or from the API of GitHub. What a text says never decides whether its author may ask.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.convert_setting_values import LARGEST_INTEGER

#: Limits of the value of one /var: characters, levels of nesting.
LONGEST, DEEPEST = 4096, 16
#: Most names, of projects and presets, on all /test lines: each is looked up with what it extends.
MOST_ARGUMENTS = 100
_LINE = re.compile(r"/(?P<word>test|var|skip|only|project|cluster|help)(?:[ \t]+(?P<rest>.*))?")
_PLAIN = (str, int, float, bool, type(None))


@dataclass(frozen=True)
class TextWithDirectives:
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
        return [step for step in steps if not self.steps.get(step, not self.only)]


def is_comment_for_test(content: str, test: str, by_help: bool = True) -> bool:
    """Return whether a comment has a /test line for this test, or /help if that counts. test: empty for any test."""
    directives = list(_directive_lines(content))
    return any(
        (word == "help" and by_help) or (word == "test" and _is_line_for_test(rest, test))
        for _number, word, rest in directives
    )


def has_directives(content: str) -> bool:
    """Return whether a text has any directive, also one that parse() would refuse."""
    return next(_directive_lines(content), None) is not None


def parse_directives(texts: Sequence[TextWithDirectives], test: str = "") -> Directives:
    """Return what the texts ask for, the text of a pull request first.

    test: name of this test; /test lines for others are ignored. Empty: all count, and NAME is an argument.
    Raises InputError for a directive that is incomplete, and for a value that is no YAML.
    """
    directives = Directives()
    for text in texts:
        for number, word, rest in _directive_lines(text.content):
            where = f"/{word} in line {number} of {text.where}"
            if word == "test" and text.comment and _is_line_for_test(rest, test):
                names = rest.split()
                directives.arguments += names[1:] if test else names
                if len(directives.arguments) > MOST_ARGUMENTS:
                    raise InputError(f"{where}: {MOST_ARGUMENTS} names are the most of all /test lines")
                directives.origins.setdefault("test", where)
            elif word == "help":
                directives.help = directives.help or text.comment
            elif word == "var":
                values = _parse_var_line(rest, where)
                directives.variables |= values
                directives.origins |= dict.fromkeys(values, where)
            elif word in ("skip", "only"):
                steps = _check_argument_given(rest, where, "a step").split()
                directives.only = directives.only or word == "only"
                directives.steps |= dict.fromkeys(steps, word == "only")
                directives.origins |= dict.fromkeys(steps, where)
            elif word in ("project", "cluster"):
                setattr(directives, word, _check_argument_given(rest, where, "a name"))
                directives.origins[word] = where
    return directives


def _directive_lines(content: str) -> Iterator[tuple[int, str, str]]:
    """Yield number, word and rest of each directive. Browsers send lines that end with CR and LF."""
    for number, line in enumerate(content.split("\n"), 1):
        if match := _LINE.fullmatch(line.rstrip("\r")):
            yield number, match["word"], (match["rest"] or "").strip()


def _is_line_for_test(rest: str, test: str) -> bool:
    names = rest.split()
    return bool(names) and (not test or names[0] == test)


def _check_argument_given(rest: str, where: str, what: str) -> str:
    if not rest:
        raise InputError(f"{where}: {what} is missing")
    return rest


def _parse_var_line(text: str, where: str) -> dict[str, Any]:
    """Return the mapping that one /var line sets. Raises InputError if it is none."""
    import yaml

    if len(text) > LONGEST:
        raise InputError(f"{where} has {len(text)} characters; {LONGEST} are the most")
    try:
        variables = yaml.load(text, _restricted_yaml_loader())  # a subclass of SafeLoader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        why = getattr(error, "problem", None) or "it can't be read"
        raise InputError(f"{where}: {_quote_truncated_text(text)} is not valid YAML of one line: {why}") from error
    if not isinstance(variables, dict) or not variables:
        raise InputError(f"{where}: {_quote_truncated_text(text)} is not of the form 'key: value'")
    _check_plain(variables, where, DEEPEST)
    return {str(key): value for key, value in variables.items()}


def _restricted_yaml_loader() -> Any:
    """Return a YAML loader without aliases, whose texts could grow exponentially, and without dates."""
    import yaml

    class Loader(yaml.SafeLoader):
        """A separate class: other loaders keep their dates."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.events.AliasEvent):
                raise yaml.composer.ComposerError(None, None, "aliases are not accepted", None)
            return super().compose_node(parent, index)

    Loader.yaml_implicit_resolvers = {
        first: [resolver for resolver in known if resolver[0] != "tag:yaml.org,2002:timestamp"]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    return Loader


def _check_plain(value: Any, where: str, levels: int) -> None:
    """Raise InputError for a value that JSON does not have, and for one with too many levels."""
    if levels == 0:
        raise InputError(f"{where}: the value has more than {DEEPEST} levels")
    if isinstance(value, dict):
        for key, entry in value.items():
            _check_plain(key, where, 1)
            _check_plain(entry, where, levels - 1)
    elif isinstance(value, list):
        for element in value:
            _check_plain(element, where, levels - 1)
    elif not isinstance(value, _PLAIN):
        raise InputError(f"{where}: a {type(value).__name__} is not a valid value of a setting")
    elif isinstance(value, int) and abs(value) > LARGEST_INTEGER:
        raise InputError(
            f"{where}: a number of {value.bit_length()} bits; whole numbers are at most {LARGEST_INTEGER:,}"
        )
    elif isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{where}: {value} is not a finite number")


def _quote_truncated_text(text: str) -> str:
    return f"'{text if len(text) <= 60 else text[:57] + '...'}'"


@dataclass(frozen=True)
class AuthoredText:
    """What somebody wrote. association: their relation to the repository, as GitHub names it; empty if unknown."""

    content: str
    author: str
    association: str = ""

    @property
    def who(self) -> str:
        """The author, for messages."""
        return f"{self.author or 'an unknown author'} ({self.association or 'no association'})"


@dataclass(frozen=True)
class PullRequest:
    """A pull request.

    number: empty for a comment on something else, such as an issue or a commit. comments: in order. trigger: whether
    the last comment is the event that started the job.
    """

    number: str
    repository: str
    body: AuthoredText | None = None
    comments: tuple[AuthoredText, ...] = ()
    revision: str = ""
    trigger: bool = False


@dataclass(frozen=True)
class Requesters:
    """Who may ask: people by their association with the repository, and by name."""

    associations: Collection[str]
    users: Collection[str]

    def includes(self, words: AuthoredText) -> bool:
        """Return whether the author may ask. A name without letters and an empty association never may."""
        by_name = bool(words.author) and words.author.lower() in {user.lower() for user in self.users}
        return by_name or (bool(words.association) and words.association in self.associations)


def pull_request_from_event(event: Any) -> PullRequest | None:
    """Return the pull request of an event, None for an event that is neither of one nor a comment.

    A comment on something else, such as an issue, a commit or a discussion, gives a pull request without number and
    texts: it asks for nothing. Raises InputError for a document of another form.
    """
    if not isinstance(event, Mapping):
        raise InputError("the event is not a JSON object")
    try:
        return (
            _merge_request_from_note(event) if event.get("object_kind") == "note" else _pull_request_from_event(event)
        )
    except (AttributeError, TypeError) as error:
        raise InputError("the event that started the job does not have the form of GitHub or GitLab") from error


def _pull_request_from_event(event: Mapping[str, Any]) -> PullRequest | None:
    comment = event.get("comment")
    repository = str((event.get("repository") or {}).get("full_name") or "")
    issue = event.get("pull_request") or event.get("issue") or {}
    if not issue or (event.get("issue") and not issue.get("pull_request")):
        return PullRequest("", repository, trigger=True) if comment is not None else None
    body = _authored_text_from_document(issue)
    comments: tuple[AuthoredText, ...] = ()
    if comment is not None and event.get("action") != "deleted":
        comments = (_authored_text_from_document(comment),)
    head = str((issue.get("head") or {}).get("sha") or "")
    return PullRequest(str(issue.get("number") or ""), repository, body, comments, head, comment is not None)


def pull_request_from_api(pull: Mapping[str, Any], comments: Iterable[Mapping[str, Any]]) -> PullRequest:
    """Return the pull request that GitHub's API describes."""
    repository = str(((pull.get("base") or {}).get("repo") or {}).get("full_name") or "")
    head = str((pull.get("head") or {}).get("sha") or "")
    return PullRequest(
        str(pull["number"]),
        repository,
        _authored_text_from_document(pull),
        tuple(map(_authored_text_from_document, comments)),
        head,
    )


def _authored_text_from_document(document: Mapping[str, Any]) -> AuthoredText:
    author = str((document.get("user") or {}).get("login") or "")
    return AuthoredText(str(document.get("body") or ""), author, str(document.get("author_association") or ""))


def _merge_request_from_note(event: Mapping[str, Any]) -> PullRequest:
    """Return the merge request of a comment in GitLab, which names no associations."""
    repository = str((event.get("project") or {}).get("path_with_namespace") or "")
    merge = event.get("merge_request")
    if not merge:
        return PullRequest("", repository, trigger=True)
    content = str((event.get("object_attributes") or {}).get("note") or "")
    note = AuthoredText(content, str((event.get("user") or {}).get("username") or ""))
    head = str((merge.get("last_commit") or {}).get("id") or "")
    return PullRequest(str(merge.get("iid") or ""), repository, None, (note,), head, True)


def texts_of_permitted_authors(
    pull: PullRequest, requesters: Requesters, test: str
) -> tuple[list[TextWithDirectives], list[str]]:
    """Return the texts that may ask for something, the body first, and a sentence for each that may not.

    Of the comments, the last one that addresses this test counts. If the event is a comment, it is that one; if it does
    not address this test, the list is empty. Only such an event can be a /help. Raises InputError if the author of that
    comment may not ask.
    """
    addressing = [comment for comment in pull.comments if is_comment_for_test(comment.content, test, pull.trigger)]
    if pull.trigger and not addressing:
        return [], []
    if pull.trigger and not requesters.includes(addressing[-1]):
        raise InputError(
            f"{addressing[-1].who} may not ask for a run: ci_associations and ci_users name who may; nothing was run"
        )
    permitted = [comment for comment in addressing if requesters.includes(comment)]
    ignored = [comment.who for comment in addressing if not requesters.includes(comment)]
    notes = [f"a comment of {who} is ignored: ci_associations and ci_users name who may ask" for who in ignored]
    texts = []
    if pull.body and requesters.includes(pull.body):
        texts.append(TextWithDirectives(f"the text of {pull.body.author}", pull.body.content))
    elif pull.body and has_directives(pull.body.content):
        notes.append(f"the text of {pull.body.who} is ignored: ci_associations and ci_users name who may ask")
    if permitted:
        texts.append(TextWithDirectives(f"the comment of {permitted[-1].author}", permitted[-1].content, comment=True))
    return texts, notes

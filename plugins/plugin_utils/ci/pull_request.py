# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pull request: its text, its comments, and which of them may ask for something.

It is read from the file with the event that started a job (GitHub: pull_request, issue_comment and others; GitLab:
note) or from the API of GitHub. What a text says never decides whether its author may ask.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError

from . import directives
from .directives import Text


@dataclass(frozen=True)
class Words:
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
    """A pull request. comments: in order. trigger: whether the last comment is the event that started the job."""

    number: str
    repository: str
    body: Words | None = None
    comments: tuple[Words, ...] = ()
    revision: str = ""
    trigger: bool = False


@dataclass(frozen=True)
class Requesters:
    """Who may ask: people by their association with the repository, and by name."""

    associations: Collection[str]
    users: Collection[str]

    def includes(self, words: Words) -> bool:
        """Return whether the author may ask. A name without letters and an empty association never may."""
        by_name = bool(words.author) and words.author.lower() in {one.lower() for one in self.users}
        return by_name or (bool(words.association) and words.association in self.associations)


def of_event(event: Any) -> PullRequest | None:
    """Return the pull request of an event, None for an event without one. Raises InputError for another document."""
    if not isinstance(event, Mapping):
        raise InputError("the event is no JSON object")
    if event.get("object_kind") == "note" and event.get("merge_request"):
        return _of_note(event)
    issue = event.get("pull_request") or event.get("issue")
    if not isinstance(issue, Mapping) or ("issue" in event and not issue.get("pull_request")):
        return None
    comment = event.get("comment")
    repository = str((event.get("repository") or {}).get("full_name") or "")
    found = (_words(comment),) if isinstance(comment, Mapping) and event.get("action") != "deleted" else ()
    head = str((issue.get("head") or {}).get("sha") or "")
    return PullRequest(str(issue.get("number") or ""), repository, _words(issue), found, head, comment is not None)


def of_api(pull: Mapping[str, Any], comments: Iterable[Mapping[str, Any]]) -> PullRequest:
    """Return the pull request that GitHub's API describes."""
    repository = str(((pull.get("base") or {}).get("repo") or {}).get("full_name") or "")
    head = str((pull.get("head") or {}).get("sha") or "")
    return PullRequest(str(pull["number"]), repository, _words(pull), tuple(map(_words, comments)), head)


def _words(document: Mapping[str, Any]) -> Words:
    author = str((document.get("user") or {}).get("login") or "")
    return Words(str(document.get("body") or ""), author, str(document.get("author_association") or ""))


def _of_note(event: Mapping[str, Any]) -> PullRequest:
    """Return the merge request of a comment in GitLab, which names no associations."""
    note = Words(
        str((event.get("object_attributes") or {}).get("note") or ""), str(event.get("user", {}).get("username") or "")
    )
    merge = event["merge_request"]
    head = str((merge.get("last_commit") or {}).get("id") or "")
    repository = str((event.get("project") or {}).get("path_with_namespace") or "")
    return PullRequest(str(merge.get("iid") or ""), repository, None, (note,), head, True)


def texts(pull: PullRequest, requesters: Requesters, test: str) -> tuple[list[Text], list[str]]:
    """Return the texts that may ask for something, the body first, and a sentence for each that may not.

    Of the comments, the last one that addresses this test counts. If the event is a comment, it is that one; if it does
    not address this test, the list is empty. Only such an event can be a /help. Raises InputError if the author of that
    comment may not ask.
    """
    addressed = [one for one in pull.comments if directives.addressed(one.content, test, pull.trigger)]
    if pull.trigger and not addressed:
        return [], []
    if pull.trigger and not requesters.includes(addressed[-1]):
        raise InputError(
            f"{addressed[-1].who} may not ask for a run: ci_associations and ci_users name who may; nothing was run"
        )
    permitted = [one for one in addressed if requesters.includes(one)]
    ignored = [one.who for one in addressed if not requesters.includes(one)]
    notes = [f"a comment of {who} is ignored: ci_associations and ci_users name who may ask" for who in ignored]
    found = []
    if pull.body and requesters.includes(pull.body):
        found.append(Text(f"the text of {pull.body.author}", pull.body.content))
    elif pull.body and directives.present(pull.body.content):
        notes.append(f"the text of {pull.body.who} is ignored: ci_associations and ci_users name who may ask")
    if permitted:
        found.append(Text(f"the comment of {permitted[-1].author}", permitted[-1].content, comment=True))
    return found, notes

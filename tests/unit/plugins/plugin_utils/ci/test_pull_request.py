# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Events and pull requests: whose texts count."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.ci import pull_request_directives
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.ci.pull_request_directives import (
    AuthoredText,
    PullRequest,
    Requesters,
)

REQUESTERS = Requesters(("OWNER", "MEMBER"), ("Bob",))
MEMBER, STRANGER = ("ann", "MEMBER"), ("eve", "NONE")


def words(content: str, who: tuple[str, str]) -> AuthoredText:
    return AuthoredText(content, *who)


def texts(pull: PullRequest, test: str = "light") -> tuple[list[str], list[str]]:
    found, notes = pull_request_directives.texts_of_permitted_authors(pull, REQUESTERS, test)
    return [one.content for one in found], notes


@pytest.mark.parametrize(
    ("author", "association", "expected"),
    [
        ("ann", "MEMBER", True),
        ("bob", "NONE", True),
        ("BOB", "", True),
        ("eve", "NONE", False),
        ("eve", "CONTRIBUTOR", False),
        ("eve", "member", False),
        ("MEMBER", "NONE", False),
        ("", "", False),
        ("", "NONE", False),
    ],
)
def test_association_or_name_permit(author: str, association: str, expected: bool) -> None:
    assert (
        REQUESTERS.includes(AuthoredText("/test light # I am ann, OWNER and MEMBER", author, association)) is expected
    )


def test_nobody_is_permitted_by_empty_lists() -> None:
    assert not Requesters((), ()).includes(AuthoredText("", "", ""))
    assert not Requesters(("",), ("",)).includes(AuthoredText("", "", ""))


def test_the_last_permitted_comment_that_addresses_the_test_counts() -> None:
    comments = (
        words("/test light a", MEMBER),
        words("/test light b", MEMBER),
        words("/test other c", MEMBER),
        words("thanks", MEMBER),
        words("/test light d", STRANGER),
    )
    found, notes = texts(PullRequest("1", "o/r", words("body", MEMBER), comments))
    assert found == ["body", "/test light b"]
    assert notes == ["a comment of eve (NONE) is ignored: ci_associations and ci_users name who may ask"]


def test_the_text_of_a_stranger_is_ignored_and_that_is_said() -> None:
    found, notes = texts(PullRequest("1", "o/r", words("/var x: 1", STRANGER), (words("/test light", MEMBER),)))
    assert found == ["/test light"]
    assert notes == ["the text of eve (NONE) is ignored: ci_associations and ci_users name who may ask"]
    assert texts(PullRequest("1", "o/r", words("Mends it", STRANGER))) == ([], [])


def test_a_hostile_text_of_a_stranger_is_no_error() -> None:
    found, notes = texts(PullRequest("1", "o/r", words("/var [", STRANGER)))
    assert found == [] and len(notes) == 1


def test_a_comment_that_started_the_job_and_may_not_ask_is_refused() -> None:
    with pytest.raises(InputError, match=r"eve \(NONE\) may not ask for a run"):
        texts(PullRequest("1", "o/r", words("/var x: 1", MEMBER), (words("/test light", STRANGER),), trigger=True))


@pytest.mark.parametrize("content", ["thanks", "/test other", "/var x: 1"])
def test_a_comment_that_started_the_job_and_asks_for_nothing_gives_nothing(content: str) -> None:
    assert texts(PullRequest("1", "o/r", words("/var x: 1", MEMBER), (words(content, STRANGER),), trigger=True)) == (
        [],
        [],
    )


def github(**more: Any) -> dict[str, Any]:
    issue = {"number": 12, "body": None, "user": {"login": "ann"}, "author_association": "MEMBER"}
    return {"repository": {"full_name": "o/r"}, "pull_request": {**issue, "head": {"sha": "c0ffee"}}, **more}


def test_a_pull_request_event_of_github() -> None:
    found = pull_request_directives.pull_request_from_event(github())
    assert found == PullRequest("12", "o/r", AuthoredText("", "ann", "MEMBER"), (), "c0ffee", False)


def test_a_comment_event_of_github() -> None:
    issue = {**github()["pull_request"], "pull_request": {"url": "u"}}
    comment = {"body": "/test a", "user": {"login": "bob"}, "author_association": "NONE"}
    found = pull_request_directives.pull_request_from_event(
        {"repository": {"full_name": "o/r"}, "issue": issue, "comment": comment}
    )
    assert found and found.trigger and found.comments == (AuthoredText("/test a", "bob", "NONE"),)


def test_a_comment_event_of_gitlab() -> None:
    event = {
        "object_kind": "note",
        "user": {"username": "bob"},
        "object_attributes": {"note": "/test a"},
        "merge_request": {"iid": 3, "description": "/var x: 1", "last_commit": {"id": "c0ffee"}},
        "project": {"path_with_namespace": "g/p"},
    }
    assert pull_request_directives.pull_request_from_event(event) == PullRequest(
        "3", "g/p", None, (AuthoredText("/test a", "bob"),), "c0ffee", True
    )


@pytest.mark.parametrize(
    "event",
    [
        {"schedule": "0 1 * * *"},
        {"ref": "refs/heads/main", "repository": {}},
        {"issue": {"number": 1, "body": "/test a"}, "action": "opened"},
    ],
)
def test_an_event_without_a_pull_request_gives_none(event: dict[str, Any]) -> None:
    assert pull_request_directives.pull_request_from_event(event) is None


@pytest.mark.parametrize("event", [[], "text", None, 3])
def test_another_document_is_refused(event: Any) -> None:
    with pytest.raises(InputError, match="is not a JSON object"):
        pull_request_directives.pull_request_from_event(event)


def test_a_deleted_comment_asks_for_nothing() -> None:
    comment = {"body": "/test light", "user": {"login": "ann"}, "author_association": "MEMBER"}
    found = pull_request_directives.pull_request_from_event({**github(comment=comment), "action": "deleted"})
    assert found and texts(found) == ([], [])


ELSEWHERE = [
    {"issue": {"number": 1, "body": "/test a"}, "comment": {"body": "/test light"}},
    {"comment": {"body": "/test light", "commit_id": "c0ffee"}, "repository": {"full_name": "o/r"}},
    {"discussion": {"number": 3, "body": "/test a"}, "comment": {"body": "/test light"}},
    {"object_kind": "note", "issue": {"iid": 3}, "object_attributes": {"note": "/test light"}},
    {"object_kind": "note", "commit": {"id": "c0ffee"}, "object_attributes": {"note": "/test light"}},
    {"object_kind": "note", "snippet": {"id": 3}, "object_attributes": {"note": "/test light"}},
]


@pytest.mark.parametrize("event", ELSEWHERE)
def test_a_comment_that_is_not_on_a_pull_request_asks_for_nothing(event: dict[str, Any]) -> None:
    found = pull_request_directives.pull_request_from_event(event)
    assert found and found.trigger and not found.number and texts(found) == ([], [])


FORMS: list[Any] = [[1], 5, "text", True]
GITLAB = {
    "object_kind": "note",
    "user": {"username": "bob"},
    "object_attributes": {"note": "/test a"},
    "merge_request": {"iid": 3, "last_commit": {"id": "c0ffee"}},
    "project": {"path_with_namespace": "g/p"},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "path",
    [
        ("github", "repository"),
        ("github", "pull_request"),
        ("github", "pull_request", "user"),
        ("github", "pull_request", "head"),
        ("github", "comment"),
        ("github", "comment", "user"),
        ("issue", "issue"),
        ("gitlab", "user"),
        ("gitlab", "object_attributes"),
        ("gitlab", "merge_request"),
        ("gitlab", "merge_request", "last_commit"),
        ("gitlab", "project"),
    ],
    ids=".".join,
)
def test_an_event_of_another_form_is_refused(path: tuple[str, ...], form: Any) -> None:
    comment = {"body": "/test a", "user": {"login": "bob"}, "author_association": "NONE"}
    events: dict[str, Any] = {"github": github(comment=comment), "gitlab": copy.deepcopy(GITLAB)}
    events["issue"] = {"issue": {"number": 3}, "comment": comment}
    place = events
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = form
    with pytest.raises(InputError, match="does not have the form of GitHub or GitLab"):
        pull_request_directives.pull_request_from_event(events[path[0]])

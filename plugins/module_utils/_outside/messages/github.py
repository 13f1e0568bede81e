# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GitHub: one comment and one check run for each run, created once and then edited."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import (
    expect_documented_form,
    require_json_object,
    require_list_of_json_objects,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.http_client import HttpClient, HttpPolicy
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.http_transport import HttpRefused

#: Timeout of one request, and seconds for all requests and waits together.
REQUEST, TIMEOUT = 15.0, 60.0
#: Address of the API of github.com.
PUBLIC = "https://api.github.com"
#: Maximum length of the text of a comment and of a check run; comments on a page; pages that are searched.
LONGEST, PAGE, PAGES = 60_000, 100, 30
#: Validity of the token of an App, in seconds; GitHub accepts ten minutes.
_VALID = 540


@dataclass(frozen=True)
class GitHubTarget:
    """Where messages go: repository (owner/name), number of the pull request, revision; empty for none of these."""

    repository: str
    pull_request: str = ""
    revision: str = ""
    check: str = ""

    def __post_init__(self) -> None:
        if self.repository.count("/") != 1 or not all(self.repository.split("/")):
            raise InputError(f"GitHub: the repository '{self.repository}' needs the form owner/name")
        if self.pull_request and formats.parse_whole_number(self.pull_request) is None:
            raise InputError(f"GitHub: '{self.pull_request}' is no number of a pull request")


def api_client_from_options(
    options: Mapping[str, Any], repository: str, authority: str, timeout: float = TIMEOUT
) -> HttpClient:
    """Return the API with the credentials of a module's option github: token, or app_id and app_key; api_url.

    The credentials of an App are exchanged for a token of its installation.
    """
    headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
    api = HttpClient(
        "GitHub",
        str(options.get("api_url") or PUBLIC),
        authority=authority,
        https_only=True,
        headers=headers,
        policy=HttpPolicy.within(timeout, REQUEST),
    )
    token, app, key = (str(options.get(name) or "") for name in ("token", "app_id", "app_key"))
    if not token and app:
        api.authorization = f"Bearer {_web_token(app, key, int(time.time()))}"
        installation = _id_of_answer(api, "GET", f"/repos/{repository}/installation")
        path = f"/app/installations/{installation}/access_tokens"
        answer = api.json("POST", path, {})
        with expect_documented_form(f"GitHub: POST {path}", answer):
            token = str(answer["token"])
    if not token:
        raise InputError("GitHub: neither a token nor an App is given")
    api.authorization = f"Bearer {token}"
    return api


def _web_token(app: str, key: str, now: int) -> str:
    """Return a JSON web token that an App signs in with. Raises InputError for a key that is no RSA key in PEM."""
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import padding, rsa

    try:
        private = serialization.load_pem_private_key(key.encode(), password=None)
    except (ValueError, TypeError) as error:
        raise InputError("GitHub: the private key of the App is no key in PEM") from error
    if not isinstance(private, rsa.RSAPrivateKey):
        raise InputError("GitHub: the private key of the App is no RSA key")
    parts = [{"alg": "RS256", "typ": "JWT"}, {"iat": now - 60, "exp": now + _VALID, "iss": app}]
    text = ".".join(_encode_base64url(json.dumps(part).encode()) for part in parts)
    return f"{text}.{_encode_base64url(private.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def _encode_base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def write_run_comment(api: HttpClient, target: GitHubTarget, mark: str, text: str, known: Any = None) -> Any:
    """Write the comment of a run and return its id.

    mark: text that no other comment has; it is invisible. known: id of the comment, None if unknown: it is looked for.
    """
    body = {"body": f"<!-- {mark} -->\n{_truncate_message_text(text)}"}
    repository = f"/repos/{target.repository}"
    comment_id = known or _find_comment_by_mark(api, target, mark)
    if comment_id:
        try:
            return _id_of_answer(api, "PATCH", f"{repository}/issues/comments/{comment_id}", body)
        except HttpRefused as error:
            if error.status != 404:  # somebody deleted it
                raise
    try:
        return _id_of_answer(api, "POST", f"{repository}/issues/{target.pull_request}/comments", body)
    except AccessError:
        if arrived := _find_comment_by_mark(api, target, mark):  # only its answer was lost
            return arrived
        raise


def _find_comment_by_mark(api: HttpClient, target: GitHubTarget, mark: str) -> Any:
    """Return the id of our comment with a mark, None if there is none. Anybody may write the mark into a comment."""
    marked = [
        entry
        for entry in list_pull_request_comments(api, target)
        if str(entry.get("body") or "").startswith(f"<!-- {mark} -->")
    ]
    login = _login_of_token(api) if marked else ""
    own = (entry for entry in marked if _is_of_author(entry, login))
    return next((_id_of("GitHub: the comments", entry) for entry in own), None)


def _login_of_token(api: HttpClient) -> str:
    """Return the name of the user whose token we have; empty for that of an App, which is no user's."""
    try:
        return str(require_json_object("GitHub: GET /user", api.json("GET", "/user")).get("login") or "")
    except HttpRefused as error:
        if error.status in (401, 403, 404):
            return ""
        raise


def _is_of_author(comment: Mapping[str, Any], login: str) -> bool:
    """Return whether a comment is of this user; without one, whether a bot has written it."""
    author = comment.get("user")
    if not isinstance(author, Mapping):
        return False
    return author.get("login") == login if login else author.get("type") == "Bot"


def list_pull_request_comments(api: HttpClient, target: GitHubTarget) -> Iterator[dict[str, Any]]:
    """Yield the comments on the pull request, the oldest first, of at most PAGES pages."""
    for page in range(1, PAGES + 1):
        path = f"/repos/{target.repository}/issues/{target.pull_request}/comments?per_page={PAGE}&page={page}"
        batch = require_list_of_json_objects(f"GitHub: GET {path.partition('?')[0]}", api.json("GET", path))
        yield from batch
        if len(batch) < PAGE:
            return


def target_with_head_commit(api: HttpClient, target: GitHubTarget) -> GitHubTarget:
    """Return the target with the newest commit of its pull request as its revision."""
    answer = read_pull_request(api, target)
    with expect_documented_form(f"GitHub: pull request {target.pull_request}", answer):
        return replace(target, revision=str(answer["head"]["sha"]))


def read_pull_request(api: HttpClient, target: GitHubTarget) -> dict[str, Any]:
    """Return the pull request as the API describes it."""
    path = f"/repos/{target.repository}/pulls/{target.pull_request}"
    return require_json_object(f"GitHub: GET {path}", api.json("GET", path))


def write_check_run(
    api: HttpClient,
    target: GitHubTarget,
    run: str,
    output: Mapping[str, str],
    conclusion: str,
    url: str,
    known: Any = None,
) -> Any:
    """Write the check run of a run and return its id.

    output: title and summary. conclusion: empty while the run is in progress. url: of the job. known: as in comment().
    """
    state = {"status": "completed", "conclusion": conclusion} if conclusion else {"status": "in_progress"}
    body = {
        **state,
        "output": {**output, "summary": _truncate_message_text(output["summary"])},
        **({"details_url": url} if url else {}),
    }
    path = f"/repos/{target.repository}/check-runs"
    check_id = known or _find_check_run_id(api, target, run)
    if check_id:
        return _id_of_answer(api, "PATCH", f"{path}/{check_id}", body)
    new = {"name": target.check, "head_sha": target.revision, "external_id": run, **body}
    return _id_of_answer(api, "POST", path, new)


def _find_check_run_id(api: HttpClient, target: GitHubTarget, run: str) -> Any:
    words = f"check_name={quote(target.check)}&per_page={PAGE}"
    path = f"/repos/{target.repository}/commits/{target.revision}/check-runs"
    what = f"GitHub: GET {path}"
    checks = require_json_object(what, api.json("GET", f"{path}?{words}"), ("check_runs",)).get("check_runs") or []
    return next((_id_of(what, check) for check in checks if check.get("external_id") == run), None)


def _id_of_answer(api: HttpClient, method: str, path: str, body: Any = None) -> int:
    """Send a request and return the id of what its answer describes."""
    return _id_of(f"GitHub: {method} {path}", api.json(method, path, body))


def _id_of(what: str, entry: Any) -> int:
    with expect_documented_form(what, entry):
        return int(entry["id"])


def _truncate_message_text(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…\n\n(cut)"

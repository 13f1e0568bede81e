# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One comment and one check run for each run, edited as it proceeds."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.messages import github, send_messages
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from message_servers import GitHubStandIn, address
from messages_of_a_run import RUN, options
from scripted_server import ScriptedServer

Hub = tuple[GitHubStandIn, str]


def test_a_run_has_one_comment_and_one_check_run_which_are_edited(run_dir: Path, hub: Hub) -> None:
    stand_in, url = hub
    first = send_messages.send_notifications(options(run_dir, url, state="started"))
    assert first["warnings"] == [] and first["sent"] == ["comment on example/product#12", "check run seatrial"]
    (text,) = stand_in.comments.values()
    assert text.startswith(f"<!-- perfscale.seatrial: run {RUN} -->\n# running: fine\\_tuning light")
    (check,) = stand_in.checks.values()
    assert check["status"] == "in_progress" and check["details_url"] == "https://ci.example.com/77"
    last = send_messages.send_notifications(options(run_dir, url))
    assert last["warnings"] == []
    (text,) = stand_in.comments.values()
    (check,) = stand_in.checks.values()
    assert (check["status"], check["conclusion"], check["external_id"]) == ("completed", "failure", RUN)
    assert check["output"]["title"] == "regression: fine_tuning light" and check["head_sha"] == "c0ffee"
    for expected in (
        "+20 % (18 to 22 %)",
        "s3://results/pull/12",
        "existing cluster api.lab",
        "- job: https://ci",
        "1 further",
    ):
        assert expected in text
    assert "/builds" not in text and "@team" not in text and "<pods>" not in text.replace("\\<pods\\>", "")


def test_the_check_run_is_written_to_the_newest_commit_of_the_pull_request(run_dir: Path, hub: Hub) -> None:
    given = options(run_dir, hub[1])
    given["github"]["revision"] = ""
    assert send_messages.send_notifications(given)["warnings"] == []
    assert [one["head_sha"] for one in hub[0].checks.values()] == ["c0ffee"]


def test_a_received_run_does_not_choose_the_comment_and_the_check_run(tmp_path: Path, run_dir: Path, hub: Hub) -> None:
    """Its messages.json could name those of others, which the token may change, and lead to another repository."""
    stand_in, url = hub
    stand_in.comments, stand_in.checks = {7: "of somebody"}, {8: {"conclusion": "failure", "name": "of others"}}
    before = dict(stand_in.comments), dict(stand_in.checks)
    received = Path(shutil.copytree(run_dir, tmp_path / "received"))
    ids = {"comment": "7/../../../../other/product/issues/comments/7", "check": 8}
    for known in (ids, {**ids, "comment": 7}):
        (received / send_messages.RECORD).write_text(json.dumps({"schema": "messages/1", "github": known}))
        assert send_messages.send_notifications(options(received, url))["warnings"] == []
    assert {number: text for number, text in stand_in.comments.items() if number == 7} == before[0]
    assert {number: check for number, check in stand_in.checks.items() if number == 8} == before[1]
    assert len(stand_in.comments) == len(stand_in.checks) == 2


def test_a_session_without_the_ids_finds_what_another_one_wrote(run_dir: Path, hub: Hub) -> None:
    stand_in, url = hub
    stand_in.comments = dict.fromkeys(range(150), "text")
    send_messages.send_notifications(options(run_dir, url, state="started"))
    (run_dir / send_messages.RECORD).unlink()
    assert send_messages.send_notifications(options(run_dir, url))["warnings"] == []
    assert len(stand_in.comments) == 151 and len(stand_in.checks) == 1


@pytest.mark.parametrize("app", ["", "t0ken-of-tests"])
def test_a_comment_of_somebody_else_that_has_our_mark_stays_as_it_is(run_dir: Path, hub: Hub, app: str) -> None:
    stand_in, url = hub
    stand_in.app = app
    send_messages.send_notifications(options(run_dir, url, state="started"))
    (run_dir / send_messages.RECORD).unlink()
    copied = next(iter(stand_in.comments.values()))
    stand_in.comments = {7: copied}
    stand_in.authors = {7: ("mallory", "NONE")}
    assert send_messages.send_notifications(options(run_dir, url))["warnings"] == []
    assert stand_in.comments.pop(7) == copied and len(stand_in.comments) == 1


def test_a_comment_that_somebody_deleted_is_written_again(run_dir: Path, hub: Hub) -> None:
    stand_in, url = hub
    send_messages.send_notifications(options(run_dir, url, state="started"))
    stand_in.comments.clear()
    assert send_messages.send_notifications(options(run_dir, url))["warnings"] == []
    assert len(stand_in.comments) == 1


def test_a_comment_whose_answer_was_lost_is_not_written_twice(run_dir: Path, hub: Hub) -> None:
    stand_in, url = hub
    stand_in.lost = 1
    assert send_messages.send_notifications(options(run_dir, url))["sent"][0] == "comment on example/product#12"
    assert len(stand_in.comments) == 1
    assert send_messages.send_notifications(options(run_dir, url))["warnings"] == []
    assert len(stand_in.comments) == 1


def test_an_app_signs_in_with_its_key(run_dir: Path, hub: Hub) -> None:
    stand_in, url = hub
    stand_in.app, stand_in.tokens = "installation-token", set()
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    given = options(run_dir, url)
    given["github"] |= {"token": "", "app_id": "Iv1.x", "app_key": key.private_bytes(*form).decode()}
    assert send_messages.send_notifications(given)["warnings"] == []
    signed, _dot, signature = stand_in.web_tokens[0].rpartition(".")
    raw = base64.urlsafe_b64decode(signature + "==")
    key.public_key().verify(raw, signed.encode(), padding.PKCS1v15(), hashes.SHA256())
    claims = json.loads(base64.urlsafe_b64decode(signed.split(".")[1] + "=="))
    assert claims["iss"] == "Iv1.x" and 0 < claims["exp"] - claims["iat"] <= 600


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"token": "wrong"}, "401"),
        ({"token": ""}, "neither a token nor an App"),
        ({"token": "", "app_id": "1", "app_key": "no key"}, "no key in PEM"),
        ({"repository": "product"}, "needs the form owner/name"),
        ({"repository": "example/other"}, "404"),
        ({"pull_request": "1/../2"}, "is no number"),
        ({"pull_request": "", "revision": ""}, "neither a pull request nor a revision"),
        ({"api_url": "http://github.example.com"}, "http is allowed for this machine only"),
    ],
)
def test_a_failure_to_send_is_a_warning(run_dir: Path, hub: Hub, changed: Any, words: str) -> None:
    given = options(run_dir, hub[1])
    given["github"] |= changed
    found = send_messages.send_notifications(given)
    assert (
        found["sent"] == []
        and words in found["warnings"][0]
        and found["warnings"][0].startswith("no message to GitHub: ")
    )
    assert "wrong" not in found["warnings"][0]


def test_without_the_right_to_check_runs_the_comment_is_written(run_dir: Path, hub: Hub) -> None:
    stand_in, url = hub

    def answer(asked: Any) -> Any:
        refused = 403, {"message": "Resource not accessible by personal access token"}
        return refused if "check-runs" in asked.path else stand_in.answer(asked)

    with ScriptedServer(answer) as server:
        found = send_messages.send_notifications(options(run_dir, address(server)))
    assert found["sent"] == ["comment on example/product#12"]
    assert "Resource not accessible" in found["warnings"][0]


@pytest.mark.parametrize("answered", [(200, []), (200, b"<html>"), (200, {"id": None}), (200, b"")])
def test_an_unexpected_answer_is_a_warning(run_dir: Path, answered: Any) -> None:
    with ScriptedServer(lambda _asked: answered) as server:
        found = send_messages.send_notifications(options(run_dir, address(server)))
    assert len(found["warnings"]) <= 1


def test_a_wrong_target_is_refused() -> None:
    with pytest.raises(InputError):
        github.GitHubTarget("a/b/c")

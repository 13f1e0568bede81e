# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the message of a run and send it to each service; a failure to send is reported and never raised."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats, secret_gate
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.detect_moved_run import is_own_run
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    DataError,
    InputError,
    SeatrialError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import escape_markdown_line
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader, schema_migration
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Run

from . import github, slack
from .github import GitHubTarget

STARTED, ENDED, ANSWERED = "started", "ended", "answered"
FAILURES = 5
#: Exit status of a verdict in CI -> conclusion of a check run.
CONCLUSIONS = {0: "success", 1: "failure", 2: "neutral", 3: "failure"}
#: Lines of summary.md that name places on the machine of the run.
_LOCAL = ("- directory: ", "- report: report/")


@dataclass(frozen=True)
class RunMessage:
    """A message on a run. conclusion: of a check run, empty while the run is in progress. held: what it still holds."""

    title: str
    text: str
    conclusion: str = ""
    held: list[str] = field(default_factory=list)


def run_started_message(run: Run, links: Mapping[str, str]) -> RunMessage:
    """Return the message of a run that has begun."""
    title = f"running: {_project_and_presets_title(run)}"
    return RunMessage(title, _join_text_blocks([f"# {escape_markdown_line(title)}", _links_section(run, links)]))


def run_ended_message(run: Run, links: Mapping[str, str]) -> RunMessage:
    """Return the message of a run whose session has ended."""
    try:
        verdict = schema_migration.read_document_migrated(run.top / "verdict.json", "verdict")
    except DataError:
        verdict = {}
    status = str(run.record.get("status") or "failed")
    failures = [line for line in run.failures.splitlines() if line.strip()]
    result = str(verdict.get("verdict") or ("error" if failures or status != "passed" else "no verdict"))
    conclusion = CONCLUSIONS.get(int(verdict.get("exit_status", 3)), "failure")
    if status == "interrupted":
        conclusion = "cancelled"
    elif conclusion == "success" and status != "passed":
        conclusion = "failure"
    held = [_format_held_resource(entry) for entry in run.record.get("held") or []]
    blocks = [
        _read_run_summary(run) or f"# {escape_markdown_line(f'{result}: {_project_and_presets_title(run)}')}",
        _failures_section(failures),
        _held_resources_section(held),
    ]
    return RunMessage(
        f"{result}: {_project_and_presets_title(run)}",
        _join_text_blocks([*blocks, _links_section(run, links)]),
        conclusion,
        held,
    )


def _project_and_presets_title(run: Run) -> str:
    return f"{run.record.get('project') or 'run'} {'+'.join(run.record.get('presets') or [])}".strip()


def _read_run_summary(run: Run) -> str:
    """Return summary.md without places on the machine of the run."""
    path = run.top / "summary.md"
    if not path.is_file():
        return ""
    lines = path.read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith(_LOCAL)).strip()


def _failures_section(failures: Sequence[str]) -> str:
    if not failures:
        return ""
    more = (
        [f"- {formats.format_count(len(failures) - FAILURES, 'further failure')}"] if len(failures) > FAILURES else []
    )
    return "\n".join(
        ["## First failures", "", *(f"- {escape_markdown_line(failure)}" for failure in failures[:FAILURES]), *more]
    )


def _format_held_resource(entry: Mapping[str, Any]) -> str:
    until = f"until {entry['until']}" if entry.get("until") else "until it is given back"
    return f"{entry.get('what')}, {until}"


def _held_resources_section(held: Sequence[str]) -> str:
    if not held:
        return ""
    text = "The file GIVE_BACK in the run directory contains the command that gives it back."
    return "\n".join(["## Still held", "", *(f"- {escape_markdown_line(entry)}" for entry in held), "", text])


def _links_section(run: Run, links: Mapping[str, str]) -> str:
    lines = [f"- run: {run.id}"] if not (run.top / "summary.md").is_file() else []
    return "\n".join([*lines, *(f"- {escape_markdown_line(name)}: {url}" for name, url in links.items() if url)])


def _join_text_blocks(blocks: Sequence[str]) -> str:
    return "\n\n".join(block for block in blocks if block) + "\n"


#: File of a run directory with the ids of what was sent.
RECORD = "messages.json"
SCHEMA = "messages/1"


@dataclass
class MessageDelivery:
    """The options of module notify, ids of what was sent before, and the results: what was sent, and what was not."""

    given: Mapping[str, Any]
    ids: dict[str, Any] = field(default_factory=dict)
    sent: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def to(self, service: str, send: Callable[[], Iterable[str]]) -> None:
        """Call ``send`` and note what it yields as sent, an error as a warning."""
        try:
            for part in send():
                self.sent.append(part)
        except SeatrialError as error:
            self.warnings.append(f"no message to {service}: {error}")


def send_notifications(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of module notify for its options: what was sent, and a warning for what was not."""
    if params["state"] == ANSWERED:
        return _deliver_to_all_services(
            MessageDelivery(params, {}), params["key"], RunMessage("answer", params["text"])
        )
    run = run_reader.read_run_directory(Path(params["run_dir"]))
    record = run.top / RECORD
    delivery = MessageDelivery(params, _ids_sent_before(run, record))
    links = {name: str(url) for name, url in params["links"].items()}
    make = run_started_message if params["state"] == STARTED else run_ended_message
    before = copy.deepcopy(delivery.ids)
    result = _deliver_to_all_services(delivery, run.id, make(run, links))
    if delivery.ids != before:
        files.write_json(record, delivery.ids, SCHEMA)
    return result


def _ids_sent_before(run: Run, record: Path) -> dict[str, Any]:
    """Return what the run directory says of earlier messages, which are edited; they are looked for without it.

    A directory that was copied, moved or received could name any comment or check run that the token may change.
    """
    own = record.exists() and is_own_run(run.record, run.top) and record.stat().st_uid == os.getuid()
    return dict(files.read_json(record)) if own else {"schema": SCHEMA}


def _deliver_to_all_services(delivery: MessageDelivery, key: str, message: RunMessage) -> dict[str, Any]:
    """Send a message to each service. key: of its comment and check run."""
    params = delivery.given
    if secrets := find_secrets_in_text(message.text, params["secrets"], params["kubeconfigs"]):
        delivery.warnings.append(f"no message: its text contains {', '.join(secrets)}")
        return _notify_module_result(delivery)
    if "github" in params["services"]:
        delivery.to("GitHub", lambda: _send_to_github(delivery, key, message))
    if "slack" in params["services"]:
        delivery.to("Slack", lambda: _send_to_slack(delivery, message))
    return _notify_module_result(delivery)


def find_secrets_in_text(text: str, secrets: Mapping[str, str], kubeconfigs: Iterable[str]) -> list[str]:
    """Return descriptions of the secrets in a text: those that the gate of an export knows."""
    return secret_gate.create_secret_scanner(secrets, kubeconfigs).in_text(text)


def _notify_module_result(delivery: MessageDelivery) -> dict[str, Any]:
    parts = [*delivery.sent, *delivery.warnings] or ["nothing to send"]
    summary = "; ".join(parts)
    return {"changed": bool(delivery.sent), "sent": delivery.sent, "warnings": delivery.warnings, "summary": summary}


def _send_to_github(delivery: MessageDelivery, key: str, message: RunMessage) -> Iterable[str]:
    """Write comment and check run; yield what was written. Each is tried whatever became of the other."""
    options, state = delivery.given["github"], delivery.given["state"]
    words = ("repository", "pull_request", "revision", "check")
    target = GitHubTarget(*(str(options.get(word) or "") for word in words))
    if not target.pull_request and not (target.revision and target.check):
        raise InputError("there is neither a pull request nor a revision with a check run")
    timeout, authority = float(delivery.given["timeout"]), str(delivery.given["ca_file"] or "")
    api = github.api_client_from_options(options, target.repository, authority, timeout)
    ids = delivery.ids.setdefault("github", {})
    errors = []
    if target.pull_request:
        try:
            mark = f"perfscale.seatrial: run {key}"
            ids["comment"] = github.write_run_comment(api, target, mark, message.text, ids.get("comment"))
            yield f"comment on {target.repository}#{target.pull_request}"
        except SeatrialError as error:
            errors.append(error)
    if target.check and not target.revision and state != ANSWERED:
        target = github.target_with_head_commit(api, target)
    if target.revision and target.check and state != ANSWERED:
        output = {"title": message.title, "summary": message.text}
        url = next((str(link) for link in delivery.given["links"].values() if link), "")
        ids["check"] = github.write_check_run(api, target, key, output, message.conclusion, url, ids.get("check"))
        yield f"check run {target.check}"
    if errors:
        raise errors[0]


def _send_to_slack(delivery: MessageDelivery, message: RunMessage) -> Iterable[str]:
    """Send the message, and one that the whole channel sees if something is still held; yield what was sent."""
    options = delivery.given["slack"]
    timeout, authority = float(delivery.given["timeout"]), str(delivery.given["ca_file"] or "")
    texts = [(slack.convert_markdown_to_slack(message.text), False)]
    if message.held:
        texts.append(
            (slack.convert_markdown_to_slack(f"# Still held by {message.title}\n" + "\n".join(message.held)), True)
        )
    if options.get("webhook"):
        api = slack.make_api_client(options["webhook"], "", authority, timeout)
        for text, _broadcast in texts:
            slack.post_to_webhook(api, text)
            yield "message to the webhook of Slack"
        return
    if not options.get("token") or not options.get("channel"):
        raise InputError("Slack: neither a webhook nor a token and a channel are given")
    bot = slack.make_api_client(options["api_url"], options["token"], authority, timeout)
    ids = delivery.ids.setdefault("slack", {})
    for text, broadcast in texts:
        thread = options.get("thread") or "perfscale.seatrial"
        ids["thread"] = slack.post_to_thread(bot, options["channel"], thread, text, ids.get("thread") or "", broadcast)
        yield f"message to thread '{thread}' of Slack"

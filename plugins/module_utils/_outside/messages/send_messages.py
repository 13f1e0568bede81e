# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Send the message of a run to each service; a failure to send is reported and never raised."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, secret_gate
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, SeatrialError
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader

from . import github, run_message, slack
from .github import GitHubTarget
from .run_message import RunMessage

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
    if params["state"] == run_message.ANSWERED:
        return _deliver_to_all_services(
            MessageDelivery(params, {}), params["key"], RunMessage("answer", params["text"])
        )
    run = run_reader.read_run_directory(Path(params["run_dir"]))
    record = run.top / RECORD
    delivery = MessageDelivery(params, dict(files.read_json(record)) if record.exists() else {"schema": SCHEMA})
    links = {name: str(url) for name, url in params["links"].items()}
    make = run_message.run_started_message if params["state"] == run_message.STARTED else run_message.run_ended_message
    before = copy.deepcopy(delivery.ids)
    result = _deliver_to_all_services(delivery, run.id, make(run, links))
    if delivery.ids != before:
        files.write_json(record, delivery.ids, SCHEMA)
    return result


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
    return secret_gate.scanner_of(secrets, kubeconfigs).in_text(text)


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
    if target.check and not target.revision and state != run_message.ANSWERED:
        target = github.target_with_head_commit(api, target)
    if target.revision and target.check and state != run_message.ANSWERED:
        output = {"title": message.title, "summary": message.text}
        url = next((str(link) for link in delivery.given["links"].values() if link), "")
        ids["check"] = github.check_run(api, target, key, output, message.conclusion, url, ids.get("check"))
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

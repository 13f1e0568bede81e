#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: notify
short_description: Send the state of a run to GitHub and Slack
version_added: 1.0.0
description:
  - GitHub gets one comment on a pull request and one check run for each run; both are written once and then edited.
  - Slack gets messages in one thread for each title, by a bot, or single messages by a webhook.
  - The text is that of C(summary.md), with the first failures and what the run still holds.
  - A text that contains a secret is not sent. A failure to send is a warning; it never fails the task.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._export.ca_file
  - perfscale.seatrial._export.secrets
  - perfscale.seatrial._step_directory
  - perfscale.seatrial._step_directory.progress
attributes:
  check_mode:
    support: none
    details: It only writes to other services.
  diff_mode:
    support: none
    details: It only writes to other services.
  idempotent:
    support: partial
    details: Comment and check run are written once; each call is a further message in Slack.
options:
  run_dir:
    description: Directory of the run. Required unless O(state=answered).
    type: path
  state:
    description: What the message says of the run. V(answered) sends O(text), which is of no run.
    type: str
    choices: [started, ended, answered]
    default: ended
  text:
    description: Text of an answer, in Markdown.
    type: str
    default: ''
  key:
    description: Name of an answer. A second answer with this name replaces the comment of the first.
    type: str
    default: ''
  services:
    description: Services that get a message.
    type: list
    elements: str
    choices: [github, slack]
    default: []
  links:
    description: Links in the message, name and address. The first one is the link of the check run.
    type: dict
    default: {}
  timeout:
    description: Timeout for all requests to one service, including the waits that it asks for, in seconds.
    type: float
    default: 60
  github:
    description: GitHub, where the message goes to and the credentials.
    type: dict
    default: {}
    suboptions:
      api_url:
        description: Address of the API.
        type: str
        default: https://api.github.com
      repository:
        description: Repository, C(owner/name).
        type: str
        default: ''
      pull_request:
        description: Number of the pull request that gets a comment. Empty means none.
        type: str
        default: ''
      revision:
        description: Commit that gets a check run. Empty means the newest one of the pull request.
        type: str
        default: ''
      check:
        description: Name of the check run. Empty means none.
        type: str
        default: ''
      token:
        description: Token.
        type: str
        default: ''
      app_id:
        description: Id of an App, instead of a token.
        type: str
        default: ''
      app_key:
        description: Private key of the App, in PEM.
        type: str
        default: ''
  slack:
    description: Slack, where the message goes to and the credentials.
    type: dict
    default: {}
    suboptions:
      api_url:
        description: Address of the API.
        type: str
        default: https://slack.com/api
      channel:
        description: Id of the channel.
        type: str
        default: ''
      thread:
        description: Title of the thread.
        type: str
        default: ''
      token:
        description: Token of a bot.
        type: str
        default: ''
      webhook:
        description: Address of an incoming webhook, instead of a bot.
        type: str
        default: ''
seealso:
  - module: perfscale.seatrial.record_run_state
"""

EXAMPLES = r"""
- name: Say how the run ended
  perfscale.seatrial.notify:
    run_dir: "{{ run_dir }}"
    services: [github]
    github:
      repository: example/product
      pull_request: "12"
      token: "{{ lookup('perfscale.seatrial.secret', 'notify_github_token') }}"
"""

RETURN = r"""
sent:
  description: What was sent.
  returned: success
  type: list
  elements: str
summary:
  description: What was sent, and why the rest was not, in one line.
  returned: success
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import (
    StepDirectory,
    log_summary_and_warnings,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.messages import github, send_messages

TEXT: dict[str, Any] = {"type": "str", "default": ""}
SECRET: dict[str, Any] = {"type": "str", "default": "", "no_log": True}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "default": "ended", "choices": ["started", "ended", "answered"]},
            "services": {"type": "list", "elements": "str", "default": [], "choices": ["github", "slack"]},
            "links": {"type": "dict", "default": {}},
            "timeout": {"type": "float", "default": 60},
            "github": {
                "type": "dict",
                "default": {},
                "options": {
                    "api_url": {"type": "str", "default": github.PUBLIC},
                    **dict.fromkeys(("repository", "pull_request", "revision", "check", "app_id"), TEXT),
                    **dict.fromkeys(("token", "app_key"), SECRET),
                },
            },
            "slack": {
                "type": "dict",
                "default": {},
                "options": {
                    "api_url": {"type": "str", "default": "https://slack.com/api"},
                    **dict.fromkeys(("channel", "thread"), TEXT),
                    **dict.fromkeys(("token", "webhook"), SECRET),
                },
            },
            **ansible_module.SECRETS,
            "run_dir": {"type": "path"},
            "text": TEXT,
            "key": {"type": "str", "default": "", "no_log": False},
            **ansible_module.CA_FILE,
            **ansible_module.PROGRESS,
            **ansible_module.STEP,
        },
        required_if=[("state", state, ("run_dir",)) for state in ("started", "ended")],
    )

    def notify(step: StepDirectory) -> dict[str, Any]:
        with step.timed("results", "messages"):
            result = send_messages.send_notifications(module.params)
        return log_summary_and_warnings(step, module.warn, result)

    ansible_module.run_module_work(module, notify)


if __name__ == "__main__":
    main()

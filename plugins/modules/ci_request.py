#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: ci_request
short_description: Read what a CI job is to run
version_added: 0.1.0
description:
  - Finds the CI engine by the environment variables in the files of C(roles/ci/files/engines).
  - Reads the event that started the job, and the directives in the text of its pull request and in its comment.
  - Refuses a directive of somebody who may not ask, an unknown project, preset or step, and a setting that must not be
    set from outside.
  - Runs on the controller, as an action.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.internal
attributes:
  check_mode:
    support: full
  diff_mode:
    support: N/A
    details: It changes nothing.
  idempotent:
    support: full
options:
  engine:
    description: Name of the engine. Empty means the one that the environment shows.
    type: str
    default: ''
  project:
    description: Project to run if no directive names one.
    type: str
    default: ''
  presets:
    description: Presets to apply if no directive names one.
    type: list
    elements: str
    default: []
  test:
    description: Name of this test in C(/test NAME). Empty means what the engine gives, else any.
    type: str
    default: ''
  event_file:
    description: File with the event that started the job. By default the one that the engine names.
    type: path
  associations:
    description: Associations with the repository whose people may ask for something.
    type: list
    elements: str
    default: []
  users:
    description: Names of further people who may ask for something.
    type: list
    elements: str
    default: []
  permitted_presets:
    description: Presets that a directive may name although they are heavy or set what otherwise only the lab decides.
    type: list
    elements: str
    default: []
  clusters:
    description: Maps each cluster that a directive may name to the presets that choose it.
    type: dict
    default: {}
  variables:
    description: Maps further settings that a directive may set to a regular expression for texts, or to null.
    type: dict
    default: {}
  export_url:
    description: Bucket and prefix below which the run is exported.
    type: str
    default: ''
  read_pull_request:
    description: Whether to read the text and the comments of the pull request from GitHub if there is no event.
    type: bool
    default: false
  github:
    description: Address and credentials for that, as option O(perfscale.seatrial.notify#module:github), and C(ca_file).
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Read what the job is to run
  perfscale.seatrial.ci_request:
    project: fine_tuning
    presets: [light]
    associations: [OWNER, MEMBER]
  register: request
"""

RETURN = r"""
run:
  description: Whether anything is to be run.
  returned: success
  type: bool
answer:
  description: The answer to C(/help), or why nothing is to be run, in Markdown. Empty if RV(run).
  returned: success
  type: str
help:
  description: Whether C(/help) was asked for.
  returned: success
  type: bool
project:
  description: Project to run.
  returned: success
  type: str
presets:
  description: Presets to apply.
  returned: success
  type: list
  elements: str
overrides:
  description: Settings and dotted keys with their values. No text in it is a template.
  returned: success
  type: dict
skip:
  description: Phases to leave out.
  returned: success
  type: list
  elements: str
export_url:
  description: Where the run is exported to, made of O(export_url), pull request, job and build. Empty means nowhere.
  returned: success
  type: str
notes:
  description: Texts that were ignored, and why.
  returned: success
  type: list
  elements: str
job:
  description: The job as its engine describes it, such as C(engine), C(repository), C(pull_request), C(job), C(url).
  returned: success
  type: dict
"""

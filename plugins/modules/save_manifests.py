#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: save_manifests
short_description: Save the manifests that a role applies
version_added: 0.1.0
description:
  - Writes manifests into C(src/) of a role call's directory, so that a run shows what was applied.
  - The data of a Secret is replaced by C(<secret>).
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.internal
attributes:
  check_mode:
    support: partial
    details: The file is written in check mode too; it shows what would be applied.
  diff_mode:
    support: none
    details: The files that it writes are its result.
  idempotent:
    support: full
options:
  step_dir:
    description: Directory of the role call, as M(perfscale.seatrial.step_directory) returns it.
    type: path
    required: true
  name:
    description: Name of the file, without C(.yml).
    type: str
    required: true
  definitions:
    description: The manifests.
    type: list
    elements: dict
    required: true
seealso:
  - module: perfscale.seatrial.step_directory
"""

EXAMPLES = r"""
- name: Save the manifests
  perfscale.seatrial.save_manifests:
    step_dir: "{{ __fine_tuning_step.path }}"
    name: prepare
    definitions: "{{ __fine_tuning_definitions }}"
"""

RETURN = r"""
path:
  description: The file.
  returned: success
  type: str
"""

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: options that modules export_* share."""

from __future__ import annotations


class ModuleDocFragment:
    """Which run, and what must not leave with it."""

    DOCUMENTATION = r"""
options:
  run_dir:
    description: Directory of the run.
    type: path
    required: true
  invalid:
    description:
      - What becomes of a run whose verdict is invalid, or of which a point could not be parsed.
      - V(label) exports it with the status V(invalid), V(skip) leaves it where it is.
    type: str
    choices: [label, skip]
    default: label
  secrets:
    description:
      - Values that must not leave, by name. The action plugin adds the values of all secret settings of this
        collection.
    type: dict
    default: {}
  kubeconfigs:
    description:
      - Kubeconfigs whose credentials must not leave. The action plugin adds those of the run's clusters.
    type: list
    elements: path
    default: []
"""

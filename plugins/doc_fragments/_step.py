# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: options that modules of this collection share."""

from __future__ import annotations


class ModuleDocFragment:
    """Options for the directory of a role call and for progress."""

    DOCUMENTATION = r"""
options:
  step_dir:
    description:
      - Directory of the role call in the run directory, as M(perfscale.seatrial.run_step) returns it.
      - A log, timings and the manifests applied are left there. Without it nothing is kept.
    type: path
"""

    PROGRESS = r"""
options:
  progress_file:
    description:
      - File to which progress lines are appended. The action plugin of the same name sets it and prints the lines
        while the module runs, so there is no need to give it.
    type: path
"""

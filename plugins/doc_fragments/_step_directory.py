# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: options for the directory of a role call and for progress."""

from __future__ import annotations


class ModuleDocFragment:
    """The step directory; in a further fragment the progress file."""

    DOCUMENTATION = r"""
options:
  step_dir:
    description:
      - Directory of the role call in the run directory, as M(perfscale.seatrial.step_directory) returns it.
      - The module writes a log, timings and the applied manifests to it. Without it nothing is written.
    type: path
"""

    PROGRESS = r"""
options:
  progress_file:
    description:
      - File to which progress lines are appended. The action plugin sets it and prints the lines while the module
        runs.
    type: path
"""

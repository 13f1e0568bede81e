# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""PRIVATE: where to look for clusters that runs hold."""

from __future__ import annotations


class ModuleDocFragment:
    """Run directories and rehearsal clusters of this machine."""

    DOCUMENTATION = r"""
options:
  artifacts_dir:
    description: Directory of the run directories.
    type: path
    required: true
  rehearsal_dir:
    description: Directory of the rehearsal clusters.
    type: path
    required: true
"""

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: options of modules that create OpenShift clusters."""

from __future__ import annotations


class ModuleDocFragment:
    """The cluster and its directory; in a further fragment the directory for logs of a failed installation."""

    DOCUMENTATION = r"""
options:
  name:
    description: Name of the cluster.
    type: str
    required: true
  install_dir:
    description: Directory for the credentials of the cluster and the state of its installer.
    type: path
    required: true
"""

    BUNDLE = r"""
options:
  bundle:
    description: Directory for the files that O(state=gathered) collects.
    type: path
"""

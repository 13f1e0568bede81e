# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: options of modules that use a volume of a cluster through a Job."""

from __future__ import annotations


class ModuleDocFragment:
    """The volume, and the service account of the pod."""

    DOCUMENTATION = r"""
options:
  claim:
    description: Name of the claim.
    type: str
    required: true
  service_account:
    description: Service account of the pod. Empty means the default one.
    type: str
    default: ''
"""

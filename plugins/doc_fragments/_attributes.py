# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: descriptions of the attributes that every module of this collection declares."""

from __future__ import annotations


class ModuleDocFragment:
    """Descriptions only; each module adds C(support)."""

    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Can run in C(check_mode) and return what would change, without changing anything.
  diff_mode:
    description: Returns details on what has changed in diff mode.
  idempotent:
    description: A second call with the same options changes nothing.
"""

    CLUSTER = r"""
options: {}
attributes:
  action_group:
    description: Use C(group/perfscale.seatrial.cluster) in C(module_defaults) to set defaults for this module.
    support: full
    membership:
      - perfscale.seatrial.cluster
"""

    INTERNAL = r"""
options: {}
notes:
  - This module is internal; the roles of this collection call it. Its options and results may change in any release.
"""

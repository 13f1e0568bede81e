# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: options of modules that work on a run."""

from __future__ import annotations


class ModuleDocFragment:
    """The run directory; in further fragments points, the project, and the attributes of what a run creates."""

    DOCUMENTATION = r"""
options:
  run_dir:
    description: Directory of the run.
    type: path
    required: true
"""

    POINTS = r"""
options:
  points:
    description: Numbers of the points to process, such as V(000). Empty means all points.
    type: list
    elements: str
    default: []
"""

    OBJECTS = r"""
options:
  run_id:
    description: Id of the run; its objects have it in the label C(perfscale.seatrial/run).
    type: str
    required: true
"""

    POINT = r"""
options:
  run_id:
    description: Id of the run; names begin with it and the label C(perfscale.seatrial/run) holds it.
    type: str
    required: true
  point:
    description:
      - Number of the test point, three digits or more, or of a further attempt at it, such as V(003-2). The label
        C(perfscale.seatrial/point) holds it.
    type: str
    default: '001'
"""

    PROJECT = r"""
options:
  project:
    description: Name of the role of the project; in full for a role of another collection, such as V(me.bench.x).
    type: str
    required: true
"""

    OWNER = r"""
options:
  owner:
    description: Person or team responsible for it; other users are shown this name.
    type: str
    default: ''
"""

    PURPOSE = r"""
options:
  purpose:
    description: What it is used for; other users are shown this text.
    type: str
    default: ''
"""

    EXPIRES = r"""
options:
  expires:
    description: Time in UTC after which anybody may remove it, such as V(2026-11-21T22:00:00Z). Never if empty.
    type: str
    default: ''
"""

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options that many modules have, as an argument spec takes them. Their documentation is in the doc fragments."""

from __future__ import annotations

from typing import Any

#: Of every module that works on a cluster (fragment _cluster).
CLUSTER: dict[str, Any] = {
    "kubeconfig": {"type": "path", "required": True},
    "context": {"type": "str", "default": ""},
}

#: Of every module that leaves something in a role call's directory (fragment _step).
STEP: dict[str, Any] = {"step_dir": {"type": "path"}}

#: Of every module that its action plugin follows (plugin_utils/progress_action.py).
PROGRESS: dict[str, Any] = {"progress_file": {"type": "path"}}

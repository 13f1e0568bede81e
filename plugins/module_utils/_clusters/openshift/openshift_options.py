# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of modules that create OpenShift clusters. Their documentation is in doc fragment _openshift."""

from __future__ import annotations

from typing import Any

CLUSTER: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "install_dir": {"type": "path", "required": True},
}
BUNDLE: dict[str, Any] = {"bundle": {"type": "path"}}

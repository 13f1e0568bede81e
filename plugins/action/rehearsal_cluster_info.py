# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run module rehearsal_cluster_info, told where the components lie as rehearsal_cluster is."""

from __future__ import annotations

from ansible_collections.perfscale.seatrial.plugins.action.rehearsal_cluster import ActionModule

__all__ = ["ActionModule"]

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rehearsal cluster: binaries, certificates and processes of a control plane on loopback.

Components are data: one folder each in roles/rehearsal/files/components. Entry point: ``cluster_lifecycle.bring``.
"""

from __future__ import annotations

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A client of Kubernetes API servers: kubeconfig, TLS, keep-alive connections, lists, watches.

Independent of workloads. Entry point: ``client.Client.from_kubeconfig(path)``.
"""

from __future__ import annotations

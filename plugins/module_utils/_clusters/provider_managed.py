# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Provider ``managed``: an OpenShift cluster that a cloud service creates and operates (ROSA, OpenShift Dedicated)."""

from __future__ import annotations

from .provider import CREATED, CreatingProvider


class ManagedProvider(CreatingProvider):
    """Provider ``managed``."""

    name = "managed"
    settings = (*CREATED, "cluster_version", "cluster_tags", "cluster_install_timeout", "cluster_managed_*")


PROVIDER = ManagedProvider()

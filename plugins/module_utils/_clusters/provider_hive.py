# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Provider ``hive_pool``: a cluster claimed from a ClusterPool of Hive. hive_claim.py creates the claim."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.kubeconfig import IN_CLUSTER

from . import kubeconfig_fallback
from .provider import CREATED, AccessSettings, CreatingProvider


class HiveProvider(CreatingProvider):
    """Provider ``hive_pool``."""

    name = "hive_pool"
    settings = (*CREATED, "cluster_install_timeout", "cluster_hive_*")
    expires_by = "Hive takes it back"

    def replaced_access(
        self, record: Mapping[str, Any], given: AccessSettings, warn: Callable[[str], None]
    ) -> dict[str, Any] | None:
        """Replace the kubeconfig of the hub, with which the claim is deleted."""
        data = record.get("provider_data") or {}
        hub = given.run["cluster_hive_kubeconfig"]
        if not hub or not kubeconfig_fallback.is_gone(data.get("hub") or IN_CLUSTER):
            return None
        return {"provider_data": {**data, "hub": kubeconfig_fallback.absolute(hub)}}


PROVIDER = HiveProvider()

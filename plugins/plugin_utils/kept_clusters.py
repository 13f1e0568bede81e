# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clusters that stay up on purpose (cluster_keep)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._cluster import cluster_record
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import OwnershipError


def refuse_release(run_dir: Path, settings: Mapping[str, Any], tags: Iterable[str], give_back: str) -> None:
    """Raise OwnershipError when the release that is asked for by its tag would leave a kept cluster.

    Asked before the session begins, since its phase cleanup comes before its phase release.
    """
    if "release" not in tags or not settings.get("cluster_keep"):
        return
    for one in cluster_record.distinct(cluster_record.read(run_dir)):
        cluster = one["record"]
        if cluster["owned"] and cluster["state"] != "released":
            until = f" until {cluster['expires']}" if cluster.get("expires") else ""
            raise OwnershipError(
                f"{cluster['provider']} cluster {cluster.get('name', '')} is kept (cluster_keep){until} and stays, so "
                f"nothing was touched. To remove it: {give_back}"
            )

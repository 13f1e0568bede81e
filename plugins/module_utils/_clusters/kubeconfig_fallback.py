# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Replace a recorded kubeconfig that no longer exists by one that the current session names.

AWX, for example, writes the kubeconfig of each job to a new path. A replacement must lead to the same API server.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, SeatrialError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.kubeconfig import IN_CLUSTER, load

from .describe_cluster import api_host


def is_gone(path: str) -> bool:
    """Return whether a kubeconfig can no longer be read."""
    return path != IN_CLUSTER and not os.access(Path(path).expanduser(), os.R_OK)


def absolute(path: str) -> str:
    """Return the absolute path; the name of the in-cluster kubeconfig stays."""
    return path if path == IN_CLUSTER else os.path.abspath(Path(path).expanduser())


def by(record: Mapping[str, Any], paths: Iterable[str], context: str = "") -> dict[str, str] | None:
    """Return kubeconfig and context of the first of ``paths`` that leads to the recorded cluster; None if none does."""
    for path in dict.fromkeys(absolute(one) for one in paths if one):
        for chosen in [*filter(None, (context, record.get("context"))), ""]:
            try:
                found = api_host(load(path, chosen))
            except SeatrialError:
                continue
            if found == record.get("api_host", found):
                return {"kubeconfig": path, "context": chosen}
    return None


def refuse_another(record: Mapping[str, Any], path: str, context: str = "") -> None:
    """Raise InputError: the kubeconfig of this session does not lead to the recorded cluster."""
    access = load(absolute(path), context)
    raise InputError(
        f"cluster_kubeconfig '{path}' leads to {access.server}, and the cluster of this run is at "
        f"{record.get('api_host')}: nothing was touched"
    )

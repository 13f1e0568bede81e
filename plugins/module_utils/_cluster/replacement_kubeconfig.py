# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reaching a cluster of an earlier session by a kubeconfig that is given now.

A recorded path may be gone: AWX gives each job the file of its credential at a new path. What is given now is only
taken when it leads to the same API server.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._cluster.cluster_identity import api_host
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError, SeatrialError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.kubeconfig import IN_CLUSTER, load


def is_gone(path: str) -> bool:
    """Return whether a kubeconfig can't be read any more."""
    return path != IN_CLUSTER and not os.access(Path(path).expanduser(), os.R_OK)


def absolute(path: str) -> str:
    """Return the path as seen from anywhere."""
    return path if path == IN_CLUSTER else os.path.abspath(Path(path).expanduser())


def by(record: Mapping[str, Any], paths: Iterable[str], context: str = "") -> dict[str, str] | None:
    """Return kubeconfig and context of the first of ``paths`` that leads to the recorded cluster, None without one."""
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
    """Raise InputError because a kubeconfig that was given for this session does not lead to the recorded cluster."""
    access = load(absolute(path), context)
    raise InputError(
        f"cluster_kubeconfig '{path}' leads to {access.server}, and the cluster of this run is at "
        f"{record.get('api_host')}: nothing was touched"
    )

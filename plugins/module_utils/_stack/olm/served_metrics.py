# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check through the API server's proxy whether a pod serves the expected metrics."""

from __future__ import annotations

from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.fields import conditions, label

from .operator_specs import ReadyCondition


def lacks(client: Client, pod: dict[str, Any], ready: ReadyCondition) -> str:
    """Return what a pod lacks, "" if it serves all metrics. A simulated pod is not queried and lacks nothing."""
    if label(pod, run_labels.SIMULATED):
        return ""
    if conditions(pod).get("Ready", {}).get("status") != "True":
        return " (it is not Ready)"
    meta = pod["metadata"]
    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}:{ready.port}/proxy/metrics"
    try:
        missing = sorted(set(ready.metrics) - names(client.text(path)))
    except ApiError as error:
        return f" ({error})"
    return f" (not yet {', '.join(missing)})" if missing else ""


def names(exposition: str) -> set[str]:
    """Return the names of the metrics that have a sample. exposition: Prometheus' text format."""
    lines = (line.strip() for line in exposition.splitlines())
    return {line.partition("{")[0].split()[0] for line in lines if line and not line.startswith("#")}

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether an object matches its specification and is ready, and its state if it is not."""

from __future__ import annotations

from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import (
    conditions_by_type,
    field_at_path,
    get_label,
)

from .operator_specs import ExpectedObjects, ReadyCondition


def contains_all_fields(actual: Any, wanted: Any) -> bool:
    """Return whether ``actual`` contains everything in ``wanted``; it may contain more, since servers add defaults."""
    if isinstance(wanted, dict):
        have = {} if actual is None else actual
        return isinstance(have, dict) and all(
            contains_all_fields(have.get(name), value) for name, value in wanted.items()
        )
    return actual == wanted


def is_expected_object(item: dict[str, Any], expected: ExpectedObjects) -> bool:
    """Return whether an object is one of the expected ones."""
    meta = item["metadata"]
    if expected.namespace and meta.get("namespace") != expected.namespace:
        return False
    if expected.names and meta["name"] not in expected.names:
        return False
    return all(get_label(item, name) == value for name, value in expected.labels.items())


def is_object_ready(item: dict[str, Any], ready: ReadyCondition) -> bool:
    """Return whether an object is ready; for metrics always True, see served_metrics.py."""
    if ready.metrics:
        return True
    if ready.condition:
        return conditions_by_type(item).get(ready.condition, {}).get("status") == "True"
    if ready.available:
        has, wants = available_pods(item)
        return (
            field_at_path(item, "status.observedGeneration", 0) >= field_at_path(item, "metadata.generation", 0)
            and has >= wants
        )
    value = str(field_at_path(item, ready.field, ""))
    return value == ready.equals if ready.equals else value not in ("", "0")


def available_pods(item: dict[str, Any]) -> tuple[int, int]:
    """Return how many pods of a Deployment, StatefulSet or DaemonSet are available, and how many there should be."""
    if item.get("kind") == "DaemonSet":
        # The field is missing until the controller has seen the object.
        return int(field_at_path(item, "status.numberAvailable", 0)), int(
            field_at_path(item, "status.desiredNumberScheduled", 1)
        )
    return int(field_at_path(item, "status.availableReplicas", 0)), int(field_at_path(item, "spec.replicas", 1))


def why_not_ready(item: dict[str, Any], ready: ReadyCondition) -> str:
    """Return the state of an object that is not ready, in parentheses."""
    if ready.condition:
        condition = conditions_by_type(item).get(ready.condition, {})
        message = f"{condition.get('reason', '')}: {condition.get('message', '')}".strip(": ")
        return f" ({ready.condition}={condition.get('status', 'unknown')}{': ' + message if message else ''})"
    if ready.available:
        has, wants = available_pods(item)
        return f" ({has} of {wants} pods are available)"
    wanted = f", not {ready.equals}" if ready.equals else ""
    return f" ({ready.field} is {field_at_path(item, ready.field, 'not set')}{wanted})"


def metrics_missing_in_pod(client: Client, pod: dict[str, Any], ready: ReadyCondition) -> str:
    """Return what a pod lacks, "" if it serves all metrics. A simulated pod is not queried and lacks nothing."""
    if get_label(pod, run_labels.SIMULATED):
        return ""
    if conditions_by_type(pod).get("Ready", {}).get("status") != "True":
        return " (it is not Ready)"
    meta = pod["metadata"]
    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}:{ready.port}/proxy/metrics"
    try:
        missing = sorted(set(ready.metrics) - names_of_exposed_metrics(client.text(path)))
    except ApiError as error:
        return f" ({error})"
    return f" (not yet {', '.join(missing)})" if missing else ""


def names_of_exposed_metrics(exposition: str) -> set[str]:
    """Return the names of the metrics that have a sample. exposition: Prometheus' text format."""
    lines = (line.strip() for line in exposition.splitlines())
    return {line.partition("{")[0].split()[0] for line in lines if line and not line.startswith("#")}

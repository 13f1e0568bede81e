# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Burn in all GPUs of a cluster: a Job per node takes all of its GPUs and runs a program such as gpu_burn.

The program prints one line per GPU at its end, ``GPU 0: OK`` or ``GPU 0: FAULTY``. Simulated GPUs have no device:
nothing runs on them, and their result says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats, run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, ProcessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.waiting import Say, wait_until, wait_until_gone
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import field_at_path, get_label
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.why_pod_waits_or_cannot_run import (
    node_allocatable_count,
    why_pod_waits_or_ended,
)

#: Largest number of GPUs of a node, with those of time-slicing. Whoever may change a node chooses its labels.
_MOST_GPUS = 10_000
RESOURCE, PRODUCT, COUNT = "nvidia.com/gpu", "nvidia.com/gpu.product", "nvidia.com/gpu.count"
PART = {run_labels.PART: "gpu-burn"}
OK, FAULTY, MISSING, SIMULATED = "ok", "faulty", "missing", "simulated"
#: Seconds between two looks, and how long the Jobs may take to be deleted.
POLL_INTERVAL, DELETION = 2.0, 120.0
_RESULT = re.compile(r"^[ \t]*GPU (?P<gpu>[0-9]{1,9}): (?P<result>OK|FAULTY)[ \t\r]*$", re.MULTILINE)


@dataclass(frozen=True)
class GpuBurnSpec:
    """What runs on each node. seconds: of the burn-in. timeout: in seconds, for all nodes, with pulls of the image.

    command: with C({seconds}) for the duration.
    """

    namespace: str
    run_id: str
    seconds: int
    image: str
    command: Sequence[str]
    timeout: float

    @property
    def selector(self) -> str:
        """Label selector of its Jobs and pods."""
        return f"{run_labels.RUN}={self.run_id},{run_labels.PART}={PART[run_labels.PART]}"

    def manifest(self, number: int, node: str, gpus: int) -> dict[str, Any]:
        """Return the Job of a node. number: of the Job, since a name of a node may be too long for that of a Job."""
        labels = {run_labels.RUN: self.run_id, **PART}
        container = {
            "name": "burn",
            "image": self.image,
            "command": [argument.replace("{seconds}", str(self.seconds)) for argument in self.command],
            "resources": {"limits": {RESOURCE: str(gpus)}},
        }
        terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
        pod = {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "affinity": affinity,
            "tolerations": [{"operator": "Exists"}],
            "containers": [container],
        }
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": f"gpu-burn-{self.run_id}-{number}", "namespace": self.namespace, "labels": labels},
            "spec": {
                "backoffLimit": 0,
                "template": {
                    "metadata": {"labels": labels, "annotations": {"sidecar.istio.io/inject": "false"}},
                    "spec": pod,
                },
            },
        }


def burn_in_all_gpus(client: Client, burn: GpuBurnSpec, say: Say) -> list[dict[str, Any]]:
    """Burn in all GPUs; return node, product, GPU and result of each. Nothing is left.

    Raises InputError without a GPU or an image, WaitTimeout naming the nodes that have not ended.
    """
    nodes = nodes_with_gpus(client)
    real = [node for node in nodes if not has_simulated_gpus(node)]
    if real and not burn.image:
        names = formats.format_list(node["metadata"]["name"] for node in real)
        raise InputError(f"gpu_operator_burn_image is not set, and {names} have GPUs that are not simulated")
    logs: dict[str, str] = {}
    if real:
        delete_burn_in_jobs(client, burn)  # of an interrupted session
        try:
            for number, node in enumerate(real):
                client.create(burn.manifest(number, node["metadata"]["name"], advertised_gpu_count(node)))
            logs = _wait_for_job_logs(client, burn, len(real), say)
        finally:
            delete_burn_in_jobs(client, burn)
    return [row for node in nodes for row in burn_in_results_of_node(node, logs.get(node["metadata"]["name"], ""))]


def nodes_with_gpus(client: Client) -> list[dict[str, Any]]:
    """Return the nodes with GPUs, by name. Raises InputError if there are none."""
    nodes = [node for node in client.list(client.kind("v1", "Node"))[0] if advertised_gpu_count(node)]
    if not nodes:
        raise InputError(f"gpu_operator_burn: no node of {client.access.server} has {RESOURCE}")
    return sorted(nodes, key=lambda gpu_node: str(gpu_node["metadata"]["name"]))


def advertised_gpu_count(node: Mapping[str, Any]) -> int:
    """Return the number of GPUs that a node advertises; with time-slicing, each counts as several."""
    return node_allocatable_count(node, RESOURCE)


def has_simulated_gpus(node: Mapping[str, Any]) -> bool:
    """Return whether the GPUs of a node have no device: of a simulated node, or added to a real one, whoever did it."""
    marked = any(
        get_label(node, key) for key in (run_labels.SIMULATED, run_labels.FAKE_GPUS, run_labels.FAKE_GPU_OPERATOR)
    )
    return marked or get_label(node, PRODUCT).startswith(run_labels.SIMULATED_PRODUCT)


def burn_in_results_of_node(node: Mapping[str, Any], log: str) -> list[dict[str, Any]]:
    """Return the result of each GPU of a node. log: what the program has printed there."""
    result_by_gpu = {int(match["gpu"]): match["result"].lower() for match in _RESULT.finditer(log)}
    # With time-slicing, the label has the number of devices.
    counted = get_label(node, COUNT)
    number = min(int(counted) if counted.isdecimal() else advertised_gpu_count(node), _MOST_GPUS)
    otherwise = SIMULATED if has_simulated_gpus(node) else MISSING
    same = {"node": str(node["metadata"]["name"]), "product": get_label(node, PRODUCT)}
    return [
        {**same, "gpu": gpu, "result": result_by_gpu.get(gpu, otherwise)}
        for gpu in sorted({*result_by_gpu, *range(number)})
    ]


def refuse_failed_gpus(rows: Sequence[Mapping[str, Any]]) -> None:
    """Raise ProcessError naming the GPUs that did not pass."""
    bad = [f"{row['node']} GPU {row['gpu']}: {row['result']}" for row in rows if row["result"] in (FAULTY, MISSING)]
    if bad:
        raise ProcessError(f"burn-in: {len(bad)} of {formats.format_count(len(rows), 'GPU')} failed: {'; '.join(bad)}")


def format_burn_in_summary(rows: Sequence[Mapping[str, Any]], seconds: int) -> str:
    """Return the result in one sentence."""
    number = sum(row["result"] == SIMULATED for row in rows)
    burnt = f"{formats.format_count(len(rows) - number, 'GPU')} burnt in for {seconds} s" if number < len(rows) else ""
    simulated = f"{formats.format_count(number, 'GPU')} simulated, without a burn-in" if number else ""
    return "; ".join(part for part in (burnt, simulated) if part)


def _wait_for_job_logs(client: Client, burn: GpuBurnSpec, number: int, say: Say) -> dict[str, str]:
    """Return node -> log when the pods of all Jobs have ended."""
    kind = client.kind("v1", "Pod")

    def look() -> tuple[dict[str, str] | None, str]:
        pods = client.list(kind, burn.namespace, burn.selector)[0]
        ended = [pod for pod in pods if field_at_path(pod, "status.phase") in ("Succeeded", "Failed")]
        if len(ended) >= number:
            return {pod["spec"]["nodeName"]: _read_pod_log(client, pod) for pod in ended}, ""
        others = [f"{pod['metadata']['name']} ({why_pod_waits_or_ended(pod)})" for pod in pods if pod not in ended]
        return (
            None,
            f"burn-in ended on {len(ended)} of {formats.format_count(number, 'node')};"
            f" {formats.format_list(others, 3)}",
        )

    return wait_until(
        look, burn.timeout, say, lambda text: f"not complete after {burn.timeout:g} s: {text}", POLL_INTERVAL
    )


def _read_pod_log(client: Client, pod: Mapping[str, Any]) -> str:
    meta = pod["metadata"]
    # The results are at the end; progress lines before them may be long.
    return client.text(f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/log", {"tailLines": 200})


def delete_burn_in_jobs(client: Client, burn: GpuBurnSpec) -> None:
    """Delete the Jobs and wait until their pods are gone. Raises WaitTimeout."""
    jobs, pods = client.kind("batch/v1", "Job"), client.kind("v1", "Pod")
    for job in client.list(jobs, burn.namespace, burn.selector, metadata_only=True)[0]:
        client.delete_seen(jobs, job["metadata"])

    def left() -> list[str]:
        lists = [client.list(kind, burn.namespace, burn.selector, metadata_only=True)[0] for kind in (jobs, pods)]
        return [f"{burn.namespace}/{obj['metadata']['name']}" for each in lists for obj in each]

    wait_until_gone(left, DELETION, POLL_INTERVAL)

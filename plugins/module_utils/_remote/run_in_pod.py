# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What module workload_pod does with its options."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._cluster.cluster_identity import api_host
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError, ProcessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.kubeconfig import load
from ansible_collections.perfscale.seatrial.plugins.module_utils._load import load_spec
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.load_spec import LoadSpec
from ansible_collections.perfscale.seatrial.plugins.module_utils._remote import remote_record
from ansible_collections.perfscale.seatrial.plugins.module_utils._remote.driver_pod import DriverPod
from ansible_collections.perfscale.seatrial.plugins.module_utils._remote.pod_manifests import DriverPodSpec
from ansible_collections.perfscale.seatrial.plugins.module_utils._step_dir import Step


def order_of(given: Mapping[str, Any]) -> DriverPodSpec:
    """Return where the load is to run."""
    return DriverPodSpec(
        run=given["run_id"],
        point=given["point"],
        image=given["image"],
        namespace=given["namespace"],
        node_selector=given["node_selector"],
        tolerations=tuple(given["tolerations"]),
        requests={name: str(value) for name, value in given["requests"].items()},
        limits={name: str(value) for name, value in given["limits"].items()},
        keep=given["keep"],
    )


def present(given: Mapping[str, Any], step: Step) -> dict[str, Any]:
    """Start the load or find it again, see it through; return what workload_submit would have returned.

    Raises ProcessError with the load's own error.
    """
    order, point_dir = order_of(given), Path(given["point_dir"])
    request = load_spec.remote_parameters(given["request"], order.run, order.point)
    note = remote_record.read(point_dir)
    if note and note["state"] == remote_record.FETCHED:
        return {**note["result"], "changed": False, "found": True}
    there = {"kubeconfig": given["target_kubeconfig"], "context": given["target_context"]}
    wanted = LoadSpec.of({**request, **there})
    point_dir.mkdir(parents=True, exist_ok=True)
    with Client.from_kubeconfig(given["kubeconfig"], given["context"]) as client:
        pod = DriverPod(client, order, step.teller(given["progress_file"], "driver pod"), given["reconnect"])
        # Before it is started: whoever cleans up after us knows where to look.
        remote_record.write(point_dir, remote_record.DRIVER_POD, order.namespace, remote_record.STARTED)
        target = api_host(load(wanted.kubeconfig, wanted.context))
        lock = remote_record.held_lock(given["lock_dir"], target)
        try:
            new = pod.start(request, wanted, lock)
        except InputError:
            remote_record.remove(point_dir)  # nothing was touched
            raise
        if not new:
            pod.say(f"found the load again by its run id, {pod.line.lasting('looking for it', pod.standing).state}")
        found = pod.follow(given["start_timeout"])
        pod.fetch(found["parcels"], point_dir, Path(given["step_dir"]) if given["step_dir"] else None)
        outcome = found["outcome"]
        if outcome["ok"]:
            remote_record.write(
                point_dir, remote_record.DRIVER_POD, order.namespace, remote_record.FETCHED, outcome["result"]
            )
        pod.line.lasting("removing it", pod.remove)
    if not outcome["ok"]:
        remote_record.remove(point_dir)
        raise ProcessError(f"the load in the driver cluster: {outcome['msg']}")
    return {**outcome["result"], "found": not new}


def absent(given: Mapping[str, Any], step: Step) -> dict[str, Any]:
    """End the load and remove what is there of it."""
    with Client.from_kubeconfig(given["kubeconfig"], given["context"]) as client:
        pod = DriverPod(client, order_of(given), step.teller(given["progress_file"], "driver pod"), given["reconnect"])
        changed = pod.remove()
    remote_record.remove(Path(given["point_dir"]))
    return {"changed": changed}

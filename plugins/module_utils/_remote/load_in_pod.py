# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A load in a pod of the driver cluster, from the parameters of module workload_in_pod."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._cluster.describe_cluster import api_host
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.kubeconfig import load
from ansible_collections.perfscale.seatrial.plugins.module_utils._load import load_spec
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.load_spec import LoadSpec
from ansible_collections.perfscale.seatrial.plugins.module_utils._remote import remote_load, remote_load_record
from ansible_collections.perfscale.seatrial.plugins.module_utils._remote.driver_pod import DriverPod
from ansible_collections.perfscale.seatrial.plugins.module_utils._remote.pod_manifests import DriverPodSpec
from ansible_collections.perfscale.seatrial.plugins.module_utils._step_files import Step


def spec_of(given: Mapping[str, Any]) -> DriverPodSpec:
    """Return what the pod needs."""
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


class LoadInPod:
    """The load of one point in a pod of the driver cluster."""

    where = "the load in the driver cluster"
    host = remote_load_record.DRIVER_POD

    def __init__(self, given: Mapping[str, Any], client: Client, step: Step) -> None:
        """``given``: the module's parameters. ``client``: of the driver cluster."""
        spec = spec_of(given)
        self.pod = DriverPod(client, spec, step.reporter(given["progress_file"], "driver pod"), given["reconnect"])
        self.root = spec.namespace
        self.retry = self.pod.retry
        self._given = given

    def begin(self, recorded: bool) -> bool:
        """See RemoteLoad."""
        given, pod = self._given, self.pod
        request = load_spec.remote_parameters(given["request"], given["run_id"], given["point"])
        target = {"kubeconfig": given["target_kubeconfig"], "context": given["target_context"]}
        lock = remote_load_record.held_lock(given["lock_dir"], api_host(load(*target.values())))
        new = pod.start(request, LoadSpec.of({**request, **target}), lock)
        if not new:
            pod.say(f"found the load again by its run id, {pod.retry.call('looking for it', pod.status).state}")
        return not new

    def follow(self) -> Mapping[str, Any]:
        """See RemoteLoad."""
        return self.pod.follow(self._given["start_timeout"])

    def fetch(self, ended: Mapping[str, Any], point_dir: Path, step_dir: Path | None) -> None:
        """See RemoteLoad."""
        self.pod.fetch(ended["parcels"], point_dir, step_dir)

    def remove(self) -> bool:
        """See RemoteLoad."""
        return self.pod.remove()


def present(given: Mapping[str, Any], step: Step) -> dict[str, Any]:
    """Run the load or continue it; return what workload_submit would have returned. Raises ProcessError."""
    with Client.from_kubeconfig(given["kubeconfig"], given["context"]) as client:
        step_dir = Path(given["step_dir"]) if given["step_dir"] else None
        return remote_load.run(LoadInPod(given, client, step), Path(given["point_dir"]), step_dir)


def absent(given: Mapping[str, Any], step: Step) -> dict[str, Any]:
    """End the load and delete what is left of it."""
    with Client.from_kubeconfig(given["kubeconfig"], given["context"]) as client:
        return remote_load.remove(LoadInPod(given, client, step), Path(given["point_dir"]))

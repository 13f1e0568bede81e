"""A stand-in for a kubelet: it has a node and runs the commands of its pods as local processes.

IT IS A STAND-IN. It pulls no image and isolates nothing: where a pod mounts something, the stand-in puts the path of a
folder into command, arguments and environment instead. What is in the folders is real: ConfigMaps and Secrets as the
API server has them, and a token of the pod's service account that the API server issued. One container a pod, whose
other processes end with its first.
"""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import SeatrialError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import ServedKind

LABEL = "perfscale.seatrial/stand-in"
NODE = ServedKind("v1", "Node", "nodes", False)
POD = ServedKind("v1", "Pod", "pods", True)
SECRET = ServedKind("v1", "Secret", "secrets", True)
CONFIG_MAP = ServedKind("v1", "ConfigMap", "configmaps", True)
LEASE = ServedKind("coordination.k8s.io/v1", "Lease", "leases", True)
ACCOUNT = ServedKind("v1", "ServiceAccount", "serviceaccounts", True)


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def end_below(folder: Path) -> None:
    """Kill the processes that work in a folder."""
    for one in Path("/proc").iterdir():
        if one.name.isdigit():
            with contextlib.suppress(OSError):
                if Path(os.readlink(one / "cwd")).is_relative_to(folder):
                    os.kill(int(one.name), signal.SIGKILL)


def value_of(pod: dict[str, Any], variable: dict[str, Any]) -> str:
    """Return the value of a variable, which may be an annotation or a label of its pod."""
    if "value" in variable:
        return str(variable["value"])
    which, _bracket, key = variable["valueFrom"]["fieldRef"]["fieldPath"].removeprefix("metadata.").partition("[")
    return str(pod["metadata"][which][key.strip("']")])


class Kubelet:
    """The node ``name`` from ``with`` to its end. ``tolerations`` and ``selector``: required of its pods."""

    def __init__(self, kubeconfig: str, name: str, folder: Path) -> None:
        self.client = Client.from_kubeconfig(kubeconfig)
        self.name = name
        self.folder = folder
        self.selector = {LABEL: name}
        self.tolerations = [{"key": LABEL, "operator": "Exists", "effect": "NoSchedule"}]
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._live, daemon=True)

    def __enter__(self) -> Kubelet:
        taint = {"key": LABEL, "value": "kubelet", "effect": "NoSchedule"}
        metadata = {"name": self.name, "labels": {**self.selector, "kubernetes.io/hostname": self.name}}
        self.client.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"taints": [taint]}})
        room = {"cpu": "8", "memory": "16Gi", "pods": "20"}
        ready = {"type": "Ready", "status": "True", "reason": "StandIn", "lastHeartbeatTime": now()[:19] + "Z"}
        status = {"capacity": room, "allocatable": room, "conditions": [ready]}
        self.client.request("PATCH", NODE.path("", self.name, "status"), {"status": status}, content_type=MERGE_PATCH)
        self.thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.over.set()
        self.thread.join(120)
        end_below(self.folder)
        for pod in self._pods():
            self._gone(pod)
        self.client.delete(NODE, self.name)
        with contextlib.suppress(SeatrialError):
            self.client.delete(LEASE, self.name, "kube-node-lease")
        self.client.close()

    def _pods(self) -> list[dict[str, Any]]:
        return self.client.list(POD, "", field_selector=f"spec.nodeName={self.name}")[0]

    def _live(self) -> None:
        beat = 0.0
        while not self.over.wait(0.2):
            with contextlib.suppress(SeatrialError):
                if time.monotonic() - beat > 8:
                    beat = time.monotonic()
                    self._beat()
                for pod in self._pods():
                    self._step(pod)

    def _beat(self) -> None:
        spec = {"holderIdentity": self.name, "leaseDurationSeconds": 40, "renewTime": now()}
        self.client.apply(
            {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": spec,
             "metadata": {"name": self.name, "namespace": "kube-node-lease"}}
        )  # fmt: skip

    def _step(self, pod: dict[str, Any]) -> None:
        uid = pod["metadata"]["uid"]
        process = self.processes.get(uid)
        leaving = bool(pod["metadata"].get("deletionTimestamp"))
        if process is None:
            if leaving:
                self._gone(pod)
            elif (pod.get("status") or {}).get("phase") == "Pending":
                self._begin(pod)
            return
        if process.poll() is not None:
            self._ended(pod, process.returncode)
            if leaving:
                self._gone(pod)
        elif leaving:
            process.terminate()

    def _begin(self, pod: dict[str, Any]) -> None:
        place = self.folder / pod["metadata"]["uid"]
        container = pod["spec"]["containers"][0]
        try:
            folders = {one["name"]: self._volume(pod, one, place / one["name"]) for one in pod["spec"]["volumes"]}
        except LookupError as error:
            waiting = {"reason": "ContainerCreating", "message": str(error)}
            self._status(pod, "Pending", {"waiting": waiting})
            return
        mounts = [(one["mountPath"], str(folders[one["name"]])) for one in container["volumeMounts"]]

        def here(text: str) -> str:
            for path, folder in mounts:
                text = text.replace(path, folder)
            return text

        host, port = self.client.access.host, str(self.client.access.port)
        known = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port, "SEATRIAL_VALIDATE": "1"}
        known["PATH"] = f"{Path(sys.executable).parent}:/usr/bin:/bin"
        with open(place / "log", "wb") as log:
            self.processes[pod["metadata"]["uid"]] = subprocess.Popen(
                [here(one) for one in [*container["command"], *container["args"]]],
                cwd=place, env=known | {one["name"]: here(value_of(pod, one)) for one in container["env"]},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self._status(pod, "Running", {"running": {"startedAt": now()[:19] + "Z"}})

    def _volume(self, pod: dict[str, Any], volume: dict[str, Any], folder: Path) -> Path:
        """Write the content of a volume. Raises LookupError if its source does not exist yet."""
        space = pod["metadata"]["namespace"]
        folder.mkdir(parents=True, exist_ok=True)
        if "secret" in volume:
            self._lay(folder, self._data(SECRET, space, volume["secret"]["secretName"]))
        elif "configMap" in volume:
            self._lay(folder, self._data(CONFIG_MAP, space, volume["configMap"]["name"]))
        for source in (volume.get("projected") or {}).get("sources", []):
            if "configMap" in source:
                held = self._data(CONFIG_MAP, space, source["configMap"]["name"])
                self._lay(folder, {one["path"]: held[one["key"]] for one in source["configMap"]["items"]})
            else:
                self._lay(folder, {source["serviceAccountToken"]["path"]: self._token(pod)})
        return folder

    def _token(self, pod: dict[str, Any]) -> bytes:
        meta = pod["metadata"]
        bound = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
        path = ACCOUNT.path(meta["namespace"], pod["spec"]["serviceAccountName"], "token")
        spec = {"expirationSeconds": 3600, "boundObjectRef": bound}
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return str(self.client.request("POST", path, asked)["status"]["token"]).encode()

    def _data(self, kind: ServedKind, space: str, name: str) -> dict[str, bytes]:
        found = self.client.get(kind, name, space)
        if found is None:
            raise LookupError(f"{kind.kind} {space}/{name} is not there")
        if kind is SECRET:
            return {key: base64.b64decode(value) for key, value in (found.get("data") or {}).items()}
        packed = {key: base64.b64decode(value) for key, value in (found.get("binaryData") or {}).items()}
        return {key: value.encode() for key, value in (found.get("data") or {}).items()} | packed

    def _lay(self, folder: Path, files: dict[str, bytes]) -> None:
        for name, content in files.items():
            (folder / name).write_bytes(content)

    def _status(self, pod: dict[str, Any], phase: str, state: dict[str, Any]) -> None:
        name = pod["spec"]["containers"][0]["name"]
        one = {"name": name, "image": "none", "imageID": "", "ready": False, "restartCount": 0, "state": state}
        path = POD.path(pod["metadata"]["namespace"], pod["metadata"]["name"], "status")
        status = {"phase": phase, "startTime": now()[:19] + "Z", "containerStatuses": [one]}
        self.client.request("PATCH", path, {"status": status}, content_type=MERGE_PATCH)

    def _ended(self, pod: dict[str, Any], code: int) -> None:
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            return
        uid = pod["metadata"]["uid"]
        end_below(self.folder / uid)
        said = (self.folder / uid / "log").read_text(errors="replace")[-2000:] if code else ""
        ended = {"exitCode": code if code >= 0 else 128 - code, "reason": "Completed" if code == 0 else "Error"}
        self._status(pod, "Failed" if code else "Succeeded", {"terminated": {**ended, "message": said}})
        shutil.rmtree(self.folder / uid, ignore_errors=True)

    def _gone(self, pod: dict[str, Any]) -> None:
        meta = pod["metadata"]
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}}
        with contextlib.suppress(SeatrialError):
            self.client.delete(POD, meta["name"], meta["namespace"], options)

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects of a load in a pod: a Job that owns the others, so that with it everything goes.

The Job is made first, suspended, and let go when all that its pod needs is there.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.rbac import Right, manifests
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.load_spec import LoadSpec
from ansible_collections.perfscale.seatrial.plugins.module_utils._plan import template_renderer
from ansible_collections.perfscale.seatrial.plugins.module_utils._remote import pod_main
from ansible_collections.perfscale.seatrial.plugins.module_utils._remote.detached_load import ansible_archive
from ansible_collections.perfscale.seatrial.plugins.module_utils._stages.stage_definitions import compile_kinds

#: What one object may hold, bytes: an API server allows 1 MiB.
ROOM = 1_000_000

GIVEN, CODE, ACCESS, WORK = "/seatrial/given", "/seatrial/code", "/seatrial/access", "/seatrial/work"
_ARCHIVE = "code.zip"
_RBAC = "rbac.authorization.k8s.io"
_PACKAGE = Path("ansible_collections/perfscale/seatrial/plugins/module_utils")


@dataclass(frozen=True)
class DriverPodSpec:
    """Where a load is to run, and how. keep: seconds after its end after which the Job goes by itself."""

    run: str
    point: str
    image: str
    namespace: str = ""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Sequence[Mapping[str, Any]] = ()
    requests: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    keep: int = 86400

    @property
    def name(self) -> str:
        """Name of the Job and of most that belongs to it."""
        return f"load-{self.run}-{self.point}"

    @property
    def place(self) -> str:
        """The namespace: one that is named, or one of the run's own."""
        return self.namespace or f"seatrial-load-{self.run}"

    @property
    def labels(self) -> dict[str, str]:
        """Labels of everything."""
        return {_labels.RUN: self.run, _labels.LOAD: self.point}


def namespace(order: DriverPodSpec) -> dict[str, Any]:
    """Return the namespace of the run's own. It has no label of a load: several points use it."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": order.place, "labels": {_labels.RUN: order.run}},
    }


def job(order: DriverPodSpec) -> dict[str, Any]:
    """Return the Job, suspended. Its pod passes the profile "restricted" of pod security."""
    mounts = [("given", GIVEN), ("code", CODE), ("access", ACCESS), ("work", WORK)]
    container = {
        "name": "load",
        "image": order.image,
        "command": ["python3", "-m", pod_main.__name__],
        "args": [order.name, order.place, GIVEN, ACCESS, WORK],
        "env": [
            {"name": "PYTHONPATH", "value": f"{CODE}/{_ARCHIVE}"},
            {"name": "HOME", "value": WORK},
            {"name": "TMPDIR", "value": WORK},
        ],
        "resources": {"requests": dict(order.requests), "limits": dict(order.limits)},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        # Its last words are in the pod's status then, and no log has to be asked for.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": name, "mountPath": path} for name, path in mounts],
    }
    token = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    ]
    volumes = [
        {"name": "given", "secret": {"secretName": order.name}},
        {"name": "code", "configMap": {"name": f"{order.name}-code"}},
        {"name": "access", "projected": {"sources": token}},
        {"name": "work", "emptyDir": {}},
    ]
    spec = {
        "restartPolicy": "Never",
        "serviceAccountName": order.name,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 60,
        "nodeSelector": dict(order.node_selector),
        "tolerations": [dict(one) for one in order.tolerations],
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": volumes,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": order.name, "namespace": order.place, "labels": order.labels},
        "spec": {
            "suspend": True,
            "backoffLimit": 0,  # a load is never begun anew by itself
            "ttlSecondsAfterFinished": order.keep,
            "template": {"metadata": {"labels": order.labels}, "spec": spec},
        },
    }


def owned(order: DriverPodSpec, uid: str, asked: Mapping[str, Any], kubeconfig: str | None) -> list[dict[str, Any]]:
    """Return what belongs to the Job ``uid``, in the order in which it is made.

    asked: request and lock as of elsewhere.start(). kubeconfig: that of the target, None when it is the same cluster.
    Raises InputError when the request is too large for a Secret.
    """
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": order.name, "uid": uid}
    metadata = {"labels": order.labels, "namespace": order.place, "ownerReferences": [owner]}
    packed = gzip.compress(json.dumps({**asked, "metadata": metadata}).encode())
    if len(packed) > ROOM:
        raise InputError(
            f"the load's templates and trace are {len(packed) / 1e6:.1f} MB compressed, a Secret holds {ROOM / 1e6:g}: "
            "run it on the controller or on a host"
        )
    data = {pod_main.REQUEST: base64.b64encode(packed).decode()}
    if kubeconfig is not None:
        data[pod_main.KUBECONFIG] = base64.b64encode(kubeconfig.encode()).decode()
    named = {**metadata, "name": order.name}
    rules = [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"], "resourceNames": [f"{order.name}-state"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["delete"], "resourceNames": [order.name]},
    ]
    account = {"kind": "ServiceAccount", "name": order.name, "namespace": order.place}
    code = base64.b64encode(archive()).decode()
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named},
        {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": named, "rules": rules},
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": named,
            "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": order.name},
            "subjects": [account],
        },
        {"apiVersion": "v1", "kind": "Secret", "metadata": named, "data": data},
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {**metadata, "name": f"{order.name}-code"},
            "binaryData": {_ARCHIVE: code},
        },
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**metadata, "name": f"{order.name}-state"}},
    ]


def archive() -> bytes:
    """Return our code as a zip: the archive that Ansible runs this module from, or one made from the folder."""
    found = ansible_archive()
    if found is not None:
        return found.read_bytes()
    folder = Path(__file__).parents[1]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as bundle:
        for parent in (_PACKAGE, *list(_PACKAGE.parents)[:-1]):
            bundle.writestr(f"{parent}/__init__.py", "")
        for one in sorted(folder.rglob("*.py")):
            if one != folder / "__init__.py":
                bundle.write(one, _PACKAGE / one.relative_to(folder))
    return packed.getvalue()


def rights(client: Client, request: LoadSpec, lock: Mapping[str, Any] | None) -> list[Right]:
    """Return what this very load needs on its target: its kinds, what it watches, the canary, the breaker, the lock.

    Raises InputError for a template that can't be rendered or a kind that the server does not have.
    """
    usual = request.namespace or client.access.namespace
    rendered = [template_renderer.render(one, request.run, request.point, usual, (0,)) for one in request.templates]
    found: set[Right] = set()
    places = set()
    for document in template_renderer.documents(rendered):
        kind = client.kind(document.api_version, document.kind)
        where = (document.namespace or usual) if kind.namespaced else ""
        places.add(document.namespace or usual)
        found |= _on(document.api_version, kind.resource, where, ("create", "get", "list", "watch"))
    # Workloads in several namespaces are watched in all.
    watched = places.pop() if len(places) == 1 else ""
    for one in compile_kinds(request.stages):
        for version in one.api_versions:
            try:
                kind = client.kind(version, one.kind)
            except InputError:
                continue
            found |= _on(version, kind.resource, watched if kind.namespaced else "", ("get", "list", "watch"))
            break
    found |= _on("v1", "pods", usual, ("list",))
    canary = ("create", "get", "list", "watch", "patch", "delete")
    found |= _on("coordination.k8s.io/v1", "leases", usual, canary)
    found |= _on("v1", "events", usual, ("list",))
    if lock:
        found |= _on("coordination.k8s.io/v1", "leases", lock["namespace"], (*canary, "update"))
    return sorted(found)


def _on(version: str, resource: str, where: str, verbs: Sequence[str]) -> set[Right]:
    group = version.rpartition("/")[0]
    return {Right(group, resource, verb, where, "test") for verb in verbs}


def grants(order: DriverPodSpec, wanted: Sequence[Right]) -> list[dict[str, Any]]:
    """Return roles and bindings that give the load's service account these rights on the cluster that it runs in."""
    name = f"{order.name}-target"
    made = manifests(wanted, name, f"system:serviceaccount:{order.place}:{order.name}")
    for one in made:
        one["metadata"] = {**one["metadata"], "labels": order.labels}
    return made

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects of a load in pods: a Job that owns the others, so that they are deleted with it.

The Job has one index, and thus one pod at a time, for each client of the load. It is created first, suspended, and
resumed when everything that its pods need exists. The image of the pods has neither our modules nor
ansible.module_utils: a ConfigMap has them as a zip, the archive of Ansible if it packed the module that runs.
"""

from __future__ import annotations

import ast
import base64
import gzip
import importlib.util
import io
import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.rbac import RbacPermission, rbac_manifests

from ..kinds.stage_definitions import compile_stages_of_kinds
from ..plan import rendered_workload_templates, template_renderer
from ..send.load_spec import LoadSpec
from . import pod_main, result_upload
from .detached_load import path_of_running_module_archive

_OURS = "ansible_collections.perfscale.seatrial.plugins.module_utils"
#: Packages whose modules are packed; of the packages around them, only an empty __init__.py.
_PACKED = (_OURS, "ansible.module_utils")
#: What a load in pods never imports: it injects no failures, and is no module; Ansible's errors do without the latter.
_LEFT_OUT = (f"{_OURS}._clusters.rehearsal", "ansible.module_utils.basic")


def collection_code_zip() -> bytes:
    """Return the code as a zip: the archive from which Ansible runs this module, or one of what pod_main imports."""
    package = path_of_running_module_archive()
    if package is not None:
        return package.read_bytes()
    content = _collect_imported_modules(pod_main.__name__)
    for name in list(content):
        for parent in Path(name).parents[:-1]:
            content.setdefault(f"{parent}/__init__.py", b"")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as bundle:
        for name in sorted(content):
            bundle.writestr(name, content[name])
    return packed.getvalue()


def _collect_imported_modules(first: str) -> dict[str, bytes]:
    """Return path in the zip -> text of a module and of all that it imports, also within functions."""
    sources: dict[str, bytes] = {}
    seen: set[str] = set()
    left = [first]
    while left:
        name = left.pop()
        if name in seen or not _is_below(name, _PACKED) or _is_below(name, _LEFT_OUT):
            continue
        seen.add(name)
        spec = importlib.util.find_spec(name) if _is_package(name.rpartition(".")[0]) else None
        if spec is None or spec.origin is None:
            continue  # an attribute of a module, or a module that only some versions of Ansible have
        text = Path(spec.origin).read_bytes()
        package = name if spec.submodule_search_locations is not None else name.rpartition(".")[0]
        here = name.replace(".", "/")
        sources[f"{here}/__init__.py" if package == name else f"{here}.py"] = text
        left += [package, *_possible_module_imports(ast.parse(text), package)]
    return sources


def _is_below(name: str, packages: Sequence[str]) -> bool:
    return any(f"{name}.".startswith(f"{package}.") for package in packages)


def _is_package(package: str) -> bool:
    """Return whether this is a package and not a module."""
    try:
        spec = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        return False
    return spec is not None and spec.submodule_search_locations is not None


def _possible_module_imports(tree: ast.AST, package: str) -> Iterator[str]:
    """Yield the modules that a module of ``package`` may import; some are attributes of modules."""
    left = [tree]
    while left:
        node = left.pop()
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            left += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = importlib.util.resolve_name("." * node.level + base, package)
            yield base
            yield from (f"{base}.{name.name}" for name in node.names)


#: Maximum size of an object, bytes: an API server allows 1 MiB.
MAX_OBJECT_BYTES = 1_000_000

GIVEN, CODE, ACCESS, WORK = "/seatrial/given", "/seatrial/code", "/seatrial/access", "/seatrial/work"
_ARCHIVE = "code.zip"
#: Selector of the ConfigMaps with the states of the clients.
STATE = f"{run_labels.ROLE}=state"
_RBAC = "rbac.authorization.k8s.io"


@dataclass(frozen=True)
class DriverPodSpec:
    """The pods of a load, one for each client. restarts: how often the pod of a client that died is made again.

    keep: how long the Job stays after its end, and a pod with files that nobody collects, seconds. collect_bytes: what
    the clients send through the API server, compressed.
    """

    run: str
    point: str
    image: str
    namespace: str = ""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Sequence[Mapping[str, Any]] = ()
    requests: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    security_context: Mapping[str, Any] = field(default_factory=dict)
    keep: int = 86400
    clients: int = 1
    restarts: int = 3
    collect_bytes: int = result_upload.DEFAULT_COLLECT_BYTES

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> DriverPodSpec:
        """Return what the pods need, from the options of module workload_remote."""
        names = ("image", "namespace", "node_selector", "tolerations", "security_context", "keep", "restarts")
        return cls(
            run=params["run_id"],
            point=params["point"],
            clients=int(params["request"].get("clients") or 1),
            collect_bytes=params["collect_bytes"],
            requests={name: str(value) for name, value in params["driver_requests"].items()},
            limits={name: str(value) for name, value in params["driver_limits"].items()},
            **{name: params[f"driver_{name}"] for name in names},
        )

    @property
    def name(self) -> str:
        """Name of the Job and of most of its objects."""
        return f"load-{self.run}-{self.point}"

    @property
    def effective_namespace(self) -> str:
        """The given namespace, or the one that is created for the run."""
        return self.namespace or f"seatrial-load-{self.run}"

    @property
    def labels(self) -> dict[str, str]:
        """Labels of all objects."""
        return {run_labels.RUN: self.run, run_labels.LOAD: self.point}


def run_namespace_manifest(spec: DriverPodSpec) -> dict[str, Any]:
    """Return the namespace that is created for the run. It has no label of a load: several points use it."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": spec.effective_namespace, "labels": {run_labels.RUN: spec.run}},
    }


def suspended_job_manifest(spec: DriverPodSpec) -> dict[str, Any]:
    """Return the Job, suspended. Its pods pass the profile "restricted" of pod security."""
    mounts = [("given", GIVEN), ("code", CODE), ("access", ACCESS), ("work", WORK)]
    container = {
        "name": "load",
        "image": spec.image,
        "command": ["python3", "-m", pod_main.__name__],
        "args": [spec.name, spec.effective_namespace, GIVEN, ACCESS, WORK],
        "env": [
            {"name": "PYTHONPATH", "value": f"{CODE}/{_ARCHIVE}"},
            {"name": "HOME", "value": WORK},
            {"name": "TMPDIR", "value": WORK},
        ],
        "resources": {"requests": dict(spec.requests), "limits": dict(spec.limits)},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        # The end of its log is then in the status of the pod, and no log has to be read.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": name, "mountPath": path} for name, path in mounts],
    }
    token = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    ]
    volumes = [
        # Optional: the Secret is deleted when all clients have ended.
        {"name": "given", "secret": {"secretName": spec.name, "optional": True}},
        {"name": "code", "configMap": {"name": f"{spec.name}-code"}},
        {"name": "access", "projected": {"sources": token}},
        {"name": "work", "emptyDir": {}},
    ]
    pod = {
        "restartPolicy": "Never",
        "serviceAccountName": spec.name,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 60,
        "nodeSelector": dict(spec.node_selector),
        "tolerations": [dict(toleration) for toleration in spec.tolerations],
        "securityContext": {
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
            **spec.security_context,
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": spec.labels},
            }
        ],
        "containers": [container],
        "volumes": volumes,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": spec.name, "namespace": spec.effective_namespace, "labels": spec.labels},
        "spec": {
            "suspend": True,
            "completionMode": "Indexed",
            "completions": spec.clients,
            "parallelism": spec.clients,
            "backoffLimitPerIndex": spec.restarts,
            "podReplacementPolicy": "Failed",  # never two pods of one client at the same time
            # An evicted pod is made again, and does not count.
            "podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]},
            "ttlSecondsAfterFinished": spec.keep,
            "template": {"metadata": {"labels": spec.labels}, "spec": pod},
        },
    }


def objects_owned_by_job(
    spec: DriverPodSpec,
    uid: str,
    asked: Mapping[str, Any],
    secrets: Mapping[str, str | None],
    urls: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Return the objects that the Job ``uid`` owns, in the spec of their creation.

    asked: request and lock as for detached_load.start_load_unless_exists(), and the checksum of the plan.
    secrets: further content of the Secret of the load, by its keys. urls: data of the Secret with the URLs of uploads.
    Raises InputError if the request is too large for a Secret.
    """
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": spec.name, "uid": uid}
    metadata = {"labels": spec.labels, "namespace": spec.effective_namespace, "ownerReferences": [owner]}
    packed = gzip.compress(json.dumps({**asked, "metadata": metadata}).encode())
    if len(packed) > MAX_OBJECT_BYTES:
        raise InputError(
            f"the load's templates and trace are {len(packed) / 1e6:.1f} MB compressed, the maximum of a Secret is "
            f"{MAX_OBJECT_BYTES / 1e6:g} MB: run the load on the controller or on a host"
        )
    data = {pod_main.REQUEST: base64.b64encode(packed).decode()}
    data |= {key: base64.b64encode(text.encode()).decode() for key, text in secrets.items() if text is not None}
    named = {**metadata, "name": spec.name}
    upload = result_upload.url_secret_name(spec.name)
    written = [f"{spec.name}-{client}-{what}" for client in range(spec.clients) for what in ("state", "files")]
    rules = [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "get"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"], "resourceNames": written},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["delete"], "resourceNames": [spec.name]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": [upload]},
    ]
    account = {"kind": "ServiceAccount", "name": spec.name, "namespace": spec.effective_namespace}
    code = base64.b64encode(collection_code_zip()).decode()
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named},
        {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": named, "rules": rules},
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": named,
            "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": spec.name},
            "subjects": [account],
        },
        {"apiVersion": "v1", "kind": "Secret", "metadata": named, "data": data},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {**metadata, "name": upload}, "data": dict(urls or {})},
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {**metadata, "name": f"{spec.name}-code"},
            "binaryData": {_ARCHIVE: code},
        },
        *(_empty_configmap_manifest(name, metadata) for name in written),
    ]


def _empty_configmap_manifest(name: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return an empty ConfigMap that a client fills; its role is state or files."""
    labels = {**metadata["labels"], run_labels.ROLE: name.rpartition("-")[2]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**metadata, "name": name, "labels": labels}}


def rights_needed_on_target(client: Client, request: LoadSpec, lock: Mapping[str, Any] | None) -> list[RbacPermission]:
    """Return the rights that this load needs on its target: its kinds, watches, canary, circuit breaker, lock.

    Raises InputError for a template that cannot be rendered or a kind that the server does not have.
    """
    usual = request.namespace or client.access.namespace
    rendered = [
        template_renderer.render_template_for_indices(template, request.run, request.point, usual, (0,))
        for template in request.templates
    ]
    rights: set[RbacPermission] = set()
    for document in rendered_workload_templates.documents_of_templates(rendered):
        kind = client.kind(document.api_version, document.kind)
        where = document.fixed_namespace(usual) if kind.namespaced else ""
        verbs = ("create", "get", "list", "watch", *(("delete",) if request.lifetime else ()))
        rights |= _rights_on(document.api_version, kind.resource, where, verbs)
    watched = rendered_workload_templates.namespace_to_watch(rendered, usual)
    for compile_kind in compile_stages_of_kinds(request.stages):
        for version in compile_kind.api_versions:
            try:
                kind = client.kind(version, compile_kind.kind)
            except InputError:
                continue
            rights |= _rights_on(version, kind.resource, watched if kind.namespaced else "", ("get", "list", "watch"))
            break
    rights |= _rights_on("v1", "pods", usual, ("list",))
    canary = ("create", "get", "list", "watch", "patch", "delete")
    rights |= _rights_on("coordination.k8s.io/v1", "leases", usual, canary)
    rights |= _rights_on("v1", "events", usual, ("list",))
    if lock:
        rights |= _rights_on("coordination.k8s.io/v1", "leases", lock["namespace"], (*canary, "update"))
    return sorted(rights)


def _rights_on(version: str, resource: str, where: str, verbs: Sequence[str]) -> set[RbacPermission]:
    group = version.rpartition("/")[0]
    return {RbacPermission(group, resource, verb, where, "test") for verb in verbs}


def roles_and_bindings(spec: DriverPodSpec, wanted: Sequence[RbacPermission]) -> list[dict[str, Any]]:
    """Return roles and bindings that give the load's service account these rights on its own cluster."""
    name = f"{spec.name}-target"
    manifests = rbac_manifests(wanted, name, f"system:serviceaccount:{spec.effective_namespace}:{spec.name}")
    for manifest in manifests:
        manifest["metadata"] = {**manifest["metadata"], "labels": spec.labels}
    return manifests

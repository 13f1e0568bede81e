# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Deploy inference servers on a cluster, wait until they answer, and record how long each stage took."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats, run_labels, waiting
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    ApiError,
    InputError,
    ProcessError,
    suggest_similar_name,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.secret_names import MASK
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.http_transport import (
    HttpRequest,
    HttpTransport,
    NoAnswer,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import server_side_apply
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import (
    conditions_by_type,
    field_at_path,
    format_object_title,
    is_condition_true,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.why_pod_waits_or_cannot_run import (
    why_pod_waits_or_ended,
)

from ..kinds.stage_definitions import compile_jmespath

FILE, SCHEMA = "deployment.json", "deployment/1"
PART = {run_labels.PART: "server"}
#: What servers go through, in this order, after what controllers create for them.
STAGES = ("created", "scheduled", "started", "ready", "answers")
#: Seconds between two looks, and for one request to a server.
_POLL, _PATIENCE = 0.1, 5.0
#: Seconds in which a condition that servers have failed may still be that of the point before.
_STALE = 10.0
#: Why a container will never start, and how often one may end before it starts to serve.
_PERMANENT, _MOST_RESTARTS = ("InvalidImageName", "ErrImageNeverPull"), 4
_AUTOSCALER = ("autoscaling/v2", "HorizontalPodAutoscaler")
#: Pods that a message names.
_SOME = 3


def secret_objects(contents: Mapping[str, Mapping[str, str]]) -> list[dict[str, Any]]:
    """Return Secrets with these contents by their names."""
    return [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": dict(content)}
        for name, content in contents.items()
    ]


@dataclass(frozen=True)
class ServerDeploymentSpec:
    """What is deployed. Raises InputError if it can't be waited for.

    ready: conditions (kind, jmespath) of objects that hold when all servers are ready. url: kind and jmespath of the
    base URL, of each object of the kind; urls: known ones instead. health_path: is asked at each URL until it answers.
    creates: kinds (api_version, kind) of what controllers create for the definitions, found by the labels. failed:
    conditions under which the servers will never be ready; the value of the expression says why.
    """

    run: str
    namespace: str
    definitions: list[dict[str, Any]]
    ready: list[dict[str, str]]
    url: Mapping[str, str]
    urls: list[str]
    health_path: str
    timeout: float
    creates: Sequence[Mapping[str, str]] = ()
    failed: Sequence[Mapping[str, str]] = ()
    expressions: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.health_path.startswith("/"):
            raise InputError(f"health_path is '{self.health_path}', it must begin with /")
        kinds = {str(definition.get("kind")) for definition in self.definitions} | {
            made["kind"] for made in self.creates
        }
        for condition in [*self.ready, *self.failed, *([] if self.urls else [self.url])]:
            for name in ("kind", "jmespath"):
                if not condition.get(name):
                    raise InputError(f"ready, failed and url need kind and jmespath; {dict(condition)} has no {name}")
            if condition["kind"] not in kinds:
                hint = suggest_similar_name(condition["kind"], kinds)
                raise InputError(f"kind '{condition['kind']}' of ready, failed or url is not in the template{hint}")
            text = condition["jmespath"]
            self.expressions[text] = compile_jmespath(f"kind {condition['kind']}", text)

    def labelled(self) -> list[dict[str, Any]]:
        """Return the definitions in the namespace, with the labels by which cleanup finds them."""
        result = []
        for definition in self.definitions:
            meta = definition.get("metadata") or {}
            labels = {**(meta.get("labels") or {}), run_labels.RUN: self.run, **PART}
            result.append({**definition, "metadata": {"namespace": self.namespace, **meta, "labels": labels}})
        return result

    @property
    def stages(self) -> list[str]:
        """What the servers go through, in this order."""
        return [*(made["kind"].lower() for made in self.creates), *STAGES]


class ServerDeployment:
    """One deployment, from applying its objects until all servers answer."""

    def __init__(self, client: Client, spec: ServerDeploymentSpec, transport: HttpTransport, say: waiting.Say) -> None:
        self._client = client
        self._spec = spec
        self._transport = transport
        self._say = say
        self._began = 0.0
        self._last_look = 0.0
        self._times: dict[str, list[float]] = {}  # stage -> the last look without it, the first one with it
        self._earlier_pods: set[str] = set()
        self._earlier_stay = False  # whether servers that were there before answer too
        self.urls = list(spec.urls)

    def run(self, point_dir: Path, step: StepDirectory) -> dict[str, Any]:
        """Deploy, wait, write deployment.json into ``point_dir``; return it with the module's result of applying.

        The step records the objects, with the namespaces in which cleanup looks for them.
        Raises InputError for what the API server refuses, ProcessError for servers that never start, WaitTimeout.
        """
        spec, manifests = self._spec, self._spec.labelled()
        step.manifest(
            "servers", [server_side_apply.fields_without_secret_values(item, item, MASK) for item in manifests]
        )
        self._create_namespace()
        self._delete_autoscalers({item["metadata"]["name"] for item in manifests if item["kind"] == _AUTOSCALER[1]})
        self._earlier_pods = {pod["metadata"]["uid"] for pod in self._pods()}
        self._began = self._last_look = time.monotonic()
        try:
            result = server_side_apply.apply_manifests_with_diff(self._client, manifests)
        except ApiError as error:
            if error.busy:
                raise
            raise InputError(f"the API server refuses the servers' objects: {error}") from error
        waiting.wait_until(
            lambda: self._look(manifests),
            spec.timeout,
            self._say,
            lambda text: f"the servers are not ready after {spec.timeout:g} s: {text}",
            _POLL,
        )
        changed = bool(result["changed"])
        times = {
            stage: [round(bound, 4) for bound in self._times[stage]] for stage in spec.stages if stage in self._times
        }
        document = {"schema": SCHEMA, "urls": self.urls, "changed": changed, "stages": times if changed else {}}
        document["earlier_servers"] = self._earlier_stay
        point_dir.mkdir(parents=True, exist_ok=True)
        files.write_json(point_dir / FILE, document)
        took = formats.format_duration(self._times["answers"][1])
        servers = formats.format_list(self.urls)
        text = f"{servers}: ready {took} after it was applied" if changed else f"{servers}: unchanged, and ready"
        self._say(text)
        return {**result, "urls": self.urls, "stages": document["stages"], "msg": text}

    def _create_namespace(self) -> None:
        """Create the namespace, unless it exists: it is used as it is then."""
        kind, name = self._client.kind("v1", "Namespace"), self._spec.namespace
        if self._client.get(kind, name, metadata_only=True) is None:
            labels = {run_labels.RUN: self._spec.run}
            manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
            self._client.create_once(kind.path(), manifest)

    def _delete_autoscalers(self, kept: set[str]) -> None:
        """Delete the autoscalers that the run made at other points: they would scale the servers of this one too."""
        try:
            kind = self._client.kind(*_AUTOSCALER)
            found = self._client.list(kind, self._spec.namespace, self._selector, metadata_only=True)[0]
        except InputError:
            return  # this cluster has no autoscalers
        except ApiError as error:
            if error.status == 403:
                return  # an account that may not list them has made none
            raise
        for autoscaler in found:
            name = autoscaler["metadata"]["name"]
            if name not in kept and not autoscaler["metadata"].get("ownerReferences"):
                self._client.delete_seen(kind, autoscaler["metadata"])

    def _look(self, manifests: list[dict[str, Any]]) -> tuple[bool | None, str]:
        began = time.monotonic()
        live = [
            self._client.get(
                self._client.kind_of(manifest),
                manifest["metadata"]["name"],
                str(manifest["metadata"].get("namespace") or ""),
            )
            for manifest in manifests
        ]
        objects = [thing for thing in live if thing is not None]
        made = {wanted["kind"]: self._created_by_controllers(wanted) for wanted in self._spec.creates}
        for kind, things in made.items():
            self._note(kind.lower(), bool(things))
        objects += [thing for things in made.values() for thing in things]
        pods = [pod for pod in self._pods() if not pod["metadata"].get("deletionTimestamp")]
        self._earlier_stay = any(pod["metadata"]["uid"] in self._earlier_pods for pod in pods)
        ready, why = self._is_ready(objects, pods)
        for manifest, thing in zip(manifests, live, strict=True):
            if thing is None:
                ready, why = False, f"{format_object_title(manifest)} was deleted meanwhile"
        if ready and not all(made.values()):
            lacking = next(kind for kind, things in made.items() if not things)
            ready, why = False, f"no {lacking} was created for the servers yet"
        self._note("created", bool(pods))
        self._note("scheduled", bool(pods) and all(field_at_path(pod, "spec.nodeName") for pod in pods))
        self._note("started", bool(pods) and all(_is_running(pod) for pod in pods))
        self._note("ready", ready)
        if ready:
            why = self._find_urls(objects) or self._ask_all()
        done = ready and not why
        self._note("answers", done)
        self._last_look = began
        return (True if done else None), why

    def _note(self, stage: str, reached: bool) -> None:
        """Note that a stage was reached between the begin of the last look and now; a stage may be left again."""
        if not reached:
            self._times.pop(stage, None)
        elif stage not in self._times:
            self._times[stage] = [max(0.0, self._last_look - self._began), time.monotonic() - self._began]

    def _pods(self) -> list[dict[str, Any]]:
        return self._created_by_controllers({"api_version": "v1", "kind": "Pod"})

    @property
    def _selector(self) -> str:
        """The labels of what belongs to the servers of the run."""
        return f"{run_labels.RUN}={self._spec.run},{run_labels.PART}={PART[run_labels.PART]}"

    def _created_by_controllers(self, wanted: Mapping[str, str]) -> list[dict[str, Any]]:
        kind = self._client.kind(wanted["api_version"], wanted["kind"])
        found = self._client.list(kind, self._spec.namespace, self._selector)[0]
        return [{**thing, "kind": wanted["kind"]} for thing in found]

    def _is_ready(self, objects: list[dict[str, Any]], pods: list[dict[str, Any]]) -> tuple[bool, str]:
        """Return whether all conditions hold, and what is waited for. Raises ProcessError if they never will."""
        for pod in pods:
            _check_container(pod)
        settled = time.monotonic() - self._began > _STALE
        for condition in self._spec.failed if settled else ():
            for thing in objects:
                if thing["kind"] == condition["kind"] and (reason := self._evaluate(condition["jmespath"], thing)):
                    raise ProcessError(f"{format_object_title(thing)} will never be ready: {reason}")
        for condition in self._spec.ready:
            for thing in objects:
                if thing["kind"] == condition["kind"] and not self._evaluate(condition["jmespath"], thing):
                    return False, _why_not_ready(thing, pods)
        return True, ""

    def _evaluate(self, text: str, thing: Mapping[str, Any]) -> Any:
        """Return what an expression says of an object; None while a field that it needs is not there."""
        import jmespath

        try:
            return self._spec.expressions[text].search(thing)
        except jmespath.exceptions.JMESPathError:
            return None

    def _find_urls(self, objects: list[dict[str, Any]]) -> str:
        """Find the URLs of the servers; return what is missing."""
        if self._spec.urls:
            return ""
        urls = []
        for thing in objects:
            if thing["kind"] == self._spec.url["kind"]:
                url = self._evaluate(self._spec.url["jmespath"], thing)
                if not url:
                    title = format_object_title(thing)
                    return f"{title} has no address yet, which a load balancer gives it{_refusal_of(thing)}"
                urls.append(str(url))
        self.urls = urls
        return ""

    def _ask_all(self) -> str:
        """Return which server does not answer its health check yet."""
        for url in self.urls:
            address = url.rstrip("/").removesuffix("/v1") + self._spec.health_path
            try:
                reply = self._transport(HttpRequest("GET", address, timeout=_PATIENCE, total=_PATIENCE, follow=False))
            except NoAnswer as error:
                return f"{address} does not answer yet: {error}"
            if reply.status >= 300:  # a redirect is that of a proxy, such as to its login: the load follows none
                return f"{address} answers with HTTP {reply.status}"
        return ""


def _refusal_of(thing: Mapping[str, Any]) -> str:
    """Return the message of a condition of an object that is False, behind a colon; empty if there is none."""
    for condition in conditions_by_type(thing).values():
        if condition.get("status") == "False" and condition.get("message"):
            return f": {condition['message']}"
    return ""


def _container_statuses(pod: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list(field_at_path(dict(pod), "status.containerStatuses") or [])


def _is_running(pod: Mapping[str, Any]) -> bool:
    statuses = _container_statuses(pod)
    return bool(statuses) and all("running" in (status.get("state") or {}) for status in statuses)


def _check_container(pod: Mapping[str, Any]) -> None:
    """Raise ProcessError if a container, or one that must end before it starts, will never do its work."""
    first = field_at_path(dict(pod), "status.initContainerStatuses") or []
    for status in [*first, *_container_statuses(pod)]:
        reason = field_at_path(status, "state.waiting.reason", "")
        if reason in _PERMANENT:
            raise ProcessError(
                f"{format_object_title({'kind': 'Pod', **pod})} can't start: {why_pod_waits_or_ended(pod)}"
            )
        if status.get("restartCount", 0) > _MOST_RESTARTS and not status.get("ready"):
            ended = field_at_path(status, "lastState.terminated", {})
            how = f"exit code {ended.get('exitCode')}, {ended.get('reason') or 'no reason'}"
            title = format_object_title({"kind": "Pod", **pod})
            raise ProcessError(f"{title}: container {status['name']} ended {status['restartCount']} times ({how})")


def _why_not_ready(thing: Mapping[str, Any], pods: list[dict[str, Any]]) -> str:
    """Return why an object is not ready: what its pods wait for, else its own conditions."""
    title = format_object_title(thing)
    unready = [pod for pod in pods if not is_condition_true(pod, "Ready")]
    if unready:
        reasons = {
            "it runs, and its readiness probe fails" if _is_running(pod) else why_pod_waits_or_ended(pod)
            for pod in unready
        }
        waiting_pods = formats.format_list(sorted(reasons), _SOME)
        return f"{title}: {len(pods) - len(unready)} of {formats.format_count(len(pods), 'pod')} ready: {waiting_pods}"
    for name, condition in conditions_by_type(thing).items():
        bad = "True" if name == "ReplicaFailure" else "False"
        if condition.get("status") == bad and condition.get("message"):
            return f"{title}: {condition.get('reason', name)}: {condition['message']}"
    return f"{title}: waits for its controller" if not pods else f"{title}: waits for further pods"

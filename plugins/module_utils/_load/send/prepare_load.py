# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prepare a load: plan it, render its templates, check them in a dry run, create what its workloads share.

Shared objects have the labels of run and point, by which they are removed as the workloads are. One that exists
already, of a load that is continued or of another client, is applied again, which changes nothing if it is the same.

Only ``write_plan`` writes a file and creates objects: the plan of several clients, and what its workloads share.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    ApiError,
    InputError,
    suggest_similar_name,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.waiting import wait_until
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.lost_labels import refuse_lost_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import format_object_title
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.served_fields import ServedSchemas

from ..kinds.sampling_spec import check_kinds_have_end_stage
from ..kinds.stage_definitions import KindStages, compile_jmespath, compile_stages_of_kinds
from ..plan import arrival_times, rendered_workload_templates, template_renderer, workload_plan
from ..plan.rendered_workload_templates import RenderedTemplate
from . import workload_release_barrier
from .load_spec import LoadSpec
from .object_creator import FIELD_MANAGER

#: Timeout of a condition without one, and polling interval, seconds.
_READY, _POLL = 300.0, 0.2
_PAUSE = 0.5


def create_shared_objects(
    client: Client,
    rendered: list[RenderedTemplate],
    retry_time: float,
    say: Callable[[str], None],
    check: bool = False,
) -> None:
    """Create the shared objects of all templates, and wait until they are ready. check: they are only checked.

    Raises InputError for what the API server refuses, WaitTimeout naming the condition; ApiError.
    """
    for template in rendered:
        _check_ready(template)
    for template in rendered:
        for manifest in template.shared:
            _apply(client, template, manifest, retry_time, say, check)
        if not check:
            for condition in template.template.ready:
                _await_ready(client, template, condition, say)


def _check_ready(template: RenderedTemplate) -> None:
    """Check the conditions of the shared objects of a template. Raises InputError."""
    kinds = {manifest["kind"] for manifest in template.shared}
    for condition in template.template.ready if template.shared else ():
        where = f"template '{template.template.name}', ready"
        compile_jmespath(where, condition["jmespath"])
        if condition["kind"] not in kinds:
            hint = suggest_similar_name(condition["kind"], kinds)
            raise InputError(f"{where}: kind '{condition['kind']}' is none of the shared objects{hint}")


def _apply(
    client: Client,
    template: RenderedTemplate,
    manifest: dict[str, Any],
    retry_time: float,
    say: Callable[[str], None],
    check: bool,
) -> None:
    deadline = time.monotonic() + retry_time
    title = format_object_title(manifest)
    while True:
        try:
            refuse_lost_labels(client.access.server, manifest, client.apply(manifest, check=check))
            return
        except ApiError as error:
            if not error.busy:
                where = f"template '{template.template.name}'"
                raise InputError(
                    f"{where}: the API server refuses {title}, which its workloads share: {error}"
                ) from error
            if time.monotonic() + _PAUSE > deadline:
                raise
            say(f"{title} can't be created now, and is tried again: {error}")
        time.sleep(_PAUSE)


def _await_ready(
    client: Client, template: RenderedTemplate, condition: dict[str, Any], say: Callable[[str], None]
) -> None:
    """Wait for a condition of the shared objects of a kind."""
    from jmespath.exceptions import JMESPathError  # it is needed for conditions only

    expression = compile_jmespath(f"template '{template.template.name}', ready", condition["jmespath"])
    timeout = float(condition.get("timeout") or _READY)
    for manifest in template.shared:
        if manifest["kind"] != condition["kind"]:
            continue
        kind, meta, title = client.kind_of(manifest), manifest["metadata"], format_object_title(manifest)

        def look(kind: Any = kind, meta: Any = meta, title: str = title) -> tuple[bool | None, str]:
            live = client.get(kind, meta["name"], meta["namespace"])
            try:
                if live is not None and expression.search(live):
                    return True, ""
            except JMESPathError as error:  # such as a function of a field that is not there yet
                return None, f"{title}: {condition['jmespath']} can't be evaluated yet: {error}"
            return None, f"{title}: {condition['jmespath']} is not true yet"

        wait_until(look, timeout, say, lambda state: f"{state} after {timeout:g} s", _POLL)


_DRY_RUN = {"dryRun": "All", "fieldValidation": "Strict", "fieldManager": FIELD_MANAGER}
#: First and longest pause before a dry run is repeated, seconds.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 5.0
#: How long a webhook may not know a shared object that was just created, seconds.
_UNKNOWN = 15.0


@dataclass(frozen=True)
class PreparedLoad:
    """What a load needs. request: with the count and the seed of the plan."""

    request: LoadSpec
    client: Client
    kinds: list[KindStages]
    rendered: list[rendered_workload_templates.RenderedTemplate]
    plan: workload_plan.WorkloadPlan


def prepare_load_or_part(request: LoadSpec) -> PreparedLoad:
    """Prepare a load, or the part of a client. Raises InputError, AccessError, ApiError; DataError without the part."""
    return _prepare_whole_load(request) if request.part.whole else _prepare_plan_part(request)


def write_plan_shared_by_clients(request: LoadSpec, clients: int) -> workload_plan.WorkloadPlan:
    """Make the plan that several clients will send, and write it unless it exists.

    It is that of one client. Raises InputError for what the API server refuses, or what they cannot send.
    """
    prepared = prepare_load_or_part(replace(request, client=None))
    workload_plan.check_clients_are_independent(prepared.plan, clients)
    request.point_dir.mkdir(parents=True, exist_ok=True)
    shares = any(template.shared for template in prepared.rendered)
    if shares:  # the cleanup reads from the plan what is created
        workload_plan.write_plan_or_compare(request.point_dir / "plan.jsonl", prepared.plan)
    with prepared.client:
        create_shared_objects(prepared.client, prepared.rendered, request.retry_time, print)
        check_templates_in_dry_run(prepared.client, prepared.rendered, request)
    if not shares:
        workload_plan.write_plan_or_compare(request.point_dir / "plan.jsonl", prepared.plan)
    return prepared.plan


def _prepare_plan_part(request: LoadSpec) -> PreparedLoad:
    """Prepare the workloads of a part of a plan that was made before."""
    planned = workload_plan.read_client_part_file(request.point_dir / "plan.jsonl", request.part)
    request = replace(request, count=len(planned.workloads), seed=planned.header["seed"])
    client = Client.from_kubeconfig(request.kubeconfig, request.context, request.request_timeout)
    namespace = request.namespace or client.access.namespace
    rendered = _render_used_templates(request, client, namespace, planned.workloads)
    rendered_workload_templates.resolve_document_api_paths(client, rendered, namespace)
    if [template.header() for template in rendered] != planned.header["templates"]:
        raise InputError(f"{request.point_dir}: plan.jsonl was made from different templates")
    return PreparedLoad(request, client, compile_stages_of_kinds(request.stages), rendered, planned)


def _prepare_whole_load(request: LoadSpec) -> PreparedLoad:
    """Make the plan of a load, and prepare all of its workloads."""
    path = request.point_dir / "plan.jsonl"
    seed = workload_plan.resolve_load_seed(path, request.seed, arrival_times.are_arrivals_random(request.arrival))
    schedule = arrival_times.arrivals_from_options(request.arrival, request.count, seed)
    request = replace(request, count=schedule.count, seed=seed)
    if not request.sample and (request.wait or schedule.header.get("at_once")):
        option = "wait" if request.wait else "arrival at_once"
        raise InputError(f"{option} cannot be used with sample=false: the sampler observes the end of workloads")
    kinds = compile_stages_of_kinds(request.stages)
    client = Client.from_kubeconfig(request.kubeconfig, request.context, request.request_timeout)
    namespace = request.namespace or client.access.namespace
    chosen = _choose_workload_templates(request, schedule)
    planned = workload_plan.plan_workloads(request.run, request.point, schedule, request.in_flight, seed, [], chosen)
    rendered = _render_used_templates(request, client, namespace, planned.workloads)
    own = {template.workload.kind for template in rendered}
    if request.wait or schedule.header.get("at_once"):
        check_kinds_have_end_stage(sorted(own), kinds)
    if request.release.get("stage"):
        names = [name for kind in kinds if kind.kind in own for name in kind.names]
        workload_release_barrier.check_release_is_possible(request.release, request.count, request.seed, names)
    rendered_workload_templates.resolve_document_api_paths(client, rendered, namespace)
    planned.header["templates"] = [template.header() for template in rendered]
    workload_plan.use_workload_names_from_templates(
        planned, {template.template.name: template.workload.name for template in rendered}
    )
    return PreparedLoad(request, client, kinds, rendered, planned)


def _choose_workload_templates(request: LoadSpec, schedule: arrival_times.ArrivalTimes) -> list[str]:
    """Return the template of each workload. Raises InputError for missing templates, equal names, bad weights."""
    if not request.templates:
        raise InputError("templates is empty: there is nothing to submit")
    names = [template.name for template in request.templates]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise InputError(f"templates: two have the name '{twice}'")
    shared = [
        rendered_workload_templates.shared_objects_name(request.run, request.point, t.name)
        for t in request.templates
        if t.prepare
    ]
    twice = next((name for name in shared if shared.count(name) > 1), None)
    if twice:
        raise InputError(f"templates: the shared objects of two have the name '{twice}'; rename one template")
    if any(template.weight < 1 for template in request.templates):
        raise InputError("templates: a weight must be 1 or more")
    return workload_plan.assign_templates(schedule, names, [template.weight for template in request.templates])


def _render_used_templates(
    request: LoadSpec, client: Client, namespace: str, workloads: Sequence[workload_plan.PlannedWorkload]
) -> list[rendered_workload_templates.RenderedTemplate]:
    """Render each template for the workloads that use it, and no others: there may be many templates."""
    used: dict[str, array[int]] = {template.name: array("Q") for template in request.templates}
    for workload in workloads:
        used[workload.template].append(workload.index)
    has = ServedSchemas(client).has_field
    return [
        template_renderer.render_template_for_indices(
            template, request.run, request.point, namespace, used[template.name], request.client_number, has
        )
        for template in request.templates
    ]


def check_templates_in_dry_run(
    client: Client,
    rendered: list[rendered_workload_templates.RenderedTemplate],
    request: LoadSpec,
    say: Callable[[str], None] = lambda _line: None,
) -> None:
    """Have the API server check the first object of each template, and its related ones, in a dry run.

    A server or webhook that fails is asked again for ``request.retry_time``. Raises InputError with the server's
    message, so that a mistake in a template shows once and not a thousand times; ApiError if it kept failing.
    """
    for template in rendered:
        for number, document in enumerate(template.documents):
            where = f"template '{template.template.name}'"
            try:
                _dry_run_document(client, document, template, request.retry_time, say)
            except ApiError as error:
                if error.busy:
                    text = f"{where}: the API server could not check its first {document.kind}: {error}"
                    raise ApiError(text, error.status, error.reason) from error
                # What refers to an object before it, which a dry run does not create, is refused or not found.
                if number == 0 or error.status not in (403, 404):
                    raise _refusal(where, document, error) from error
                if document.several_namespaces:
                    _dry_run_in_namespace_of_load(client, document, template, where)


def _refusal(where: str, document: rendered_workload_templates.WorkloadDocument, error: ApiError) -> InputError:
    return InputError(f"{where}: the API server refuses its first {document.kind}: {error}")


def _dry_run_document(
    client: Client,
    document: rendered_workload_templates.WorkloadDocument,
    template: rendered_workload_templates.RenderedTemplate,
    retry_time: float,
    say: Callable[[str], None],
) -> None:
    began, pause, index = time.monotonic(), _FIRST_PAUSE, template.first
    while True:
        try:
            stored = client.request("POST", document.path(index), document.body(index), _DRY_RUN)
            refuse_lost_labels(client.access.server, document.manifest(index), stored)
            return
        except ApiError as error:
            if error.reason == "AlreadyExists":
                return
            unknown = bool(template.shared) and error.status in (403, 404, 422)
            if time.monotonic() + pause > began + (retry_time if error.busy else _UNKNOWN if unknown else 0):
                raise
            say(f"the API server can't check the first {document.kind} now and is asked again: {error}")
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def _dry_run_in_namespace_of_load(
    client: Client,
    document: rendered_workload_templates.WorkloadDocument,
    template: rendered_workload_templates.RenderedTemplate,
    where: str,
) -> None:
    """Check the fields of an object whose own namespace does not exist yet. Raises InputError."""
    kind = client.kind(document.api_version, document.kind)
    manifest = document.manifest(template.first)
    manifest["metadata"]["namespace"] = template.namespace
    try:
        client.create_once(kind.path(template.namespace), manifest, _DRY_RUN)
    except ApiError as error:
        if error.status in (400, 422):
            raise _refusal(where, document, error) from error

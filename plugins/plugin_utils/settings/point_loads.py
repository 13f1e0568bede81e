# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The load of each point, how long it takes, whether others would notice it, and the nodes on which it runs."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.capacity_search import USUAL_HIGH
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._care import duration_and_capacity_estimate
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.providers import PROVIDERS
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import (
    component_selection,
    component_spec,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import choose_next_point

from . import convert_setting_values, project_role, workload_kinds
from .resolve_settings import MatrixPoint
from .setting_templates import Render

#: Above these numbers a load is heavy: requests of a point, requests in one second, streams, seconds of a point.
HEAVY_REQUESTS, HEAVY_REQUEST_RATE, HEAVY_STREAMS, HEAVY_SECONDS = 100_000, 500, 300, 3600
#: Above this many seconds of all streams of a point together, streams without a number of requests are heavy.
HEAVY_STREAM_SECONDS = 300_000
#: Above this many tokens of shared prefixes, the prompts of a point are heavy.
HEAVY_TOKENS = 100_000_000
#: Seconds of a search without ``timespan``.
_USUAL_TIMESPAN = 600.0


def why_load_is_heavy(asked: Mapping[str, Any]) -> str:
    """Return why the requests of a point are heavy, an empty string if they are not.

    asked: entry ``requests`` of a meta/doctor.yml, rendered. Raises InputError for invalid arrivals.
    """
    trace = dict(asked.get("arrival") or {})
    if trace.get("src") and not trace.get("content") and not asked.get("count") and not asked.get("streams"):
        return f"has the trace {trace['src']}, which can't be read here: the number of its requests is unknown"
    number, rate, seconds = _requests_of_point(asked)
    streams, warm_up = int(asked.get("streams") or 0), int(asked.get("warm_up") or 0)
    if (number := number * int(asked.get("turns") or 1) + warm_up) > HEAVY_REQUESTS:
        return f"has {formats.format_count(number, 'request')} (at most {HEAVY_REQUESTS:,})"
    # A stream without a number of requests is taken to send one in a second.
    if (tokens := int(asked.get("prefix_tokens") or 0) * max(number, round(streams * seconds))) > HEAVY_TOKENS:
        return f"has {tokens:,} tokens of shared prefixes (at most {HEAVY_TOKENS:,})"
    if rate > HEAVY_REQUEST_RATE:
        return f"sends {formats.format_count(round(rate), 'request')} in a second (at most {HEAVY_REQUEST_RATE})"
    if streams > HEAVY_STREAMS:
        return f"has {formats.format_count(streams, 'stream')} (at most {HEAVY_STREAMS})"
    if streams and not asked.get("count") and streams * seconds > HEAVY_STREAM_SECONDS:
        return (
            f"has {formats.format_count(streams, 'stream')} without a number of requests for "
            f"{formats.format_duration(seconds)} (at most {HEAVY_STREAM_SECONDS:,} seconds of all streams)"
        )
    if seconds > HEAVY_SECONDS:
        return (
            f"sends requests for {formats.format_duration(seconds)} (at most {formats.format_duration(HEAVY_SECONDS)})"
        )
    return ""


def _requests_of_point(asked: Mapping[str, Any]) -> tuple[int, float, float]:
    """Return the first requests of all conversations, the most of them in a second, and the seconds of a point."""
    search = {name: value for name, value in dict(asked.get("search") or {}).items() if value is not None}
    if search:
        high, timespan = float(search.get("high") or USUAL_HIGH), float(search.get("timespan") or _USUAL_TIMESPAN)
        return round(high * timespan), high, timespan
    count, duration = int(asked.get("count") or 0), float(asked.get("duration") or 0)
    if asked.get("streams"):
        return count, 0.0, duration
    arrival = dict(asked.get("arrival") or {})
    if arrival.get("src") and not arrival.get("content"):
        return count, 0.0, 0.0
    # What an open load states is bounded before its times are made, which may be many.
    if (rate := float(arrival.get("rate") or 0)) > HEAVY_REQUEST_RATE or count > HEAVY_REQUESTS:
        return count, rate, 0.0
    try:
        load = duration_and_capacity_estimate.load_of_planned_point(
            "", {"workloads": count, "arrival": arrival, "seed": asked.get("seed")}
        )
    except InputError as error:
        raise InputError(f"the requests of a point: {error}") from error
    return (
        load.workloads,
        duration_and_capacity_estimate.peak_creations_per_second(load),
        max(load.offsets, default=0.0),
    )


#: Most workloads of all points of a run.
MOST_WORKLOADS = 10_000_000


def describe_loads_of_points(role: Path, points: Sequence[MatrixPoint], render: Render) -> dict[str, str]:
    """Return point -> text with workloads, duration, GPU hours and peak use; ``all`` if there are several.

    role: folder of the project's role. Empty for a project without a load. The number of GPUs is that of the
    simulated nodes, else as many as the load needs. Of a load of requests only the duration is known. Raises InputError
    for an invalid load.
    """
    return _workload_durations(role, points, render) or _request_durations(role, points, render)


def _workload_durations(role: Path, points: Sequence[MatrixPoint], render: Render) -> dict[str, str]:
    estimates: dict[str, duration_and_capacity_estimate.LoadEstimate] = {}
    texts: dict[str, str] = {}
    for point, plan in _loads_of_points(role, points, render):
        nodes = simulated_nodes_added_by_run(point.settings, plan.selector, role)
        why = _why_capacity_missing(plan, nodes)
        gpus = (
            plan.gpus * plan.workloads if nodes is None else duration_and_capacity_estimate.count_node_gpus(plan, nodes)
        )
        estimate = (
            None if why else duration_and_capacity_estimate.estimate_by_scheduling(plan, gpus, real=nodes is None)
        )
        if estimate is None:
            texts[point.name] = why
        else:
            estimates[point.name], texts[point.name] = estimate, estimate.text()
    if len(points) > 1 and len(estimates) == len(points):
        texts["all"] = duration_and_capacity_estimate.format_total_estimate(list(estimates.values()))
    return texts


def _request_durations(role: Path, points: Sequence[MatrixPoint], render: Render) -> dict[str, str]:
    texts: dict[str, str] = {}
    total, word = 0.0, "about"
    for point, asked in _requests_of_points(role, points, render):
        if seconds := _requests_of_point(asked)[2]:
            # A search ends when its answer is certain enough.
            word = "at most" if any(dict(asked.get("search") or {}).values()) else word
            texts[point.name] = f"requests for {word} {seconds:,.0f} s"
            total += seconds
    if len(points) > 1 and len(texts) == len(points):
        texts["all"] = f"all {formats.format_count(len(points), 'point')}: {word} {total:,.0f} s"
    return texts


def first_point_that_cannot_run(role: Path, points: Sequence[MatrixPoint], render: Render) -> str:
    """Return the first point with a load that can never run on the simulated nodes, and why; an empty string if none.

    role: folder of the project's role. Raises InputError for an invalid load.
    """
    for point, plan in _loads_of_points(role, points, render):
        if why := _why_capacity_missing(plan, simulated_nodes_added_by_run(point.settings, plan.selector, role)):
            return f"{role.name}, point {point.name}: {why}"
    return ""


#: Above these numbers, others who use the cluster notice a load: pods of a point, pods in one second, simulated nodes.
HEAVY_PODS, HEAVY_RATE, HEAVY_NODES, HEAVY_GPUS = 500, 50, 100, 10_000
#: Above these numbers of seconds, workloads of a point, or what waits for them, keep the cluster from others.
HEAVY_LOAD, HEAVY_TIMEOUT = 4 * 3600, 24 * 3600
#: Above this number of seconds, all points of a run together do.
HEAVY_RUN = 24 * 3600


def first_heavy_load(role: Path, points: Sequence[MatrixPoint], render: Render, attempts: int = 0) -> str:
    """Return the first point whose load is heavy, and why, or why all together are; an empty string if none is.

    role: folder of the project's role. attempts: at all points together. Raises InputError for an invalid load.
    """
    total = 0.0
    for point, asked in _requests_of_points(role, points, render):
        if why := why_load_is_heavy(asked):
            return f"point {point.name} {why}"
        total += _requests_of_point(asked)[2]
    for point in points:
        if (nodes := point.settings.get("fake_gpu_nodes") or 0) > HEAVY_NODES:
            return f"point {point.name} has {formats.format_count(nodes, 'simulated node')} (at most {HEAVY_NODES})"
        if (gpus := nodes * (point.settings.get("fake_gpu_gpus_per_node") or 0)) > HEAVY_GPUS:
            return f"point {point.name} has {formats.format_count(gpus, 'simulated GPU')} (at most {HEAVY_GPUS:,})"
        for name in (f"{role.name}_timeout", f"{role.name}_ready_timeout"):
            if (seconds := point.settings.get(name) or 0) > HEAVY_TIMEOUT:
                return f"point {point.name} waits for {formats.format_duration(seconds)} ({name}; at most 24 h)"
            # Such a time is asked for on purpose: workloads may last as long, whatever the estimate is.
            total += seconds if seconds > HEAVY_LOAD else 0
    for point, load in _loads_of_points(role, points, render):
        if (seconds := max(load.offsets, default=0.0) + load.seconds) > HEAVY_LOAD:
            return f"point {point.name} has workloads for {formats.format_duration(seconds)} (at most 4 h)"
        if (number := load.all_pods) > HEAVY_PODS:
            return f"point {point.name} has {formats.format_count(number, 'pod')} (at most {HEAVY_PODS})"
        if (rate := duration_and_capacity_estimate.peak_creations_per_second(load) * load.pods) > HEAVY_RATE:
            return f"point {point.name} sends {formats.format_count(rate, 'pod')} in a second (at most {HEAVY_RATE})"
        total += seconds
    total *= max(1.0, attempts / max(1, len(points)))
    if total > HEAVY_RUN:
        return f"its points keep the cluster for {formats.format_duration(total)} (at most 24 h)"
    return ""


def simulated_nodes_added_by_run(
    settings: Mapping[str, Any], selector: Mapping[str, str], role: Path
) -> list[duration_and_capacity_estimate.Node] | None:
    """Return the nodes that the run adds to a simulated cluster; None if only the cluster can tell.

    role: folder of the project's role, which may bring components of the cluster.
    """
    provider = PROVIDERS.get(settings.get("cluster_provider", ""))
    # The capacity of such nodes is that of machines.
    real = ("node_scaling_count", "node_scaling_users", "node_scaling_sets", "rehearsal_nodes_real")
    if provider is None or not provider.simulated or any(settings.get(name) for name in real):
        return None
    if _have_real_node(tuple(map(str, settings.get("rehearsal_components") or ())), role):
        return None
    allocatable = {
        "nvidia.com/gpu": settings["fake_gpu_gpus_per_node"],
        "cpu": settings["fake_gpu_cpu"],
        "memory": f"{settings['fake_gpu_node_memory_gib']}Gi",
    }
    return duration_and_capacity_estimate.node_objects_to_create(
        [{"count": settings["fake_gpu_nodes"], "allocatable": allocatable}], selector
    )


def _doctor_document(role: Path) -> Mapping[str, Any]:
    """Return meta/doctor.yml of a role; empty without one."""
    path = role / "meta" / "doctor.yml"
    return (files.read_yaml(path) or {}) if path.exists() else {}


def components_of_kinds(role: Path, trees: Sequence[Mapping[str, Any]], render: Render) -> list[str]:
    """Return the components of a rehearsal cluster that have the kinds of the workloads of all points.

    role: folder of the project's role. trees: the settings of each point. Raises InputError for an unknown kind.
    """
    document = _doctor_document(role)
    template = {key: document.get(key) or [] for key in ("workloads", "watches")}
    loads: list[dict[str, Any]] = []
    for settings in trees if any(template.values()) else ():
        load, unknown = render(template, settings)
        if not unknown and load not in loads:  # if it is unknown, the kind is known only during the run
            loads.append(load)
    places = [role / "files" / "kinds"]
    names = (workload_kinds.components_of_load(load["workloads"], load["watches"], places) for load in loads)
    return list(dict.fromkeys(itertools.chain.from_iterable(names)))


@functools.cache
def _have_real_node(components: tuple[str, ...], role: Path) -> bool:
    """Return whether a real node is among these components of a rehearsal cluster, or those that they require."""
    places = [role / "files" / "kinds"]
    names = workload_kinds.replace_kinds_with_component_folders(components, project_role.COMPONENTS, places)
    return component_spec.REAL_NODE_COMPONENT in component_selection.names_with_required(project_role.COMPONENTS, names)


def _why_capacity_missing(
    plan: duration_and_capacity_estimate.PointLoad, nodes: Sequence[duration_and_capacity_estimate.Node] | None
) -> str:
    why = duration_and_capacity_estimate.why_capacity_is_missing(plan, nodes) if nodes is not None else ""
    return f"can never run on the {formats.format_count(len(nodes or ()), 'simulated node')}: {why}" if why else ""


def _requests_of_points(
    role: Path, points: Sequence[MatrixPoint], render: Render
) -> Iterator[tuple[MatrixPoint, dict[str, Any]]]:
    """Yield the entry ``requests`` of each point, rendered, as far as it is known; none of other projects."""
    template = _doctor_document(role).get("requests") or {}
    for point in points if template else ():
        asked, unknown = render(template, point.settings)
        if isinstance(arrival := asked.get("arrival"), dict):
            asked = {**asked, "arrival": arrival_with_trace_content(arrival, role / "files")}
        if not unknown:
            yield point, asked


def _loads_of_points(
    role: Path, points: Sequence[MatrixPoint], render: Render
) -> Iterator[tuple[MatrixPoint, duration_and_capacity_estimate.PointLoad]]:
    """Yield the load of each point, as far as it is known. Raises InputError for an invalid load."""
    template: dict[str, Any] = _doctor_document(role).get("plan") or {}
    number = 0
    for point in points if template else ():
        plan, unknown = render(template, point.settings)
        if unknown or not _add_trace_to_plan(plan, role):
            continue
        if problem := duration_and_capacity_estimate.first_invalid_entry(plan):
            name, why = problem
            raise InputError(
                f"{role.name}, point {point.name}: {why} (from {_setting_names_in_template(template[name], role)})"
            )
        try:
            load = duration_and_capacity_estimate.load_of_planned_point(point.name, plan)
        except InputError as error:
            raise InputError(f"{role.name}, point {point.name}: {error}") from error
        if load.workloads == 0:
            names = _setting_names_in_template(template["workloads"], role)
            raise InputError(f"{role.name}, point {point.name}: the load has no workload (from {names})")
        number += load.workloads
        if number > MOST_WORKLOADS:
            raise InputError(
                f"{role.name}: the points up to {point.name} have {number:,} workloads, and {MOST_WORKLOADS:,} are the"
                " most of one run: make several runs"
            )
        yield point, load


def _setting_names_in_template(template: object, role: Path) -> str:
    """Return the names of a role's settings in the template of an entry, for a message; else the template."""
    names = dict.fromkeys(re.findall(rf"\b{role.name}_\w+", str(template)))
    return ", ".join(names) or str(template)


def _add_trace_to_plan(plan: dict[str, Any], role: Path) -> bool:
    """Add the content of its trace to a plan; return False if the trace file was not found."""
    arrival = plan.get("arrival")
    if not isinstance(arrival, dict) or not arrival.get("src") or arrival.get("content"):
        return True
    plan["arrival"] = arrival_with_trace_content(arrival, role / "files")
    return "content" in plan["arrival"]


def arrival_with_trace_content(arrival: dict[str, Any], folder: Path | None = None) -> dict[str, Any]:
    """Return ``arrival`` with the content of the file that it names, if there is such a file. Raises InputError."""
    name = str(arrival.get("src") or "")
    for path in (Path(convert_setting_values.absolute_path(name)), *([folder / name] if folder else [])):
        if name and path.is_file():
            try:
                return {**arrival, "content": path.read_text(encoding="utf-8")}
            except (OSError, UnicodeDecodeError) as error:
                raise InputError(f"{path} can't be read: {error}") from error
    return arrival


#: Settings of the versions of components of a rehearsal cluster.
VERSION_SETTINGS = ("rehearsal_versions", "rehearsal_sources")
#: Beginnings of the names of settings about nodes, and about a rehearsal cluster and its workers.
NODE_PREFIXES = ("cluster_workers", "node_scaling_", "fake_gpu_", "rehearsal_")
#: Those of them that may differ between points: number and size of nodes, versions of components.
NODE_SETTINGS = (
    "node_scaling_count",
    "node_scaling_users",
    "fake_gpu_nodes",
    "fake_gpu_gpus_per_node",
    "fake_gpu_cpu",
    "fake_gpu_node_memory_gib",
    "fake_gpu_pods_per_node",
    "fake_gpu_product",
    "fake_gpu_memory_mib",
    *VERSION_SETTINGS,
)


def node_scaling_before_point(run_dir: Path, folder: Path) -> tuple[bool, dict[str, Any]]:
    """Return whether the nodes must be scaled before a point, and its settings that differ from those of the run.

    A point with the nodes of the run must be scaled too if a point before it was. folder: that of the point.
    """
    run, point = (files.read_yaml(directory / "settings.yml") for directory in (run_dir, folder))
    differs = node_settings_unlike_run(run, point)
    return bool(
        differs or any(attempt.record.get("nodes") for attempt in choose_next_point.read_attempts(run_dir))
    ), differs


def node_settings_unlike_run(run: Mapping[str, Any], point: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings about the number and the size of nodes of a point that are not those of the run."""
    return {name: point.get(name) for name in NODE_SETTINGS if point.get(name) != run.get(name)}

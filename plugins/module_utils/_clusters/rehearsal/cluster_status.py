# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of an instance, read without changing anything and without waiting."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import SeatrialError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client

from . import (
    cached_and_user_programs,
    component_selection,
    instance_processes,
    process_launch_plan,
    provide_component_programs,
)
from .cached_and_user_programs import ComponentPrograms
from .component_selection import RehearsalOptions, process_start_levels
from .component_selection import processes_of_components as processes_of
from .component_spec import FILE, REAL_NODE_COMPONENT, ProcessSpec, RehearsalComponent
from .instance_dir import InstanceMarker, InstancePaths, list_instance_markers
from .process_launch_plan import API_PORT


def read_instance_state(options: RehearsalOptions) -> dict[str, Any]:
    """Return the state of the instance, without changing anything and without waiting.

    A component whose folder is gone is left out: a run must be able to give back an instance without it.
    """
    instance = options.instance
    marker = instance.marker()
    others = list_instance_markers(options.data_dir)
    if marker is None:
        left = [
            instance_processes.process_result_entry(process, None)
            for process in instance_processes.list_running_processes(instance.path)
        ]
        state = "partial" if left else "absent"
        return {
            "changed": False,
            "state": state,
            "ready": False,
            "name": instance.name,
            "processes": left,
            "lines": [
                f"there is no rehearsal cluster {instance.name} in {instance.root}",
                *_format_leftover_processes(left),
            ],
            "instances": others,
        }
    names = [name for name in marker.components if "/" not in name or (Path(name).expanduser() / FILE).is_file()]
    components = replace(options, versions={}, sources={}).select(names)
    result = describe_instance_state(options, instance, marker, components)
    with suppress(SeatrialError, OSError):
        with_versions = replace(options, versions=marker.versions, sources=marker.sources)
        components = with_versions.select(names)
        if not cached_and_user_programs.components_without_programs(components, options.program_sources):
            programs, _made = provide_component_programs.provide_component_programs(
                components, options.program_sources, lambda _line: None
            )
            result.update(program_results(programs))
    return {"changed": False, **result, "lines": summarize_instance_in_lines(result, details=True), "instances": others}


def _format_leftover_processes(left: list[dict[str, Any]]) -> list[str]:
    return [
        f"but its {process['name']} still runs, pid {process['pid']}: end it with --tags absent" for process in left
    ]


def summarize_instance_in_lines(result: Mapping[str, Any], details: bool = False) -> list[str]:
    """Return lines for the terminal: the state of an instance, how to use it, with ``details`` each process."""
    # Without colons and quotation marks: Ansible shows lists as YAML and would wrap the lines in more of them.
    if result["ready"]:
        head = f"rehearsal cluster {result['name']} is ready"
    else:
        lacking = [process["name"] for process in result["processes"] if not process["ready"]]
        head = f"rehearsal cluster {result['name']} is incomplete, not ready - {', '.join(lacking)}"
    changed = ", ".join(f"{name} {version}" for name, version in result.get("changed_versions", {}).items())
    lines = [
        head,
        f"{result['version'] or 'Kubernetes'} at {result['api_url']}, {result['memory_mib']} MiB of memory",
        _what_is_real(result["components"]),
        *([f"in another version - {changed}"] if changed else []),
        f"export KUBECONFIG={shlex.quote(result['kubeconfig'])}",
    ]
    if result.get("kubectl"):
        lines.append(f"alias kubectl={shlex.quote(shlex.quote(result['kubectl']))}")  # the shell reads it twice
    if details:
        whose = f"run {result['owner']}" if result["owner"] else "no run"
        lines.append(f"belongs to {whose}, created {result['created']}, data in {result['data_dir']}")
        for process in result["processes"]:
            state = (
                "is ready" if process["ready"] else "runs but is not ready" if process["running"] else "does not run"
            )
            used = f", pid {process['pid']}, {process['memory_mib']} MiB" if process["running"] else ""
            where = "".join(f", {name} port {port}" for name, port in process.get("ports", {}).items())
            lines.append(f"{process['name']} {state}{used}{where}")
    return lines


def _what_is_real(components: list[str]) -> str:
    if REAL_NODE_COMPONENT in components:
        real = f"the control plane and node {component_selection.REAL_NODE} with its pods are real"
        return f"{real}, other nodes and pods are simulated"
    return "the control plane is real, nodes and pods are simulated"


def describe_instance_state(
    options: RehearsalOptions, instance: InstancePaths, marker: InstanceMarker, components: list[RehearsalComponent]
) -> dict[str, Any]:
    """Return the present state of an instance. ``cluster`` is its record in the run's cluster.yml."""
    chosen = process_launch_plan.read_ports(instance)
    alive = {process.name: process for process in instance_processes.list_running_processes(instance.path)}
    rows: list[dict[str, Any]] = []
    for spec in (process for level in process_start_levels(processes_of(components)) for process in level):
        running_process = alive.pop(spec.name, None)
        row: dict[str, Any] = {"name": spec.name, "running": running_process is not None, "ready": False}
        if running_process is not None:
            row.update(
                instance_processes.process_result_entry(
                    running_process, instance_processes.read_process_record(instance.records, spec.name)
                )
            )
            row["ready"] = _is_ready(instance, spec, components, chosen)
        row["ports"] = {port: chosen.get(f"{spec.name}.{port}", 0) for port in spec.ports}
        row["log"] = str(instance.log_of(spec.name))
        rows.append(row)
    rows += [
        {"running": True, "ready": False, **instance_processes.process_result_entry(process, None)}
        for process in alive.values()
    ]
    ready = all(row["ready"] for row in rows)
    host = f"{instance_processes.LOOPBACK}:{chosen.get(API_PORT, 0)}"
    cluster = {
        "provider": "rehearsal",
        "state": "acquired",
        "owned": marker.owner == options.owner,
        "simulated": True,
        "simulated_writers": ["node"],
        "name": instance.name,
        "kubeconfig": str(instance.kubeconfig),
        "context": f"rehearsal-{instance.name}",
        "api_host": host,
        "version": _read_kubernetes_version(instance) if ready else "",
        "owner": marker.owner or None,
        "expires": marker.expires,
        "data_dir": str(instance.path),
        "played_logs": str(instance.played_logs),
        "audit_log": str(instance.audit_log),
    }
    return {
        "state": "present" if ready else "partial",
        "ready": ready,
        "api_url": f"https://{host}",
        "created": marker.created,
        "components": marker.components,
        "processes": rows,
        "changed_versions": marker.built,
        "memory_mib": sum(row.get("memory_mib", 0) for row in rows),
        "cluster": cluster,
        **{key: cluster[key] for key in _TOP},
    }


#: Keys of the cluster record that are also keys of the result.
_TOP = ("name", "kubeconfig", "api_host", "version", "owned", "owner", "data_dir", "played_logs", "audit_log")


def _is_ready(
    instance: InstancePaths, process: ProcessSpec, components: list[RehearsalComponent], chosen: dict[str, int]
) -> bool:
    values = process_launch_plan.placeholder_values(instance, components, chosen)
    try:
        asked = [
            probe for probe, _path in process_launch_plan.process_readiness_probes(process, values) if probe is not None
        ]
        return all(instance_processes.probe_process_readiness(probe, instance.pki) == "" for probe in asked)
    except (SeatrialError, OSError):
        return False


def _read_kubernetes_version(instance: InstancePaths) -> str:
    try:
        with Client.from_kubeconfig(instance.kubeconfig, timeout=5) as client:
            return str(client.request("GET", "/version")["gitVersion"])
    except SeatrialError:
        return ""


def program_results(programs: Mapping[str, ComponentPrograms]) -> dict[str, Any]:
    """Return the module's results about programs: paths, versions, origins."""
    paths = {name: str(path) for program in programs.values() for name, path in program.paths.items()}
    versions = {program.component: program.version for program in programs.values()}
    origins = {program.component: program.source for program in programs.values()}
    return {"binaries": paths, "versions": versions, "sources": origins, "kubectl": paths.get("kubectl", "")}

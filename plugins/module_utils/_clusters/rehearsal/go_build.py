# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the programs of a component with Go, and the CustomResourceDefinitions of its modules."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ProcessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import parse_json
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.waiting import Say

from .component_spec import CrdSource, RehearsalComponent
from .component_versions import copy_checkout
from .go_toolchain import (
    CHECKOUT_TIMEOUT,
    Toolchain,
    download_module,
    find_toolchain,
    go_version_required_by_module,
    run_go_command,
)
from .instance_dir import hold_file_lock

GIB = 2**30
#: Flags of compilations. Without the data for debuggers, which are not linked anyway, they take 15 % less CPU time.
COMPILING = ["-gcflags=all=-dwarf=false"]


def build_programs_and_crds(component: RehearsalComponent, fresh: Path, crds: Path, cache: Path, say: Say) -> str:
    """Build the programs of a component into ``fresh``/bin and its CRDs into ``crds``; return their origin.

    Raises ProcessError.
    """
    toolchain = find_toolchain(go_version_required_by_module(component.folder), cache, say)
    build = component.build
    say(f"building {component.name} {component.version} with Go {toolchain.text}")
    # Copied, because an installed collection may be read-only, and a build may leave files behind.
    work = fresh / "src"
    work.mkdir()
    for file in component_source_files(component.folder):
        shutil.copyfile(file, work / file.name)
    # Go's own temporary files are beside the build, so that an interrupted build leaves none of its 900 MB in /tmp.
    temporary = fresh / "tmp"
    temporary.mkdir()
    toolchain = replace(toolchain, caches={**toolchain.caches, "GOTMPDIR": str(temporary)}, cgo=build.cgo)
    changed = bool(component.release or component.source)
    with _changed_module(component, toolchain, work, cache, say) as checkout:
        _build_programs(component, replace(toolchain, completes=changed), work, fresh / "bin", say)
        if component.crds:
            copy_crds_of_modules(component.crds, toolchain, crds, say, {build.module: checkout} if checkout else {})
    shutil.rmtree(work)
    shutil.rmtree(temporary)
    return f"built with Go {toolchain.text}{f' from {component.source}' if component.source else ''}"


@contextmanager
def _changed_module(
    component: RehearsalComponent, toolchain: Toolchain, work: Path, cache: Path, say: Say
) -> Iterator[Path | None]:
    """Let go.mod in ``work`` have the component's release or checkout; yield the copy of the checkout, if any.

    The copy is locked meanwhile, because builds of other versions of the checkout change it.
    """

    def edit(argument: str) -> None:
        run_go_command(toolchain, ["mod", "edit", argument], work, say, "go.mod", 60)

    if component.release:
        use_go_mod_of_release(component, work)
        edit(f"-require={component.release}")
    if component.source is None:
        yield None
        return
    name = f"{component.name}-{hashlib.sha256(component.source.folder.encode()).hexdigest()[:12]}"
    place = cache / "rehearsal" / "checkouts" / name
    with hold_file_lock(place.with_name(f".{name}.lock"), CHECKOUT_TIMEOUT, f"the copy of {component.source.folder}"):
        edit(f"-replace={component.build.module}={copy_checkout(component.source, place)}")
        yield place


def use_go_mod_of_release(component: RehearsalComponent, work: Path) -> None:
    """Let ``work`` have the go.mod that the component's release has, if any, and a go.sum with its recorded hash."""
    release = component.versions[component.version.partition("+")[0]]
    if release.go_mod:
        shutil.copyfile(component.folder / release.go_mod, work / "go.mod")
        (work / "go.sum").write_text(component.release.replace("@", " ") + f" {release.sum}\n", encoding="utf-8")


def _build_programs(component: RehearsalComponent, toolchain: Toolchain, work: Path, target: Path, say: Say) -> None:
    build = component.build
    stamps = "".join(f" -X {name}={value}" for name, value in build.stamp.items())
    # Without -trimpath: it names a package by the version that go.mod requires, also where another one replaces it, so
    # that components with equal packages would not share them.
    common = ["build", "-v", *COMPILING, "-ldflags", f"-s -w{stamps}"]
    limit = build.minutes * 60 * 10 + 300
    if build.tags:
        common += ["-tags", ",".join(build.tags)]
    for output, packages in go_build_arguments(build.binaries):
        command = [*common, "-o", str(target / output), *packages]
        run_go_command(toolchain, command, work, say, component.name, limit)


def component_source_files(folder: Path) -> list[Path]:
    """Return the files that determine what Go builds in a component's folder; tests do not."""
    return [
        path
        for path in [*folder.glob("go.mod"), *folder.glob("go.sum"), *folder.glob("*.go")]
        if not path.name.endswith("_test.go")
    ]


def go_build_arguments(binaries: Mapping[str, str]) -> list[tuple[str, list[str]]]:
    """Return the arguments of each ``go build -o``: one call for all programs that Go names so, one for each other."""
    named = [package for name, package in binaries.items() if package.rpartition("/")[2] == name]
    alone = [(name, [package]) for name, package in binaries.items() if package.rpartition("/")[2] != name]
    return ([("", named)] if named else []) + alone


def copy_crds_of_modules(
    wanted: list[CrdSource],
    toolchain: Toolchain,
    target: Path,
    say: Say,
    checkouts: Mapping[str, Path] = MappingProxyType({}),
) -> None:
    """Copy CRDs from published modules into one file. checkouts: folders that replace modules.

    Raises ProcessError for a module whose hash is not the recorded one or that lacks a file.
    """
    parts: list[str] = []
    for requirement in wanted:
        folder = checkouts.get(requirement.module)
        name = str(folder or f"module {requirement.module}@{requirement.version}")
        module = {} if folder else download_module(toolchain, requirement.module, requirement.version, say)
        if folder is None and module.get("Sum") != requirement.sum:
            raise ProcessError(
                f"{name} has the hash {module.get('Sum')},"
                f" recorded is {requirement.sum}:"
                " it was changed after its publication, or the proxy can't be trusted"
            )
        for pattern in requirement.files:
            files = sorted((folder or Path(module["Dir"])).glob(pattern))
            if not files:
                raise ProcessError(f"{name} has no file '{pattern}'")
            parts += [file.read_text(encoding="utf-8").strip().removeprefix("---") for file in files]
    target.write_text("---" + "\n---".join(f"\n{part.strip()}\n" for part in parts), encoding="utf-8")


def check_disk_space_for_builds(components: list[RehearsalComponent], cache: Path, say: Say) -> None:
    """Raise ProcessError if cold builds of ``components`` do not fit on the disks of Go's caches.

    A build is warm, and needs little space, if Go has unpacked the component's main module on this machine before.
    """
    toolchain = find_toolchain(
        max(go_version_required_by_module(component.folder) for component in components), cache, say
    )
    caches = _go_caches(toolchain, components[0].folder)
    cold = [component for component in components if not _is_warm(component, caches.get("GOMODCACHE", ""))]
    needed = sum(component.build.disk_gib for component in cold)
    for place in {folder for folder in [*caches.values(), str(cache)] if folder}:
        there = next(parent for parent in [Path(place), *Path(place).parents] if parent.exists())
        free = shutil.disk_usage(there).free / GIB
        if free < needed:
            raise ProcessError(
                f"building {', '.join(component.name for component in cold)} takes up to {needed:.0f} GiB,"
                f" {free:.1f} GiB are free"
                f" at {there}. Free some, or set GOCACHE and GOMODCACHE and rehearsal_cache_dir to a larger disk"
            )


def _go_caches(toolchain: Toolchain, folder: Path) -> dict[str, str]:
    text = run_go_command(
        toolchain, ["env", "-json", "GOCACHE", "GOMODCACHE"], folder, lambda _line: None, "go env", 60
    )
    return dict(parse_json(text))


def _is_warm(component: RehearsalComponent, modules: str) -> bool:
    """Return whether Go has unpacked the component's main module on this machine."""
    version = component.version.partition("+")[0]
    return bool(modules) and bool(list(Path(modules).glob(f"{component.build.module}@*{version}")))

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Building the programs and CRDs of a component with Go."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ProcessError

from . import go_toolchain
from .component_spec import Component, CrdSource

Say = Callable[[str], None]

GIB = 2**30

#: Flags of compilations. Without the data for debuggers, which are not linked anyway, they take 15 % less CPU time.
COMPILING = ["-gcflags=all=-dwarf=false"]


def build_all(component: Component, fresh: Path, crds: Path, cache: Path, say: Say) -> str:
    """Build the programs of a component into ``fresh``/bin and its CRDs into ``crds``; return their origin.

    Raises ProcessError.
    """
    toolchain = go_toolchain.find(go_toolchain.needed(component.folder), cache, say)
    build = component.build
    say(f"building {component.name} {component.version} with Go {toolchain.text}")
    # Copied, because an installed collection may be read-only, and a build may leave files behind.
    work = fresh / "src"
    work.mkdir()
    for file in sources_of(component.folder):
        shutil.copyfile(file, work / file.name)
    # Go's own temporary files are beside the build, so that an interrupted build leaves none of its 900 MB in /tmp.
    temporary = fresh / "tmp"
    temporary.mkdir()
    toolchain = replace(toolchain, caches={**toolchain.caches, "GOTMPDIR": str(temporary)}, cgo=build.cgo)
    stamps = "".join(f" -X {name}={value}" for name, value in build.stamp.items())
    # Without -trimpath: it names a package by the version that go.mod requires, also where another one replaces it, so
    # that components with equal packages would not share them.
    common = ["build", "-v", *COMPILING, "-ldflags", f"-s -w{stamps}"]
    limit = build.minutes * 60 * 10 + 300
    if build.tags:
        common += ["-tags", ",".join(build.tags)]
    for output, packages in targets(build.binaries):
        command = [*common, "-o", str(fresh / "bin" / output), *packages]
        go_toolchain.run(toolchain, command, work, say, component.name, limit)
    if component.crds:
        write_crds(component.crds, toolchain, crds, say)
    shutil.rmtree(work)
    shutil.rmtree(temporary)
    return f"built with Go {toolchain.text}"


def sources_of(folder: Path) -> list[Path]:
    """Return the files that determine what Go builds in a component's folder; tests do not."""
    return [one for one in [*folder.glob("go.*"), *folder.glob("*.go")] if not one.name.endswith("_test.go")]


def targets(binaries: Mapping[str, str]) -> list[tuple[str, list[str]]]:
    """Return the arguments of each ``go build -o``: one call for all programs that Go names so, one for each other."""
    named = [package for name, package in binaries.items() if package.rpartition("/")[2] == name]
    alone = [(name, [package]) for name, package in binaries.items() if package.rpartition("/")[2] != name]
    return ([("", named)] if named else []) + alone


def write_crds(wanted: list[CrdSource], toolchain: go_toolchain.Toolchain, target: Path, say: Say) -> None:
    """Copy CRDs from published modules into one file.

    Raises ProcessError for a module whose hash is not the recorded one or that lacks a file.
    """
    parts: list[str] = []
    for one in wanted:
        module = go_toolchain.download(toolchain, one.module, one.version, say)
        if module.get("Sum") != one.sum:
            raise ProcessError(
                f"module {one.module}@{one.version} has the hash {module.get('Sum')}, recorded is {one.sum}:"
                " it was changed after its publication, or the proxy can't be trusted"
            )
        for pattern in one.files:
            files = sorted(Path(module["Dir"]).glob(pattern))
            if not files:
                raise ProcessError(f"module {one.module}@{one.version} has no file '{pattern}'")
            parts += [file.read_text(encoding="utf-8").strip().removeprefix("---") for file in files]
    target.write_text("---" + "\n---".join(f"\n{one.strip()}\n" for one in parts), encoding="utf-8")


def check_room(components: list[Component], cache: Path, say: Say) -> None:
    """Raise ProcessError if cold builds of ``components`` do not fit on the disks of Go's caches.

    A build is warm, and needs little space, if Go has unpacked the component's main module on this machine before.
    """
    toolchain = go_toolchain.find(max(go_toolchain.needed(one.folder) for one in components), cache, say)
    caches = _go_caches(toolchain, components[0].folder)
    cold = [one for one in components if not _is_warm(one, caches.get("GOMODCACHE", ""))]
    needed = sum(one.build.disk_gib for one in cold)
    for place in {one for one in [*caches.values(), str(cache)] if one}:
        there = next(one for one in [Path(place), *Path(place).parents] if one.exists())
        free = shutil.disk_usage(there).free / GIB
        if free < needed:
            raise ProcessError(
                f"building {', '.join(one.name for one in cold)} takes up to {needed:.0f} GiB, {free:.1f} GiB are free"
                f" at {there}. Free some, or set GOCACHE and GOMODCACHE and rehearsal_cache_dir to a larger disk"
            )


def _go_caches(toolchain: go_toolchain.Toolchain, folder: Path) -> dict[str, str]:
    text = go_toolchain.run(
        toolchain, ["env", "-json", "GOCACHE", "GOMODCACHE"], folder, lambda _line: None, "go env", 60
    )
    return dict(json.loads(text))


def _is_warm(component: Component, modules: str) -> bool:
    """Return whether Go has unpacked the component's main module on this machine."""
    return bool(modules) and bool(list(Path(modules).glob(f"{component.build.module}@*{component.version}")))

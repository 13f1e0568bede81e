# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs of the components that are there already: given by the user, or in the cache.

The cache has one folder per component, named by its version and a hash of everything that determines its programs.
Its files are compared with the checksums that were recorded when they were created.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    DataError,
    InputError,
    OwnershipError,
    suggest_similar_name,
)

from . import go_build, program_download
from .component_spec import RehearsalComponent


def file_change_signature(path: Path) -> list[int]:
    """Return what changes with every write to a file: size, ctime (which can't be set), inode."""
    state = os.stat(path)
    return [state.st_size, state.st_ctime_ns, state.st_ino]


def verify_cached_checksums(expected: Mapping[Path, str]) -> None:
    """Compare cached programs with their recorded checksums. Raises OwnershipError naming a changed one.

    A file that was verified before and not written since is not read again, which would take half of a start's time.
    """
    for path, checksum in expected.items():
        _verify_one(path, checksum)


def _verify_one(path: Path, expected: str) -> None:
    entry = path.parent.parent if path.parent.name == "bin" else path.parent
    seen_file = entry / f".seen-{path.name}.json"
    seen = [expected, *file_change_signature(path)]
    try:
        if files.read_json(seen_file) == seen:
            return
    except DataError:
        pass
    checksum = files.sha256_of(path)
    if checksum != expected:
        raise OwnershipError(
            f"{path} was changed since it was created (checksum {checksum[:12]}…, recorded {expected[:12]}…):"
            f" it is not started. Remove {entry} to have it built or downloaded again"
        )
    # The cache may be shared and read-only: then the file is read every time.
    with contextlib.suppress(OSError):
        files.write_json(seen_file, seen)


ENTRY = "entry.json"


CRDS = "crds.yml"
#: Published programs that are fetched: those whose checksums the component has, also others that match the checksum of
#: their publisher, none.
PINNED, CHECKED, NEVER = PUBLISHED = ("pinned", "checked", "never")


@dataclass(frozen=True)
class ProgramSources:
    """Sources of programs. ``given``: name to path; ``folder``: searched for all others; ``url``: the user's server.

    ``publishers``: which programs their publishers are asked for before they are built, one of PUBLISHED.
    """

    cache: Path
    given: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""
    url: str = ""
    publishers: str = PINNED

    @property
    def record(self) -> Path:
        """The file of the checksums of downloads, as they were at first use."""
        return self.cache / "rehearsal" / "downloads.json"


@dataclass(frozen=True)
class ComponentPrograms:
    """The programs of one component. ``source``: their origin, in words."""

    component: str
    version: str
    paths: dict[str, Path]
    sums: dict[str, str]
    crds: Path | None
    source: str


def component_cache_key(component: RehearsalComponent) -> str:
    """Return a hash of everything that determines a component's programs and CRDs."""
    digest = hashlib.sha256()
    for file in sorted(go_build.component_source_files(component.folder)):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    build = component.build
    if build.wheel:
        digest.update((component.folder / build.wheel).read_bytes())
    recipe = [
        build.binaries,
        build.tags,
        build.stamp,
        [crd.__dict__ for crd in component.crds],
        *program_download.go_os_and_architecture(),
        *([build.debian, build.cgo] if build.debian or build.cgo else []),
        *([component.release] if component.release else []),
        *_go_mod_of_release(component),
        *([component.source.digest] if component.source else []),
    ]
    digest.update(json.dumps(recipe, sort_keys=True).encode())
    return digest.hexdigest()[:12]


def _go_mod_of_release(component: RehearsalComponent) -> list[str]:
    """Return the content of the go.mod that only the component's release has."""
    release = component.versions.get(component.version.partition("+")[0]) if component.release else None
    return [(component.folder / release.go_mod).read_text(encoding="utf-8")] if release and release.go_mod else []


def component_cache_folder(component: RehearsalComponent, cache: Path) -> Path:
    """Return the component's folder in the cache, which need not exist."""
    return cache / "rehearsal" / f"{component.name}-{component.version}-{component_cache_key(component)}"


def find_user_programs(component: RehearsalComponent, sources: ProgramSources) -> dict[str, Path]:
    """Return the programs given by the user. Raises InputError for one that is missing or not executable."""
    paths: dict[str, Path] = {}
    for name in component.build.binaries:
        if name in sources.given:
            path = Path(str(sources.given[name])).expanduser()
            if not (path.is_file() and os.access(path, os.X_OK)):
                raise InputError(f"rehearsal_binaries: {name} is '{path}', which is not an executable file")
            paths[name] = path.resolve()
        elif sources.folder and os.access(path := Path(sources.folder).expanduser() / name, os.X_OK):
            paths[name] = path.resolve()
    return paths


def refuse_unknown_user_programs(components: list[RehearsalComponent], sources: ProgramSources) -> None:
    """Raise InputError for a program that no component has and for a missing folder."""
    known = [name for component in components for name in component.build.binaries]
    for component in components:
        if component.source and (programs := find_user_programs(component, sources)):
            raise InputError(
                f"rehearsal_sources: {component.name} is to be built from {component.source}, but its program"
                f" {next(iter(programs))} is given (rehearsal_binaries, rehearsal_binaries_dir): leave one of them out",
                setting="rehearsal_sources",
            )
    for name in sources.given:
        if name not in known:
            raise InputError(
                f"rehearsal_binaries: no component has a program '{name}'{suggest_similar_name(name, known)}"
            )
    if sources.folder and not Path(sources.folder).expanduser().is_dir():
        raise InputError(f"rehearsal_binaries_dir: there is no folder '{sources.folder}'")


def components_without_programs(
    components: list[RehearsalComponent], sources: ProgramSources
) -> list[RehearsalComponent]:
    """Return the components that have to be downloaded or built."""
    return [component for component in components if find_existing_programs(component, sources) is None]


def find_existing_programs(component: RehearsalComponent, sources: ProgramSources) -> ComponentPrograms | None:
    """Return the programs that are available at once: given ones, and cached ones for the rest."""
    paths = find_user_programs(component, sources)
    crds = Path(sources.folder).expanduser() / "crds" / f"{component.name}.yml" if sources.folder else None
    crds = crds if crds is not None and crds.is_file() else None
    if set(paths) == set(component.build.binaries):
        if component.crds and crds is None:
            crds = next((path for path in candidate_crds_paths(component, sources) if path.is_file()), None)
        if crds is not None or not component.crds:
            return ComponentPrograms(component.name, component.version, paths, {}, crds, "given")
        return None
    cached = read_cached_programs(component, component_cache_folder(component, sources.cache))
    if cached is None:
        return None
    sums = {name: sum_ for name, sum_ in cached.sums.items() if name not in paths}
    source = f"{cached.source}; given: {', '.join(sorted(paths))}" if paths else cached.source
    return ComponentPrograms(
        component.name, component.version, {**cached.paths, **paths}, sums, crds or cached.crds, source
    )


def candidate_crds_paths(component: RehearsalComponent, sources: ProgramSources) -> tuple[Path, Path]:
    """Return the possible paths of CRDs: beside the component's programs, or alone if those were given."""
    entry = component_cache_folder(component, sources.cache)
    return entry / CRDS, entry.with_name(f"{entry.name}-{CRDS}")


def read_cached_programs(component: RehearsalComponent, folder: Path) -> ComponentPrograms | None:
    """Return a component's programs in the cache, None unless they are complete."""
    try:
        entry = files.read_json(folder / ENTRY)
        paths = {name: folder / "bin" / name for name in component.build.binaries}
        sums = {name: str(entry["sha256"][name]) for name in component.build.binaries}
    except (DataError, KeyError):
        return None
    crds = folder / CRDS if component.crds else None
    if not all(path.is_file() for path in paths.values()) or (crds is not None and not crds.is_file()):
        return None
    return ComponentPrograms(component.name, component.version, paths, sums, crds, str(entry.get("source", "cached")))


def program_paths_by_name(programs: Mapping[str, ComponentPrograms]) -> dict[str, Path]:
    """Return the paths of all programs by name."""
    return {name: path for program in programs.values() for name, path in program.paths.items()}


def verify_cached_program_checksums(programs: Mapping[str, ComponentPrograms], names: set[str]) -> None:
    """Verify the checksums of the cached programs in ``names``. Raises OwnershipError."""
    verify_cached_checksums(
        {
            program.paths[name]: program.sums[name]
            for program in programs.values()
            for name in sorted(names & set(program.sums))
        }
    )

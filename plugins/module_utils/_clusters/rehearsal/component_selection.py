# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of module rehearsal_cluster: the components that they select, and what a real node takes of the machine.

Components are selected with those that they require, checked for conflicts, and put in the order in which they start.
What a real node takes is checked before minutes are spent on the programs of the node.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    InputError,
    ProcessError,
    WaitTimeout,
    suggest_similar_name,
)

from . import component_versions, unpack_packages
from .cached_and_user_programs import PINNED, PUBLISHED, ProgramSources
from .component_spec import FILE, REAL_NODE_COMPONENT, ProcessSpec, RehearsalComponent, load_component
from .instance_dir import InstancePaths


def load_all_components(root: Path) -> dict[str, RehearsalComponent]:
    """Read every component below ``root``, by name. Raises InputError."""
    folders = sorted(path.parent for path in Path(root).glob(f"*/{FILE}"))
    if not folders:
        raise InputError(f"{root}: no components there (folders with a {FILE})")
    return {folder.name: load_component(folder) for folder in folders}


def select_required_components(
    known: Mapping[str, RehearsalComponent], wanted: Iterable[str]
) -> list[RehearsalComponent]:
    """Return the components that always run, those in ``wanted`` and those that they require, checked for conflicts.

    wanted: names, or paths of folders, which contain a "/".
    Raises InputError, for an unknown component with the nearest name.
    """
    names = [str(word) for word in wanted]
    known = {**known, **{name: load_component(Path(name).expanduser()) for name in names if "/" in name}}
    for name in names:
        if name not in known:
            raise InputError(
                f"rehearsal_components: unknown component '{name}'{suggest_similar_name(name, known)};"
                f" there are {', '.join(sorted(known))}",
                setting="rehearsal_components",
            )
    idle: set[str] = set()
    for name in names:  # grows while it is read
        for other in (*known[name].requires, *known[name].programs_of):
            if other not in known:
                raise InputError(
                    f"component {name} requires '{other}', which does not exist{suggest_similar_name(other, known)}"
                )
        idle.update(known[name].programs_of)
        names += [other for other in known[name].requires if other not in names]
    chosen = _with_added_arguments(
        [
            component if component.always or name in names else _with_programs_only(component)
            for name, component in known.items()
            if component.always or name in names or name in idle
        ]
    )
    owners: dict[str, str] = {}
    for process in processes_of_components(chosen):
        if process.name in owners:
            raise InputError(f"process {process.name} is in components {owners[process.name]} and {process.component}")
        owners[process.name] = process.component
    process_start_levels(processes_of_components(chosen))
    return chosen


def _with_programs_only(component: RehearsalComponent) -> RehearsalComponent:
    """Return a component of which only the programs and CRDs are used."""
    nothing: dict[str, Any] = {"processes": [], "certificates": [], "users": [], "images": [], "adds_arguments": {}}
    return dataclasses.replace(component, objects="", stages="", **nothing)


def _with_added_arguments(chosen: list[RehearsalComponent]) -> list[RehearsalComponent]:
    """Return the components with the arguments that others add. Raises InputError for an unknown process."""
    added: dict[str, list[str]] = {}
    processes = {process.name for process in processes_of_components(chosen)}
    for component in chosen:
        for name, arguments in component.adds_arguments.items():
            if name not in processes:
                raise InputError(
                    f"component {component.name} adds arguments to '{name}'{suggest_similar_name(name, processes)},"
                    " a process that does not run"
                )
            added.setdefault(name, []).extend(str(argument) for argument in arguments)
    if not added:
        return chosen
    return [
        dataclasses.replace(
            component,
            processes=[
                dataclasses.replace(process, arguments=[*process.arguments, *added.get(process.name, ())])
                for process in component.processes
            ],
        )
        for component in chosen
    ]


def names_with_required(root: Path, names: Iterable[Any]) -> list[str]:
    """Return components, and those that they require. root: their folder. Unknown names are left as they are."""
    result = [str(name) for name in names]
    for name in result:  # grows while it is read
        folder = Path(name).expanduser() if "/" in name else root / name
        if (folder / FILE).is_file():
            result += [other for other in load_component(folder).requires if other not in result]
    return result


def processes_of_components(components: Iterable[RehearsalComponent]) -> list[ProcessSpec]:
    """Return the processes of all components."""
    return [process for component in components for process in component.processes]


def process_start_levels(wanted: Iterable[ProcessSpec]) -> list[list[ProcessSpec]]:
    """Return the processes in start order: each level depends only on the levels before it.

    Raises InputError for a dependency on an unknown process and for a circular one.
    """
    left = list(wanted)
    names = {process.name for process in left}
    for process in left:
        for other in process.after:
            if other not in names:
                raise InputError(
                    f"process {process.name} starts after '{other}', which does not"
                    f" exist{suggest_similar_name(other, names)}"
                )
    started: set[str] = set()
    order: list[list[ProcessSpec]] = []
    while left:
        level = [process for process in left if started.issuperset(process.after)]
        if not level:
            raise InputError(f"processes wait for each other: {', '.join(process.name for process in left)}")
        order.append(level)
        started.update(process.name for process in level)
        left = [process for process in left if process.name not in started]
    return order


#: The name of the node that is real.
REAL_NODE = "real-0"

#: Seconds for a program that does nothing in new namespaces.
NAMESPACE_TIMEOUT = 30.0


def describe_limits_without_root(components: Iterable[str]) -> str:
    """Return what a real node lacks without root; an empty text if there is none or it lacks nothing."""
    if REAL_NODE_COMPONENT not in components or os.geteuid() == 0:
        return ""
    without = "without limits of CPU and memory, and all as one user"
    return f"not root: the pods of node {REAL_NODE} run in a user namespace, {without}"


def check_real_node_permitted(components: Iterable[str]) -> None:
    """Raise InputError if a real node is among ``components`` and this machine permits none."""
    if REAL_NODE_COMPONENT not in components:
        return
    spaces = ["--mount", "--pid", "--net", "--uts", "--ipc", "--fork"]
    who = "root"
    if os.geteuid() != 0:
        spaces = ["--user", "--map-root-user", *spaces]
        who = f"user {os.geteuid()}"
    try:
        unpack_packages.run_unpacking_program(["unshare", *spaces, "true"], Path("/"), NAMESPACE_TIMEOUT)
    except (ProcessError, WaitTimeout) as error:
        raise InputError(
            f"rehearsal_nodes_real: this machine permits {who} no new namespaces, which a node consists of ({error})"
            ". Run it as root outside of a container, or in a privileged one, or without a real node"
        ) from error


#: Options of every module about an instance (documented in doc_fragments/_rehearsal.py).
SHARED_OPTIONS: dict[str, Any] = {
    "name": {"type": "str", "default": "default"},
    "data_dir": {"type": "path", "default": "~/.local/state/seatrial/rehearsal"},
    "cache_dir": {"type": "path", "default": "~/.cache/seatrial"},
    "components_dir": {"type": "path"},
    "components": {"type": "list", "elements": "str", "default": []},
    "nodes_real": {"type": "int", "default": 0},
    "versions": {"type": "dict", "default": {}},
    "sources": {"type": "dict", "default": {}},
    "binaries": {"type": "dict", "default": {}},
    "binaries_dir": {"type": "str", "default": ""},
    "download_url": {"type": "str", "default": ""},
    "fetch_published": {"type": "str", "choices": list(PUBLISHED), "default": PINNED},
    "owner": {"type": "str", "default": ""},
    "expires": {"type": "str", "default": ""},
}


@dataclass(frozen=True)
class RehearsalOptions:
    """The module's options. ``timeout``: seconds, for each single wait. ``owner``: a run's id, "" for none.

    ``expires``: from when on anybody may remove a new instance, in the format of format_utc_timestamp(); "" for never.
    ``started``: when the module was started, in seconds since boot; 0: with the call. ``user_pid``: the process of run
    ``owner`` that uses an instance of another run; 0: none.
    """

    name: str
    data_dir: str
    cache_dir: str
    components_dir: str
    components: list[str] = field(default_factory=list)
    nodes_real: int = 0
    versions: dict[str, str] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    binaries: dict[str, str] = field(default_factory=dict)
    binaries_dir: str = ""
    download_url: str = ""
    fetch_published: str = PINNED
    owner: str = ""
    expires: str = ""
    force: bool = False
    timeout: float = 120.0
    started: float = 0.0
    user_pid: int = 0

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> RehearsalOptions:
        """Read a module's parameters. Raises InputError."""
        if not params.get("components_dir"):
            raise InputError("components_dir is empty: no folder to read the components from")
        for name in ("data_dir", "cache_dir"):
            if "~" in Path(str(params.get(name))).parts:  # not expanded, because there is no home folder
                raise InputError(
                    f"rehearsal_{name} is '{params[name]}', but HOME is not set and user {os.getuid()} has no home"
                    " folder: set HOME to a folder of yours"
                )
        names = [option.name for option in dataclasses.fields(cls)]
        options = cls(**{name: params[name] for name in names if params.get(name) is not None})
        if options.nodes_real not in (0, 1):
            raise InputError(f"rehearsal_nodes_real is {options.nodes_real}: 0 or 1 is required")
        if options.nodes_real:
            return dataclasses.replace(options, components=[*options.components, REAL_NODE_COMPONENT])
        return options

    @property
    def instance(self) -> InstancePaths:
        """Return the instance's paths."""
        return InstancePaths(self.data_dir, self.name)

    def select(self, names: Iterable[str] | None = None) -> list[RehearsalComponent]:
        """Return the components of these names and those that always run; without names all.

        Raises InputError for an unknown name.
        """
        known = load_all_components(Path(self.components_dir))
        chosen = select_required_components(known, known if names is None else names)
        return [component_versions.apply_versions(component, self.versions, self.sources) for component in chosen]

    def select_checked(self, names: Iterable[str]) -> list[RehearsalComponent]:
        """Return the components as select() does. Raises InputError also for versions that don't fit them."""
        chosen = self.select(names)
        component_versions.check_component_names(chosen, self.versions, self.sources)
        component_versions.check_versions_of_others(chosen)
        return chosen

    @property
    def program_sources(self) -> ProgramSources:
        """Return the sources of the programs."""
        cache = Path(self.cache_dir).expanduser().absolute()
        return ProgramSources(cache, self.binaries, self.binaries_dir, self.download_url, self.fetch_published)

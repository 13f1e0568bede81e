# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of module rehearsal_cluster, and what a real node takes of the machine.

The latter is checked before minutes are spent on the programs of the node.
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
)

from . import component_selection, component_versions, unpack_packages
from .component_spec import REAL_NODE_COMPONENT, RehearsalComponent
from .existing_programs import PINNED, PUBLISHED, ProgramSources
from .instance_dir import InstancePaths

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


def check_real_node(components: Iterable[str]) -> None:
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
        known = component_selection.load_all_components(Path(self.components_dir))
        chosen = component_selection.select_required_components(known, known if names is None else names)
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

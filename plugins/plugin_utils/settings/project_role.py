# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role that makes up a project: a role of this collection, or of any other collection by its full name."""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name

ROOT = Path(__file__).parents[3]
OURS = "perfscale.seatrial"
#: The components of a rehearsal cluster.
COMPONENTS = ROOT / "roles" / "rehearsal" / "files" / "components"
#: The playbook of all phases, as playbooks of projects import it.
PHASES = ("_project.yml", "perfscale.seatrial._project")
#: Entry points that a project may have beside prepare and test, and may name in run_role_also (playbooks/_project.yml).
ALSO = ("prepare_beside", "report", "cleanup")
_FULL = re.compile(r"(?P<collection>[a-z_]\w*\.[a-z_]\w*)\.(?P<role>\w+)", re.IGNORECASE)


@dataclass(frozen=True)
class ProjectRole:
    """A role, its collection and the folder of that. The project has the name of the role."""

    project: str
    collection: str
    root: Path

    @property
    def name(self) -> str:
        """The full name of the role."""
        return f"{self.collection}.{self.project}"

    @property
    def folder(self) -> Path:
        """The folder of the role. A role of ours may not exist: a playbook such as cluster.yml has none."""
        return self.root / "roles" / self.project

    @property
    def ours(self) -> bool:
        """Whether the role belongs to this collection."""
        return self.collection == OURS


def find_role(name: str) -> ProjectRole:
    """Return the role of a project. name: a role of this collection, or the full name of one of any collection.

    Raises InputError for a collection that is not installed, and for a role that it does not have.
    """
    if "." not in name and "/" not in name:
        return ProjectRole(name, OURS, ROOT)
    match = _FULL.fullmatch(name)
    if not match:
        raise InputError(
            f"'{name}' is not a valid role: write <namespace>.<collection>.<role>, such as me.bench.my_llm_test"
        )
    collection, role = match["collection"], match["role"]
    if collection == OURS:
        return ProjectRole(role, OURS, ROOT)
    root = collection_folder(collection)
    if root is None:
        raise InputError(
            f"role {name}: collection {collection} is not installed where Ansible looks for collections "
            "(ansible-galaxy collection list shows these folders)"
        )
    known = sorted(path.name for path in (root / "roles").glob("*") if path.is_dir())
    if role not in known:
        there = ", ".join(known) or "none"
        raise InputError(f"role {name}: {root} has no role '{role}'{suggest_similar_name(role, known)}; roles: {there}")
    return ProjectRole(role, collection, root)


def additional_entry_points(role: ProjectRole, entry_points: Sequence[str] | None) -> list[str]:
    """Return the entry points of a project beside prepare and test: those given, else those that its playbook names.

    Its playbook is playbooks/<project>.yml of its collection; playbooks for any project, such as ci.yml, give None.
    Raises InputError for a name that is none of ALSO, and for an entry point that the role does not have.
    """
    named = (
        variables_passed_to_phases_playbook(role.root / "playbooks" / f"{role.project}.yml")
        if entry_points is None
        else {"run_role_also": entry_points}
    )
    wanted = list(named.get("run_role_also") or [])
    for name in wanted:
        if name not in ALSO:
            raise InputError(f"run_role_also: '{name}' is none of {', '.join(ALSO)}{suggest_similar_name(name, ALSO)}")
        if not (role.folder / "tasks" / f"{name}.yml").is_file():
            raise InputError(f"run_role_also: role {role.name} has no entry point '{name}' (tasks/{name}.yml)")
    return wanted


def variables_passed_to_phases_playbook(path: Path) -> dict[str, Any]:
    """Return the variables that a project's playbook passes to that of all phases; empty if it is no such playbook."""
    plays = files.read_yaml(path) if path.is_file() else None
    for play in plays if isinstance(plays, list) else []:
        if play.get("ansible.builtin.import_playbook") in PHASES:
            return dict(play.get("vars") or {})
    return {}


def roles_of_other_collections() -> set[str]:
    """Return the names of the roles of all installed collections but this one."""
    roots = [Path(path) for path in importlib.import_module("ansible_collections").__path__]
    folders = (path for root in roots for path in root.glob("*/*/roles/*") if path.is_dir())
    return {path.name for path in folders if f"{path.parents[2].name}.{path.parents[1].name}" != OURS}


def collection_folder(collection: str) -> Path | None:
    """Return the folder of an installed collection, None if there is none."""
    try:
        package = importlib.import_module(f"ansible_collections.{collection}")
    except ImportError:
        return None
    return Path(next(iter(package.__path__)))

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which roles a run of a project reads: its own, those of the phases of every project, and all that these name.

The settings of the other roles say nothing about what is measured, so that two runs may differ in them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from .project_role import PHASES, ROOT, ProjectRole, variables_passed_to_phases_playbook
from .settings_catalogue import Catalogue

#: Folders and files of a role that a run reads. The texts of meta/argument_specs.yml only mention other roles.
_READ = ("tasks", "defaults", "vars", "handlers", "templates", "files", "meta/doctor.yml", "meta/checks.yml")
_SUFFIXES = (".yml", ".yaml", ".j2")
_COMMENT = re.compile(r"(?m)(^|\s)#.*$")
_NAMED = re.compile(r"perfscale\.seatrial\.(\w+)")
#: A role whose name is an expression: it is one of those that the text names otherwise.
_ANY = re.compile(r"perfscale\.seatrial\.\{\{")


def roles_read_and_others(project: ProjectRole, catalogue: Catalogue) -> dict[str, list[str]]:
    """Return the roles whose settings a run of the project reads (``read``), and all others (``other``)."""
    projects = set[str]().union(*map(_roles_with_playbook, {project.root, ROOT}))
    to_visit = [project.project, *_roles_in_text(_text(ROOT / "playbooks" / PHASES[0]), catalogue, projects)]
    read: set[str] = set()
    while to_visit:
        role = to_visit.pop()
        if role in read or role not in catalogue.roles:
            continue
        read.add(role)
        text = "\n".join(_text(path) for path in _files_of_role(catalogue.roles[role]))
        to_visit += _roles_in_text(text, catalogue, projects)
    return {"read": sorted(read), "other": sorted(set(catalogue.roles) - read)}


def _roles_with_playbook(root: Path) -> set[str]:
    """Return the roles that are projects: an expression such as ``stack_{{ part }}`` never means one of them."""
    passed: list[Mapping[str, object]] = [
        variables_passed_to_phases_playbook(path)
        for path in sorted((root / "playbooks").glob("*.yml"))
        if not path.name.startswith("_")
    ]
    names = {str(values.get("run_project") or values.get("run_role") or "") for values in passed}
    return {name.rpartition(".")[2] for name in names}


def _roles_in_text(text: str, catalogue: Catalogue, projects: set[str]) -> set[str]:
    words = set(re.findall(r"\w+", text))
    roles = {catalogue.settings[word].role for word in words if word in catalogue.settings}
    roles |= {name for name in _NAMED.findall(text) if name in catalogue.roles}
    if _ANY.search(text):
        roles |= {name for name in words if name in catalogue.roles and name not in projects}
    return roles


def _files_of_role(folder: Path) -> list[Path]:
    found = []
    for name in _READ:
        path = folder / name
        found += sorted(path.rglob("*")) if path.is_dir() else [path]
    return [path for path in found if path.suffix in _SUFFIXES and path.is_file()]


def _text(path: Path) -> str:
    return _COMMENT.sub("", path.read_text(encoding="utf-8", errors="replace"))

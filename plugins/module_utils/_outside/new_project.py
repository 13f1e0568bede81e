# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write a new project from the skeletons: the same files under another name. Existing files are never changed.

A project belongs to a clone of this collection, or to a collection of the user's, which is created if it is missing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files as _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError

#: Name of the project in the skeletons: in variables and file names, and where underscores are not allowed.
WORD, DASHED = "my_project", "my-project"
OURS = "perfscale.seatrial"
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_COLLECTION = re.compile(r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*")
#: The pool and the namespace of a scenario contain the name and may have at most 63 characters.
_LONGEST = 30
PRESETS = Path("group_vars") / "all"


@dataclass(frozen=True)
class NewProject:
    """A project to write. collection: its full name, ``OURS`` for a clone. root: the folder of the collection."""

    name: str
    collection: str
    root: Path

    @property
    def in_clone(self) -> bool:
        """Whether the project belongs to a clone of this collection."""
        return self.collection == OURS

    def check(self, taken: set[str]) -> None:
        """Raise InputError unless the project can be added. taken: names of the roles of this collection."""
        if not _NAME.fullmatch(self.name) or len(self.name) > _LONGEST:
            raise InputError(
                f"name '{self.name}': a project's name has a-z, 0-9 and single _, begins with a letter and has at most "
                f"{_LONGEST} characters"
            )
        if self.name == WORD:
            raise InputError(f"name '{self.name}': that is the name of the skeleton; give another one")
        if not _COLLECTION.fullmatch(self.collection):
            raise InputError(f"namespace '{self.collection}': write <namespace>.<collection>, such as me.bench")
        if self.in_clone:
            needed = (self.root / "galaxy.yml", self.root / "playbooks" / "_project.yml")
            if not all(path.is_file() for path in needed):
                raise InputError(
                    f"{self.root} is no clone of the collection: it has no galaxy.yml or no playbooks/_project.yml. "
                    "-e namespace=me.bench writes the project to a collection of your own"
                )
            return
        if self.name in taken:
            raise InputError(f"name '{self.name}': {OURS} has a role of this name; give another one")
        if (self.root / "MANIFEST.json").is_file():
            raise InputError(
                f"{self.root} was installed from an archive, and installing it again would delete the project: "
                "write to the folder with its sources, -e new_project_root=<folder that has ansible_collections>"
            )

    def render(self, skeletons: Path) -> dict[Path, str]:
        """Return path (relative to the root) -> content of every file to write."""
        files: dict[Path, str] = {}
        for source, path in self._sources(skeletons):
            # In a clone, presets are in group_vars/all, with links beside the playbooks.
            target = Path(*path.parts[1:]) if self.in_clone and Path(*path.parts[1:3]) == PRESETS else path
            files[Path(self._named(str(target)))] = self._named(source.read_text(encoding="utf-8"))
        return files

    def _sources(self, skeletons: Path) -> Iterator[tuple[Path, Path]]:
        """Yield the files of the skeletons that belong to this project, and their paths in the collection.

        A file without the project's name belongs to the collection, which may have other projects already.
        """
        folders = ["collection/playbooks", "collection/roles", "clone"] if self.in_clone else ["collection"]
        only_project = (self.root / "galaxy.yml").is_file()
        for source in sorted(path for folder in folders for path in (skeletons / folder).rglob("*") if path.is_file()):
            path = Path(*source.relative_to(skeletons).parts[1:])
            if WORD in str(path) or not only_project:
                yield source, path

    def _named(self, text: str) -> str:
        namespace, _dot, collection = self.collection.partition(".")
        words = {
            WORD: self.name,
            DASHED: self.name.replace("_", "-"),
            "my_namespace": namespace,
            "my_collection": collection,
        }
        return re.sub("|".join(words), lambda match: words[match[0]], text)


def write_project_files(project: NewProject, skeletons: Path, dry: bool = False) -> dict[str, Any]:
    """Write the project; return changed, its files and the folder of its collection. skeletons: their folder.

    Raises InputError naming a file that exists with other content, before anything is written.
    """
    root = project.root
    project.check({path.name for path in (skeletons.parent / "roles").glob("*")})
    files = project.render(skeletons)
    for path, text in files.items():
        if (root / path).exists() and (root / path).read_text(encoding="utf-8") != text:
            raise InputError(f"{root / path} exists and has other content: nothing was written")
    missing = [path for path in files if not (root / path).exists()]
    if not dry:
        for path in missing:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            _files.replace_text(root / path, files[path])
    links = [_link_presets_to_playbooks(project, dry)] if project.in_clone else []
    new = {*missing, *(link for link, made in links if made)}
    names = sorted([*files, *(link for link, _made in links)])
    return {
        "changed": bool(new),
        "files": [str(path) for path in names],
        "root": str(root),
        "diff": {
            "before": "".join(f"{path}\n" for path in names if path not in new),
            "after": "".join(f"{path}\n" for path in names),
        },
    }


def _link_presets_to_playbooks(project: NewProject, dry: bool) -> tuple[Path, bool]:
    """Link the presets beside the playbooks, where they are found from any directory; return whether it was missing."""
    name = f"{project.name}_presets.yml"
    link = Path("playbooks") / PRESETS / name
    missing = not (project.root / link).is_symlink()
    if missing and not dry:
        os.symlink(Path("..") / ".." / ".." / PRESETS / name, project.root / link)
    return link, missing

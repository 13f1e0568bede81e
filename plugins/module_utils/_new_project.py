# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write a new project from the skeleton: the same files under another name. Existing files are never changed."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError

#: Name of the project in the skeleton: in variables and file names, and where underscores are not allowed.
WORD, DASHED = "my_project", "my-project"
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
#: The pool and the namespace of a scenario contain the name and may have at most 63 characters.
_LONGEST = 30
PRESETS = Path("group_vars") / "all"


def check_name(name: str, root: Path) -> None:
    """Raise InputError unless a project called ``name`` can be added to the collection at ``root``."""
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        raise InputError(
            f"name '{name}': a project's name has a-z, 0-9 and single _, begins with a letter and has at most "
            f"{_LONGEST} characters"
        )
    if name == WORD:
        raise InputError(f"name '{name}': that is the name of the skeleton; give another one")
    if not (root / "galaxy.yml").is_file() or not (root / "playbooks" / "_project.yml").is_file():
        raise InputError(f"{root} is no clone of the collection: it has no galaxy.yml or no playbooks/_project.yml")


def render(skeleton: Path, name: str) -> dict[Path, str]:
    """Return path (relative) -> content of every file of the project."""

    def named(text: str) -> str:
        return text.replace(WORD, name).replace(DASHED, name.replace("_", "-"))

    sources = sorted(path for path in skeleton.rglob("*") if path.is_file())
    return {Path(named(str(path.relative_to(skeleton)))): named(path.read_text(encoding="utf-8")) for path in sources}


def write(skeleton: Path, root: Path, name: str, dry: bool = False) -> dict[str, Any]:
    """Write the project ``name`` into the collection at ``root``; return changed and its files.

    Raises InputError naming a file that exists with other content, before anything is written.
    """
    check_name(name, root)
    files = render(skeleton, name)
    for path, text in files.items():
        if (root / path).exists() and (root / path).read_text(encoding="utf-8") != text:
            raise InputError(f"{root / path} exists and has other content: nothing was written")
    missing = [path for path in files if not (root / path).exists()]
    link = Path("playbooks") / PRESETS / f"{name}_presets.yml"
    linked = (root / link).is_symlink()
    if not dry:
        for path in missing:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            _files.replace_text(root / path, files[path])
        if not linked:
            # Presets beside the playbooks are found from any directory.
            os.symlink(Path("..") / ".." / ".." / PRESETS / f"{name}_presets.yml", root / link)
    changed = bool(missing) or not linked
    return {"changed": changed, "files": [str(path) for path in sorted([*files, link])]}

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the files of a load on the controller: templates, traces and stage definitions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, InputError, nearest

SHIPPED = Path(__file__).resolve().parents[3] / "roles" / "workload" / "files" / "stages"
#: Finds a file by (folder, name), as ansible.builtin.template does. Raises AnsibleError.
Find = Callable[[str, str], str]


def request(given: Any, find: Find) -> dict[str, Any]:
    """Return options of workload_submit with every name of a file replaced by its content."""
    found = dict(given or {})
    for name, read in (("templates", templates), ("arrival", arrival), ("stages", stages)):
        if found.get(name) is not None:
            found[name] = read(found[name], find)
    if isinstance(found.get("release"), dict) and found["release"].get("arrival"):
        found["release"] = {**found["release"], "arrival": arrival(found["release"]["arrival"], find)}
    return found


def templates(given: Any, find: Find) -> Any:
    """Return the module's ``templates`` with each ``src`` replaced by the file's content."""
    if not isinstance(given, list):
        return given
    return [_template(one, find) if isinstance(one, dict) else one for one in given]


def _template(one: dict[str, Any], find: Find) -> dict[str, Any]:
    source = one.get("src")
    if not source:
        return one
    if one.get("content"):
        raise InputError(f"template '{one.get('name') or source}': give src or content, not both")
    path = Path(find("templates", str(source)))
    rest = {key: value for key, value in one.items() if key != "src"}
    return {"name": path.name.split(".")[0], **rest, "content": path.read_text(encoding="utf-8")}


def arrival(given: Any, find: Find) -> Any:
    """Return the module's ``arrival`` with the content of its trace."""
    if not isinstance(given, dict) or not given.get("src") or given.get("content"):
        return given
    return {**given, "content": Path(find("files", str(given["src"]))).read_text(encoding="utf-8")}


def stages(given: Any, find: Find) -> Any:
    """Return the module's ``stages`` with names of kinds and files replaced by the definitions."""
    if not isinstance(given, list):
        return given
    return [_definition(one, find) for one in given]


def _definition(one: Any, find: Find) -> Any:
    """Return the definition of a name, or that of ``use`` in a dictionary with the other keys replaced."""
    if isinstance(one, str):
        return _named(one, find)
    if isinstance(one, dict) and "use" in one:
        found = _named(str(one["use"]), find)
        if "ends_at" in one:
            found = _ending_at(found, str(one["ends_at"]))
        return {**found, **{key: value for key, value in one.items() if key not in ("use", "ends_at")}}
    return one


def _ending_at(definition: dict[str, Any], stage: str) -> dict[str, Any]:
    """Return a definition whose workloads have succeeded when they reach ``stage``. Raises InputError."""
    names = [one["name"] for one in definition["stages"]]
    if stage not in names:
        known = f"{nearest(stage, names)}; there are {', '.join(names)}"
        raise InputError(f"ends_at: {definition['kind']} has no stage '{stage}'{known}")
    stages = [{**one, "ends": "succeeded"} if one["name"] == stage else one for one in definition["stages"]]
    return {**definition, "stages": stages}


def _named(name: str, find: Find) -> dict[str, Any]:
    if name.endswith((".yml", ".yaml")):
        path = Path(find("files", name))
    else:
        path = SHIPPED / f"{name.lower()}.yml"
        if not path.exists():
            kinds = {one.stem: files.read_yaml(one)["kind"] for one in sorted(SHIPPED.glob("*.yml"))}
            # Two groups may have a kind of the same name; then one of the files has another name.
            known = [kind if kind.lower() == stem else stem for stem, kind in kinds.items()]
            raise InputError(
                f"the collection has no stage definition of kind '{name}'{nearest(name, known)}; "
                f"it has {', '.join(known)}. "
                f"Write a definition and pass its path, which ends in .yml"
            )
    definition = files.read_yaml(path)
    if not isinstance(definition, dict):
        raise DataError(f"{path}: a stage definition must be a dictionary")
    return definition

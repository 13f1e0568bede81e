# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the files of a load on the controller: templates, traces and kinds of workloads."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError

from . import convert_setting_values, workload_kinds
from .workload_kinds import Find


def with_working_directory_fallback(needle: Find) -> Find:
    """Return a function that finds a file as ``needle`` does, else relative to the working directory.

    A path by ``-e`` is relative to the working directory. It outranks the resolved setting, so that a role gets it as
    it was written.
    """

    def find(folder: str, name: str) -> str:
        try:
            return needle(folder, name)
        except AnsibleError:
            if os.path.isfile(path := convert_setting_values.absolute_path(name)):
                return path
            raise

    return find


def submit_options_with_content(params: Any, find: Find, places: Sequence[Path] = ()) -> dict[str, Any]:
    """Return options of workload_submit with every name of a file or a kind replaced by its content.

    places: folders with kinds, see workload_kinds.kind_folders_of_task.
    """
    options = dict(params or {})
    if options.get("templates") is not None:
        options["templates"] = templates_with_content(options["templates"], find, places)
    if options.get("stages") is not None:
        options["stages"] = workload_kinds.resolve_stage_definitions(options["stages"], find, places)
    if options.get("arrival") is not None:
        options["arrival"] = arrival_with_trace(options["arrival"], find)
    if isinstance(options.get("release"), dict) and options["release"].get("arrival"):
        options["release"] = {**options["release"], "arrival": arrival_with_trace(options["release"]["arrival"], find)}
    return options


def templates_with_content(entries: Any, find: Find, places: Sequence[Path] = ()) -> Any:
    """Return the module's ``templates`` with each ``src`` and ``kind`` replaced by the text of its template."""
    if not isinstance(entries, list):
        return entries
    return [_template_with_content(entry, find, places) if isinstance(entry, dict) else entry for entry in entries]


def _template_with_content(entry: dict[str, Any], find: Find, places: Sequence[Path]) -> dict[str, Any]:
    source, name, wraps = entry.get("src"), entry.get("kind"), entry.get("wraps")
    if not source and not name:
        return entry
    if source and entry.get("content"):
        raise InputError(f"template '{entry.get('name') or source}': give src or content, not both")
    rest = {key: value for key, value in entry.items() if key not in ("src", "kind", "wraps")}
    text = entry.get("content") or ""
    if source:
        path = Path(find("templates", str(source)))
        text, rest = path.read_text(encoding="utf-8"), {"name": path.name.split(".")[0], **rest}
    if name:
        kind = workload_kinds.load_kind_by_name_or_path(str(name), places)
        wrapped = workload_kinds.find_wrapped_kind(kind, str(wraps or ""), places)
        if prepare := kind.prepare(wrapped):
            ready = [*kind.ready, *(wrapped.ready if wrapped else ())]
            rest = {"prepare": prepare, "ready": ready, **rest}
        text += kind.template(wrapped)
        rest = {**rest, "name": entry.get("name") or kind.kind.lower()}
    return {**rest, "content": text}


def arrival_with_trace(entry: Any, find: Find) -> Any:
    """Return the module's ``arrival`` with the content of its trace."""
    if not isinstance(entry, dict) or not entry.get("src") or entry.get("content"):
        return entry
    return {**entry, "content": Path(find("files", str(entry["src"]))).read_text(encoding="utf-8")}

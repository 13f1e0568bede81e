# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with a user's own template of a workload, as far as it is known before a load.

A template with variables of its role is rendered by the load alone, because some of them describe the cluster. One with
only the variables that every template has is rendered here too. The role's meta/files.yml names the ``variables`` that
it passes, and the ``stages`` of its load.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan import template_renderer
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan.rendered_workload_templates import (
    VARIABLES,
    WorkloadTemplate,
)
from jinja2 import meta, nodes

from . import workload_kinds
from .convert_setting_values import absolute_path
from .setting_templates import Render

#: A variable of every template that only the load knows.
_GLOBALS = ("server_has",)
#: Filters of every template that Jinja does not have.
FILTERS = ("from_yaml", "to_json", "drawn")
#: The kind of a document that is no template itself.
_KIND = re.compile(r"^kind: *[\"']?([A-Za-z0-9]+)[\"']? *(?:#.*)?$", re.MULTILINE)


def stage_definitions_of_load(
    about: Mapping[str, Any], settings: Mapping[str, Any], render: Render, places: Sequence[Path]
) -> list[Any]:
    """Return the stage definitions of a load, none if they are not known yet. Raises InputError.

    about: the entry of the template in meta/files.yml. places: folders with kinds.
    """
    stages, late = render(about.get("stages") or [], settings)
    known = [] if late else stages
    return workload_kinds.resolve_stage_definitions(known, lambda _folder, name: absolute_path(name), places) or []


def check_workload_template(path: Path, variables: Sequence[str], stages: Iterable[Any], stages_setting: str) -> None:
    """Raise InputError with the line for bad syntax and unknown names, and for a kind without stages.

    What needs no variable of the role is rendered, so that what the load would refuse is refused.

    stages: the stage definitions of the load; none if they are not known. stages_setting: what adds others.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} can't be read: {error}") from error
    environment = jinja2.Environment()
    environment.filters.update(dict.fromkeys(FILTERS, str))
    try:
        tree = environment.parse(text)
        undeclared = meta.find_undeclared_variables(tree)
    except jinja2.TemplateSyntaxError as error:
        raise InputError(f"{path}, line {error.lineno}: {error.message}") from error
    known = [*VARIABLES, *variables]
    unknown = undeclared - {*known, *_GLOBALS, *environment.globals, *_optional_names(tree)}
    if found := sorted((node.lineno, node.name) for node in tree.find_all(nodes.Name) if node.name in unknown):
        line, name = found[0]
        raise InputError(f"{path}, line {line}: '{name}' is undefined{suggest_similar_name(name, known)}")
    kinds = [str(stage["kind"]) for stage in stages if isinstance(stage, dict) and stage.get("kind")]
    kind = _kind_of_rendered_workload(path, text) if undeclared <= set(VARIABLES) else _kind_of_workload(text)
    if kind and kinds and kind not in kinds:
        raise InputError(
            f"{path}: the workload, its last document, is a {kind}, and the stages of the load are those of "
            f"{', '.join(kinds)}: set {stages_setting}"
        )


def _optional_names(tree: nodes.Template) -> Iterator[str]:
    """Yield the names for which a template provides: {{ x | default(1) }}, {% if x is defined %}."""
    for node in tree.find_all((nodes.Filter, nodes.Test)):
        inner = getattr(node, "node", None)
        if getattr(node, "name", "") in ("default", "d", "defined", "undefined") and isinstance(inner, nodes.Name):
            yield inner.name


def _kind_of_rendered_workload(path: Path, text: str) -> str:
    """Return the kind of the workload of a template, rendered as by a load. Raises InputError."""
    template = WorkloadTemplate(str(path), text)
    return template_renderer.render_template_for_indices(template, "run", "000", "namespace", (0, 1)).workload.kind


def _kind_of_workload(text: str) -> str:
    """Return the kind of the last document; empty if Jinja decides it or it is a list of others."""
    documents = [part for part in re.split(r"^---.*$", text, flags=re.MULTILINE) if part.strip()]
    kinds = _KIND.findall(documents[-1]) if documents else []
    return kinds[0] if len(kinds) == 1 and kinds[0] != "List" else ""

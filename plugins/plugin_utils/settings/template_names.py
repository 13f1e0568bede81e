# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables that a template names, and those of them that nothing defines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .unsafe_text import has_template

#: Variables that only the run defines: facts of role run, and the clusters that it acquired.
OF_RUN = ("cluster_acquired", "run_dir", "run_id", "run_point", "run_points")
#: Functions of Ansible's templates that are not variables.
FUNCTIONS = ("lookup", "query", "q", "now", "omit", "undef")


def names(text: str) -> set[str]:
    """Return the variables in a template. Raises jinja2.TemplateError for one that can't be parsed."""
    from jinja2 import Environment, nodes
    from jinja2.defaults import DEFAULT_NAMESPACE

    found = list(Environment().parse(text).find_all(nodes.Name))
    stored = {one.name for one in found if one.ctx != "load"}
    return {one.name for one in found} - stored - set(DEFAULT_NAMESPACE) - set(FUNCTIONS)


def undefined(value: Any, settings: Mapping[str, Any], variables: Mapping[str, Any]) -> str | None:
    """Return the name in a template that nothing defines, also through other settings and variables.

    Returns None if each undefined value is one that only the run defines, an empty string if all names are known and
    the template asks for a part of a variable that does not exist.
    """
    todo, seen, awaits_run = [value], set[str](), False
    while todo:
        for name in sorted(_names_of(todo.pop()) - seen):
            seen.add(name)
            awaits_run = awaits_run or name in OF_RUN
            if name in settings:
                todo.append(settings[name])
            elif name in variables:
                todo.append(variables[name])
            elif name not in OF_RUN:
                return name
    return None if awaits_run else ""


def _names_of(value: Any) -> set[str]:
    if isinstance(value, Mapping):
        return set().union(*map(_names_of, value.values()))
    if isinstance(value, (list, tuple)):
        return set().union(*map(_names_of, value))
    return names(value) if isinstance(value, str) and has_template(value) else set()

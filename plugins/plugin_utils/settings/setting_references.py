# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which settings depend on others, or on what only the run defines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .matrix_points import Render
from .template_names import OF_RUN
from .unsafe_text import has_template

#: Words of a template that may read any setting.
_DYNAMIC = frozenset({"lookup", "query", "q", "vars", "varnames", "hostvars"})


def words(settings: Mapping[str, Any]) -> dict[str, set[str]]:
    """Return the words in each setting that contains a template."""
    templates = {name: raw for name, raw in settings.items() if has_template(raw)}
    return {name: set(re.findall(r"[A-Za-z_]\w*", " ".join(_texts(raw)))) for name, raw in templates.items()}


def dependent(of_settings: Mapping[str, set[str]], changed: Iterable[str]) -> set[str]:
    """Return the settings that may have another value where those in ``changed`` do.

    of_settings: of words(). A template depends on every setting whose name is in it, and on what that one depends on.
    """
    return _users(
        of_settings, {*changed, *(name for name, ones in of_settings.items() if not ones.isdisjoint(_DYNAMIC))}
    )


def awaiting_run(settings: Mapping[str, Any], render: Render) -> set[str]:
    """Return the settings that refer to a name which only the run defines, and which is not defined yet.

    Also those that can be rendered without it, such as ``{{ cluster_acquired.sutest.context | default('') }}``: they
    would stay empty if they were rendered before there is a cluster.
    """
    defined, _undefined = render("{{ [" + ", ".join(f"{name} is defined" for name in OF_RUN) + "] }}", settings)
    return _users(words(settings), [name for name, there in zip(OF_RUN, defined, strict=True) if not there])


def _users(of_settings: Mapping[str, set[str]], names: Iterable[str]) -> set[str]:
    """Return ``names`` and the settings whose templates name one of them, also through other settings."""
    found = set(names)
    while more := {name for name, ones in of_settings.items() if name not in found and not ones.isdisjoint(found)}:
        found |= more
    return found


def _texts(value: Any) -> Iterator[str]:
    """Return the texts in a value."""
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, (list, tuple)):
        for one in value:
            yield from _texts(one)
    elif isinstance(value, str):
        yield value

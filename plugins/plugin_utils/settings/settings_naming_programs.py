# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings that name what this machine runs, builds, or downloads to run.

Whoever can write such a value can run a program here. It is therefore used only from where templates are: role
defaults, the inventory, presets and ``-e``, but not from a run directory or a bundle alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import (
    component_selection,
    component_spec,
)

from . import convert_setting_values, dotted_paths, project_role, setting_templates

PROGRAMS = frozenset(
    {
        *("cluster_installer", "cluster_installer_mirror", "cluster_installer_checksum"),
        *("cluster_managed_ocm", "cluster_managed_rosa", "metrics_prometheus"),
        *("rehearsal_binaries", "rehearsal_binaries_dir", "rehearsal_cache_dir", "rehearsal_components"),
        *("rehearsal_download_url", "rehearsal_sources", "scheduler_checkout"),
    }
)
#: Those of which a plain name means something that this collection has.
_NAMES_ARE_SAFE = frozenset({"rehearsal_components"})


def programs_named_by_values(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield key and text of each program that ``values`` name. values: setting, dotted key or word -> value."""
    for key, value in values.items():
        for name, part in [(str(key), value), *settings_set_by_keyword(str(key), value)]:
            setting = setting_templates.setting_of_dotted_key(name)
            for text in setting_templates.texts_in_value(part):
                named = setting in PROGRAMS and not (setting in _NAMES_ARE_SAFE and _is_plain_name(text))
                if text and (named or _brings_component(text)):
                    yield str(key), text


def settings_starting_real_node(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the settings in ``values`` that start a real node: this machine runs the commands of the run on it."""
    for key, value in values.items():
        for name, part in [(str(key), value), *settings_set_by_keyword(str(key), value)]:
            setting = setting_templates.setting_of_dotted_key(name)
            if setting == "rehearsal_nodes_real" and _are_some(part):
                yield setting
            if setting == "rehearsal_components" and _include_real_node(setting_templates.texts_in_value(part)):
                yield setting


def _include_real_node(components: Iterable[str]) -> bool:
    """Return whether a real node is among components, or those that they require."""
    names = component_selection.names_with_required(project_role.COMPONENTS, map(str.strip, components))
    return component_spec.REAL_NODE_COMPONENT in names


def _are_some(value: Any) -> bool:
    """Return whether a number is not 0, or one of a list is not."""
    return any(map(_are_some, value)) if isinstance(value, list) else str(value or 0) not in ("0", "0.0", "False")


def programs_named_by_trusted_values(values: Mapping[str, Any]) -> set[str]:
    """Return the programs that trusted values name, as written and as an absolute path."""
    texts = {text for _key, text in programs_named_by_values(values)}
    return texts | {convert_setting_values.absolute_path(text) for text in texts}


def settings_set_by_keyword(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the settings, with their values, that a word such as ``matrix`` sets."""
    try:
        word, *steps = dotted_paths.parse_dotted_path(name)
    except dotted_paths.PathError:
        return
    for step in reversed(steps):
        value = [value] if isinstance(step, int) else {step: value}
    if word in ("matrix", "overrides") and isinstance(value, Mapping):
        yield from ((str(key), values) for key, values in value.items())
    elif word == "matrix_points" and isinstance(value, list):
        yield from ((str(key), entry) for point in value if isinstance(point, Mapping) for key, entry in point.items())
    elif word == "bisect" and isinstance(value, Mapping):
        over = str(value.get("over") or "rehearsal_sources")  # a part of the word alone: what it is over is not known
        yield over, [entry for key, entry in value.items() if key != "over"]


def _brings_component(text: str) -> bool:
    """Return whether a text is the folder of a component, or of a kind, which may bring one: it is built here."""
    try:
        folder = Path(text).expanduser()
        return "/" in text and any((folder / name).is_file() for name in ("component.yml", "kind.yml"))
    except (OSError, ValueError, RuntimeError):  # no path
        return False


def _is_plain_name(text: str) -> bool:
    return not any(sign in text for sign in "/~.$") and not setting_templates.looks_like_template(text)

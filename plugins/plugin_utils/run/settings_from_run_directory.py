# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings read from a run directory: data, in which a text with braces is a template only if code has it, too.

Run directories are copied, shared and downloaded, so whoever can write a file in one must not be able to run code. The
templates of a request come from role defaults, the inventory, presets and ``-e``. In a later session each is matched
with these sources, setting by setting. For one that they do not have any more, the value that it had in the earlier
session takes its place: settings.yml holds it as data. What a setting names to be run on this machine is refused
unless one of these sources names it, too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import extra_vars_arguments
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import (
    dotted_paths,
    secrets_inside_settings,
    setting_templates,
    settings_naming_programs,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_layers import RequestedSettings

#: Setting -> the templates that code gives it.
KnownTemplates = Mapping[str, Collection[str]]

REQUEST, SETTINGS = "request.yml", "settings.yml"
_NO_VALUE = object()


def read_recorded_request(
    directory: Path, known: KnownTemplates, programs: Collection[str] | None, extra: Collection[str], creates: bool
) -> tuple[RequestedSettings, list[str]]:
    """Return the request of a run, and a sentence for each template of it that is not used.

    programs: texts with which code names programs, None where no program is run. extra: settings that ``-e`` of this
    session sets. creates: whether this session creates anything; it must not do so with other values than those of the
    request. Raises InputError for a template without which it would, and for a program that only the run directory
    names.
    """
    path = directory / REQUEST
    request = RequestedSettings.from_document(setting_templates.load_yaml_with_unsafe(path), str(path))
    earlier: dict[str, Any] | None = None
    layers, notes = [], []
    for layer in request.layers:
        marked = setting_templates.mark_other_templates_unsafe(layer.values, known)
        values = {}
        for key, value in layer.values.items():
            unknown = setting_templates.new_unsafe_texts(value, marked[key])
            if not unknown:
                values[key] = marked[key]
                continue
            if earlier is None:
                there = (directory / SETTINGS).is_file()
                earlier = setting_templates.load_yaml_with_unsafe(directory / SETTINGS) if there else {}
            if key in extra:
                continue  # its layer comes last
            data = _value_of_earlier_session(earlier, key)
            if data is not _NO_VALUE and not (creates and any(map(_depends_on_variables, unknown))):
                values[key] = data
                notes.append(f"{key} keeps its value of the earlier session: the template in {REQUEST} is not executed")
            elif creates:
                raise InputError(
                    f"{path}: {layer.source} sets {key} to the template '{unknown[0]}', which no role, preset or "
                    "inventory and no -e of this session has. A template that only a run directory has is not "
                    f"executed: give {key} again, by -e or by the inventory of that session"
                )
            else:
                notes.append(f"{key} is left out: the template '{unknown[0]}' in {REQUEST} is not executed")
        if programs is not None:  # also of the values of the earlier session, which the directory has, too
            _refuse_foreign_programs(path, values, programs, extra)
        layers.append(replace(layer, values=values))
    return replace(request, layers=tuple(layers)), list(dict.fromkeys(notes))


def extra_vars_to_repeat(request: RequestedSettings, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``-e`` values that a later session needs again: programs, and templates without a value.

    settings: the effective settings of this session, which hold the values of the other templates. Secrets are masked.
    """
    repeated: dict[str, Any] = {}
    for layer in request.layers:
        if layer.kind in ("extra", "overrides"):
            programs = {key for key, _text in settings_naming_programs.programs_named_by_values(layer.values)}
            values = {
                key: value
                for key, value in layer.values.items()
                if key in programs
                or (setting_templates.has_template(value) and _value_of_earlier_session(settings, key) is _NO_VALUE)
            }
            values = secrets_inside_settings.mask_settings(values)
            repeated |= values if layer.kind == "extra" or not values else {"overrides": values}
    return repeated


def _value_of_earlier_session(settings: Mapping[str, Any], key: str) -> Any:
    """Return the value of a dotted key in settings.yml, ``_NO_VALUE`` if it has none or one with a template."""
    try:
        value = dotted_paths.get_value(settings, dotted_paths.parse_dotted_path(str(key)))
    except dotted_paths.PathError:
        return _NO_VALUE
    return _NO_VALUE if setting_templates.has_template(value) else value


def _depends_on_variables(text: str) -> bool:
    """Return whether a template may have another value at another point or with other settings."""
    from jinja2 import TemplateError

    try:
        return text.startswith(extra_vars_arguments.TEMPLATE_HEADER) or bool(setting_templates.names_in_template(text))
    except TemplateError:
        return True


def _refuse_foreign_programs(
    path: Path, values: Mapping[str, Any], programs: Collection[str], extra: Collection[str] = ()
) -> None:
    """Raise InputError if ``values`` of a file name a program of this machine that is none of ``programs``."""
    for key, text in settings_naming_programs.programs_named_by_values(values):
        if text not in programs and (key not in extra or key == "bisect"):  # -e may give a part of bisect
            raise InputError(
                f"{path}: {key} has '{text}', which no role, preset or inventory and no -e of this session has. "
                "What this machine would run, build or download is not taken from a run directory alone: "
                f"give {key} again by -e"
            )


def refuse_foreign_values(
    path: Path, names: Collection[str], known: KnownTemplates, programs: Collection[str] | None
) -> None:
    """Raise InputError for a file of variables with another variable than ``names``, an unknown template or program.

    programs: texts with which code names programs, None where no program is run.
    """
    values = setting_templates.load_yaml_with_unsafe(path)
    others = [str(name) for name in values if name not in names]
    if others:
        raise InputError(f"{path}: '{others[0]}' is not a setting that a run writes into this file")
    if programs is not None:
        _refuse_foreign_programs(path, values, programs)
    for key, marked in setting_templates.mark_other_templates_unsafe(values, known).items():
        for text in setting_templates.new_unsafe_texts(values[key], marked):
            raise InputError(
                f"{path}: {key} is the template '{text}', which no role, preset or inventory and no -e of this session "
                "has. A template that only a run directory has is not executed"
            )


def refuse_other_project_or_presets(
    path: str, name: str, request: RequestedSettings, project: str, asked: Sequence[str]
) -> None:
    """Raise InputError for a run of another project, or one with other presets.

    Args:
        path: The run directory, as it was given.
        name: Its name.
        request: What the run was opened with.
        project: Project of the playbook.
        asked: Presets that this session names.
    """
    if request.project != project:
        raise InputError(f"-e run_dir={path}: that is a run of {request.project}, this playbook runs {project}")
    if asked and list(asked) != list(request.presets):
        had = ", ".join(request.presets) or "no preset"
        raise InputError(f"-e preset={','.join(asked)}: {name} ran with {had}; a run keeps its presets")

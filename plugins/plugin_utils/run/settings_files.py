# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings in the files of a run directory, with their sources, and as a table on the screen."""

from __future__ import annotations

import functools
import sys
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.secret_names import MASK
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.choose_next_point import PlannedPoint
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import setting_file_checksums
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import (
    dotted_paths,
    secrets_inside_settings,
    setting_templates,
    settings_naming_programs,
    settings_naming_servers,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.resolve_settings import EffectiveSettings
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_layers import RequestedSettings

from . import files_named_by_foreign_runs, foreign_kubeconfigs, point_attempts

WIDTH = 60


def provenance(effective: EffectiveSettings, request: RequestedSettings, secrets: Iterable[str]) -> dict[str, Any]:
    """Return the content of provenance.yml: dotted key -> all changes in order, with their origin if known."""
    changes_by_name: dict[str, list[dict[str, Any]]] = {}
    for change in effective.resolved.changes:
        dotted = dotted_paths.format_dotted_path(change.path)
        entry: dict[str, Any] = {
            "source": change.source,
            "value": secrets_inside_settings.mask_setting(dotted, change.value),
        }
        where = request.where(change.source, change.key)
        if where:
            entry["where"] = where
        changes_by_name.setdefault(dotted, []).append(entry)
    for name in secrets:
        changes_by_name.setdefault(name, []).append({"source": "secret", "value": MASK})
    return {"schema": "provenance/1", "settings": changes_by_name}


def changed_settings_rows(document: Mapping[str, Any], defaults: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return (setting, value, source) of every key that a layer set, sorted by name.

    A value equal to the default is listed too, marked as the default: its author looks for it here.
    """
    table_rows = []
    for key, changes in sorted(document["settings"].items()):
        last = changes[-1]
        beaten = [change["source"] for change in changes[:-1]]
        who = last["source"] + (
            f" ({_last_two_path_parts(last['where'])})" if last.get("where") and last["source"] != "-e" else ""
        )
        who += f", over {', '.join(beaten)}" if beaten else ""
        who += "; the default" if key in defaults and last["value"] == defaults[key] else ""
        table_rows.append((key, _format_setting_value(last["value"]), who))
    return table_rows


def _format_setting_value(value: Any) -> str:
    return formats.format_setting_value(value, sys.maxsize)


def _last_two_path_parts(where: str) -> str:
    return "/".join(where.split("/")[-2:])


def render_settings_table(table_rows: list[tuple[str, str, str]], presets: list[str], points: int) -> list[str]:
    """Return the table of settings. A long value is shown unabridged on a separate line, so that it can be copied."""
    asked = f"preset {', '.join(presets)}" if presets else "no preset"
    lines = [f"Settings that were set ({asked}; {points} test point{'s' * (points != 1)}):"]
    if not table_rows:
        return [*lines, "  none"]
    name = max(len(row[0]) for row in table_rows)
    value = max((len(row[1]) for row in table_rows if len(row[1]) <= WIDTH), default=0)
    for key, text, who in table_rows:
        fits = len(text) <= WIDTH and "\n" not in text
        lines.append(f"  {key:<{name}}  {text if fits else '':<{value}}  {who}")
        lines += [] if fits else [f"    {line}" for line in text.splitlines()]
    return lines


def render_point_list(
    effective: EffectiveSettings, estimates: Mapping[str, str], states: Mapping[str, str] | None = None, left: str = ""
) -> list[str]:
    """Return the list of the points, each with its state and the estimate of its load.

    states: point -> what is done with it. left: the time that the run takes, which replaces the sum of the estimates.
    """
    if not estimates and not any(point.values for point in effective.points):
        return []
    lines = ["Test points, and how long their load takes with ideal scheduling (preparing and reporting come on top):"]
    for point in effective.points:
        point_values = secrets_inside_settings.mask_settings(point.values)
        values = ", ".join(f"{key}={_format_setting_value(value)}" for key, value in point_values.items())
        state = (states or {}).get(point.name, "")
        estimate = estimates.get(point.name) if not state or state.startswith("to measure") else ""
        lines.append("  " + ": ".join(part for part in (f"{point.name}  {values}".rstrip(), state, estimate) if part))
    total = left or estimates.get("all")
    return [*lines, *([f"  {total}"] if total else [])]


#: Settings that judge what was measured, and how these names begin.
OF_VERDICT = ("results_", "workload_max_lateness")
HEAD = "---\n# The settings of this run, as they were used; provenance.yml shows who set them.\n"


def write_settings_file(path: Path, values: Mapping[str, Any], hidden: Collection[str]) -> None:
    """Write settings to a file. hidden: names of secret settings, which are left out."""
    public = secrets_inside_settings.mask_settings(
        {name: value for name, value in values.items() if name not in hidden}
    )
    files.replace_text(path, HEAD + setting_templates.dump_yaml_with_unsafe(public))


def write_all_settings_files(
    directory: Path,
    effective: EffectiveSettings,
    request: RequestedSettings,
    secrets: Iterable[str],
    given_secrets: Iterable[str],
    own_files: Collection[str] = frozenset(),
) -> None:
    """Write the files. secrets: names of secret settings, which are left out. given_secrets: those that have a value.

    own_files: paths that presets of this session name, and no run directory.

    Of a point that exists already, only what has not been measured yet is written again.
    """
    hidden = set(secrets)
    document = request.document()
    for layer in document["layers"]:
        layer["values"] = secrets_inside_settings.mask_settings(layer["values"])
    files.validate_schema_if_enabled("request/1", document)
    files.validate_schema_if_enabled("settings/1", effective.settings)
    files.replace_text(directory / "request.yml", "---\n" + setting_templates.dump_yaml_with_unsafe(document))
    write_settings_file(directory / "settings.yml", effective.settings, hidden)
    sources = provenance(effective, request, given_secrets)
    _add_checksums(sources["settings"], request.project, directory / "provenance.yml", own_files)
    files.write_yaml(directory / "provenance.yml", sources, "provenance/1")
    point_attempts.write_points(
        directory,
        [
            (
                point.name,
                secrets_inside_settings.mask_settings(point.values),
                point.skipped,
                functools.partial(write_settings_file, values=point.settings, hidden=hidden),
            )
            for point in effective.points
        ],
        functools.partial(
            _update_verdict_settings_in_file,
            {point.name: point.settings for point in effective.points},
            hidden,
            (directory / "run.yml").exists() and not foreign_kubeconfigs.is_own_uncopied_directory(directory),
        ),
    )


def _add_checksums(
    changes_by_name: Mapping[str, list[dict[str, Any]]], project: str, path: Path, own_files: Collection[str]
) -> None:
    """Add the checksums of the files of the test. path: provenance.yml of the run.

    A new run has no run.yml yet. One that has it and lacks provenance.yml may be a stranger's, so it gets no checksums.
    """
    earlier: Mapping[str, str] | None = {} if (path.parent / "run.yml").exists() else None
    if path.is_file():
        document = files.read_yaml(path)
        settings = document.get("settings") if isinstance(document, dict) else None
        earlier = setting_file_checksums.recorded_checksums(settings if isinstance(settings, dict) else {})
    for name, changes in changes_by_name.items():
        if not setting_file_checksums.is_setting_of_a_test(name, project):
            continue
        if found := setting_file_checksums.checksums_of_files(changes[-1]["value"], earlier, own_files):
            changes[-1][setting_file_checksums.FILES] = found


def _update_verdict_settings_in_file(
    settings: Mapping[str, Mapping[str, Any]], hidden: Collection[str], foreign: bool, name: str, path: Path
) -> None:
    """Replace the settings of the verdict in the file of a measured point: each session judges by its own.

    A further attempt is measured with this file, which may be a stranger's. So it keeps only settings, and its
    templates and programs are those that this session has for the point.

    foreign: whether the directory is not ours. Then so is all else that names more than data: the request is checked
    for servers, hosts, kubeconfigs and files, and not this file.
    """
    if not path.is_file():
        return
    written = setting_templates.load_yaml_with_unsafe(path)
    measured = {key: value for key, value in written.items() if key in settings[name]}
    ours = settings_naming_programs.programs_named_by_trusted_values(settings[name])
    for key in {key for key, text in settings_naming_programs.programs_named_by_values(measured) if text not in ours}:
        measured[key] = settings[name][key]
    if foreign:
        measured |= {key: settings[name][key] for key, value in measured.items() if _names_more_than_data(key, value)}
    known: dict[str, set[str]] = {}
    setting_templates.add_templates(known, settings[name])
    safe = setting_templates.mark_other_templates_unsafe(measured, known)
    of_verdict = {key: value for key, value in settings[name].items() if key.startswith(OF_VERDICT)}
    now = {**safe, **of_verdict}
    if written != now or setting_templates.new_unsafe_texts(measured, safe):
        write_settings_file(path, now, hidden)


def _names_more_than_data(key: str, value: Any) -> bool:
    """Return whether a setting may name a server, a host, a kubeconfig, a cluster, a file or a real node."""
    return (
        key in (*settings_naming_servers.RECEIVERS, *files_named_by_foreign_runs.HOSTS)
        or key in (*foreign_kubeconfigs.CLUSTER_NAMES, *foreign_kubeconfigs.CHOOSE_HOLDINGS)
        or key.endswith("_kubeconfig")
        or any("/" in text for text in setting_templates.texts_in_value(value))
        or any(settings_naming_programs.settings_starting_real_node({key: value}))
    )


def create_further_attempt(
    directory: Path, planned: PlannedPoint, effective: EffectiveSettings, secrets: Collection[str]
) -> None:
    """Create the folder of a further attempt at a point, with the settings of this session."""
    values = next(point.settings for point in effective.points if point.name == planned.of)
    point_attempts.create_attempt(directory, planned, lambda path: write_settings_file(path, values, secrets))

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resolve a request to the settings of a run: apply layers, convert and render values, expand the matrix."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import suggest_similar_name
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.formats import join_with_and
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.providers import PROVIDERS
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import bisection_plan

from . import dotted_paths, matrix_points, setting_templates, settings_layers
from .convert_setting_values import coerce_to_declared_type, refuse_impossible_numbers
from .matrix_points import SettingsMatrix
from .setting_templates import Render, has_template
from .settings_catalogue import RESERVED, Catalogue, Setting
from .settings_layers import RequestedSettings, ResolvedSettings, SettingChange, SettingsError, presets_with_extended

#: Settings to which a dotted key may add an element: names of KPIs, of components, and names that the project checks.
EXTENSIBLE = frozenset({"results_limits", "fine_tuning_hyper_parameters", "rehearsal_versions", "rehearsal_sources"})
_WORD_SPECS = {
    "matrix": Setting("matrix", "", {"type": "dict"}),
    "matrix_points": Setting("matrix_points", "", {"type": "list", "elements": "dict"}),
    "matrix_skip_if": Setting("matrix_skip_if", "", {"type": "list", "elements": "str"}),
    "pre_cleanup": Setting("pre_cleanup", "", {"type": "bool"}),
    "repeat": Setting("repeat", "", {"type": "dict"}),
    "bisect": Setting("bisect", "", {"type": "dict"}),
}


@dataclass(frozen=True)
class MatrixPoint:
    """One point of the matrix: the values that it sets, and all of its settings."""

    name: str
    values: dict[str, Any]
    settings: dict[str, Any]
    skipped: str = ""  # why it is not measured


@dataclass(frozen=True)
class EffectiveSettings:
    """The settings of a run. late: settings that refer to a name which only the run defines."""

    settings: dict[str, Any]
    resolved: ResolvedSettings
    points: tuple[MatrixPoint, ...]
    late: tuple[str, ...]
    matrix: dict[str, list[Any]]
    pre_cleanup: bool
    repeat: dict[str, Any] = field(default_factory=dict)
    bisect: dict[str, Any] = field(default_factory=dict)

    @property
    def measured(self) -> tuple[MatrixPoint, ...]:
        """The points that matrix_skip_if leaves."""
        return tuple(point for point in self.points if not point.skipped)

    def matrix_values(self) -> dict[str, dict[str, Any]]:
        """Return the values that the matrix sets, by point."""
        return {point.name: point.values for point in self.points}


def resolve_request(
    request: RequestedSettings, catalogue: Catalogue, defaults: Mapping[str, Any], render: Render
) -> EffectiveSettings:
    """Resolve a request. This is the only entry point: runs, cluster profiles and the doctor all call it.

    defaults: setting -> raw default of its role, without secrets. Raises SettingsError for an error in any layer.
    """
    tree = {**defaults, **RESERVED}
    changes = _coerce_untemplated_changes(catalogue, _changes_of_layers(request, catalogue))
    tree = _render_partly_set_defaults(tree, changes, render)
    resolved = settings_layers.apply_setting_changes(ResolvedSettings(tree), changes, EXTENSIBLE & tree.keys())
    resolved = _add_bisection_matrix(resolved, catalogue)
    matrix = SettingsMatrix.of(resolved.settings, _own_paths(request))
    values, late = _render_all_settings(resolved, catalogue, render)
    points = tuple(_resolve_matrix_points(resolved, matrix, catalogue, render, values, late))
    pre_cleanup = bool(values.pop("pre_cleanup"))
    for word in ("matrix", "matrix_points", "matrix_skip_if"):
        values.pop(word)
    repeat, bisect = (dict(values.pop(word)) for word in ("repeat", "bisect"))
    return EffectiveSettings(values, resolved, points, late, matrix.lists, pre_cleanup, repeat, bisect)


def heavy_presets(request: RequestedSettings) -> list[str]:
    """Return the presets of a request that can overload a control plane."""
    definitions = request.definitions_of_presets()
    return [
        name
        for name in presets_with_extended(definitions, request.presets_to_apply())
        if definitions[name].get("heavy")
    ]


def refuse_heavy_presets(request: RequestedSettings, values: Mapping[str, Any]) -> None:
    """Raise SettingsError if a heavy preset would run on an existing cluster that others may use.

    ``cluster_exclusive`` states that nobody else uses it. A cluster that the run creates is its own.
    """
    heavy = heavy_presets(request)
    provider = PROVIDERS.get(values.get("cluster_provider", ""))
    if heavy and provider and provider.shared and not values.get("cluster_exclusive"):
        raise SettingsError(
            f"preset '{heavy[0]}' is heavy: it can slow down the control plane for everyone who uses the cluster. On "
            f"an existing cluster (cluster_provider={provider.name}) it needs -e cluster_exclusive=true, which states "
            "that nobody else uses the cluster during the run",
            "heavy",
            f"preset {heavy[0]}",
        )


def _changes_of_layers(request: RequestedSettings, catalogue: Catalogue) -> list[SettingChange]:
    changes = [
        _whole_setting_change(name, value)
        for layer in request.layers_of_kind("inventory")
        for name, value in layer.values.items()
    ]
    definitions = request.definitions_of_presets()
    for name in request.presets:
        changes += settings_layers.setting_changes_of_preset(definitions, name)
    for profile in request.layers_of_kind("profile"):
        for name in profile.values["presets"]:
            preset_changes = settings_layers.setting_changes_of_preset(definitions, name)
            changes += [
                SettingChange(f"profile {profile.source} ({change.source})", change.path, change.value, change.key)
                for change in preset_changes
            ]
    for change in changes:
        if change.path[0] in catalogue.secrets and change.source != "inventory":
            raise SettingsError(
                f"{change.source} sets {change.path[0]}, which is a secret: give it as a variable (from a vault), "
                f"by {change.path[0]}_file or by the environment variable SEATRIAL_{str(change.path[0]).upper()}",
                change.key,
                change.source,
            )
    for layer in request.layers_of_kind("overrides"):
        changes += settings_layers.changes_of_layer("overrides", layer.values)
    for layer in request.layers_of_kind("extra"):
        changes += [_whole_setting_change(name, value, "-e") for name, value in layer.values.items()]
    return changes


def _whole_setting_change(name: str, value: Any, source: str = "inventory") -> SettingChange:
    return SettingChange(source, (name,), value, name)


def _find_setting_definition(catalogue: Catalogue, name: Any) -> Setting | None:
    return catalogue.settings.get(name) or _WORD_SPECS.get(name)


def _coerce_untemplated_changes(catalogue: Catalogue, changes: list[SettingChange]) -> list[SettingChange]:
    """Convert values of whole settings that are not templates; here an error can still name their origin."""
    result = []
    for change in changes:
        refuse_impossible_numbers(change.value, change.source, change.key)
        setting = _find_setting_definition(catalogue, change.path[0])
        if setting and len(change.path) == 1 and not has_template(change.value):
            raw_value = RESERVED.get(setting.name) if change.value is None else change.value
            value = coerce_to_declared_type(setting, raw_value, change.source, change.key)
            change = SettingChange(change.source, change.path, value, change.key)
        result.append(change)
    return result


def _render_partly_set_defaults(tree: dict[str, Any], changes: list[SettingChange], render: Render) -> dict[str, Any]:
    """Render the defaults whose elements a dotted key sets, since a template has no elements."""
    reached = {change.path[0] for change in changes if len(change.path) > 1}
    variables = {**tree, **{str(change.path[0]): change.value for change in changes if len(change.path) == 1}}
    return {name: render(value, variables)[0] if name in reached else value for name, value in tree.items()}


def _render_all_settings(
    resolved: ResolvedSettings, catalogue: Catalogue, render: Render, known: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the values of all settings, and the names of those that refer to a name which only the run defines.

    known: values that are not rendered and converted again.
    """
    values: dict[str, Any] = {}
    late: list[str] = []
    awaiting = setting_templates.settings_only_run_defines(resolved.settings, render)
    for name, raw in resolved.settings.items():
        if known is not None and name in known:
            values[name] = known[name]
            continue
        value, undefined = render(raw, resolved.settings) if has_template(raw) else (raw, False)
        setting = _find_setting_definition(catalogue, name)
        if undefined or name in awaiting:
            value = raw
            late.append(name)
        elif setting:
            value = _coerced_result(resolved, setting, value)
        values[name] = value
    return values, tuple(late)


def _coerced_result(resolved: ResolvedSettings, setting: Setting, value: Any) -> Any:
    """Convert a rendered value; an error names the layer that set it last. A default may be null.

    What has braces now, such as the name of a folder, has them literally, and must not be rendered in a later session.
    """
    changes = [change for change in resolved.changes if change.path[0] == setting.name]
    if not changes and value is None:
        return None
    source, at = (changes[-1].source, changes[-1].key) if changes else ("default", setting.name)
    converted = coerce_to_declared_type(setting, value, source, at)
    return setting_templates.mark_unsafe(converted, lambda _text: False) if has_template(converted) else converted


def _add_bisection_matrix(resolved: ResolvedSettings, catalogue: Catalogue) -> ResolvedSettings:
    """Return the settings with the matrix that a bisection measures."""
    plan = bisection_plan.parse_bisect_keyword(resolved.settings["bisect"])
    if plan is None:
        return resolved
    name = str(dotted_paths.parse_dotted_path(plan.over)[0])
    if name not in catalogue.settings:
        raise SettingsError(
            f"over: unknown setting '{plan.over}'{suggest_similar_name(name, catalogue.settings)}", "bisect", "-e"
        )
    others = [word for word in ("matrix", "matrix_points", "matrix_skip_if") if resolved.settings[word]]
    if others:
        message = (
            f"a bisection varies {plan.over} alone, and {join_with_and(others)} is set too: choose a preset without it"
        )
        raise SettingsError(message, others[0], others[0])
    return replace(resolved, settings={**resolved.settings, "matrix": {plan.over: list(plan.values)}})


def _own_paths(request: RequestedSettings) -> list[str]:
    """Return the dotted keys that the command line sets."""
    changes = [
        change
        for layer in request.layers_of_kind("overrides")
        for change in settings_layers.changes_of_layer("overrides", layer.values)
    ]
    paths = [change.path for change in changes] + [
        (name,) for layer in request.layers_of_kind("extra") for name in layer.values
    ]
    return [dotted_paths.format_dotted_path(path) for path in paths]


def _resolve_matrix_points(
    resolved: ResolvedSettings,
    matrix: SettingsMatrix,
    catalogue: Catalogue,
    render: Render,
    values: Mapping[str, Any],
    late: Collection[str],
) -> list[MatrixPoint]:
    """Return the points of the matrix, each validated separately; one without values if there is no matrix.

    values: without the matrix. Those of templates that may refer to what the matrix sets are rendered at each point.
    """
    base = {name: value for name, value in resolved.settings.items() if name not in RESERVED}
    words = setting_templates.words_in_templates(base)
    points = []
    for name, combination, source in matrix.combinations():
        changes = _coerce_untemplated_changes(catalogue, settings_layers.changes_of_layer(source, combination))
        of_point = settings_layers.apply_setting_changes(
            ResolvedSettings(_render_partly_set_defaults(base, changes, render), resolved.changes),
            changes,
            EXTENSIBLE & base.keys(),
        )
        changed = setting_templates.dependent_settings(words, {*RESERVED, *(str(change.path[0]) for change in changes)})
        known = {name: value for name, value in values.items() if name not in changed}
        whole, _late = _render_all_settings(of_point, catalogue, render, known)
        why = matrix_points.why_point_skipped(matrix.skip_if, whole, late, render)
        points.append(MatrixPoint(name, combination, whole, why))
    matrix_points.refuse_all_points_skipped([point.skipped for point in points])
    return points

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings and the points of a session on the terminal, before a phase begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.choose_next_point import PlannedPoint
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import point_loads, repeat_and_bisect_keywords
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.resolve_settings import EffectiveSettings
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_from_ansible import SettingsContext
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_layers import RequestedSettings

from . import point_states, settings_files


def show_settings(
    context: SettingsContext,
    effective: EffectiveSettings,
    request: RequestedSettings,
    secrets: Sequence[str],
    say: Callable[[str], None],
) -> None:
    """Print the settings that differ from their defaults, with their sources. secrets: names of given ones."""
    document = settings_files.provenance(effective, request, secrets)
    shown = [name for name in document["settings"] if name in context.defaults]
    rendered = {name: context.render(context.defaults[name], context.defaults)[0] for name in shown}
    rows = settings_files.changed_settings_rows(document, rendered)
    for line in settings_files.render_settings_table(rows, list(request.presets), len(effective.points)):
        say(line)


def show_points(
    context: SettingsContext,
    effective: EffectiveSettings,
    say: Callable[[str], None],
    directory: Path | None = None,
    redone: Sequence[PlannedPoint] = (),
) -> None:
    """Print the points with their loads and their states. directory: of a run that exists. redone: further attempts."""
    loads = point_loads.describe_loads_of_points(context.role.folder, effective.measured, context.render)
    states = point_states.states_by_point(directory, effective.points, redone)
    left = point_states.estimated_time_left(directory, states.values())
    for line in settings_files.render_point_list(effective, loads, states, left):
        say(line)
    if most := repeat_and_bisect_keywords.describe_most_attempts(effective):
        say(f"  {most}")

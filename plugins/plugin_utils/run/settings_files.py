# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a run directory that hold its settings: request, settings, provenance, settings of each point."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import settings_display, unsafe_text
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.requested_settings import RequestedSettings
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.resolve_settings import EffectiveSettings

from . import point_attempts

#: Settings that judge what was measured, and how these names begin.
OF_VERDICT = ("results_", "workload_max_lateness")
HEAD = "---\n# The settings of this run, as they were used; provenance.yml shows who set them.\n"


def dump(path: Path, values: Mapping[str, Any], hidden: Collection[str]) -> None:
    """Write settings to a file. hidden: names of secret settings, which are left out."""
    public = {name: value for name, value in values.items() if name not in hidden}
    files.replace_text(path, HEAD + unsafe_text.dump(public))


def write(
    directory: Path, found: EffectiveSettings, request: RequestedSettings, secrets: Iterable[str], given: Iterable[str]
) -> None:
    """Write the files. secrets: names of all secret settings, which are left out. given: those that have a value.

    Of a point that exists already, only what has not been measured yet is written again.
    """
    hidden = set(secrets)
    document = request.document()
    files.check_schema("request/1", document)
    files.check_schema("settings/1", found.settings)
    files.replace_text(directory / "request.yml", "---\n" + unsafe_text.dump(document))
    dump(directory / "settings.yml", found.settings, hidden)
    provenance = settings_display.provenance(found, request, given)
    files.write_yaml(directory / "provenance.yml", provenance, "provenance/1")
    point_attempts.write_points(
        directory,
        [
            (point.name, point.values, point.skipped, functools.partial(dump, values=point.settings, hidden=hidden))
            for point in found.points
        ],
        functools.partial(_judge, {point.name: point.settings for point in found.points}, hidden),
    )


def _judge(settings: Mapping[str, Mapping[str, Any]], hidden: Collection[str], name: str, path: Path) -> None:
    """Replace the settings of the verdict in the file of a measured point: each session judges by its own."""
    if not path.is_file():
        return
    measured = unsafe_text.load(path.read_text(encoding="utf-8"))
    of_verdict = {key: value for key, value in settings[name].items() if key.startswith(OF_VERDICT)}
    if measured != (now := {**measured, **of_verdict}):
        dump(path, now, hidden)

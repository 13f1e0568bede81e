# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the settings of the history before a run begins: where past runs are, and which of them are comparable."""

from __future__ import annotations

from collections.abc import Callable

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import history_settings

from .resolve_settings import EffectiveSettings

SOURCES, RUNS = "results_history", "results_history_runs"
PATTERNS = ("results_compare_on", "results_ignore")


def check(found: EffectiveSettings, set_by: Callable[[str], str]) -> None:
    """Raise InputError for a wrong setting at any point of the matrix. set_by: setting -> its source in brackets."""
    for point in found.points:
        values = {name: value for name, value in point.settings.items() if name not in found.late}
        for name in (SOURCES, RUNS, *PATTERNS):
            if name not in values:
                continue
            try:
                if name == SOURCES:
                    later = [str(values.get("run_artifacts_dir") or "")]
                    history_settings.check_sources(values[name] or (), values.get("export_opensearch_url") or "", later)
                elif name == RUNS:
                    history_settings.check_runs(values[name])
                else:
                    history_settings.check_patterns(name, values[name] or (), point.settings)
            except InputError as error:
                raise InputError(f"{error}{set_by(name)}") from error

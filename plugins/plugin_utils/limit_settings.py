# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the setting results_limits before a run begins, naming where a wrong limit was written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._kpi import kpi_definitions
from ansible_collections.perfscale.seatrial.plugins.module_utils._verdict import limits
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.requested_settings import RequestedSettings
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.resolve_settings import EffectiveSettings

KPI_FILES = "results_kpi_files"


def check(request: RequestedSettings, found: EffectiveSettings, roles: Path) -> None:
    """Raise InputError for a limit that is wrong at any point of the matrix. roles: folder of the roles."""
    given = any(change.path[0] == limits.SETTING for change in found.resolved.changes)
    if not given or {limits.SETTING, KPI_FILES} & set(found.late):
        return
    files = [roles / "results" / "files" / "kpis" / "workload.yml", roles / request.project / "files" / "kpis.yml"]
    for point in found.points:
        own = [str(path) for path in files if path.is_file()] + list(point.settings.get(KPI_FILES) or [])
        raw = point.settings.get(limits.SETTING) or {}
        limits.parse(raw, kpi_definitions.load(own), dict(_origins(request, found)))


def _origins(request: RequestedSettings, found: EffectiveSettings) -> Iterator[tuple[str, str]]:
    """Yield the KPI of each limit with its origin; a later one replaces an earlier one."""
    for change in found.resolved.changes:
        if change.path[0] != limits.SETTING:
            continue
        where = request.where(change.source, change.key)
        origin = f"{change.source}, {where}" if where and not where.startswith("<") else change.source
        names = [change.path[1]] if len(change.path) > 1 else list(change.value)
        yield from ((str(name), origin) for name in names)

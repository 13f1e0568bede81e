# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The phases in the record of a run."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import stamp


def close_running(
    phases: dict[str, dict[str, Any]], status: str, error: str | None = None, cause: str | None = None
) -> list[str]:
    """End every running phase with ``status``; return their names."""
    names = [name for name, phase in phases.items() if phase["status"] == "running"]
    for name in names:
        close(phases[name], status, error, cause)
    return names


def close(phase: dict[str, Any], status: str, error: str | None = None, cause: str | None = None) -> None:
    """End one phase now. cause: class of the error."""
    phase.update(status=status, ended=stamp(), error=error, **({"cause": cause} if cause else {}))
    phase["seconds"] = round(_moment(phase["ended"]) - _moment(phase["started"]), 3)


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long the points of a run take at least, from what the project's meta/doctor.yml says of its load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._doctor import load_estimate
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils import user_path
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.effective_settings import MatrixPoint, Render

ROLES = Path(__file__).parents[2] / "roles"


def durations(project: str, points: Sequence[MatrixPoint], render: Render) -> dict[str, str]:
    """Return point -> its load, how long it takes at least and what it uses at once; ``all`` when they are several.

    Empty for a project without a load. GPUs are those of the fake nodes, else as many as the load wants. Raises
    InputError for a load that can't be planned.
    """
    path = ROLES / project / "meta" / "doctor.yml"
    template = (_files.read_yaml(path) or {}).get("plan") if path.exists() else None
    found: dict[str, load_estimate.LoadEstimate] = {}
    told: dict[str, str] = {}
    for point in points if template else ():
        given, unknown = render(template, point.settings)
        if unknown or not _with_trace(given, project):
            continue
        try:
            plan = load_estimate.point_load(point.name, given)
        except InputError as error:
            raise InputError(f"{project}, point {point.name}: {error}") from error
        gpus = _gpus(point.settings)
        one = load_estimate.estimate(plan, plan.gpus * plan.workloads if gpus is None else gpus)
        if one is None:
            told[point.name] = f"one workload wants {plan.gpus:g} GPUs, the fake nodes have {gpus:g}"
        else:
            found[point.name], told[point.name] = one, one.text()
    if len(points) > 1 and len(found) == len(points):
        told["all"] = load_estimate.total(list(found.values()))
    return told


def _with_trace(given: dict[str, Any], project: str) -> bool:
    """Put the content of a trace into a plan; return whether that could be done, or there is none to read."""
    arrival = given.get("arrival")
    if not isinstance(arrival, dict) or not arrival.get("src") or arrival.get("content"):
        return True
    name = str(arrival["src"])
    for path in (Path(user_path.absolute(name)), ROLES / project / "files" / name):
        if path.is_file():
            given["arrival"] = {**arrival, "content": path.read_text(encoding="utf-8")}
            return True
    return False


def _gpus(settings: Mapping[str, Any]) -> float | None:
    """Return the GPUs of the cluster that the run gets, None when only the cluster knows."""
    if settings.get("cluster_provider") != "rehearsal":
        return None
    return float(settings.get("fake_gpu_nodes", 0)) * float(settings.get("fake_gpu_gpus_per_node", 0))

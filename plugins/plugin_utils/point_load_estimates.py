# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The estimated duration of the load of each point, from the plan in the project's meta/doctor.yml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._doctor import load_duration_estimate
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils import user_path
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.resolve_settings import MatrixPoint, Render

ROLES = Path(__file__).parents[2] / "roles"


def durations(project: str, points: Sequence[MatrixPoint], render: Render) -> dict[str, str]:
    """Return point -> text with workloads, duration, GPU hours and peak use; ``all`` if there are several.

    Empty for a project without a load. The number of GPUs is that of the fake nodes, else as many as the load needs.
    Raises InputError for an invalid load.
    """
    path = ROLES / project / "meta" / "doctor.yml"
    template: dict[str, Any] = ((_files.read_yaml(path) or {}).get("plan") if path.exists() else None) or {}
    found: dict[str, load_duration_estimate.LoadEstimate] = {}
    texts: dict[str, str] = {}
    for point in points if template else ():
        given, unknown = render(template, point.settings)
        if unknown or not _with_trace(given, project):
            continue
        if problem := load_duration_estimate.first_problem(given):
            name, why = problem
            text = " ".join(str(template[name]).split())
            raise InputError(f"{project}, point {point.name}: {why} (from {text})")
        try:
            plan = load_duration_estimate.point_load(point.name, given)
        except InputError as error:
            raise InputError(f"{project}, point {point.name}: {error}") from error
        gpus = _gpus(point.settings)
        one = load_duration_estimate.estimate(plan, plan.gpus * plan.workloads if gpus is None else gpus)
        if one is None:
            texts[point.name] = f"one workload wants {plan.gpus:g} GPUs, the fake nodes have {gpus:g}"
        else:
            found[point.name], texts[point.name] = one, one.text()
    if len(points) > 1 and len(found) == len(points):
        texts["all"] = load_duration_estimate.total(list(found.values()))
    return texts


def _with_trace(given: dict[str, Any], project: str) -> bool:
    """Add the content of its trace to a plan; return False if the trace file was not found."""
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
    """Return the number of GPUs of the run's cluster, None if only the cluster can tell."""
    if settings.get("cluster_provider") != "rehearsal":
        return None
    return float(settings.get("fake_gpu_nodes", 0)) * float(settings.get("fake_gpu_gpus_per_node", 0))

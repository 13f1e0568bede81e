"""Small run directories as members of a history: records, labels and figures, without a load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.schemas.verdict_and_comparison_schemas import (
    VERDICTS,
)

SETTINGS = {"fine_tuning_count": 10, "fine_tuning_gpus": 1, "fine_tuning_hyper_parameters": {"r": 16}}
RAN = {"simulated": True, "kubernetes": "v1.36.3", "nodes": {"count": 2, "gpus": 16}}
KPI = "time_to_running_p95"


def run_id(number: int) -> str:
    """Return the id of the run of a day."""
    return f"t11{number:02d}-abcdef"


def kpi(value: float | None, name: str = KPI, **changes: Any) -> dict[str, Any]:
    """Return a headline figure of a point."""
    confidence = (
        {"low": value - 0.1, "high": value + 0.1, "level": 0.95, "method": "block bootstrap"} if value else None
    )
    return {
        "name": name,
        "value": value,
        "unit": "s",
        "direction": "lower",
        "help": "A figure.",
        "n": 10,
        "of": 10,
        "simulated": True,
        "confidence": confidence,
        "labels": {},
        "headline": True,
        **changes,
    }


def write_past_run(
    parent: Path,
    number: int,
    value: float | None = 10.0,
    *,
    ran: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    verdict: str = "pass",
    points: Sequence[str] = ("001",),
    kpis: Sequence[dict[str, Any]] | None = None,
    name: str = "",
    project: str = "fine_tuning",
    repeats: bool = False,
    resumed: Sequence[str] = (),
) -> Path:
    """Write the run of day ``number`` of November below ``parent``; return its directory.

    ran, settings: changes of its labels. points: the names of their folders. repeats: until they are
    decided. resumed: those that were interrupted. kpis: instead of one with ``value``.
    """
    run, started = run_id(number), f"2026-11-{number:02d}T10:00:00.000Z"
    top = parent / (name or f"{project}-light-{run}")
    record = {
        "schema": "run/1",
        "id": run,
        "project": project,
        "presets": ["light"],
        "status": "passed",
        "started": started,
        "command": "ansible-playbook",
        "give_back": "",
        "git": {"revision": f"r{number}", "dirty": False},
        "versions": {"perfscale.seatrial": "0.1.0"},
        "environment": {},
        "phases": {},
        "clusters": {},
        "points": sorted({point.partition("-")[0] for point in points}),
        "held": [],
    }
    top.mkdir(parents=True)
    files.write_yaml(top / "run.yml", record, "run/1")
    if repeats:
        session = {"type": "session", "schema": "schedule/1", "run": run, "at": started, "repeat": {"max": 3}}
        files.write_json_lines(top / "schedule.jsonl", [session])
    if verdict:
        files.write_json(top / "verdict.json", _verdict(run, verdict), "verdict/2")
    for point in points:
        folder = top / "points" / point
        folder.mkdir(parents=True)
        own = {**SETTINGS, "workload_point": point, "results_judged": [str(number)], **(settings or {})}
        labels = {
            "project": project,
            "presets": ["light"],
            "settings": own,
            "uuid": f"{run}-{point}",
            "matrix": {},
            "ran": {**RAN, "revision": f"r{number}", **(ran or {})},
            "attempt": {"point": point.partition("-")[0], "number": int(point.partition("-")[2] or 1)},
        }
        figures = [kpi(value)] if kpis is None else list(kpis)
        document = {"schema": "kpis/2", "run": run, "point": point, "labels": labels, "kpis": figures}
        files.write_json(folder / "kpis.json", document, "kpis/2")
        files.write_yaml(folder / "settings.yml", own, "settings/1")
        files.write_yaml(folder / "point.yml", _point(point, f"{run}-{point}", started, point in resumed), "point/2")
    return top


def _point(point: str, uuid: str, started: str, resumed: bool) -> dict[str, Any]:
    attempt = int(point.partition("-")[2] or 1)
    record = {"schema": "point/2", "point": point, "attempt": attempt, "uuid": uuid, "settings": {}, "status": "passed"}
    return {**record, "started": started, **({"resumed": True} if resumed else {})}


def _verdict(run: str, verdict: str) -> dict[str, Any]:
    code, status = VERDICTS[verdict]
    return {
        "schema": "verdict/2",
        "run": run,
        "verdict": verdict,
        "code": code,
        "exit_status": status,
        "checks": [],
        "kpis": [],
        "baseline": None,
        "headline": [],
        "answer": [],
        "warnings": [],
    }

"""A history made from one run: copies of it, earlier by days, whose figures are multiplied by known factors."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files

#: What a history needs of a run.
FILES = ("run.yml", "verdict.json", "cluster.yml", "settings.yml")


def write_copies(
    top: Path, parent: Path, factors: Iterable[float], *, labels: Mapping[str, Any] | None = None, since: int = 90
) -> list[Path]:
    """Write one earlier run below ``parent`` per factor, oldest first, from the run in ``top``.

    labels: changes of what ran. since: age of the oldest in days.
    """
    return [_copy(top, parent, factor, since - number, dict(labels or {})) for number, factor in enumerate(factors)]


def _copy(top: Path, parent: Path, factor: float, days: int, ran: dict[str, Any]) -> Path:
    run = f"t0101-a{days:05d}"
    made = parent / f"old-{run}"
    made.mkdir(parents=True)
    for name in FILES:
        if (top / name).exists():
            shutil.copy(top / name, made / name)
    record = files.read_yaml(top / "run.yml")
    started = datetime.fromisoformat(str(record["started"])) - timedelta(days=days)
    files.write_yaml(made / "run.yml", {**record, "id": run, "started": _stamp(started)}, "run/1")
    for folder in (top / "points").iterdir():
        (made / "points" / folder.name).mkdir(parents=True)
        point = files.read_yaml(folder / "point.yml")
        files.write_yaml(
            made / "points" / folder.name / "point.yml",
            {**point, "uuid": f"{run}-{folder.name}", "started": _stamp(started)},
            "point/2",
        )
        document = files.read_json(folder / "kpis.json")
        document["run"], document["labels"]["uuid"] = run, run
        document["labels"]["ran"].update(ran)
        document["kpis"] = [_scaled(one, factor) for one in document["kpis"]]
        files.write_json(made / "points" / folder.name / "kpis.json", document, "kpis/2")
    return made


def _stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _scaled(kpi: dict[str, Any], factor: float) -> dict[str, Any]:
    if kpi["unit"] != "s" or kpi["value"] is None:
        return kpi
    sampled = kpi.get("confidence")
    if sampled:
        ends = {end: None if sampled[end] is None else sampled[end] * factor for end in ("low", "high")}
        sampled = {**sampled, **ends}
    return {**kpi, "value": kpi["value"] * factor, "confidence": sampled}

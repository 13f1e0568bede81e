"""KPIs of a point from definitions that a test writes."""

from __future__ import annotations

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi import write_kpis as compute_kpis
from run_directory import REAL

NODES = (REAL, "fake-gpu-0000")
ONE = {"name": "x", "unit": "s", "direction": "lower", "help": "What it is.", "source": {"function": "makespan"}}


def computed(data, definitions):
    return [kpi for kpi, _value in compute_kpis.compute_point_kpis(data, definitions)]


def written(tmp_path, *entries):
    path = tmp_path / "kpis.yml"
    files.write_yaml(path, list(entries))
    return str(path)

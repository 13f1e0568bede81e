"""Points with other nodes than the run, and the way back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import point_loads


def run_of(folder: Path, *points: dict[str, Any]) -> Path:
    """A run with 2 nodes and with these points; ``nodes`` is what was recorded of a point that was measured."""
    files.write_yaml(folder / "settings.yml", {"fake_gpu_nodes": 2, "fine_tuning_count": 4})
    for number, one in enumerate(points, 1):
        path = folder / "points" / f"{number:03d}"
        path.mkdir(parents=True)
        given = {name: value for name, value in one.items() if name != "nodes"}
        files.write_yaml(path / "settings.yml", {"fake_gpu_nodes": 2, "fine_tuning_count": 4, **given})
        files.write_yaml(
            path / "point.yml", {"status": "planned", **({"nodes": one["nodes"]} if "nodes" in one else {})}
        )
    return folder


def test_points_with_the_nodes_of_the_run_scale_nothing(tmp_path: Path) -> None:
    run = run_of(tmp_path, {}, {"fine_tuning_count": 8})
    for name in ("001", "002"):
        assert point_loads.node_scaling_before_point(run, run / "points" / name) == (False, {})


def test_a_point_with_other_nodes_is_scaled(tmp_path: Path) -> None:
    run = run_of(tmp_path, {"fake_gpu_nodes": 5})
    assert point_loads.node_scaling_before_point(run, run / "points" / "001") == (True, {"fake_gpu_nodes": 5})


def test_the_nodes_of_the_run_come_back_after_a_point_with_others_also_in_another_session(tmp_path: Path) -> None:
    run = run_of(tmp_path, {"fake_gpu_nodes": 5, "nodes": {"fake_gpu_nodes": 5}}, {})
    assert point_loads.node_scaling_before_point(run, run / "points" / "002") == (True, {})

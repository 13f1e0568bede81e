# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What --tags settings shows: everything that was set, whole, by whom; the points, and how long they take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import settings_files
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import point_loads
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.resolve_settings import (
    EffectiveSettings,
    MatrixPoint,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_layers import (
    RequestedSettings,
    ResolvedSettings,
    SettingChange,
    SettingsLayer,
)

ROLES = Path(__file__).resolve().parents[5] / "roles"
LOAD = {
    "cluster_provider": "rehearsal",
    "fake_gpu_nodes": 1,
    "fake_gpu_gpus_per_node": 8,
    "fake_gpu_cpu": 96,
    "fake_gpu_node_memory_gib": 1024,
    "fine_tuning_count": 4,
    "fine_tuning_rate": 0,
    "fine_tuning_pod_count": 1,
    "fine_tuning_gpus": 4,
    "fine_tuning_run_seconds": 10,
}


def rows(*writes: tuple[str, Any]) -> list[tuple[str, str, str]]:
    told = [{"source": source, "value": value} for source, value in writes]
    return settings_files.changed_settings_rows({"settings": {"load_count": told}}, {"load_count": 3})


def test_a_value_that_is_the_default_is_shown_and_said_to_be() -> None:
    assert rows(("-e", 3)) == [("load_count", "3", "-e; the default")]
    assert rows(("preset p", 5), ("-e", 3)) == [("load_count", "3", "-e, over preset p; the default")]
    assert rows(("preset p", 3), ("-e", 5)) == [("load_count", "5", "-e, over preset p")]


@pytest.mark.parametrize("value", ["x" * 500, ["y" * 40] * 10, {"key": "z" * 200}, "several\nlines", ""])
def test_no_value_is_cut(value: Any) -> None:
    lines = settings_files.render_settings_table(rows(("-e", value), ("-e", value)), [], 1)
    assert all(part in "\n".join(lines) for part in settings_files._format_setting_value(value).splitlines())


def test_a_long_value_does_not_widen_the_others() -> None:
    found = [("a", "1", "-e"), ("b", "x" * 200, "-e"), ("c", "22", "-e")]
    assert settings_files.render_settings_table(found, ["p"], 2)[1:] == [
        "  a  1   -e",
        "  b      -e",
        f"    {'x' * 200}",
        "  c  22  -e",
    ]


def render(value: Any, values: Any) -> tuple[Any, bool]:
    """Stands for the renderer: the plan of fine_tuning from its settings."""
    gpus = values["fine_tuning_gpus"]
    return {"workloads": values["fine_tuning_count"], "arrival": {"type": "closed"}, "gpus": gpus, "seconds": 10}, False


def test_points_are_shown_with_what_their_load_takes() -> None:
    points = tuple(
        MatrixPoint(f"00{number}", {"fine_tuning_gpus": gpus}, {**LOAD, "fine_tuning_gpus": gpus})
        for number, gpus in ((1, 4), (2, 8))
    )
    found = EffectiveSettings({}, ResolvedSettings({}), points, (), {"fine_tuning_gpus": [4, 8]}, False)
    assert settings_files.render_point_list(
        found, point_loads.describe_loads_of_points(ROLES / "fine_tuning", points, render)
    )[1:] == [
        "  001  fine_tuning_gpus=4: 4 workloads in about 20 s, 0.04 GPU hours, at most 8 GPUs and 2 pods at once",
        "  002  fine_tuning_gpus=8: 4 workloads in about 40 s, 0.09 GPU hours, at most 8 GPUs and 1 pod at once",
        "  all 2 points: about 60 s, 0.13 GPU hours, at most 8 GPUs at once",
    ]


def test_a_load_that_does_not_fit_on_the_fake_nodes_is_said_to() -> None:
    point = MatrixPoint("001", {}, {**LOAD, "fine_tuning_gpus": 9})
    told = point_loads.describe_loads_of_points(ROLES / "fine_tuning", [point], render)
    assert told == {"001": "can never run on the 1 simulated node: one workload wants 9 GPUs, there are 8"}
    elsewhere = MatrixPoint("001", {}, {**point.settings, "cluster_provider": "existing"})
    assert "at most 36 GPUs" in point_loads.describe_loads_of_points(ROLES / "fine_tuning", [elsewhere], render)["001"]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ([{"streams": 4, "duration": 60}, {"streams": 8, "duration": 60}], ["about 60 s", "about 60 s", "about 120 s"]),
        ([{"streams": 4, "count": 100}, {"streams": 8, "duration": 60}], [None, "about 60 s", None]),
        ([{"search": {"timespan": 1200, "step": None}}], ["at most 1,200 s", None]),
        ([{"search": {"high": 64}}], ["at most 600 s", None]),
        ([{"count": 21, "arrival": {"type": "constant", "rate": 2}}], ["about 10 s", None]),
        ([{"arrival": {"type": "trace", "src": "other-machine.csv"}}], [None, None]),
    ],
)
def test_the_duration_of_requests_is_shown_as_far_as_it_is_known(
    asked: list[dict[str, Any]], told: list[str | None]
) -> None:
    points = [MatrixPoint(f"00{number}", {}, {"asked": entry}) for number, entry in enumerate(asked, 1)]
    texts = point_loads.describe_loads_of_points(
        ROLES / "serving", points, lambda _template, values: (values["asked"], False)
    )
    names = [*(point.name for point in points), "all"]
    assert [name in texts for name in names] == [text is not None for text in told]
    for name, text in zip(names, told, strict=True):
        assert texts.get(name, "").endswith(text or "")


def test_a_project_without_a_load_has_no_estimate() -> None:
    assert point_loads.describe_loads_of_points(ROLES / "cluster", [MatrixPoint("001", {}, LOAD)], render) == {}


@pytest.mark.parametrize(
    ("source", "key", "where"),
    [
        ("-e", "load_count", "<CLI option '-e'>"),
        ("preset p", "load_count", "p.yml:1:1"),
        ("preset p -> q", "load_count", "q.yml:1:1"),
        ("profile api.example.com (preset q)", "load_count", "q.yml:1:1"),
        ("matrix, point 002", "load_count", "m.yml:1:1"),
        ("inventory", "load_count", None),
        ("default", "load_count", None),
    ],
)
def test_a_source_leads_to_the_line_of_its_own_layer(source: str, key: str, where: str | None) -> None:
    layers = [
        SettingsLayer(
            "preset", name, {key: 1}, {key: f"{name}.yml:1:1", "matrix": "m.yml:1:1"} if name == "q" else {key: at}
        )
        for name, at in (("p", "p.yml:1:1"), ("q", ""))
    ]
    request = RequestedSettings(
        "load", ("p",), (*layers, SettingsLayer("extra", "-e", {key: 2}, {key: "<CLI option '-e'>"}))
    )
    assert request.where(source, key) == where


def test_provenance_keeps_the_place_of_each_write() -> None:
    layers = (
        SettingsLayer("preset", "p", {"load_count": 5}, {"load_count": "p.yml:1:1"}),
        SettingsLayer("extra", "-e", {}),
    )
    changes = (
        SettingChange("preset p", ("load_count",), 5, "load_count"),
        SettingChange("-e", ("load_count",), 6, "load_count"),
    )
    found = EffectiveSettings({}, ResolvedSettings({}, changes), (), (), {}, False)
    told = settings_files.provenance(found, RequestedSettings("load", ("p",), layers), [])["settings"]["load_count"]
    assert [one.get("where") for one in told] == ["p.yml:1:1", None]

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The labels of KPIs: what must be equal for figures to be comparable."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, secret_gate
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.export import export_run, opensearch_export
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.write_verdict import write_verdict
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.point_labels import (
    LONGEST,
    flatten_labels,
    labels_of_point,
    recorded_labels,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.write_kpis import write_kpis
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.write_timeline import write_timeline
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import fetch_run, run_reader
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point, Run
from hypothesis import given
from hypothesis import strategies as st
from run_directory import RUN, World, write_run

#: Files as version 0.1 wrote them, with kpis/1 and without ran.json.
OLD = Path(__file__).parent / "run_of_kpis_1"
SETTINGS = {"fine_tuning_count": 3, "fine_tuning_gpus": 2, "fine_tuning_hyper_parameters": {"r": 16}}
RAN = {
    "schema": "ran/1",
    "run": RUN,
    "point": "000",
    "at": "2026-11-21T10:00:00.000Z",
    "nodes": {"count": 21, "cpus": 84.0, "memory_gib": 320, "gpus": 168, "gpu_products": {"NVIDIA-L40S": 168}},
    "operators": {"rhods-operator": "2.19.0"},
    "images": {"quay.io/x/trainer:v2": "sha256:" + "a" * 64},
}


@pytest.fixture
def top(tmp_path: Path) -> Path:
    folder = write_run(tmp_path / "run", [(World(count=2, canary=1.0, run_for=2.0), {"fine_tuning_gpus": 2})])
    files.write_yaml(folder / "points/000/settings.yml", SETTINGS, "settings/1")
    files.write_json(folder / "points/000/ran.json", RAN, "ran/1")
    return folder


def of(folder: Path, place: int = 0) -> dict[str, Any]:
    run = run_reader.read_run_directory(folder)
    return labels_of_point(run, run.points[place])


def test_the_labels_are_the_settings_and_what_ran(top: Path, definitions: str) -> None:
    write_timeline(str(top))
    write_kpis(str(top), [definitions])
    document = files.read_json(top / "points/000/kpis.json")
    files.validate_schema_if_enabled("kpis/2", document)
    assert document["labels"] == {
        "project": "fine_tuning",
        "presets": ["light"],
        "settings": SETTINGS,
        "uuid": "00000000-0000-4000-8000-000000000000",
        "matrix": {"fine_tuning_gpus": 2},
        "ran": {
            "simulated": True,
            "simulated_writers": ["node"],
            "provider": "rehearsal",
            "kubernetes": "v1.36.3",
            "collection": "0.1.0",
            "revision": "3f1c2d4e5a6b7c8d9e0f",
            "nodes": RAN["nodes"],
            "operators": RAN["operators"],
            "images": RAN["images"],
        },
        "attempt": {"point": "000", "number": 1},
    }
    run = run_reader.read_run_directory(top)
    assert recorded_labels(run, run.points[0]) == document["labels"]


def test_without_a_record_of_the_point_the_record_of_the_cluster_counts(top: Path) -> None:
    (top / "points/000/ran.json").unlink()
    found = of(top)["ran"]
    assert found["nodes"] == {"count": 20, "gpus": 160, "gpu_products": {"NVIDIA-A100-SXM4-80GB": 160}}
    assert "operators" not in found and "images" not in found


def test_what_is_unknown_is_absent(tmp_path: Path) -> None:
    folder = tmp_path / "points" / "003-2"
    run = Run(tmp_path, points=[Point("003-2", folder)])
    assert labels_of_point(run, run.points[0]) == {
        "matrix": {},
        "ran": {"simulated": False, "simulated_writers": []},
        "attempt": {"point": "003", "number": 2},
    }


def test_a_run_of_an_older_version_gets_labels_of_today_when_it_is_reported_again(
    tmp_path: Path, definitions: str
) -> None:
    fetched = fetch_run.fetch_run_directory(str(OLD), tmp_path)
    write_timeline(str(fetched.path))
    write_kpis(str(fetched.path), [definitions])
    for number, gpus in (("000", 1), ("001", 2)):
        document = files.read_json(fetched.path / "points" / number / "kpis.json")
        files.validate_schema_if_enabled("kpis/2", document)
        labels = document["labels"]
        assert labels["settings"]["fine_tuning_gpus"] == gpus
        assert labels["ran"]["kubernetes"] == "v1.36.3"
        assert labels["attempt"] == {"point": number, "number": 1}
        before = {one["name"]: one["value"] for one in files.read_json(OLD / "points" / number / "kpis.json")["kpis"]}
        after = {one["name"]: one["value"] for one in document["kpis"]}
        assert before and all(after[name] == value for name, value in before.items()), "figures stay"


def test_an_older_run_is_lifted_in_memory_too() -> None:
    run = run_reader.read_run_directory(OLD)
    found = recorded_labels(run, run.points[1])
    assert found == labels_of_point(run, run.points[1])
    assert found["settings"]["fine_tuning_gpus"] == 2


def test_a_search_server_gets_the_labels_on_one_level(top: Path, definitions: str) -> None:
    write_timeline(str(top))
    write_kpis(str(top), [definitions])
    write_verdict(str(top), 0.5)
    run = run_reader.read_run_directory(top)
    documents = opensearch_export.run_and_kpi_documents(run, export_run.read_run_verdict(run), "valid")
    document = next(one for kind, _id, one in documents if kind == "kpis" and one["kpi_labels"])
    assert document["settings"]["fine_tuning_hyper_parameters.r"] == 16
    assert document["labels"]["ran.kubernetes"] == "v1.36.3"
    assert document["labels"]["ran.operators.rhods-operator"] == "2.19.0"
    assert document["labels"]["settings.fine_tuning_count"] == 3
    assert {"stage", "quantile"} <= document["kpi_labels"].keys(), "those of the figure itself"


def test_a_secret_that_gets_into_settings_stops_the_export(top: Path, definitions: str) -> None:
    files.write_yaml(top / "points/000/settings.yml", {**SETTINGS, "fine_tuning_note": "canary-1f6c9"}, "settings/1")
    write_timeline(str(top))
    write_kpis(str(top), [definitions])
    (top / "points/000/settings.yml").unlink()
    with pytest.raises(secret_gate.SecretFound, match="points/000/kpis.json"):
        export_run.check_run_exportable(str(top), {"a token": "canary-1f6c9"}, [], export_run.LABEL)


NAMES = st.text(alphabet="ab.\\:", min_size=1, max_size=4)
LEAVES = st.one_of(
    st.text(alphabet='ab[]{}"ln,u', max_size=6), st.sampled_from(["null", "[]", "{}", '""', "[1]"]),
    st.integers(-3, 3), st.booleans(), st.none(), st.lists(st.integers(0, 2), max_size=2),
)  # fmt: skip
LABELS = st.recursive(
    st.dictionaries(NAMES, LEAVES, max_size=3), lambda inner: st.dictionaries(NAMES, inner | LEAVES, max_size=3)
)


def exact(value: Any) -> str:
    """Return JSON, in which true and 1 differ."""
    return json.dumps(value, sort_keys=True)


@given(LABELS, LABELS)
def test_different_labels_stay_different(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert (exact(flatten_labels(one)) == exact(flatten_labels(other))) == (exact(one) == exact(other))


@given(LABELS)
def test_flat_labels_have_one_level_of_plain_values(labels: dict[str, Any]) -> None:
    assert all(isinstance(value, (str, int, float, bool)) for value in flatten_labels(labels).values())


def test_names_with_dots_are_not_mistaken_for_levels() -> None:
    assert flatten_labels({"a.b": 1, "a": {"b": 2}}) == {"a\\.b": 1, "a.b": 2}
    assert flatten_labels({"ran": {"images": {"quay.io/x:v1": "d"}}}) == {"ran.images.quay\\.io/x:v1": "d"}


def test_a_long_text_becomes_its_checksum() -> None:
    (one,) = flatten_labels({"text": "x" * (LONGEST + 1)}).values()
    (other,) = flatten_labels({"text": "x" * LONGEST + "y"}).values()
    assert str(one).startswith("sha256:") and one != other

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The KPIs of many runs are one table: a row a KPI, one directory a run, and nothing with a secret."""

from __future__ import annotations

import csv
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, secret_gate
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.detect_moved_run import recorded_path_and_inode
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.export import kpi_table
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.write_verdict import write_verdict
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.write_kpis import write_kpis
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.write_timeline import write_timeline
from run_directory import RUN, World, write_run

OTHER = "t1122-fedcba"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, definitions: str) -> Path:
    """Two runs, the older one below a folder of its own; the newer one has two points."""
    top = tmp_path_factory.mktemp("runs")
    (top / "nightly").mkdir()
    old = [(World(count=6, canary=5.0), {})]
    new = [(World(count=20, canary=5.0, seed=2), {"fine_tuning_gpus": gpus}) for gpus in (1, 2)]
    for path, worlds in ((top / "nightly" / "old", old), (top / "new", new)):
        write_run(path, worlds)
        write_timeline(str(path))
        write_kpis(str(path), [definitions])
        write_verdict(str(path), 0.5)
    record = files.read_yaml(top / "nightly/old/run.yml")
    files.write_yaml(top / "nightly/old/run.yml", {**record, "id": OTHER, "started": "2026-01-02T03:04:05.000Z"})
    point = files.read_yaml(top / "nightly/old/points/000/point.yml")
    files.write_yaml(top / "nightly/old/points/000/point.yml", {**point, "started": "2026-01-02T03:04:05.000Z"})
    return top


def write(sources: list[Path], dest: Path, **more: Any) -> dict[str, Any]:
    given = {"secrets": {}, "kubeconfigs": [], "invalid": "label", **more}
    return kpi_table.write_kpi_table([str(source) for source in sources], str(dest), **given)


def read(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_every_kpi_of_every_point_is_a_row_the_oldest_run_first(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "kpis.csv"
    result = write([folder], target)
    rows = read(target)
    assert list(rows[0]) == list(kpi_table.COLUMNS)
    points = [folder / "nightly/old/points/000", folder / "new/points/000", folder / "new/points/001"]
    known = [(point.name, kpi) for point in points for kpi in files.read_json(point / "kpis.json")["kpis"]]
    assert [(row["point"], row["kpi"]) for row in rows] == [(number, kpi["name"]) for number, kpi in known]
    assert (result["rows"], result["runs"], result["changed"]) == (len(known), 2, True)
    assert [rows[0]["run"], rows[-1]["run"]] == [OTHER, RUN]
    for row, (_number, kpi) in zip(rows, known, strict=True):
        assert (float(row["value"]) if row["value"] else None) == kpi["value"]
        assert row["simulated"] == str(kpi["simulated"]).lower()
        confidence, measured = kpi["confidence"], kpi["interval"]
        ends = [confidence["low"], confidence["high"]] if confidence else measured or [None, None]
        assert [float(row[end]) if row[end] else None for end in ("low", "high")] == ends
        assert row["bounds"] == ("confidence" if confidence else "measurement" if measured else "")
    makespan = next(row for row in rows if row["kpi"] == "makespan" and row["run"] == RUN)
    assert json.loads(makespan["matrix"]) == {"fine_tuning_gpus": 1}
    assert json.loads(makespan["labels"])["ran.simulated"] is True
    assert makespan["reading"] in ("not enough history", "not judged") and makespan["unit"] == "s"
    assert {row["bounds"] for row in rows} == {"confidence", "measurement", ""}
    waiting = next(row for row in rows if row["kpi"] == "waiting_p95")
    assert json.loads(waiting["labels"])["kpi.stage"] == "pods_scheduled"


def test_a_second_table_of_the_same_runs_changes_nothing(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "kpis.csv"
    assert [write([folder], target)["changed"] for _time in range(2)] == [True, False]
    assert [path.name for path in tmp_path.iterdir()] == ["kpis.csv"]


def test_a_run_counts_once_with_its_last_replot(folder: Path, tmp_path: Path) -> None:
    replot = tmp_path / "new-replot"
    shutil.copytree(folder / "new", replot)
    files.write_yaml(
        replot / "run.yml", {**files.read_yaml(replot / "run.yml"), "replot": {"at": "2026-11-26T00:00:00Z"}}
    )
    document = files.read_json(replot / "points/000/kpis.json")
    document["kpis"] = document["kpis"][:1]
    files.write_json(replot / "points/000/kpis.json", document)
    alone = write([folder / "new"], tmp_path / "a.csv")
    result = write([folder / "new", replot, folder / "new"], tmp_path / "b.csv")
    assert result["runs"] == 1 and result["rows"] < alone["rows"] and "replots" in result["warnings"][0]


def test_no_received_directory_takes_the_place_of_an_own_run(folder: Path, tmp_path: Path) -> None:
    own, received = tmp_path / "own", tmp_path / "received"
    for copy in (own, received):
        shutil.copytree(folder / "new", copy)
    record = {**files.read_yaml(own / "run.yml"), **recorded_path_and_inode(own, own)}
    files.write_yaml(own / "run.yml", record)
    files.write_yaml(received / "run.yml", {**record, "replot": {"source": str(own), "at": "2099-01-01T00:00:00Z"}})
    document = files.read_json(received / "points/000/kpis.json")
    files.write_json(received / "points/000/kpis.json", {**document, "kpis": document["kpis"][:1]})
    alone = write([own], tmp_path / "a.csv")
    assert write([received, own], tmp_path / "b.csv")["rows"] == alone["rows"]


def test_invalid_runs_are_marked_or_left_out_and_damaged_ones_said(folder: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    shutil.copytree(folder, runs)
    (runs / "new/verdict.json").unlink()
    (runs / "damaged").mkdir()
    (runs / "damaged/run.yml").write_text("a: [", encoding="utf-8")
    result = write([runs], tmp_path / "all.csv")
    assert {row["run"]: row["status"] for row in read(tmp_path / "all.csv")} == {OTHER: "valid", RUN: "invalid"}
    assert len(result["warnings"]) == 1 and "damaged/run.yml" in result["warnings"][0]
    assert write([runs], tmp_path / "valid.csv", invalid="skip")["runs"] == 1


def test_a_secret_in_a_label_writes_nothing(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(secret_gate.SecretFound):
        write([folder], tmp_path / "kpis.csv", secrets={"a setting": "fine_tuning"})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("source", "dest", "why"),
    [
        (".", "kpis.json", "kpis.json: the table is a .csv or a .parquet file"),
        (".", "none/kpis.csv", "the folder .*none does not exist"),
        ("missing", "kpis.csv", "runs: .*missing is not a folder; name run directories"),
        (".", "kpis.csv", "there is no run directory in .* or two levels below"),
    ],
)
def test_what_cannot_be_written_is_one_error(tmp_path: Path, source: str, dest: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        write([tmp_path / source], tmp_path / dest)


def test_parquet_without_its_package_names_it_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match="pyarrow, which is not installed: install it, or name a .csv file"):
        write([tmp_path], tmp_path / "kpis.parquet")


def test_the_page_explains_every_column() -> None:
    page = (Path(__file__).parents[6] / "docs" / "export.md").read_text(encoding="utf-8")
    table = page.partition("| column | content |")[2].partition("\n\n")[0]
    names = [name for line in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", line.split("|")[1])]
    assert names == list(kpi_table.COLUMNS)

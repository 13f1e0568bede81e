# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real MLflow tracking server: a point is a run, a second export changes nothing. And Parquet, with its pyarrow."""

from __future__ import annotations

import json
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import servers
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, secret_gate
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.export import export_run, kpi_table
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.export.mlflow_export import MlflowServer
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.write_verdict import write_verdict
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.write_kpis import write_kpis
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.write_timeline import write_timeline
from run_directory import RUN, World, write_run

ROLES = Path(__file__).parents[2] / "roles"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with servers.mlflow(tmp_path_factory.mktemp("mlflow")) as found:
        yield found


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    worlds = [
        (World(count=10, canary=5.0), {"fine_tuning_hyper_parameters.r": 4}),
        (World(count=10, canary=5.0, seed=2), {"fine_tuning_hyper_parameters.r": 8}),
    ]
    top = write_run(tmp_path_factory.mktemp("measured") / "run", worlds)
    write_timeline(str(top))
    write_kpis(str(top), [str(ROLES / "results/files/kpis/workload.yml"), str(ROLES / "fine_tuning/files/kpis.yml")])
    write_verdict(str(top), 0.5)
    files.write_yaml(top / "points/000/settings.yml", {"fine_tuning_timeout": 600, "cluster_name": "not of the load"})
    return top


@pytest.fixture
def run(measured: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(measured, tmp_path / "run"))


def export(run: Path, address: str, experiment: str, **secrets: str) -> dict[str, Any]:
    server = MlflowServer(address, experiment)
    return export_run.write_run_to_mlflow(str(run), server, secrets, [], export_run.LABEL)


def runs_of(address: str, experiment: str) -> list[dict[str, Any]]:
    found = servers.get(f"{address}/api/2.0/mlflow/experiments/get-by-name?experiment_name={experiment}")
    body = {"experiment_ids": [found["experiment"]["experiment_id"]], "order_by": ["attributes.run_name ASC"]}
    return post(f"{address}/api/2.0/mlflow/runs/search", body).get("runs", [])


def post(url: str, body: dict[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def pairs(run: dict[str, Any], kind: str) -> dict[str, Any]:
    return {pair["key"]: pair["value"] for pair in run["data"].get(kind, [])}


def test_every_point_is_a_run_with_its_figures_and_a_second_export_changes_nothing(run: Path, address: str) -> None:
    first = export(run, address, "points")
    before = runs_of(address, "points")
    second = export(run, address, "points")
    assert first["counts"] == {"created": 2, "updated": 0, "unchanged": 0} and first["changed"]
    assert second["counts"] == {"created": 0, "updated": 0, "unchanged": 2} and not second["changed"]
    assert runs_of(address, "points") == before
    for number, found in zip(("000", "001"), before, strict=True):
        kpis = files.read_json(run / "points" / number / "kpis.json")["kpis"]
        known = {kpi["name"]: kpi["value"] for kpi in kpis if kpi["value"] is not None}
        metrics = pairs(found, "metrics")
        assert {name: metrics[name] for name in known} == known
        assert pairs(found, "params")["fine_tuning_hyper_parameters.r"] == {"000": "4", "001": "8"}[number]
        tags = pairs(found, "tags")
        assert (tags["seatrial.run"], tags["seatrial.point_number"]) == (RUN, number)
        assert tags["seatrial.verdict"] in tags["mlflow.note.content"]
        assert found["info"]["status"] == "FINISHED" and found["info"]["end_time"] >= found["info"]["start_time"]
    assert first["exported"]["address"].startswith(f"{address}/#/experiments/")


def test_new_figures_of_a_replot_are_the_ones_that_are_shown(run: Path, address: str) -> None:
    export(run, address, "replot")
    document = files.read_json(run / "points/000/kpis.json")
    makespan = next(kpi for kpi in document["kpis"] if kpi["name"] == "makespan")
    makespan["value"] -= 1.0  # less than before: the newest counts, not the largest
    files.write_json(run / "points/000/kpis.json", document)
    assert export(run, address, "replot")["counts"] == {"created": 0, "updated": 1, "unchanged": 1}
    assert pairs(runs_of(address, "replot")[0], "metrics")["makespan"] == makespan["value"]
    assert export(run, address, "replot")["counts"]["unchanged"] == 2


def test_an_export_that_did_not_end_is_completed(run: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.export import mlflow_export

    def stop(*_arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(mlflow_export.MlflowExperiment, "_changes", stop)
        with pytest.raises(KeyboardInterrupt):
            export(run, address, "cut")
    assert [found["info"]["status"] for found in runs_of(address, "cut")] == ["RUNNING"]
    assert export(run, address, "cut")["counts"] == {"created": 1, "updated": 1, "unchanged": 0}
    assert [found["info"]["status"] for found in runs_of(address, "cut")] == ["FINISHED", "FINISHED"]


def test_what_mlflow_cannot_take_is_one_error(run: Path, address: str) -> None:
    export(run, address, "refused")
    files.write_yaml(run / "points/000/settings.yml", {"fine_tuning_timeout": 12345})
    with pytest.raises(DataError, match="parameter fine_tuning_timeout = 600, and the point 12345; .*delete that run"):
        export(run, address, "refused")
    identity = runs_of(address, "refused")[0]["info"]["experiment_id"]
    post(f"{address}/api/2.0/mlflow/experiments/delete", {"experiment_id": identity})
    with pytest.raises(DataError, match="experiment 'refused' was deleted: restore it, or set export_mlflow_exp"):
        export(run, address, "refused")


def test_a_run_with_a_secret_sends_nothing(run: Path, address: str) -> None:
    with pytest.raises(secret_gate.SecretFound, match="run.yml:"):
        export(run, address, "secret", a_setting="ansible-playbook")
    with pytest.raises(urllib.error.HTTPError):
        runs_of(address, "secret")


def test_a_parquet_table_has_the_types_and_values_of_the_csv(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(servers.mlflow_packages()))
    parquet = pytest.importorskip("pyarrow.parquet")
    target = tmp_path / "kpis.parquet"
    changed = [kpi_table.write_kpi_table([str(run)], str(target), {}, [], "label")["changed"] for _time in range(2)]
    table = parquet.read_table(target)
    assert changed == [True, False]
    types = {field.name: str(field.type) for field in table.schema}
    assert (types["started"], types["value"]) == ("timestamp[ms, tz=UTC]", "double")
    assert (types["simulated"], types["n"], types["labels"]) == ("bool", "int64", "string")
    kpis = [kpi for number in ("000", "001") for kpi in files.read_json(run / "points" / number / "kpis.json")["kpis"]]
    rows = table.to_pylist()
    assert [(row["kpi"], row["value"], row["simulated"]) for row in rows] == [
        (kpi["name"], kpi["value"], kpi["simulated"]) for kpi in kpis
    ]

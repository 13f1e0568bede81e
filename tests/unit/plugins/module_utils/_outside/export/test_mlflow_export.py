# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What MLflow gets of a point, and errors of servers that are none. tests/integration has a real server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.export import mlflow_export
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.export.mlflow_export import MlflowServer
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point, Run
from scripted_server import Asked, ScriptedServer

KPIS: list[dict[str, Any]] = [
    {"name": "makespan", "value": 12.5, "unit": "s"},
    {"name": "tokens@all", "value": 3, "unit": "1/s"},
    {"name": "time_p95", "value": None, "at_least": 60.0, "unit": "s"},
    {"name": "train_loss", "value": None, "unit": "1"},
    {"name": "broken", "value": float("inf"), "unit": "s"},
]


def run_with(status: str = "passed", **settings: Any) -> Run:
    record = {"id": "t1126-abcdef", "project": "fine_tuning", "presets": ["light"]}
    point = Point("001", Path("x"), {"uuid": "u1", "status": status, "settings": {"fine_tuning_gpus": 2}})
    defaults = {"workload_count": 10, "fine_tuning_kubeconfig": "/a/path"}
    point.all_settings = {"fine_tuning_model": "m", "workload_timeout": 60, "cluster_name": "c", **defaults, **settings}
    point.kpis = KPIS if status == "passed" else None
    somebody_set = {"workload_timeout": [], "cluster_name": []}
    return Run(Path("x"), record, {"sutest": {"version": "v1.36.3"}}, provenance=somebody_set, points=[point])


def test_parameters_are_settings_of_the_project_or_set_ones_and_metrics_are_known_figures() -> None:
    verdict = {"verdict": "pass", "answer": ["It took 12.5 s"]}
    (found,) = mlflow_export.mlflow_runs(run_with(fine_tuning_empty="", fine_tuning_long="x" * 900), verdict, "valid")
    assert set(found.params) == {"fine_tuning_model", "fine_tuning_gpus", "fine_tuning_long", "workload_timeout"}
    assert (found.params["fine_tuning_gpus"], len(found.params["fine_tuning_long"])) == ("2", 500)
    assert found.metrics == {"makespan": 12.5, "tokens_all": 3.0, "time_p95.at_least": 60.0}
    assert found.tags["mlflow.note.content"].startswith("It took 12.5 s\n")
    assert (found.tags["seatrial.verdict"], found.tags["seatrial.ran.kubernetes"]) == ("pass", "v1.36.3")
    assert (found.status, found.name) == ("FINISHED", "t1126-abcdef gpus = 2")


def test_a_point_that_failed_is_a_failed_run_and_one_that_was_not_begun_is_none() -> None:
    (failed,) = mlflow_export.mlflow_runs(run_with("failed"), {"verdict": "error"}, "invalid")
    assert (failed.status, failed.metrics, failed.tags["seatrial.status"]) == ("FAILED", {}, "invalid")
    assert list(mlflow_export.mlflow_runs(run_with("planned"), {}, "invalid")) == []


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (
            (404, b"<html>404 Not Found</html>"),
            "404 Not Found; it has no /api/2.0/mlflow/experiments/get-by-name: is",
        ),
        ((401, b"log in first"), "401 Unauthorized: log in first; check export_mlflow_token, or export_mlflow_user"),
        ((403, {"error_code": "PERMISSION_DENIED", "message": "no"}), "403 Forbidden: no; these credentials may not"),
        ((200, b"<html>hello</html>"), "the answer is not JSON"),
        ((200, []), "the answer is not a JSON object"),
    ],
)
def test_another_server_or_wrong_credentials_are_one_error(answer: Any, why: str) -> None:
    with ScriptedServer(lambda _asked: answer) as server:
        tracking = MlflowServer(f"http://127.0.0.1:{server.port}", token="t")
        with pytest.raises(AccessError, match=f"MLflow http://127.0.0.1:{server.port}.*{why}"):
            mlflow_export.write_mlflow_runs(tracking, "p", [])
    assert len(server.asked) == 1


def test_a_run_of_others_is_not_changed_if_the_server_ignores_the_filter() -> None:
    theirs = {"info": {"run_id": "theirs"}, "data": {"tags": [{"key": "seatrial.point", "value": "u2"}]}}
    made = {"run": {"info": {"run_id": "ours"}, "data": {}}}

    def answer(asked: Asked) -> Any:
        ends = {"get-by-name": {"experiment": {"experiment_id": "1"}}, "search": {"runs": [theirs]}, "create": made}
        return 200, next((document for end, document in ends.items() if end in asked.path), {})

    (wanted,) = mlflow_export.mlflow_runs(run_with(), {"verdict": "pass"}, "valid")
    with ScriptedServer(answer) as server:
        tracking = MlflowServer(f"http://127.0.0.1:{server.port}", token="t")
        _address, counts = mlflow_export.write_mlflow_runs(tracking, "p", [wanted])
    assert counts["created"] == 1
    assert not [asked for asked in server.asked if b"theirs" in asked.body]


@pytest.mark.parametrize("url", ["mlflow:5000", "http://mlflow:5000", "https://me:secret@mlflow"])
def test_an_address_that_cannot_be_right_is_refused(url: str) -> None:
    with pytest.raises(InputError, match="MLflow .*: (the address|http is allowed)") as error:
        MlflowServer(url)
    assert "secret" not in str(error.value)

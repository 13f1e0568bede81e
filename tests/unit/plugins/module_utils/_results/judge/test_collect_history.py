"""The history of a run from its folders: what is used, what is left out and why, and the series of a KPI."""

from __future__ import annotations

import shutil
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.detect_moved_run import recorded_path_and_inode
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.schemas.verdict_and_comparison_schemas import (
    HISTORY,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.opensearch_connection import OpenSearchServer
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.s3 import S3Location
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import (
    collect_history,
    judge_history,
    past_run_data,
    read_past_runs,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.collect_history import (
    HistoryRequest,
    RunHistory,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.comparable_points import (
    LabelRules,
    LeftOut,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.history_settings import HistorySettings
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.past_run_data import PastValue
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader
from jsonschema import Draft202012Validator
from past_run_files import kpi, run_id, write_past_run
from scripted_server import ScriptedServer


def collect(top: Path, *sources: Path, most: int = 50, rules: LabelRules | None = None) -> RunHistory:
    return collect_history.collect_past_runs(
        run_reader.read_run_directory(top),
        HistoryRequest(tuple(str(one) for one in sources or (top.parent,)), most, rules or LabelRules()),
    )


def values(found: RunHistory, top: Path, **more: bool) -> tuple[list[float | None], list[float | None]]:
    series = found.series(run_reader.read_run_directory(top), kpi(1.0), "001", **{"judged": True, **more})
    return [one.value for one in series.old], [one.value for one in series.new]


def test_the_runs_before_are_its_history_without_itself_and_copies(tmp_path: Path) -> None:
    for number in (3, 1, 2):
        write_past_run(tmp_path, number, float(number))
    top = write_past_run(tmp_path, 4, 4.0)
    later = write_past_run(tmp_path, 5, 5.0)
    shutil.copytree(later.with_name(f"fine_tuning-light-{run_id(1)}"), tmp_path / "copies" / "one")
    found = collect(top)
    assert values(found, top) == ([1.0, 2.0, 3.0], [4.0])
    assert (found.found, found.used) == (4, (run_id(1), run_id(2), run_id(3)))
    assert found.left_out == (LeftOut(run_id(5), "later than this run"),)


def test_runs_of_other_time_zones_are_put_in_order_by_what_their_times_mean(tmp_path: Path) -> None:
    for number in (1, 2):
        write_past_run(tmp_path, number, float(number))
    top = write_past_run(tmp_path, 3, 3.0)
    path = top.with_name(f"fine_tuning-light-{run_id(1)}") / "run.yml"
    record = files.read_yaml(path)
    moment = datetime.fromisoformat(record["started"]).astimezone(timezone(timedelta(hours=14)))
    files.write_yaml(path, {**record, "started": moment.isoformat()})  # as text, it is the latest
    found = collect(top)
    assert (found.used, found.left_out) == ((run_id(1), run_id(2)), ())


def test_what_is_left_out_is_counted_by_reason(tmp_path: Path) -> None:
    write_past_run(tmp_path, 1, verdict="invalid")
    write_past_run(tmp_path, 2, ran={"simulated": False})
    for number in (3, 4):
        write_past_run(tmp_path, number, ran={"kubernetes": "v1.35.0"})
    write_past_run(tmp_path, 5)
    top = write_past_run(tmp_path, 6)
    document = collect(top).document()
    assert not list(Draft202012Validator(HISTORY).iter_errors(document))
    assert document == {
        "sources": [str(tmp_path)],
        "found": 5,
        "used": 1,
        "left_out": [
            {"why": "other ran.kubernetes", "runs": [run_id(4), run_id(3)]},
            {"why": "invalid", "runs": [run_id(1)]},
            {"why": "not simulated", "runs": [run_id(2)]},
        ],
    }


def test_only_the_newest_runs_of_all_sources_are_used(tmp_path: Path) -> None:
    for number in range(1, 7):
        write_past_run(tmp_path / ("odd" if number % 2 else "even"), number, float(number))
    top = write_past_run(tmp_path / "now", 9, 9.0)
    found = collect(top, tmp_path / "odd", tmp_path / "even", most=2)
    assert values(found, top) == ([5.0, 6.0], [9.0])
    assert {one.why for one in found.left_out} == {"older than the newest 2"}


def test_runs_of_the_same_version_join_the_new_group(tmp_path: Path) -> None:
    for number, version in enumerate(("v1.35.0", "v1.35.0", "v1.36.3"), start=1):
        write_past_run(tmp_path, number, float(number), ran={"kubernetes": version})
    top = write_past_run(tmp_path, 4, 4.0)
    found = collect(top, rules=LabelRules(("ran.kubernetes",)))
    assert values(found, top) == ([1.0, 2.0], [3.0, 4.0])
    assert found.series(run_reader.read_run_directory(top), kpi(1.0), "001", judged=True).baseline == "v1.35.0"


@pytest.mark.parametrize(("given", "old"), [("fine_tuning_gpus", [1.0]), ("fine_tuning_new", [])])
def test_a_new_setting_that_nothing_sets_goes_on_with_the_history(tmp_path: Path, given: str, old: list[float]) -> None:
    write_past_run(tmp_path, 1, 1.0)
    top = write_past_run(tmp_path, 2, 2.0, settings={"fine_tuning_new": {"a": 5}})
    provenance = {"schema": "provenance/1", "settings": {f"{given}.a": [{"source": "-e", "value": 5}]}}
    files.write_yaml(top / "provenance.yml", provenance, "provenance/1")
    assert values(collect(top), top) == (old, [2.0])


def test_a_figure_in_another_unit_or_absent_is_no_past_value(tmp_path: Path) -> None:
    write_past_run(tmp_path, 1, kpis=[kpi(1.0, unit="ms")])
    write_past_run(tmp_path, 2, kpis=[kpi(2.0, name="other")])
    write_past_run(tmp_path, 3, None)
    top = write_past_run(tmp_path, 4, None)
    assert values(collect(top), top) == ([None], [None])


def test_attempts_of_a_past_run_are_one_value_and_those_of_this_run_one_each(tmp_path: Path) -> None:
    write_past_run(tmp_path, 1, 1.0, points=("001", "001-2"))
    top = write_past_run(tmp_path, 2, 2.0, points=("001", "001-2", "001-3"))
    path = top / "points" / "001" / "point.yml"
    files.write_yaml(path, {**files.read_yaml(path), "status": "failed"})
    series = collect(top).series(run_reader.read_run_directory(top), kpi(1.0), "001", judged=True, repeated=True)
    assert [(one.run, one.value) for one in series.old] == [(run_id(1), 1.0)]
    assert [one.run for one in series.new] == [f"{run_id(2)}/001-2", f"{run_id(2)}/001-3"]


@pytest.mark.parametrize(("repeats", "value"), [(False, 4.0), (True, 2.0)])
def test_the_last_attempt_of_a_past_run_counts_and_the_mean_of_one_that_repeats(
    tmp_path: Path, repeats: bool, value: float
) -> None:
    past = write_past_run(tmp_path, 1, 1.0, points=("001", "001-10", "001-9"), repeats=repeats)
    for name, figure in (("001-9", 2.0), ("001-10", 4.0)):
        path = past / "points" / name / "kpis.json"
        files.write_json(path, {**files.read_json(path), "kpis": [kpi(figure)]})
    top = write_past_run(tmp_path, 2, 5.0)
    assert values(collect(top), top) == ([pytest.approx(value)], [5.0])


def test_an_attempt_of_a_past_run_that_has_no_finite_value_is_said(tmp_path: Path) -> None:
    write_past_run(tmp_path, 1, 1.0)
    past = write_past_run(tmp_path, 2, 2.0, points=("001", "001-2"), repeats=True)
    path = past / "points" / "001-2" / "kpis.json"
    files.write_json(path, {**files.read_json(path), "kpis": [kpi(float("nan"))]})
    top = write_past_run(tmp_path, 3, 3.0)
    found = collect(top)
    coverage = found.coverage("001", "time_to_running_p95", "s")
    assert (values(found, top)[0], coverage.runs_of_text) == ([1.0, 2.0], "2 of 2 runs")
    assert coverage.why == "1 in part (attempts in which time_to_running_p95 has no usable value)"


@pytest.mark.parametrize(
    ("values_", "mean"), [((2.0, 8.0), 4.0), ((0.0, 8.0), 4.0), ((None, 3.0), 3.0), ((None, None), None)]
)
def test_the_mean_of_attempts_is_that_of_logarithms_within_the_union_of_their_intervals(
    values_: tuple[float | None, ...], mean: float | None
) -> None:
    found = past_run_data.mean_kpi_of_attempts(
        [PastValue(one, 1.0 + at, 9.0 + at, "s") for at, one in enumerate(values_)]
    )
    assert found.value == (mean if mean is None else pytest.approx(mean))
    assert (found.low, found.high) == (1.0, 10.0 if mean else 9.0)


def test_a_source_that_cannot_be_read_is_noted_and_nothing_else(tmp_path: Path) -> None:
    top = write_past_run(tmp_path, 1)
    found = collect(top, tmp_path / "nowhere")
    assert (found.found, found.used, found.left_out) == (0, (), ())
    assert len(found.notes) == 1 and found.notes[0].startswith("history could not be read: folder")
    series = found.series(run_reader.read_run_directory(top), kpi(1.0), "001", judged=True)
    (reading,) = judge_history.judge_history([series], HistorySettings())
    assert reading.result == "not enough history"


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (HistoryRequest(("opensearch",), opensearch=OpenSearchServer("http://127.0.0.1:9")), "Connection refused"),
        (HistoryRequest(("opensearch",)), "no address of OpenSearch is set"),
        (
            HistoryRequest(
                ("s3://results/nightly",), s3=S3Location("", "", "http://127.0.0.1:9", access_key="a", secret_key="b")
            ),
            "s3://results/nightly at http://127.0.0.1:9",
        ),
    ],
)
def test_a_server_that_is_not_there_is_noted_and_nothing_else(
    tmp_path: Path, request_: HistoryRequest, words: str
) -> None:
    top = write_past_run(tmp_path, 1)
    found = collect_history.collect_past_runs(run_reader.read_run_directory(top), request_)
    (note,) = found.notes
    assert note.startswith("history could not be read: ") and words in note
    assert (found.found, values(found, top)) == (0, ([], [10.0]))


@pytest.mark.parametrize("answer", [{}, {"hits": None}, {"hits": {"total": {"value": 100}}}])
def test_an_answer_without_a_list_of_runs_is_no_empty_history(tmp_path: Path, answer: dict[str, Any]) -> None:
    top = write_past_run(tmp_path, 1)
    with ScriptedServer(lambda _request: (200, answer)) as server:
        url = f"http://127.0.0.1:{server.port}"
        request_ = HistoryRequest(("opensearch",), opensearch=OpenSearchServer(url))
        found = collect_history.collect_past_runs(run_reader.read_run_directory(top), request_)
    (note,) = found.notes
    assert note.startswith("history could not be read: ") and "hits" in note


def test_a_source_that_fails_leaves_the_others(tmp_path: Path) -> None:
    write_past_run(tmp_path, 1, 1.0)
    top = write_past_run(tmp_path, 2, 2.0)
    request_ = HistoryRequest(("opensearch", str(tmp_path)), opensearch=OpenSearchServer("http://127.0.0.1:9"))
    found = collect_history.collect_past_runs(run_reader.read_run_directory(top), request_)
    assert (len(found.notes), values(found, top)[0]) == (1, [1.0])


@pytest.mark.parametrize("error", [ValueError("no JSON"), OSError("no space"), KeyError("sort")])
def test_no_error_of_a_source_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    top = write_past_run(tmp_path, 1)

    def read(*_given: object) -> None:
        raise error

    monkeypatch.setattr(read_past_runs, "run_directories_newest_first", read)
    found = collect(top)
    assert found.notes == (f"history could not be read: {tmp_path} cannot be read: {type(error).__name__}: {error}",)


def test_patterns_without_effect_are_noted(tmp_path: Path) -> None:
    write_past_run(tmp_path, 1)
    top = write_past_run(tmp_path, 2)
    rules = LabelRules(("ran.openshift",), ("fine_tuning_g*", "fine_tuning_z*"))
    assert collect(top, rules=rules).notes == (
        "results_compare_on: 'ran.openshift' matches no label of this run",
        "results_ignore: 'fine_tuning_z*' matches no label of this run",
    )


def test_a_pattern_whose_label_only_past_runs_have_has_an_effect(tmp_path: Path) -> None:
    write_past_run(tmp_path, 1, 1.0, ran={"openshift": "4.19.3"})
    top = write_past_run(tmp_path, 2, 2.0)
    found = collect(top, rules=LabelRules(("ran.openshift",)))
    assert (found.notes, values(found, top)) == ((), ([1.0], [2.0]))


def test_many_damaged_files_are_counted(tmp_path: Path) -> None:
    for number in range(1, 8):
        (write_past_run(tmp_path, number) / "run.yml").write_text("{")
    top = write_past_run(tmp_path / "now", 9)
    notes = collect(top, tmp_path).notes
    assert len(notes) == 4
    assert notes[-1] == f"history {tmp_path}: 4 further files could not be read"


def test_a_readable_copy_counts_where_the_first_is_unusable(tmp_path: Path) -> None:
    write_past_run(tmp_path, 1, 1.0, verdict="")
    write_past_run(tmp_path / "replots", 1, 1.0)
    top = write_past_run(tmp_path, 2, 2.0)
    found = collect(top)
    assert (found.found, found.left_out, values(found, top)[0]) == (1, (), [1.0])


def test_a_series_fits_what_judges_it(tmp_path: Path) -> None:
    for number, value in enumerate((10.0, 10.2, 9.9, 10.1, 10.05, 9.95), start=1):
        write_past_run(tmp_path, number, value)
    top = write_past_run(tmp_path, 7, 10.0)
    series = collect(top).series(run_reader.read_run_directory(top), kpi(1.0), "001", judged=True)
    assert series.old[0].error == pytest.approx(0.2 / 3.92)
    (reading,) = judge_history.judge_history([series], HistorySettings(least=0.1))
    assert reading.result in ("pass", "inconclusive")
    assert reading.comparison_document()["old"]["n"] == 6


def test_without_sources_there_is_nothing_to_read(tmp_path: Path) -> None:
    top = write_past_run(tmp_path, 1)
    found = collect_history.collect_past_runs(run_reader.read_run_directory(top), HistoryRequest())
    assert (found.found, found.notes, values(found, top)) == (0, (), ([], [10.0]))


def test_causes_of_failures_are_counted_in_all_runs_before_this_one(tmp_path: Path) -> None:
    def explain(number: int, *names: str) -> None:
        folder = write_past_run(tmp_path, number, settings={"fine_tuning_count": number}, verdict="error")
        texts = {"title": "t", "remedy": "r", "fault": "test", "first_seen": None}
        lists: dict[str, list[str]] = {"places": [], "points": [], "evidence": []}
        findings = [{"signature": name, **texts, **lists, "count": 1, "past_runs": 0} for name in names]
        document = {"schema": "findings/1", "findings": findings}
        files.write_json(folder / "findings.json", document)

    for number, names in ((3, ["quota"]), (1, ["quota", "oom"]), (2, []), (5, ["quota"])):
        explain(number, *names)
    top = write_past_run(tmp_path, 4)
    history = collect(top)
    assert history.used == ()
    assert history.findings == {"quota": [run_id(1), run_id(3)], "oom": [run_id(1)]}
    assert list(history.findings_of) == [run_id(1), run_id(2), run_id(3)]


def test_received_runs_displace_no_own_ones_whatever_their_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect_history, "MOST_READ", 3)
    for number in (1, 2):
        own = write_past_run(tmp_path / "own", number, float(number))
        files.write_yaml(own / "run.yml", {**files.read_yaml(own / "run.yml"), **recorded_path_and_inode(own, own)})
    for number in (3, 4, 5, 8, 9):
        write_past_run(tmp_path / "own", number, 99.0)
        write_past_run(tmp_path / "received", number + 10, 99.0)
    top = write_past_run(tmp_path, 6, 6.0)
    assert values(collect(top, tmp_path / "own", most=2), top)[0] == [1.0, 2.0]
    found = collect(top, tmp_path / "received", tmp_path / "own", most=3)
    assert found.used == (run_id(1), run_id(2), run_id(5))


def test_runs_later_than_this_one_are_not_among_the_most_that_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect_history, "MOST_READ", 2)
    for number in (1, 2, 6, 7, 8):
        write_past_run(tmp_path / "history", number, float(number))
    top = write_past_run(tmp_path, 5, 5.0)
    assert values(collect(top, tmp_path / "history"), top)[0] == [1.0, 2.0]


@pytest.mark.parametrize("order", [("received", "own"), ("own", "received")])
def test_an_own_run_counts_in_place_of_a_received_one_of_its_id_in_any_source(
    tmp_path: Path, order: tuple[str, str]
) -> None:
    own = write_past_run(tmp_path / "own", 1, 1.0)
    files.write_yaml(own / "run.yml", {**files.read_yaml(own / "run.yml"), **recorded_path_and_inode(own, own)})
    write_past_run(tmp_path / "received", 1, 99.0)
    write_past_run(tmp_path / "received", 2, 2.0)
    top = write_past_run(tmp_path, 6, 6.0)
    assert values(collect(top, *(tmp_path / name for name in order)), top)[0] == [1.0, 2.0]

"""Files of the Run:ai scale-test tool: written in its format, and read again."""

from __future__ import annotations

import csv
import json
from math import isnan, nan
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files as _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.write_verdict import write_verdict
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.write_kpis import write_kpis
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.runai import runai_export, scale_test_files
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline import timeline_builder
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.write_timeline import write_timeline
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import fetch_run
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import create_empty_column
from hypothesis import given
from hypothesis import strategies as st
from run_directory import World, write_point
from scale_test_tables import WHOLE, T, table_of, with_parts


def test_the_json_files_are_the_tools_to_the_byte(tmp_path: Path) -> None:
    assert runai_export.write_runai_files(table_of(WHOLE), tmp_path) == {
        "submitted.json": 1,
        "sampled.json": 1,
    }
    assert (tmp_path / "submitted.json").read_bytes() == (
        b'[{"jobName": "j-000000", "projectName": "team", "jobNamespace": "runai-team", '
        b'"submitTimestamp": "2026-11-21T00:06:23.423963+00:00"}]'
    )
    assert (tmp_path / "sampled.json").read_bytes() == (
        b'[{"jobName": "j-000000", "jobNamespace": "runai-team", "projectName": "team", '
        b'"workloadCreatedTimestamp": "2026-11-21T00:06:23Z", "jobCreatedTimestamp": "2026-11-21T00:06:23Z", '
        b'"firstPodCreatedTimestamp": "2026-11-21T00:06:24+00:00", '
        b'"lastPodCreatedTimestamp": "2026-11-21T00:06:24+00:00", '
        b'"podGroupCreatedTimestamp": "2026-11-21T00:06:24Z", '
        b'"podSchedulingDecisionTimestamp": "2026-11-21T00:06:26+00:00", '
        b'"firstEvictionTimestamp": "2026-11-21T00:06:26+00:00", '
        b'"firstPVCBindRequestTimestamp": "2026-11-21T00:06:26+00:00", '
        b'"firstPVCBindTimestamp": "2026-11-21T00:06:26+00:00", '
        b'"backendJobCreatedTimestamp": "2026-11-21T00:06:23Z"}]'
    )


def test_microseconds_of_exactly_zero_are_left_out() -> None:
    assert scale_test_files.format_iso_time(T) == "2026-11-21T00:06:23+00:00"


def test_times_csv_has_as_many_headers_as_values_and_the_claim_counts_from_its_request(tmp_path: Path) -> None:
    claim = {"persistentvolumeclaim_created": T + 0.5, "persistentvolumeclaim_bound": T + 2.5}
    runai_export.write_runai_files(table_of({**WHOLE, **claim}), tmp_path)
    header, row = csv.reader((tmp_path / "times.csv").read_text(encoding="utf-8").splitlines())
    assert (len(header), len(set(header)), len(row)) == (26, 26, 26)
    values = dict(zip(header, row, strict=True))
    assert values["Workload Submitted"] == "2026-11-21 00:06:23"
    assert values["First PVC Bind"] == "2026-11-21 00:06:25"
    assert float(values["First PVC Bind (s)"]) == pytest.approx(2.0)
    assert float(values["Total Pod Scheduling Decision (s)"]) == pytest.approx(3.5 - 0.423963)


def test_what_was_refused_was_not_submitted_and_what_was_not_scheduled_was_not_sampled(tmp_path: Path) -> None:
    waiting = {key: value for key, value in WHOLE.items() if key != "pods_scheduled"}
    table = table_of(WHOLE, waiting, {"sent": T}, outcomes=("succeeded", "unfinished", "refused"))
    assert runai_export.write_runai_files(table, tmp_path) == {"submitted.json": 2, "sampled.json": 1}
    names = (tmp_path / "names.csv").read_text(encoding="utf-8").splitlines()
    assert names == ["jobName,name", "j-000000,run-0", "j-000001,run-1", "j-000002,run-2"]


@given(
    st.floats(min_value=0, max_value=100), st.floats(min_value=0, max_value=100), st.floats(min_value=0, max_value=9)
)
def test_what_is_written_is_read_back_within_its_second(sent: float, wait: float, pods: float) -> None:
    moments = {
        "sent": T + sent,
        "created": T + sent + 0.01,
        "pods_created_first": T + sent + pods,
        "pods_created": T + sent + pods,
        "pods_scheduled": T + sent + pods + wait,
    }
    entry = runai_export.sampled_json_rows(table_of(moments))[0]
    for key, stage in (
        ("workloadCreatedTimestamp", "created"),
        (scale_test_files.DECISION, "pods_scheduled"),
    ):
        earliest, latest = scale_test_files.parse_timestamp_bounds(entry[key]) or (nan, nan)
        assert earliest <= moments[stage] + 1e-6 and moments[stage] < latest + 1e-6


SPAN = st.tuples(st.floats(min_value=0, max_value=9), st.floats(min_value=0, max_value=9)).map(sorted)
OPTIONAL = ("persistentvolumeclaim_created", "persistentvolumeclaim_bound", "workload_evicted_first", "backend_created")


@given(
    st.fixed_dictionaries(dict.fromkeys(("created", "pods_created_first", "pods_created", "pods_scheduled"), SPAN)),
    st.dictionaries(st.sampled_from(OPTIONAL), SPAN),
)
def test_no_stage_of_times_csv_runs_backwards(needed: dict[str, list[float]], others: dict[str, list[float]]) -> None:
    table = table_of({"sent": T})
    for name, (first, last) in {**needed, **others}.items():
        table.earliest[name], table.latest[name] = create_empty_column(1), create_empty_column(1)
        table.earliest[name][0], table.latest[name][0] = T + first, T + last
    header, row = runai_export.times_csv_rows(table, runai_export.fully_measured_workloads(table))
    assert all(float(value) >= 0 for value in row[header.index("Workload Creation (s)") :])


def test_overlapping_intervals_are_written_as_moments_in_their_order() -> None:
    table = table_of(WHOLE)
    table.header["stages"] = [
        {"name": "created", "writer": "api-server", "simulated": False, "ends": None, "needs": []},
        {"name": "pods_scheduled", "writer": "scheduler", "simulated": False, "ends": None, "needs": ["created"]},
    ]
    table.earliest["created"][0], table.latest["created"][0] = T + 1, T + 9
    table.earliest["pods_scheduled"][0], table.latest["pods_scheduled"][0] = T + 2, T + 4
    entry = runai_export.sampled_json_rows(table)[0]
    assert entry[scale_test_files.CREATED] == "2026-11-21T00:06:25Z", "2.5 s, not 5: the pods were scheduled after it"
    assert entry[scale_test_files.DECISION] == "2026-11-21T00:06:26+00:00"


def test_job_and_pod_group_of_the_platform_are_no_sentinels(tmp_path: Path) -> None:
    runai_export.write_runai_files(with_parts(WHOLE), tmp_path)
    (entry,) = json.loads((tmp_path / "sampled.json").read_text(encoding="utf-8"))
    assert entry["jobCreatedTimestamp"] == "2026-11-21T00:06:23Z"
    assert entry["podGroupCreatedTimestamp"] == "2026-11-21T00:06:24Z"
    header, row = csv.reader((tmp_path / "times.csv").read_text(encoding="utf-8").splitlines())
    values = dict(zip(header, row, strict=True))
    seconds = {name.removesuffix(" (s)"): float(values[name]) for name in header if name.endswith("(s)")}
    # Each since the event that the tool counts it from.
    assert seconds == pytest.approx(
        {
            "Workload Creation": 0.6 - 0.423963,
            "Job Creation": 0.3,
            "First Pod Creation": 0.3,
            "Last Pod Creation": 1.0,
            "Pod Group Creation": 0.2,
            "Pod Scheduling Decision": 2.1,
            "First Eviction": 0,
            "First PVC Bind Request": 0,
            "First PVC Bind": 0,
            "Backend Job Creation": 0,
            "Total Pod Scheduling Decision": 3.5 - 0.423963,
            "Total Backend Job Creation": 0,
        }
    )


def test_workloads_whose_times_contradict_each_other_are_left_out_of_times_csv_on_request(tmp_path: Path) -> None:
    table = table_of(WHOLE, WHOLE)
    table.contradict(1, "pods_scheduled ended before pods_created began")
    assert runai_export.write_runai_files(table, tmp_path)["sampled.json"] == 2
    assert len((tmp_path / "times.csv").read_text(encoding="utf-8").splitlines()) == 2
    runai_export.write_runai_files(table, tmp_path, skip_errors=False)
    assert len((tmp_path / "times.csv").read_text(encoding="utf-8").splitlines()) == 3


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("2026-11-21T00:06:23Z", (T, T + 1)),
        ("2026-11-21T01:06:23+01:00", (T, T + 1)),
        ("2026-11-20T22:06:23-0200", (T, T + 1)),
        ("2026-11-21 00:06:23", (T, T + 1)),
        ("2026-11-21T00:06:23.5Z", (T + 0.5, T + 0.5)),
        ("yesterday", None),
        ("2026-13-41T00:06:23Z", None),
        ("", None),
    ],
)
def test_both_syntaxes_of_time_are_read_with_any_offset(text: str, span: tuple[float, float] | None) -> None:
    assert scale_test_files.parse_timestamp_bounds(text) == span


def files(folder: Path, submitted: object, sampled: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "submitted.json").write_text(json.dumps(submitted), encoding="utf-8")
    (folder / "sampled.json").write_text(json.dumps(sampled), encoding="utf-8")
    return folder


def test_reading_keeps_what_was_not_sampled_and_takes_sentinels_for_nothing(tmp_path: Path) -> None:
    runai_export.write_runai_files(table_of(WHOLE, WHOLE), tmp_path)
    sampled = json.loads((tmp_path / "sampled.json").read_text(encoding="utf-8"))
    stranger = {**sampled[0], "jobName": "j-ffffff"}
    submitted = json.loads((tmp_path / "submitted.json").read_text(encoding="utf-8"))
    table = scale_test_files.build_timeline_of_scale_test(
        files(tmp_path / "old", submitted, [sampled[0], stranger]), "unknown", "001"
    )
    assert (table.outcome, table.censored) == (["succeeded", "unfinished"], [False, True])
    assert "evicted_first" not in table.latest and "persistentvolumeclaim_bound" not in table.latest
    assert table.latest["pods_scheduled"][0] == T + 4 and isnan(table.latest["pods_scheduled"][1])
    assert any("sampled.json: 1 row not submitted by this run" in note for note in table.header["notes"])


def test_an_old_run_becomes_a_report_source_with_kpis(tmp_path: Path) -> None:
    runai_export.write_runai_files(table_of(*[WHOLE] * 6), tmp_path / "old")
    fetched = fetch_run.fetch_run_directory(str(tmp_path / "old"), tmp_path / "made")
    result = write_timeline(str(fetched.path))
    assert result["points"][0]["outcomes"] == {"succeeded": 6}
    kpis = Path(__file__).resolve().parents[6] / "roles" / "results" / "files" / "kpis" / "workload.yml"
    write_kpis(str(fetched.path), [str(kpis)])
    found = {one["name"]: one for one in _files.read_json(fetched.path / "points/001/kpis.json")["kpis"]}
    low, high = found["time_to_scheduled_p95"]["interval"]
    assert low <= 3.5 - 0.423963 <= high
    judged = write_verdict(str(fetched.path), 0.1)
    assert judged["verdict"] == "inconclusive" and "do not state whether anything" in judged["summary"]
    results = {one["check"]: one["result"] for one in judged["checks"]}
    assert results == {
        "phases": "not judged", "points": "pass", "objects": "pass", "generator": "not judged",
    }  # fmt: skip


def test_an_old_run_of_which_a_workload_was_not_sampled_fails(tmp_path: Path) -> None:
    runai_export.write_runai_files(table_of(WHOLE, WHOLE), tmp_path)
    both = [json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8")) for name in ("submitted", "sampled")]
    fetched = fetch_run.fetch_run_directory(str(files(tmp_path / "old", both[0], both[1][:1])), tmp_path / "made")
    write_timeline(str(fetched.path))
    judged = write_verdict(str(fetched.path), 0.1)
    assert judged["verdict"] == "regression" and "1 of 2 workloads succeeded" in judged["summary"]


def test_a_timeline_of_ours_gives_a_row_for_each_workload(tmp_path: Path) -> None:
    table = timeline_builder.build_timeline_of_workloads(
        write_point(tmp_path / "points" / "000", World(count=5)), "t1121-k3f9xa", "000"
    )
    assert runai_export.write_runai_files(table, tmp_path / "runai") == {
        "submitted.json": 5,
        "sampled.json": 5,
    }


@pytest.mark.parametrize("wrong", ["{", '{"a": 1}', "[1]"])
def test_a_damaged_file_is_named(wrong: str, tmp_path: Path) -> None:
    files(tmp_path, [], [])
    (tmp_path / "sampled.json").write_text(wrong, encoding="utf-8")
    with pytest.raises(DataError, match=r"sampled\.json"):
        scale_test_files.build_timeline_of_scale_test(tmp_path, "unknown", "001")


def test_a_file_beyond_the_most_of_a_document_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files(tmp_path, [{}] * 100, [])
    monkeypatch.setattr(_files, "MOST_DOCUMENT", 100)
    with pytest.raises(DataError, match=r"submitted\.json: it has 400 bytes"):
        scale_test_files.build_timeline_of_scale_test(tmp_path, "unknown", "001")


def test_half_of_the_files_is_no_run(tmp_path: Path) -> None:
    files(tmp_path / "old", [], [])
    (tmp_path / "old" / "sampled.json").unlink()
    with pytest.raises(InputError, match=r"nor submitted\.json and sampled\.json"):
        fetch_run.fetch_run_directory(str(tmp_path / "old"), tmp_path / "made")

"""Past runs in folders: at any depth up to two, of this project, damaged ones noted."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.detect_moved_run import recorded_path_and_inode
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import read_past_runs
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.past_run_data import PastRun, PastValue
from past_run_files import KPI, run_id, write_past_run

#: Files as version 0.1 wrote them, with kpis/1.
OLD = Path(__file__).parents[1] / "kpi" / "run_of_kpis_1"


def read(folder: Path) -> tuple[list[PastRun], list[str]]:
    notes: list[str] = []
    return list(read_past_runs.read_runs_from_folder(folder, "fine_tuning", notes)), notes


def test_runs_are_found_at_each_depth_the_newest_first(tmp_path: Path) -> None:
    write_past_run(tmp_path / "a" / "b", 3)
    write_past_run(tmp_path, 1)
    write_past_run(tmp_path / "nightly", 2)
    write_past_run(tmp_path / "a" / "b" / "too" / "deep", 4)
    found, notes = read(tmp_path)
    assert ([one.run for one in found], notes) == ([run_id(2), run_id(1)], [])
    assert [one.run for one in read(tmp_path / "a")[0]] == [run_id(3)]
    assert [one.run for one in read(tmp_path / "nightly" / f"fine_tuning-light-{run_id(2)}")[0]] == [run_id(2)]


def test_a_run_has_its_figures_with_their_interval_within_the_run(tmp_path: Path) -> None:
    write_past_run(tmp_path, 1, 12.5, ran={"openshift": "4.19.3"})
    ((run,), _notes) = read(tmp_path)
    (point,) = run.points
    assert (run.verdict, run.source, run.at) == ("pass", str(tmp_path), "2026-11-01T10:00:00.000Z")
    assert dict(point.kpis) == {KPI: PastValue(12.5, 12.4, 12.6, "s")}
    assert point.labels["ran.openshift"] == "4.19.3"
    assert point.labels["settings.fine_tuning_hyper_parameters.r"] == 16


def test_figures_of_an_older_version_get_the_labels_of_today() -> None:
    ((run,), notes) = read(OLD)
    assert notes == []
    assert [one.labels["settings.fine_tuning_gpus"] for one in run.points] == [1, 2]
    assert all(one.labels["ran.kubernetes"] == "v1.36.3" for one in run.points)


def test_other_projects_and_other_folders_are_ignored(tmp_path: Path) -> None:
    write_past_run(tmp_path, 1, project="scheduler")
    (tmp_path / "photos").mkdir()
    (tmp_path / "notes.txt").write_text("no run")
    (tmp_path / ".hidden").mkdir()
    write_past_run(tmp_path / ".hidden", 2)
    assert read(tmp_path) == ([], [])


def test_damaged_runs_are_noted_and_the_others_read(tmp_path: Path) -> None:
    write_past_run(tmp_path, 1)
    for number, (name, text) in enumerate(
        {
            "run.yml": "{",
            "points/001/kpis.json": '{"schema": "kpis/2", "labels": {}, "kpis": [1]}',
            "verdict.json": "[]",
            "points/001/point.yml": "- a list",
        }.items(),
        start=2,
    ):
        (write_past_run(tmp_path, number) / name).write_text(text)
    (write_past_run(tmp_path, 9) / "run.yml").write_bytes(b"\xff\xfe binary")
    found, notes = read(tmp_path)
    assert [one.run for one in found if one.points and one.verdict] == [run_id(1)]
    assert len(notes) == 5
    for name in ("run.yml", "kpis.json: not KPIs", "verdict.json", "point.yml: empty or not a mapping"):
        assert any(name in one for one in notes), (name, notes)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "points/001/kpis.json",
            f'{{"schema": "kpis/2", "labels": {{}}, "kpis": [{{"name": "a", "value": {10**400}}}]}}',
        ),
        (
            "points/001/kpis.json",
            '{"schema": "kpis/2", "labels": {}, "kpis": [{"name": "a", "value": 1, "confidence": 2}]}',
        ),
        ("points/001/kpis.json", '{"schema": "kpis/1", "kpis": []}'),
        ("verdict.json", '{"schema": "verdict/1", "checks": 1, "verdict": []}'),
    ],
)
def test_no_content_of_a_file_ends_the_reading(tmp_path: Path, name: str, text: str) -> None:
    write_past_run(tmp_path, 1)
    damaged = write_past_run(tmp_path, 2)
    (damaged / name).write_text(text)
    (damaged / "cluster.yml").write_text("clusters: [1]\n")
    found, notes = read(tmp_path)
    assert [one.run for one in found if one.points and one.verdict] == [run_id(1)]
    assert len(notes) == 1 and str(damaged) in notes[0]


def test_a_run_of_a_newer_version_is_noted(tmp_path: Path) -> None:
    top = write_past_run(tmp_path, 1)
    record = files.read_yaml(top / "run.yml")
    files.write_yaml(top / "run.yml", {**record, "schema": "run/99"})
    assert read(tmp_path) == ([], [f"{top / 'run.yml'}: written by a newer version of perfscale.seatrial: run/99; "
                                   "this version reads up to run/1. Update the collection"])  # fmt: skip


def test_a_foreign_record_is_noted(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "run.yml").write_text("jobs: [1]\n")
    found, (note,) = read(tmp_path)
    assert found == []
    assert "this is not a file of a run" in note


def test_a_point_that_did_not_end_is_no_measurement(tmp_path: Path) -> None:
    top = write_past_run(tmp_path, 1, points=("001", "001-2"))
    path = top / "points" / "001" / "point.yml"
    files.write_yaml(path, {**files.read_yaml(path), "status": "failed"})
    ((run,), _notes) = read(tmp_path)
    assert [one.number for one in run.points] == ["001-2"]


def test_folders_of_other_users_are_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_past_run(tmp_path, 1)
    theirs = write_past_run(tmp_path / "theirs", 2)
    half = write_past_run(tmp_path, 3)
    is_file = Path.is_file

    def refused(path: Path) -> bool:
        if path.is_relative_to(theirs) or path.is_relative_to(half / "points"):
            raise PermissionError(13, "Permission denied", str(path))
        return is_file(path)

    monkeypatch.setattr(Path, "is_file", refused)
    found, notes = read(tmp_path)
    assert [one.run for one in found] == [run_id(1)]
    assert len(notes) == 1 and "Permission denied" in notes[0]


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere cannot be read: No such file or directory"):
        read(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("started", "at"),
    [
        ("2026-11-01T12:00:00+02:00", "2026-11-01T10:00:00Z"),
        ("2026-11-01 10:00:00", "2026-11-01T10:00:00Z"),
        ("yesterday", None),
        ("2026-11-01 10:00:00 CET", None),
        ("9999-12-31T23:59:59-14:00", None),
        (1795000000, None),
        ([1], None),
    ],
)
def test_a_start_that_is_no_time_is_noted_instead_of_sorted_as_text(
    tmp_path: Path, started: object, at: str | None
) -> None:
    path = write_past_run(tmp_path, 1) / "run.yml"
    path.write_text(path.read_text() + f"\nstarted: {started!r}\n")
    found, notes = read(tmp_path)
    assert [run.at for run in found] == ([at] if at else [])
    assert at or "started is no time, so the run has no place in the history" in notes[0]


def test_a_replot_counts_only_if_it_is_an_own_one_of_an_own_run(tmp_path: Path) -> None:
    own, other = write_past_run(tmp_path, 1, 1.0), write_past_run(tmp_path / "unpacked", 2, 2.0)
    record = files.read_yaml(own / "run.yml")
    files.write_yaml(own / "run.yml", {**record, **recorded_path_and_inode(own, own)})
    for number, value, source in ((1, 1.5, own), (2, 2.5, other), (3, 3.5, "https://lab.example/run.tar")):
        replot = write_past_run(tmp_path, number, value, name=f"{number}-replot")
        note = {"source": str(source), "at": "2026-11-27T00:00:00Z", "migrated": []}
        entry = {**note, **recorded_path_and_inode(replot, replot)}
        files.write_yaml(replot / "run.yml", {**files.read_yaml(replot / "run.yml"), "replot": entry})
    received = write_past_run(tmp_path, 1, 9.0, name="z-received")
    forged = {**files.read_yaml(tmp_path / "1-replot/run.yml"), **recorded_path_and_inode(own, own)}
    files.write_yaml(received / "run.yml", forged)
    found, notes = read(tmp_path)
    values = [(run.run, run.points[0].kpis[KPI].value) for run in found]
    assert (values, notes) == ([(run_id(1), 1.5), (run_id(1), 1.0), (run_id(2), 2.0)], [])


def test_of_two_directories_of_a_run_the_own_one_comes_first(tmp_path: Path) -> None:
    own = write_past_run(tmp_path, 1, 1.0, name="a")
    write_past_run(tmp_path, 1, 9.0, name="z")
    files.write_yaml(own / "run.yml", {**files.read_yaml(own / "run.yml"), **recorded_path_and_inode(own, own)})
    assert [run.points[0].kpis[KPI].value for run in read(tmp_path)[0]] == [1.0, 9.0]


@pytest.mark.parametrize("name", ["run.yml", "verdict.json", "points", "points/001", "points/001/kpis.json"])
def test_a_run_with_a_symbolic_link_is_left_out(tmp_path: Path, name: str) -> None:
    write_past_run(tmp_path / "history", 1)
    top = write_past_run(tmp_path / "history", 2)
    (top / name).rename(tmp_path / "elsewhere")
    (top / name).symlink_to(tmp_path / "elsewhere")
    found, notes = read(tmp_path / "history")
    assert [run.run for run in found] == [run_id(1)]
    assert notes == [
        f"{top / name} is a symbolic link to {tmp_path / 'elsewhere'}, which is not followed: put the file there, or "
        "remove it"
    ]

"""Runs of other versions are migrated or refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import schema_migration
from run_directory import World, write_run

#: Files as version 0.1 wrote them, with kpis/1, verdict/1, cluster/1 and point/1.
RUN_OF_VERSION_1 = Path(__file__).parents[1] / "_results" / "kpi" / "run_of_kpis_1"


@pytest.fixture
def top(tmp_path):
    return write_run(tmp_path / "run", [(World(count=2, canary=1.0, run_for=2.0), {})])


def rewrite(path, change):
    if path.suffix == ".yml":
        document = files.read_yaml(path)
        change(document)
        files.write_yaml(path, document)
    else:
        records = list(files.read_json_lines(path))
        change(records[0])
        files.write_json_lines(path, records)


FILES = ["run.yml", "points/000/point.yml", "points/000/plan.jsonl", "points/000/ledger.jsonl"]


def test_a_run_of_today_is_left_as_it_is(top):
    before = {path: path.read_bytes() for path in top.rglob("*") if path.is_file()}
    assert schema_migration.migrate_run_files(top) == []
    assert {path: path.read_bytes() for path in top.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("name", FILES)
def test_a_newer_version_is_refused_by_name(top, name):
    rewrite(top / name, lambda one: one.update(schema=f"{one['schema'].partition('/')[0]}/9"))
    with pytest.raises(DataError, match=rf"{name}: written by a newer version .*/9; this version reads up to .*/[12]"):
        schema_migration.migrate_run_files(top)


@pytest.mark.parametrize("name", FILES)
def test_an_older_version_that_nothing_reads_is_refused(top, name):
    rewrite(top / name, lambda one: one.update(schema=f"{one['schema'].partition('/')[0]}/0"))
    with pytest.raises(DataError, match="/0 is too old: no migration from .*/0 to .*/1"):
        schema_migration.migrate_run_files(top)


@pytest.mark.parametrize("name", FILES)
def test_an_older_version_goes_through_its_migrations(top, name, monkeypatch):
    def old(document):
        document["schema"] = f"{kind}/0"
        document["old_name"] = document.pop(field)

    def new(document):
        return {field if key == "old_name" else key: value for key, value in document.items()}

    kind = (top / name).stem
    field = {"run": "project", "point": "status", "plan": "seed", "ledger": "pid"}[kind]
    before = (files.read_yaml if name.endswith("yml") else lambda path: list(files.read_json_lines(path)))(top / name)
    rewrite(top / name, old)
    monkeypatch.setitem(schema_migration.MIGRATIONS, (kind, 0), new)
    (told,) = schema_migration.migrate_run_files(top)
    assert told.endswith(f"{kind}/0 migrated to {kind}/{schema_migration.current_schema_version(kind)}")
    after = (files.read_yaml if name.endswith("yml") else lambda path: list(files.read_json_lines(path)))(top / name)
    assert after == before


@pytest.mark.parametrize("name", FILES)
def test_a_torn_file_is_left_to_the_report(top, name):
    path = top / name
    path.write_bytes(path.read_bytes()[:7])
    assert schema_migration.migrate_run_files(top) == []


def test_a_run_of_version_1_is_migrated(tmp_path):
    top = tmp_path / "run"
    shutil.copytree(RUN_OF_VERSION_1, top)
    assert schema_migration.migrate_run_files(top) == [
        "cluster.yml: cluster/1 migrated to cluster/2",
        *["point.yml: point/1 migrated to point/2"] * 2,
    ]
    assert files.read_yaml(top / "points/001/point.yml")["attempt"] == 1


def test_a_verdict_of_version_1_is_read_as_version_2():
    path = RUN_OF_VERSION_1 / "verdict.json"
    before = path.read_bytes()
    found = schema_migration.read_document_migrated(path, "verdict")
    files.validate_schema_if_enabled("verdict/2", found)
    assert (found["verdict"], found["code"], found["exit_status"]) == ("regression", 4, 1)
    assert {one["check"]: one["result"] for one in found["checks"] if one["point"] in (None, "001")} == {
        "phases": "pass", "points": "pass", "objects": "outside", "generator": "pass", "KPIs": "not enough history"
    }  # fmt: skip
    assert path.read_bytes() == before


def test_a_verdict_of_a_newer_version_is_refused(tmp_path):
    files.write_json(tmp_path / "verdict.json", {"schema": "verdict/9", "verdict": "splendid"})
    with pytest.raises(DataError, match="verdict.json: written by a newer version .*: verdict/9"):
        schema_migration.read_document_migrated(tmp_path / "verdict.json", "verdict")


def test_a_record_of_what_ran_by_a_newer_version_is_refused(top):
    files.write_json(top / "points/000/ran.json", {"schema": "ran/9"})
    with pytest.raises(DataError, match="ran.json: written by a newer version"):
        schema_migration.migrate_run_files(top)


def test_a_document_that_no_version_wrote_is_one_error(tmp_path):
    files.write_json(tmp_path / "verdict.json", {"schema": "verdict/1", "verdict": "pass"})
    with pytest.raises(DataError, match=r"verdict\.json: not as verdict/1 was written"):
        schema_migration.read_document_migrated(tmp_path / "verdict.json", "verdict")

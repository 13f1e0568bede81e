"""Sources of a replot: directories and archives of any kind; anything else is refused with an explanation."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, untrusted_archives
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import fetch_run, run_reader
from run_directory import World, write_run

NAME = "fine_tuning-light-t1121-abcdef"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("runs") / NAME, [(World(count=2, canary=1.0, run_for=2.0), {})])


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("kind", ["directory", "parent", ".tar", ".tar.gz", ".tgz", ".tar.xz", ".zip"])
@pytest.mark.parametrize("inside", [True, False])
def test_every_kind_of_source_gives_the_same_files(run, tmp_path, kind, inside):
    if kind in ("directory", "parent"):
        given = run if kind == "directory" else run.parent
    else:
        given = tmp_path / f"{NAME}{kind}"
        if kind == ".zip":
            with zipfile.ZipFile(given, "w") as packed:
                for path in run.rglob("*"):
                    packed.write(path, path.relative_to(run.parent if inside else run))
        else:
            mode = {".tar.gz": "w:gz", ".tgz": "w:gz", ".tar.xz": "w:xz"}.get(kind, "w")
            with tarfile.open(given, mode) as tar:
                tar.add(run, arcname=NAME if inside else ".")
    found = fetch_run.fetch_run_directory(str(given), tmp_path / "artifacts")
    assert found.path.name == f"{NAME}-replot"
    copied, original = contents(found.path), contents(run)
    clusters = [yaml.safe_load(each.pop("cluster.yml"))["clusters"] for each in (copied, original)]
    assert copied == original
    assert clusters[0] == {host: {**record, "state": "released"} for host, record in clusters[1].items()}


def test_the_source_is_not_touched_and_a_second_replot_has_a_directory_of_its_own(run, tmp_path):
    before = contents(run)
    first, second = (fetch_run.fetch_run_directory(str(run), tmp_path) for _ in range(2))
    assert (first.path.name, second.path.name) == (f"{NAME}-replot", f"{NAME}-replot-2")
    (first.path / "run.yml").write_text("changed")
    assert contents(run) == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_what_is_no_run_is_refused_and_leaves_nothing(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "c").mkdir()
    with pytest.raises(
        InputError, match="not a run directory: it contains neither run.yml, points/ nor submitted.json"
    ):
        fetch_run.fetch_run_directory(str(tmp_path / "a"), tmp_path / "artifacts")
    assert list((tmp_path / "artifacts").iterdir()) == []


def test_several_runs_are_named(run, tmp_path):
    for name in ("one", "two"):
        shutil.copytree(run, tmp_path / "many" / name)
    with pytest.raises(InputError, match="it contains 2 runs, name one of: one, two"):
        fetch_run.fetch_run_directory(str(tmp_path / "many"), tmp_path / "artifacts")
    for number in range(5):
        shutil.copytree(run, tmp_path / "many" / f"x{number}")
    with pytest.raises(InputError, match="it contains 7 runs, name one of: one, two, x0, x1, x2 and 2 more"):
        fetch_run.fetch_run_directory(str(tmp_path / "many"), tmp_path / "artifacts")


@pytest.mark.parametrize(
    ("given", "message"),
    [("/nowhere/at/all", "no such file"), ("http://127.0.0.1/x.tar", "http:// is refused"), ("s3://b/x", "s3://")],
)
def test_what_can_not_be_read_is_refused(tmp_path, given, message):
    with pytest.raises(InputError, match=message):
        fetch_run.fetch_run_directory(given, tmp_path)


def test_a_broken_archive_is_told(tmp_path):
    (tmp_path / "x.tar.gz").write_bytes(b"not an archive")
    with pytest.raises(DataError, match="x.tar.gz: cannot be unpacked"):
        fetch_run.fetch_run_directory(str(tmp_path / "x.tar.gz"), tmp_path / "artifacts")


def test_an_archive_reaches_nowhere_else(run, tmp_path):
    with tarfile.open(tmp_path / "evil.tar", "w") as tar:
        tar.add(run / "run.yml", arcname="../../evil.yml")
    with pytest.raises(DataError):
        fetch_run.fetch_run_directory(str(tmp_path / "evil.tar"), tmp_path / "artifacts")
    assert not (tmp_path / "evil.yml").exists()


@pytest.mark.parametrize("name", ["request.yml", "FAILURES", "points/{}/ledger.jsonl", "points/{}", "points"])
def test_a_link_in_a_run_directory_is_refused(run, tmp_path, name):
    source = tmp_path / NAME
    shutil.copytree(run, source)
    name = name.format(next((run / "points").iterdir()).name)
    path = source / name
    if path.is_dir():
        path.rename(tmp_path / "aside")
    else:
        path.unlink(missing_ok=True)
    path.symlink_to("/etc/passwd" if "." in name or name == "FAILURES" else tmp_path / "aside")
    with pytest.raises(InputError, match=rf"{name} is a symbolic link to .*, which is not followed"):
        fetch_run.fetch_run_directory(str(source), tmp_path / "artifacts")
    assert list((tmp_path / "artifacts").iterdir()) == []


def test_a_run_that_is_larger_than_the_free_space_is_refused_before_it_is_copied(run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    with open(tmp_path / "run" / "run.yml", "ab") as stream:
        stream.truncate(1 << 42)  # a hole, which takes no space
    with pytest.raises(InputError, match=r"its files have 4,398,\d{3},\d{3},\d{3} bytes, and .* are free"):
        fetch_run.fetch_run_directory(str(tmp_path / "run"), tmp_path / "to")
    assert list((tmp_path / "to").iterdir()) == []


def test_a_report_that_is_a_link_is_refused_where_a_directory_is_compared(run, tmp_path):
    source = tmp_path / NAME
    shutil.copytree(run, source)
    for point in (source / "points").iterdir():
        (point / "timeline.jsonl").touch()
    (source / "report").mkdir(exist_ok=True)
    (source / "report" / "index.html").unlink(missing_ok=True)
    (source / "report" / "index.html").symlink_to("/etc/passwd")
    with pytest.raises(InputError, match=r"report/index.html is a symbolic link to /etc/passwd, which is not followed"):
        fetch_run.directory_if_timelines_complete(str(source))


def test_a_point_that_is_a_link_is_refused_where_a_directory_is_compared(run, tmp_path):
    source = tmp_path / NAME
    shutil.copytree(run, source)
    point = next((source / "points").iterdir())
    (point / "timeline.jsonl").touch()
    point.rename(tmp_path / "aside")
    point.symlink_to(tmp_path / "aside")
    with pytest.raises(InputError, match=rf"points/{point.name} is a symbolic link to .*, which is not followed"):
        fetch_run.directory_if_timelines_complete(str(source))


@pytest.mark.parametrize(
    ("umask", "folder", "file"), [(0o077, 0o700, 0o600), (0o022, 0o755, 0o644), (0o002, 0o775, 0o664)]
)
def test_modes_of_a_copy_follow_the_umask(run, tmp_path, umask, folder, file):
    before = os.umask(umask)
    try:
        found = fetch_run.fetch_run_directory(str(run), tmp_path / "artifacts").path
        files.write_json(found / "x.json", {})
    finally:
        os.umask(before)
    paths = [found, *found.rglob("*")]
    assert {path.stat().st_mode & 0o777 for path in paths if path.is_dir()} == {folder}
    assert {path.stat().st_mode & 0o777 for path in paths if path.is_file()} == {file}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("content", "words"),
    [("schema: run/9\nid: x\n", "run/9"), ("id: [\n", "not readable as YAML"), ("- id\n", "not a YAML dictionary")],
)
def test_an_error_names_the_file_of_the_user(run, tmp_path, content, words, packed):
    source = tmp_path / NAME
    shutil.copytree(run, source)
    (source / "run.yml").write_text(content)
    if packed:
        with tarfile.open(tmp_path / "x.tar", "w") as tar:
            tar.add(source, arcname=NAME)
        source = tmp_path / "x.tar"
    with pytest.raises(DataError, match=words) as raised:
        fetch_run.fetch_run_directory(str(source), tmp_path / "artifacts")
    assert f"{source}/run.yml" in str(raised.value) and "/artifacts/" not in str(raised.value)


def test_what_requests_failures_deployments_and_users_left_is_copied(run, tmp_path):
    source = shutil.copytree(run, tmp_path / "serving")
    point = next((source / "points").iterdir())
    names = ("requests.jsonl", "server.json", "deployment.json", "failures.jsonl", "users/users.json")
    for name in names:
        (point / name).parent.mkdir(exist_ok=True)
        (point / name).write_text("{}\n")
    found = fetch_run.fetch_run_directory(str(source), tmp_path / "artifacts")
    assert all((found.path / "points" / point.name / name).read_text() == "{}\n" for name in names)


def test_a_folder_of_users_that_is_a_link_is_refused(run, tmp_path):
    source = shutil.copytree(run, tmp_path / "linked")
    (next((source / "points").iterdir()) / "users").symlink_to(tmp_path)
    with pytest.raises(InputError, match="users is a symbolic link"):
        fetch_run.fetch_run_directory(str(source), tmp_path / "artifacts")


def test_a_damaged_record_of_clusters_is_named_by_its_place_in_the_source(run, tmp_path):
    copy = tmp_path / NAME
    shutil.copytree(run, copy)
    (copy / "cluster.yml").write_text("a: [")
    with pytest.raises(DataError, match=f"^{copy}/cluster.yml: not readable"):
        fetch_run.fetch_run_directory(str(copy), tmp_path / "out")


def test_settings_of_a_copy_are_replaced_with_their_source(run, tmp_path):
    copied = run_reader.read_run_directory(fetch_run.fetch_run_directory(str(run), tmp_path).path)
    before = contents(copied.top)
    fetch_run.replace_settings_of_points(copied, {})
    assert contents(copied.top) == before
    fetch_run.replace_settings_of_points(copied, {"results_answer": "makespan"})
    read = run_reader.read_run_directory(copied.top)
    assert read.points[0].all_settings == {**(copied.points[0].all_settings or {}), "results_answer": "makespan"}
    assert read.provenance["results_answer"][-1] == {"source": "replot", "value": "makespan"}
    assert read.missing == copied.missing


def test_a_replot_records_its_source_as_an_absolute_path_and_its_own_place(run, tmp_path, monkeypatch):
    monkeypatch.chdir(run.parent)
    entry = fetch_run.fetch_run_directory(run.name, tmp_path).replot_entry()
    assert entry["source"] == str(run.resolve())
    assert (entry["directory"], entry["inode"]) == (
        str(tmp_path / f"{NAME}-replot"),
        (tmp_path / f"{NAME}-replot").stat().st_ino,
    )
    address = "https://host.example/run.tar"
    assert fetch_run.FetchedRun(tmp_path, address, []).replot_entry()["source"] == address


def test_what_a_killed_process_had_unpacked_is_removed_and_that_of_a_living_one_kept(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    for name in (f".source-{ended.pid}-a", f".source-{os.getppid()}-b", ".source-c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "unpacked.tar").write_text("x")
    with pytest.raises(InputError):
        fetch_run.fetch_run_directory(str(tmp_path / "missing"), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([f".source-{os.getppid()}-b", ".source-c"])


@pytest.mark.parametrize("end", ["tar.gz", "tar.bz2", "tar.xz", "zip"])
def test_an_archive_that_expands_far_beyond_its_size_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr(untrusted_archives, "ALWAYS_UNPACKED", 1 << 20)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.yml").write_bytes(bytes(64 << 20))
    shutil.make_archive(
        str(tmp_path / "x"),
        {"tar.gz": "gztar", "tar.bz2": "bztar", "tar.xz": "xztar", "zip": "zip"}[end],
        tmp_path,
        "run",
    )
    with pytest.raises(DataError, match=r"x\..*: it expands to more than 300 times its size"):
        fetch_run.fetch_run_directory(str(tmp_path / f"x.{end}"), tmp_path / "artifacts")
    assert not list((tmp_path / "artifacts").iterdir())

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bundles of runs: what they hold, what is refused when one is unpacked, and the settings to run it again."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.secret_gate import SecretFound
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.export import run_bundle_archive
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import rerun_settings

Members = dict[str, bytes]


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A run with a template of the user, and settings that must not leave their place."""
    top = tmp_path / "workload_scale-light-t1126-aaaaaa"
    (top / "points" / "001").mkdir(parents=True)
    template = tmp_path / "job.yml.j2"
    template.write_text("kind: Job\nmetadata: {name: '{{ name }}'}\n")
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("users: []\n")
    record = {"schema": "run/1", "id": "t1126-aaaaaa", "project": "workload_scale", "versions": {"python": "3.11"}}
    files.write_yaml(top / "run.yml", record)
    (top / "points" / "001" / "plan.jsonl").write_text("{}\n")
    (top / "ansible.log").write_text("grows\n")
    given = {
        "workload_scale_count": 3,
        "matrix.workload_scale_gpus": [1, 2],
        "workload_scale_workload_template": str(template),
        "workload_scale_image": "{{ lookup('pipe', 'touch /tmp/owned') }}",
        "cluster_kubeconfig": str(kubeconfig),
        "export_s3_url": "s3://mine/runs",
        "results_kpi_files": ["/etc/hostname.missing"],
        "workload_scale_annotations_of_the_future": 1,
    }
    settings = {name: [{"source": "-e", "value": value}] for name, value in given.items()}
    files.write_yaml(top / "provenance.yml", {"schema": "provenance/1", "settings": settings})
    record_checksum(top, template)
    return top


def record_checksum(top: Path, template: Path) -> None:
    document = files.read_yaml(top / "provenance.yml")
    document["settings"]["workload_scale_workload_template"][0]["files"] = {str(template): files.sha256_of(template)}
    files.write_yaml(top / "provenance.yml", document, "provenance/1")


def pack(run_dir: Path, name: str = "run.tar.gz", **secrets: str) -> Path:
    return Path(run_bundle_archive.write_bundle(str(run_dir), str(run_dir.parent / name), secrets, ())["path"])


def members(archive: Path) -> Members:
    with tarfile.open(archive) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar.getmembers()}  # type: ignore[union-attr]


def write_archive(path: Path, content: Members, special: tarfile.TarInfo | None = None) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, data in content.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        if special:
            tar.addfile(special)
    return path


def test_a_bundle_holds_the_run_and_the_files_of_the_test(run_dir: Path) -> None:
    content = members(pack(run_dir))
    names = {name.partition("/")[2] for name in content}
    assert names == {
        "bundle.json",
        "run.yml",
        "provenance.yml",
        "points/001/plan.jsonl",
        "bundle_files/01-job.yml.j2",
    }
    manifest = json.loads(content[f"{run_dir.name}/bundle.json"])
    files.validate_schema_if_enabled("bundle/1", manifest)
    assert manifest["versions"] == {"python": "3.11"} and manifest["settings"]["workload_scale_count"] == 3


def test_what_is_unpacked_can_be_run_again_with_data_only(run_dir: Path) -> None:
    target = run_dir.parent / "elsewhere"
    result = run_bundle_archive.unpack_bundle(str(pack(run_dir)), str(target))
    rerun = rerun_settings.write_rerun_file(target, result["manifest"])
    text = Path(rerun["path"]).read_text()
    assert "{{" not in text and "!unsafe" not in text
    assert yaml.safe_load(text) == {
        "workload_scale_count": 3,
        "workload_scale_workload_template": str(target / "bundle_files" / "01-job.yml.j2"),
        "overrides": {"matrix.workload_scale_gpus": [1, 2]},
    }
    assert rerun["left_out"] == {
        "workload_scale_image": "a template, which is never read from a bundle: give it again",
        "cluster_kubeconfig": "belongs to the place of the first run",
        "export_s3_url": "belongs to the place of the first run",
        "results_kpi_files": "a path that is not in the bundle: give it again",
        "workload_scale_annotations_of_the_future": "no setting of this version",
    }


@pytest.mark.parametrize(
    ("recorded", "why"), [({}, "has not recorded its content"), ({"sha256": "0" * 64}, "has changed since")]
)
def test_a_stranger_s_run_directory_takes_no_file_of_this_machine_along(
    run_dir: Path, recorded: dict[str, str], why: str
) -> None:
    private = run_dir.parent / "private.txt"
    private.write_text("private\n")
    change = {"source": "-e", "value": [str(private)], "files": {str(private): text for text in recorded.values()}}
    given = {"results_kpi_files": [change], "workload_scale_workload_template": [change]}
    files.write_yaml(run_dir / "provenance.yml", {"schema": "provenance/1", "settings": given})
    written = run_bundle_archive.write_bundle(str(run_dir), str(run_dir.parent / "run.tar.gz"), {}, ())
    assert len(written["warnings"]) == 2 and all(text.endswith(why) for text in written["warnings"])
    assert b"private\n" not in members(Path(written["path"])).values()


@pytest.mark.parametrize("form", ["absolute", "parents", "link"])
def test_the_manifest_of_a_received_run_takes_no_file_of_this_machine_along(run_dir: Path, form: str) -> None:
    target = run_dir.parent / "received"
    run_bundle_archive.unpack_bundle(str(pack(run_dir)), str(target))
    private = run_dir.parent / "private.txt"
    private.write_text("private\n")
    (target / "bundle_files" / "link").symlink_to(private)
    parents = "../" * len(private.parent.parts)
    name = {"absolute": str(private), "parents": f"{parents}{str(private)[1:]}", "link": "bundle_files/link"}[form]
    manifest = files.read_json(target / "bundle.json")
    manifest["user_files"] = [{"setting": "results_kpi_files", "path": "/any", "file": name}]
    files.write_json(target / "bundle.json", manifest, "bundle/1")
    with pytest.raises(DataError, match=r"names '.*', which is outside of the run directory"):
        pack(target, "again.tar.gz")
    assert not (run_dir.parent / "again.tar.gz").exists()


def test_the_manifest_of_a_received_run_may_not_name_a_file_that_the_run_lacks(run_dir: Path) -> None:
    target = run_dir.parent / "received"
    run_bundle_archive.unpack_bundle(str(pack(run_dir)), str(target))
    (target / "bundle_files" / "01-job.yml.j2").unlink()
    with pytest.raises(DataError, match="names bundle_files/01-job.yml.j2, and the run has no such file"):
        pack(target, "again.tar.gz")


def test_a_received_run_takes_no_file_of_this_machine_along(run_dir: Path) -> None:
    target = run_dir.parent / "received"
    run_bundle_archive.unpack_bundle(str(pack(run_dir)), str(target))
    secret = run_dir.parent / "private.txt"
    secret.write_text("private\n")
    given = {"workload_scale_workload_template": [{"source": "-e", "value": str(secret)}]}
    files.write_yaml(target / "provenance.yml", {"schema": "provenance/1", "settings": given})
    again = members(pack(target, "again.tar.gz"))
    assert not any(data == b"private\n" for data in again.values())
    assert "received/bundle_files/01-job.yml.j2" in again
    run_bundle_archive.unpack_bundle(str(run_dir.parent / "again.tar.gz"), str(run_dir.parent / "third"))


def test_a_secret_in_a_template_ends_it(run_dir: Path) -> None:
    template = run_dir.parent / "job.yml.j2"
    template.write_text("token: very-secret-value\n")
    record_checksum(run_dir, template)
    with pytest.raises(SecretFound, match=r"bundle_files/01-job.yml.j2:1"):
        pack(run_dir, token="very-secret-value")
    assert not (run_dir.parent / "run.tar.gz").exists()


def change(name: str, data: bytes) -> Callable[[Members], Members]:
    def edit(content: Members) -> Members:
        top = next(iter(content)).partition("/")[0]
        return {**content, f"{top}/{name}": data}

    return edit


def without(name: str) -> Callable[[Members], Members]:
    return lambda content: {path: data for path, data in content.items() if not path.endswith(name)}


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (change("points/001/plan.jsonl", b"{ }\n"), "plan.jsonl is not the file that its manifest describes"),
        (change("points/001/more", b""), "with points/001/more, which its manifest does not list"),
        (without("plan.jsonl"), "without points/001/plan.jsonl"),
        (without("bundle.json"), "has no bundle.json"),
        (change("bundle.json", b'{"schema": "bundle/9"}'), "has schema 'bundle/9', and this version reads bundle/1"),
        (change("bundle.json", b'{"schema": "bundle/1", "files": [1]}'), "is damaged"),
        (change("bundle.json", b"[1]"), "has schema None"),
        (change("../../out", b"x"), "cannot be unpacked"),
    ],
)
def test_a_changed_bundle_is_refused(run_dir: Path, edit: Callable[[Members], Members], message: str) -> None:
    changed = write_archive(run_dir.parent / "changed.tar.gz", edit(members(pack(run_dir))))
    with pytest.raises(DataError, match=message):
        run_bundle_archive.unpack_bundle(str(changed), str(run_dir.parent / "target"))
    assert not (run_dir.parent / "target").exists() and not (run_dir.parent.parent / "out").exists()
    assert not list(run_dir.parent.glob(".bundle-*"))


def test_links_are_refused(run_dir: Path) -> None:
    link = tarfile.TarInfo(f"{run_dir.name}/link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    changed = write_archive(run_dir.parent / "changed.tar.gz", members(pack(run_dir)), link)
    with pytest.raises(DataError, match="links and devices are not unpacked"):
        run_bundle_archive.unpack_bundle(str(changed), str(run_dir.parent / "target"))


@pytest.mark.parametrize(
    ("dest", "message"),
    [("run.zip", "a bundle is a .tar.gz file"), ("no/run.tar.gz", "there is no folder"), ("there.tar.gz", "exists")],
)
def test_a_wrong_place_is_refused(run_dir: Path, dest: str, message: str) -> None:
    (run_dir.parent / "there.tar.gz").write_text("mine")
    with pytest.raises(InputError, match=message):
        pack(run_dir, dest)
    assert (run_dir.parent / "there.tar.gz").read_text() == "mine"


def hostile(settings: Any) -> dict[str, Any]:
    known = {"role": "workload_scale", "project": "workload_scale", "run": "x\n- evil: 1", "user_files": []}
    return {**known, "settings": settings}


def test_no_text_of_a_bundle_becomes_a_template(tmp_path: Path) -> None:
    settings = {
        "matrix.{{ 1 }}": [1],
        "overrides": {"workload_scale_image": "x"},
        "workload_scale_node_selector": {"{% raw %}": "x"},
        "workload_scale_command": ["sh", "{# #}"],
        "ansible_python_interpreter": "/tmp/x",
        "preset": "x",
        "workload_scale_seed": 4,
    }
    rerun = rerun_settings.write_rerun_file(tmp_path, hostile(settings))
    assert yaml.safe_load(Path(rerun["path"]).read_text()) == {"workload_scale_seed": 4}
    assert len(rerun["left_out"]) == 6


def test_nothing_that_this_machine_would_start_or_read_comes_from_a_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "received" / "evil").mkdir(parents=True)
    settings = {
        "rehearsal_components": ["kueue", "received/evil"],
        "rehearsal_sources": {"kueue": "anywhere"},
        "rehearsal_download_url": "https://example.com",
        "workload_scale_kind": "received/evil",
        "matrix": {"workload_scale_kind": ["Job", "received/evil"]},
        "matrix_points": [{"workload_run_on": "host"}],
        "matrix.results_template": ["/etc/hostname"],
        "bisect": {"over": "rehearsal_sources.kueue", "values": ["a", "b"]},
        "matrix.workload_scale_seed": [1, 2],
        "workload_scale_image": "registry.example.com/a/b:1",
    }
    rerun = rerun_settings.write_rerun_file(tmp_path, hostile(settings))
    assert rerun["settings"] == {
        "workload_scale_image": "registry.example.com/a/b:1",
        "overrides": {"matrix.workload_scale_seed": [1, 2]},
    }
    assert len(rerun["left_out"]) == 8


@pytest.mark.parametrize(
    "settings",
    [
        {"rehearsal_nodes_real": 1},
        {"rehearsal_components": ["kueue", "node"]},
        {"rehearsal_components": ["registry"]},
        {"matrix": {"rehearsal_nodes_real": [0, 1]}},
        {"rehearsal_force": True},
    ],
)
def test_a_bundle_starts_no_real_node_and_removes_no_cluster(tmp_path: Path, settings: dict[str, Any]) -> None:
    rerun = rerun_settings.write_rerun_file(tmp_path, hostile({**settings, "rehearsal_versions": {"kueue": "0.18.3"}}))
    assert rerun["settings"] == {"rehearsal_versions": {"kueue": "0.18.3"}}
    assert list(rerun["left_out"]) == list(settings)


def test_servers_that_get_secrets_are_not_taken_from_a_bundle(tmp_path: Path) -> None:
    strange = {
        "metrics_url": "https://stranger.example.com",
        "matrix": {"metrics_url": ["https://stranger.example.com"]},
        "evil\nrehearsal_binaries": 1,
    }
    rerun = rerun_settings.write_rerun_file(tmp_path, hostile(strange))
    assert rerun["settings"] == {}
    assert "secrets of yours" in rerun["left_out"]["metrics_url"] and "secrets of yours" in rerun["left_out"]["matrix"]
    assert "evil rehearsal_binaries" in rerun["left_out"]


def test_a_text_with_a_header_of_ansible_is_a_template(tmp_path: Path) -> None:
    header = "#jinja2: variable_start_string:'<<', variable_end_string:'>>'\n<< lookup('pipe', 'id') >>"
    rerun = rerun_settings.write_rerun_file(tmp_path, hostile({"workload_scale_image": header}))
    assert rerun["settings"] == {} and "template" in rerun["left_out"]["workload_scale_image"]


def test_files_of_secrets_and_clusters_stay_here(run_dir: Path) -> None:
    private = run_dir.parent / "private"
    private.write_text("opaque\n")
    names = (
        "workload_scale_api_key_file",
        "workload_scale_model_token_file",
        "workload_kubeconfig",
        "workload_ca_file",
    )
    given = {name: [{"source": "-e", "value": str(private)}] for name in names}
    files.write_yaml(run_dir / "provenance.yml", {"schema": "provenance/1", "settings": given})
    assert not any(data == b"opaque\n" for data in members(pack(run_dir)).values())


def test_a_replotted_run_takes_no_file_along(run_dir: Path) -> None:
    record = files.read_yaml(run_dir / "run.yml")
    replot = {"source": "elsewhere", "at": "2026-11-28T10:00:00Z", "migrated": []}
    files.write_yaml(run_dir / "run.yml", {**record, "replot": replot})
    assert not any("bundle_files" in name for name in members(pack(run_dir)))


def test_a_folder_that_is_no_run_is_refused_before_its_files_are_searched(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "notes").write_text("a secret: opaque-of-a-test\n")
    with pytest.raises(InputError, match=f"^{folder} has no readable run.yml, so it is not the directory of a run"):
        pack(folder, some_token="opaque-of-a-test")

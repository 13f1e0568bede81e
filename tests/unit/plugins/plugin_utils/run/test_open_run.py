# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A session opens a run, continues it, reports beside another session, applies profiles; errors leave no file."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible.template import trust_as_template
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import close_session, run_record
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import setting_templates
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_from_ansible import SettingsContext
from settings_sessions import PRESETS, ended, lines, load, opened, session

pytestmark = pytest.mark.usefixtures("ansible_plugins")  # defaults look up the environment


def test_a_new_run_has_its_settings_its_points_and_its_give_back_command(tmp_path: Path) -> None:
    one = session(tmp_path, preset="small,matrix")
    result = one.begin()
    directory = Path(result["run_dir"])
    assert (result["presets"], result["points"]) == (["small", "matrix"], ["001", "002"])
    assert result["gives_back"] == ["cleanup", "release"]
    assert load(directory / "settings.yml")["fine_tuning_count"] == 3
    assert [load(directory / "points" / name / "settings.yml")["fine_tuning_gpus"] for name in ("001", "002")] == [1, 2]
    record = run_record.read_record(directory)
    assert record["sessions"][0]["pid"] == os.getppid()
    assert f'"run_dir": "{directory}"' in record["give_back"]
    assert (directory / "GIVE_BACK").read_text() == record["give_back"] + "\n"
    assert f"Run {result['run_id']} in {directory}" in lines(one)


def test_the_end_of_a_settings_name_is_warned_about(tmp_path: Path) -> None:
    given = {"preset": "small", "kubeconfig": "/k", "count": 3, "fine_tuning_rate": 1.0, "own_thing": 1, "failures": []}
    one = session(tmp_path, ["settings"], given)
    one.begin()
    warned = [line for line in lines(one) if "is no setting" in line]
    assert [line.partition("(")[2] for line in warned] == [
        "did you mean 'cluster_kubeconfig'?)",
        "did you mean 'fine_tuning_count'?)",
        "did you mean 'workload_failures'?)",
    ]


def test_an_inventory_that_is_not_there_is_refused_except_to_give_back(tmp_path: Path) -> None:
    (tmp_path / "my_lab").mkdir()
    wrong = str(tmp_path / "my_lba")
    one = session(tmp_path, preset="small")
    one.cliargs = {"inventory": [str(tmp_path / "my_lab"), "a.example.com,", wrong]}
    with pytest.raises(InputError, match=rf"-i {wrong}: there is no such inventory \(did you mean '{tmp_path}/my_lab'"):
        one.begin()
    assert not (tmp_path / "runs").exists()
    one.cliargs = {"inventory": one.cliargs["inventory"][:2]}
    directory = one.begin()["run_dir"]
    run_record.update_record(Path(directory), lambda record: record["sessions"][0].update(began=1.0))
    back = session(tmp_path, ["cleanup", "release"], {"run_dir": directory})
    back.cliargs = {"inventory": [wrong]}
    assert back.begin()["run_dir"] == directory


def test_a_new_run_records_the_checksums_of_its_files_and_a_continued_one_no_further_ones(tmp_path: Path) -> None:
    kpis, more = tmp_path / "kpis.yml", tmp_path / "more.yml"
    for path in (kpis, more):
        path.write_text("[]\n")
    extra = {"preset": "small", "results_kpi_files": [str(kpis)], "fine_tuning_model_token_file": str(more)}
    run_dir = session(tmp_path, extra=extra).begin()["run_dir"]
    provenance = load(Path(run_dir) / "provenance.yml")["settings"]
    assert provenance["results_kpi_files"][-1]["files"] == {str(kpis): hashlib.sha256(b"[]\n").hexdigest()}
    assert "files" not in provenance.get("fine_tuning_model_token_file", [{}])[-1]
    again = {"run_dir": run_dir, "results_kpi_files": [str(kpis), str(more)]}
    session(tmp_path, ["report"], extra=again).begin()
    later = load(Path(run_dir) / "provenance.yml")["settings"]["results_kpi_files"][-1]
    assert later["value"] == [str(kpis), str(more)] and list(later["files"]) == [str(kpis)]


def test_a_continued_run_without_its_provenance_gets_no_checksums(tmp_path: Path) -> None:
    kpis = tmp_path / "kpis.yml"
    kpis.write_text("[]\n")
    run_dir = session(tmp_path, extra={"preset": "small", "results_kpi_files": [str(kpis)]}).begin()["run_dir"]
    (Path(run_dir) / "provenance.yml").unlink()
    session(tmp_path, ["report"], extra={"run_dir": run_dir}).begin()
    later = load(Path(run_dir) / "provenance.yml")["settings"]["results_kpi_files"][-1]
    assert later["value"] == [str(kpis)] and "files" not in later


def test_the_settings_alone_are_shown_and_nothing_is_created(tmp_path: Path) -> None:
    one = session(tmp_path, ["settings"], preset="small")
    assert one.begin()["only_settings"]
    assert any("fine_tuning_count" in line and "preset small" in line for line in lines(one))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"preset": "smal"}, "unknown preset 'smal' .did you mean 'small'"),
        ({"extra": {"fine_tuning_cout": 1}}, "-e: unknown setting 'fine_tuning_cout' of role fine_tuning"),
        ({"extra": {"run_dir": ""}}, "-e run_dir= is empty"),
        ({"tags": ["tset"]}, "--tags tset: no phase"),
        ({"extra": {"fine_tuning_model_token_required": True}}, "fine_tuning_model_token is needed by phase prepare"),
    ],
)
def test_an_error_in_the_input_leaves_no_file(tmp_path: Path, more: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        session(tmp_path, **more).begin()
    assert list(tmp_path.iterdir()) == []


def test_a_run_goes_on_with_its_presets_and_the_new_extra_vars(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    (directory / "FINISHED").touch()
    extra = {"run_dir": str(directory), "fine_tuning_rate": "5"}
    result = session(tmp_path, ["cluster", "prepare"], extra).begin()
    assert (result["run_dir"], result["gives_back"]) == (str(directory), [])
    values = load(directory / "settings.yml")
    assert (values["fine_tuning_count"], values["fine_tuning_rate"]) == (3, 5.0)
    assert len(run_record.read_record(directory)["sessions"]) == 2
    assert not (directory / "FINISHED").exists()


def test_a_command_in_a_run_directory_of_another_user_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = opened(tmp_path)
    run_record.update_record(directory, lambda record: record.update(give_back="sh /tmp/theirs"))
    monkeypatch.setattr(os, "getuid", lambda: directory.stat().st_uid + 1)
    session(tmp_path, ["report"], extra={"run_dir": str(directory)}).begin()
    assert "theirs" not in run_record.read_record(directory)["give_back"]


@pytest.mark.parametrize("tags", [["report"], ["cleanup", "release"]])
def test_a_command_in_a_run_directory_from_elsewhere_is_not_shown(tmp_path: Path, tags: list[str]) -> None:
    first = opened(tmp_path)
    copy = tmp_path / "received"
    shutil.copytree(first, copy)
    for path in (first, copy):
        run_record.update_record(path, lambda record: record.update(give_back="sh /tmp/theirs"))
        session(tmp_path, tags, extra={"run_dir": str(path), "trust_run_dir": True}).begin()
    record = run_record.read_record(copy)
    assert f'"run_dir": "{copy}"' in record["give_back"] and "theirs" not in record["give_back"]
    assert (copy / "GIVE_BACK").read_text() == record["give_back"] + "\n"
    assert run_record.read_record(first)["give_back"] == "sh /tmp/theirs"  # its own directory: the first session's


@pytest.mark.parametrize("status", ["running", "interrupted"], ids=["killed", "ended by a signal"])
def test_the_session_after_one_that_was_cut_short_learns_it_once(tmp_path: Path, status: str) -> None:
    directory = opened(tmp_path)
    run_record.update_record(directory, lambda record: record.update(status=status))
    point = directory / "points" / "001" / "point.yml"
    extra = {"run_dir": str(directory)}
    assert session(tmp_path, ["cleanup"], extra).begin()["interrupted"] == {"point": ""}, "no point was begun"
    point.write_text(point.read_text().replace("status: planned", "status: running"))
    assert load(point)["status"] == "running"
    run_record.update_record(directory, lambda record: record["sessions"][-1].update(began=0.0))
    assert session(tmp_path, ["cleanup"], extra).begin()["interrupted"] == {"point": "001"}
    close_session.close_session(directory, [], [], began=0.0)
    run_record.update_record(directory, lambda record: record["sessions"][-1].update(began=0.0))
    assert session(tmp_path, ["cleanup"], extra).begin()["interrupted"] is None, "the last one gave back in order"


def test_a_run_keeps_its_presets(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"ran with small; a run keeps its presets"):
        session(tmp_path, ["report"], {"run_dir": str(opened(tmp_path))}, preset="big").begin()


def test_a_report_beside_a_session_that_works_changes_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = opened(tmp_path)
    before = (directory / "run.yml").read_text()
    monkeypatch.setattr(run_record, "find_running_session", lambda _directory: {"pid": 1})
    extra = {"run_dir": str(directory)}
    one = session(tmp_path, ["report"])
    one.context = SettingsContext(
        **{**vars(one.context), "extra": extra, "variables": {**one.context.variables, **extra}}
    )
    assert one.begin()["beside"]
    assert (directory / "run.yml").read_text() == before
    with pytest.raises(InputError, match="takes no settings by -e"):
        session(tmp_path, ["report"], {**extra, "fine_tuning_count": 9}).begin()


def test_of_two_sessions_that_begin_at_the_same_time_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one begins after this one has looked, and before it is recorded."""
    directory = opened(tmp_path)
    check = run_record.refuse_while_running
    looks: list[Path] = []

    def look(run_dir: Path) -> None:
        looks.append(run_dir)
        if len(looks) == 1:
            return
        with subprocess.Popen(["sleep", "60"]) as other:
            try:
                record = run_record.read_record(directory)
                began = round(run_record.started_of_process(other.pid), 2)
                record["sessions"].append({**record["sessions"][0], "pid": other.pid, "began": began})
                run_record.write_record(directory, record)
                check(run_dir)
            finally:
                other.kill()

    monkeypatch.setattr(run_record, "refuse_while_running", look)
    with pytest.raises(InputError, match="is still being worked on by process"):
        session(tmp_path, ["report"], {"run_dir": str(directory)}).begin()
    assert len(looks) == 2


def test_changes_of_several_processes_to_a_record_are_all_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(files.VALIDATE)
    files.write_yaml(tmp_path / "run.yml", {"count": 0})
    children = []
    for _child in range(3):
        children.append(os.fork())
        if children[-1] == 0:
            for _change in range(20):
                run_record.update_record(tmp_path, lambda record: record.update(count=record["count"] + 1))
            os._exit(0)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    assert run_record.read_record(tmp_path)["count"] == 60


def test_the_profiles_of_a_cluster_add_presets_below_the_extra_vars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEATRIAL_FINE_TUNING_MODEL_TOKEN", "canary")
    directory = opened(tmp_path)
    profiles = {"h:6443": "big", "other": "matrix"}
    one = session(tmp_path, run_dir=str(directory), cluster_profiles=profiles)
    assert one.apply_profiles({"api_host": "nowhere"})["run_dir"] == str(directory)
    assert load(directory / "settings.yml")["fine_tuning_count"] == 3
    result = one.apply_profiles({"api_host": "h:6443"})
    assert (result["changed"], result["points"]) == (True, ["001"])
    assert load(directory / "settings.yml")["fine_tuning_count"] == 7
    provenance = load(directory / "provenance.yml")["settings"]
    assert provenance["fine_tuning_count"][-1]["source"].startswith("profile h:6443")
    assert provenance["fine_tuning_model_token"] == [{"source": "secret", "value": "<secret>"}]
    assert not one.apply_profiles({"api_host": "h:6443"})["changed"]


def test_files_that_the_presets_of_a_profile_name_are_recorded_and_no_others(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.yml", tmp_path / "theirs.yml"
    for path in (ours, theirs):
        path.write_text("[]\n")
    presets = {**PRESETS, "lab": {"results_kpi_files": [str(ours)]}}
    directory = opened(tmp_path, fine_tuning_presets=presets)
    request = load(directory / "request.yml")
    stranger = {"kind": "overrides", "source": "overrides", "values": {"results_signature_files": [str(theirs)]}}
    files.write_yaml(directory / "request.yml", {**request, "layers": [*request["layers"], stranger]})
    profiles = {"h:6443": "lab"}
    one = session(tmp_path, run_dir=str(directory), cluster_profiles=profiles, fine_tuning_presets=presets)
    one.apply_profiles({"api_host": "h:6443"})
    found = load(directory / "provenance.yml")["settings"]
    assert found["results_kpi_files"][-1]["files"] == {str(ours): files.sha256_of(ours)}
    assert found["results_signature_files"][-1]["value"] == [str(theirs)]
    assert "files" not in found["results_signature_files"][-1]


def test_a_later_session_judges_a_measured_point_by_its_own_settings(tmp_path: Path) -> None:
    directory = opened(tmp_path, extra={"fine_tuning_image": "no {{ template"})
    ended(directory, p001="passed")
    path = directory / "points" / "001" / "settings.yml"
    before = setting_templates.load_yaml_with_unsafe(path)
    limits = {"makespan": {"max": "2 min"}}
    extra = {"run_dir": str(directory), "results_limits": limits, "workload_max_lateness": 9, "fine_tuning_rate": 5}
    session(tmp_path, ["report"], extra).begin()
    after = setting_templates.load_yaml_with_unsafe(path)
    assert after == {**before, "results_limits": limits, "workload_max_lateness": 9.0}
    assert after["fine_tuning_rate"] != 5 and isinstance(after["fine_tuning_image"], setting_templates.UnsafeText)
    written = path.stat().st_mtime_ns
    session(tmp_path, ["report"], {"run_dir": str(directory)}).begin()
    assert path.stat().st_mtime_ns == written


def test_redo_gives_a_fresh_attempt_with_the_settings_of_the_new_session(tmp_path: Path) -> None:
    directory = opened(tmp_path, extra={"matrix": {"fine_tuning_gpus": [1, 2]}})
    ended(directory, p001="passed", p002="failed")
    before = load(directory / "points" / "002" / "settings.yml")
    extra = {"run_dir": str(directory), "redo": "failed", "fine_tuning_rate": "5"}
    result = session(tmp_path, ["cluster", "prepare", "test"], extra).begin()
    assert sorted(path.name for path in (directory / "points").iterdir()) == ["001", "002", "002-2"]
    assert load(directory / "points" / "002" / "settings.yml") == before
    fresh = load(directory / "points" / "002-2" / "settings.yml")
    assert (fresh["fine_tuning_rate"], fresh["fine_tuning_gpus"]) == (5.0, 2)
    record = load(directory / "points" / "002-2" / "point.yml")
    assert (record["why"], record["settings"]) == ("It failed, redo=failed.", {"fine_tuning_gpus": 2})
    assert (result["points"], result["most_points"]) == (["001", "002"], 4)
    assert run_record.read_record(directory)["points"] == ["001", "002"]


@pytest.mark.parametrize(
    ("tags", "words", "message"),
    [
        (["report"], {"redo": "001"}, "-e redo= needs phase test, and --tags report leaves it out"),
        (["cluster", "test"], {"redo": "1"}, r"redo: there is no point '1' \(did you mean '001'\?\); the run has 001"),
        (["cluster", "test"], {"redo": "inconclusive"}, "redo=inconclusive: the run has no verdict yet"),
        (
            ["cluster", "test"],
            {"matrix": {"fine_tuning_gpus": [2]}},
            "point 001 was measured with no matrix, and now has",
        ),
        (["cluster", "test"], {"matrix_points": [{"fine_tuning_gpus": 2}]}, "point 001 was measured with no matrix"),
    ],
)
def test_a_run_that_cannot_go_on_so_is_left_alone(
    tmp_path: Path, tags: list[str], words: dict[str, Any], message: str
) -> None:
    directory = opened(tmp_path)
    ended(directory, p001="passed")
    before = {path: path.read_text() for path in directory.rglob("*.yml")}
    with pytest.raises(InputError, match=message):
        session(tmp_path, tags, {"run_dir": str(directory), **words}).begin()
    assert {path: path.read_text() for path in directory.rglob("*.yml")} == before


def test_redo_needs_an_earlier_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="measures points of an earlier run again: name it, -e run_dir="):
        session(tmp_path, None, {"redo": "failed"}).begin()


def test_a_point_that_a_condition_excludes_is_skipped(tmp_path: Path) -> None:
    matrix = {"matrix": {"fine_tuning_gpus": [1, 2, 4]}, "matrix_skip_if": ["fine_tuning_gpus > fine_tuning_count"]}
    directory = opened(tmp_path, extra=matrix)
    records = [load(directory / "points" / name / "point.yml") for name in ("001", "002", "003")]
    assert [one["status"] for one in records] == ["planned", "planned", "skipped"]
    assert records[2]["why"] == "matrix_skip_if[0]: fine_tuning_gpus > fine_tuning_count"
    session(tmp_path, ["cluster"], {"run_dir": str(directory), "fine_tuning_count": "4"}).begin()
    assert load(directory / "points" / "003" / "point.yml")["status"] == "planned", "the condition no longer holds"


def test_the_points_are_listed_with_their_state_and_the_time_that_is_left(tmp_path: Path) -> None:
    gpus = {"matrix": {"fine_tuning_gpus": [1, 2, 3, 4, 8]}, "matrix_skip_if": ["fine_tuning_gpus > 4"]}
    new = session(tmp_path, ["settings"], gpus)
    new.begin()
    assert any("005  fine_tuning_gpus=8: skipped: matrix_skip_if[0]: fine_tuning_gpus > 4" in one for one in lines(new))
    assert any("001  fine_tuning_gpus=1: to measure: " in one and "GPU hours" in one for one in lines(new))
    directory = opened(tmp_path, extra=gpus)
    ended(directory, p001="passed", p002="failed", p003="running")
    with (directory / "points" / "001" / "point.yml").open("a") as stream:
        stream.write("started: 2026-11-22T10:00:00.000Z\nended: 2026-11-22T10:00:30.000Z\n")
    before = {path: path.read_text() for path in directory.rglob("*.yml")}
    one = session(tmp_path, ["settings"], {"run_dir": str(directory), "redo": "failed"})
    one.begin()
    shown = "\n".join(lines(one))
    assert "001  fine_tuning_gpus=1: passed in 30 s\n" in shown
    assert "002  fine_tuning_gpus=2: to measure again, attempt 2: It failed, redo=failed: 3 workloads" in shown
    assert "003  fine_tuning_gpus=3: to measure: attempt 1 was interrupted and is resumed: 3 workloads" in shown
    assert "004  fine_tuning_gpus=4: to measure: 3 workloads" in shown
    assert "3 points to measure: about 90 s, by the median of 1 point that passed, 30 s" in shown
    assert {path: path.read_text() for path in directory.rglob("*.yml")} == before


@pytest.mark.parametrize(("tags", "refused"), [(["all"], True), (["test", "settings"], True), (["settings"], False)])
def test_check_mode_only_shows_settings(tmp_path: Path, tags: list[str], refused: bool) -> None:
    one = session(tmp_path, tags)
    one.cliargs = {"check": True}
    if refused:
        with pytest.raises(InputError, match="--check can't predict a run; --tags settings shows what it would do"):
            one.begin()
    else:
        assert one.begin()["only_settings"]
    assert not (tmp_path / "runs").exists()


def test_preset_list_shows_the_presets_and_opens_no_run(tmp_path: Path) -> None:
    one = session(tmp_path, preset="list")
    assert one.begin() == {"only_settings": True, "run_dir": None}
    assert "  small   sets fine_tuning_count, fine_tuning_rate" in "\n".join(lines(one)).splitlines()
    assert not (tmp_path / "runs").exists()


def test_a_part_of_the_command_line_without_a_name_is_refused(tmp_path: Path) -> None:
    """Ansible makes ``-e preset='small big'`` the preset small and a remainder."""
    with pytest.raises(InputError, match="'big' belongs to no variable.*-e preset=a,b"):
        session(tmp_path, extra={"preset": "small", "_raw_params": "big"}).begin()


def test_a_profile_with_an_unknown_preset_is_refused_before_a_cluster_is_acquired(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"cluster_profiles, metal: no project has a preset 'bgi' \(did you mean 'big'"
    ):
        session(tmp_path, cluster_profiles={"metal": "bgi"}).begin()


def test_a_replaced_preset_is_named_when_it_is_used(tmp_path: Path) -> None:
    one = session(tmp_path, ["settings"], preset="big", fine_tuning_presets_lab={"big": {"fine_tuning_count": 8}})
    one.begin()
    expected = "  warning: preset big of fine_tuning_presets_lab is used; it replaces that of fine_tuning_presets"
    assert expected in lines(one)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("{{ nosuch }}", "-e: fine_tuning_image is '{{ nosuch }}', and nothing defines 'nosuch'"),
        ("{{ fine_tuning_cuont }}", r"nothing defines 'fine_tuning_cuont' \(did you mean 'fine_tuning_count'"),
        ("{{ fine_tuning_hyper_parameters.nosuch }}", "it names a part of a variable that does not exist"),
    ],
)
def test_a_value_that_nothing_will_define_is_refused(tmp_path: Path, given: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        session(tmp_path, ["settings"], {"fine_tuning_image": trust_as_template(given)}).begin()


def test_a_value_that_the_run_defines_is_rendered_later(tmp_path: Path) -> None:
    given = {"fine_tuning_image": trust_as_template("{{ cluster_acquired.sutest.api_host }}/x:{{ run_id }}")}
    assert "fine_tuning_image" in session(tmp_path, ["settings"], given).begin()["late"]


@pytest.mark.parametrize("tags", [["all"], ["settings"]])
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"cluster_provider": "existing"}, "requires a kubeconfig: set -e cluster_kubeconfig=<file>"),
        ({"results_template": "/no/page.j2"}, "results_template: there is no /no/page.j2"),
    ],
)
def test_bad_input_of_any_phase_is_found_with_the_tag_settings_too(
    tmp_path: Path, tags: list[str], given: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with pytest.raises(InputError, match=words):
        session(tmp_path, tags, given).begin()
    assert not (tmp_path / "runs").exists()

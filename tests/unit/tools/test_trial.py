"""Choosing a project, announcing a first set-up."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trial


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """Two projects and two tools."""
    (tmp_path / "playbooks").mkdir()
    for name, content in (("_project", "- hosts: localhost"), ("lease", "- hosts: localhost"), ("rehearsal", "")):
        (tmp_path / "playbooks" / f"{name}.yml").write_text(content)
    for name in ("fine_tuning", "scheduler"):
        (tmp_path / "playbooks" / f"{name}.yml").write_text(
            f"- ansible.builtin.import_playbook: _project.yml\n  vars:\n    run_project: {name}\n"
        )
    monkeypatch.setattr(trial, "ROOT", tmp_path)
    return tmp_path


def test_projects_are_the_playbooks_with_the_phases_of_all_projects(clone):
    assert trial.projects() == {"fine_tuning": True, "scheduler": True}


def test_a_lease_a_bisection_and_the_load_of_others_are_no_trials():
    can_be_tried = [project for project, it_can in trial.projects().items() if it_can]
    assert can_be_tried == ["fine_tuning", "scheduler", "serving", "users", "workload_scale"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fine_tunning", r"PROJECT=fine_tunning: .*did you mean 'fine_tuning'.* there are: fine_tuning, scheduler"),
        ("rehearsal", r"there is no such project"),
        ("lease", r"there is no such project"),
        ("", r"there is no such project; there are: fine_tuning, scheduler"),
    ],
)
def test_an_unknown_project_is_one_clear_error(clone, name, message):
    with pytest.raises(SystemExit, match=message):
        trial.check_project(name)


def test_a_project_that_needs_an_existing_cluster_is_not_called_unknown():
    with pytest.raises(SystemExit, match=r"PROJECT=sample needs a cluster that exists: run playbooks/sample\.yml"):
        trial.check_project("sample")


def test_a_tool_that_needs_an_existing_cluster_is_no_project():
    with pytest.raises(SystemExit, match=r"PROJECT=stack: there is no such project; there are: fine_tuning, scheduler"):
        trial.check_project("stack")


def test_every_project_that_can_be_tried_has_the_preset_that_a_trial_runs():
    for project in (project for project, it_can in trial.projects().items() if it_can):
        path = trial.ROOT / "group_vars" / "all" / f"{project}_presets.yml"
        assert re.search(r"^  light:$", path.read_text(encoding="utf-8"), re.MULTILINE), project


def test_a_known_project_is_no_error(clone):
    trial.check_project("scheduler")


def test_every_component_says_what_its_build_costs(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    files = trial.COMPONENTS.glob("*/component.yml")
    every = {path.parent.name for path in files if "\nbuild:" in path.read_text(encoding="utf-8")}
    missing = {name: (minutes, size) for name, minutes, size in trial.to_build(every)}
    assert set(missing) == every
    assert all(minutes > 0 and size > 0 for minutes, size in missing.values())


def test_too_little_disk_ends_before_anything_is_set_up(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(trial, "to_build", lambda _wanted: [("control-plane", 6.0, 1e9)])
    with pytest.raises(SystemExit, match="not enough disk: .*GB of disk needed"):
        trial.announce(trial.DEFAULT)


def test_the_free_space_is_that_of_the_folders_that_are_filled(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(trial.setup, "installed", lambda: True)
    monkeypatch.setattr(trial, "to_build", lambda _wanted: [("control-plane", 6.0, 0.0)])
    trial.announce(trial.DEFAULT)
    free = next(line for line in capsys.readouterr().out.splitlines() if "free:" in line)
    assert re.fullmatch(rf" *free: [0-9]+ GB in {re.escape(str(tmp_path))}/seatrial", free), free


def test_only_what_is_always_there_or_wanted_is_announced(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    names = [name for name, _minutes, _size in trial.to_build({"gangs"})]
    assert names == ["control-plane", "etcd", "gangs", "kwok"]


def test_what_a_wanted_component_requires_is_announced_with_it(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    names = {name for name, _minutes, _size in trial.to_build({"trainer"})}
    assert names == {"control-plane", "etcd", "kwok", "trainer", "jobset"}


@pytest.mark.parametrize(
    ("project", "presets", "expected"),
    [
        ("fine_tuning", "light", {"trainer"}),
        ("fine_tuning", "rhoai_light", {"trainer", "olm"}),
        ("scheduler", "gang_large", {"trainer", "kueue", "gangs"}),
        ("workload_scale", "light,kueue", {"trainer", "kueue"}),
        ("workload_scale", "failures_fast", {"trainer", "jobset", "node-failures", "node-failures-fast"}),
        ("workload_scale", "no_such_preset", {"trainer"}),
    ],
)
def test_the_parts_of_a_preset_are_known_before_there_is_a_parser(project, presets, expected):
    assert trial.components(project, presets) == expected


def test_the_default_parts_are_those_that_the_default_trial_needs():
    import yaml

    roles = trial.ROOT / "roles"
    flavour = yaml.safe_load((roles / "fine_tuning/files/flavours/fms/flavour.yml").read_text(encoding="utf-8"))
    kind = yaml.safe_load((roles / "workload/files/kinds" / flavour["apis"][0] / "kind.yml").read_text("utf-8"))
    assert {kind["component"]} == trial.DEFAULT


@pytest.mark.parametrize(("code", "ended"), [(99, -signal.SIGINT), (4, -signal.SIGINT), (2, 2)])
def test_make_says_nothing_below_the_last_line_of_an_interrupted_run(tmp_path: Path, code: int, ended: int) -> None:
    program = f"import sys; sys.path.insert(0, {str(Path(trial.__file__).parent)!r}); import trial; trial.leave({code})"
    (tmp_path / "Makefile").write_text(f'x:\n\t@exec "{sys.executable}" -c "{program}"\n', encoding="utf-8")
    # The suite itself is run by make, whose variables would make this one a "make[1]".
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(
        ["env", "--default-signal=INT", "make", "x"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == ended
    assert ("make: ***" in done.stderr) is (code == 2), done.stderr

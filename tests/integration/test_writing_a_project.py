"""The page on writing a project, followed word for word on a machine where the built collection is installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import artefact
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from playbook import ROOT, environment, run_dirs

PAGE = ROOT / "docs" / "writing_a_project.md"


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the clone, without what was made in it, and its virtual environment."""
    copy = tmp_path_factory.mktemp("clone")
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file() or (ROOT / name).is_symlink():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name, follow_symlinks=False)
    # Molecule finds what its scenarios share by the root of the repository.
    subprocess.run(["git", "init", "-q", str(copy)], check=True, timeout=600)
    if not (copy / ".venv").exists():
        os.symlink((ROOT / ".venv").resolve(), copy / ".venv")
    return copy


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home folder in which the built collection is installed, and nothing else."""
    artefact.install(artefact.build(tmp_path / "built"), tmp_path / "home" / ".ansible" / "collections")
    return tmp_path / "home"


def shell(text: str, folder: Path, artifacts: Path, **env: str) -> Path:
    """Run a block of the page as bash does when a person pastes it; return the folder in which it ends."""
    end = artifacts.parent / "folder"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", f"{text}\npwd > {end}"],
        cwd=folder,
        env=environment(artifacts, {"XDG_STATE_HOME": str(artifacts.parent / "state"), **env}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"{text}\n{done.stdout[-6000:]}"
    return Path(end.read_text(encoding="utf-8").strip())


def blocks(kind: str) -> list[str]:
    """The blocks of the page that follow ```<kind>."""
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.long
def test_every_command_of_the_page_works_and_the_own_kind_is_measured(home: Path, tmp_path: Path) -> None:
    artifacts, folder = tmp_path / "artifacts", tmp_path / "anywhere"
    folder.mkdir()
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    env = {"HOME": str(home), "XDG_CACHE_HOME": cache}
    for text in blocks("bash"):
        folder = shell(text, folder, artifacts, **env)
    first, second, third = run_dirs(artifacts)
    assert files.read_yaml(second / "settings.yml")["my_llm_test_cpu"] == "250m"
    assert files.read_yaml(third / "run.yml")["versions"]["me.bench"] == "0.1.0"
    for run, kind, count in ((first, "Job", 5), (second, "Job", 5), (third, "TrainJob", 4)):
        assert files.read_yaml(run / "run.yml")["status"] == "passed"
        rows = [one for one in files.read_json_lines(run / "points/001/timeline.jsonl") if one["type"] == "workload"]
        assert [(one["kind"], one["outcome"]) for one in rows] == [(kind, "succeeded")] * count
    kpis = {one["name"]: one for one in files.read_json(third / "points/001/kpis.json")["kpis"]}
    assert kpis["time_to_started_p95"]["n"] == 4
    # The archive is complete: installed in place of its sources, it finds its presets, settings and KPIs.
    shutil.rmtree(folder)
    artefact.install(home / "me-bench-0.1.0.tar.gz", home / ".ansible" / "collections")
    limits = '{"results_limits": {"time_to_started_p95": {"max": "5 s"}}}'
    command = (
        f"ansible-playbook me.bench.my_llm_test -e preset=light --tags settings -e my_llm_test_cpu=1 -e '{limits}'"
    )
    shell(command, tmp_path / "anywhere", artifacts, **env)


def test_the_commands_for_a_clone_work_in_one(clone: Path, tmp_path: Path) -> None:
    (text,) = blocks("bash clone")
    shell(text, clone, tmp_path / "artifacts")
    assert (clone / "playbooks/group_vars/all/my_llm_test_presets.yml").is_symlink()


@pytest.mark.parametrize(("word", "warns"), [("new_project_name", False), ("name", True)])
def test_a_name_that_ansible_does_not_reserve_draws_no_warning(word: str, warns: bool) -> None:
    command = [".venv/bin/ansible-playbook", "playbooks/new_project.yml", "-e", f"{word}=my_llm_test", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "run it: .venv/bin/ansible-playbook playbooks/my_llm_test.yml -e preset=light" in done.stdout
    assert ("reserved name" in done.stderr) is warns, done.stderr


@pytest.mark.long
def test_the_scenario_of_a_new_project_passes_molecule(clone: Path, tmp_path: Path) -> None:
    artifacts = tmp_path / "artifacts"
    shell(".venv/bin/ansible-playbook playbooks/new_project.yml -e new_project_name=mol_test", clone, artifacts)
    try:
        shell(".venv/bin/molecule test -s mol_test", clone, artifacts)
    finally:
        shell(".venv/bin/ansible-playbook molecule/shared/stop.yml", clone, artifacts)

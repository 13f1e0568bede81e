"""The page on writing a project, followed word for word in a copy of the clone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils import _files
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
    subprocess.run(["git", "init", "-q", str(copy)], check=True, timeout=60)
    if not (copy / ".venv").exists():
        os.symlink((ROOT / ".venv").resolve(), copy / ".venv")
    return copy


def shell(text: str, clone: Path, artifacts: Path) -> None:
    """Run a block of the page as bash does when a person pastes it."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=clone,
        env=environment(artifacts, {"XDG_STATE_HOME": str(artifacts.parent / "state")}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"{text}\n{done.stdout[-6000:]}"


def test_every_command_of_the_page_works_and_the_own_kind_is_measured(clone: Path, tmp_path: Path) -> None:
    artifacts = tmp_path / "artifacts"
    blocks = re.findall(r"^```bash\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 6
    for text in blocks:
        shell(text, clone, artifacts)
    first, second, third = run_dirs(artifacts)
    assert _files.read_yaml(second / "settings.yml")["my_llm_test_cpu"] == "250m"
    for run, kind, count in ((first, "Job", 5), (second, "Job", 5), (third, "PyTorchJob", 4)):
        assert _files.read_yaml(run / "run.yml")["status"] == "passed"
        rows = [one for one in _files.read_lines(run / "points/001/timeline.jsonl") if one["type"] == "workload"]
        assert [(one["kind"], one["outcome"]) for one in rows] == [(kind, "succeeded")] * count
    kpis = {one["name"]: one for one in _files.read_json(third / "points/001/kpis.json")["kpis"]}
    assert kpis["time_to_accepted_p95"]["n"] == 4


@pytest.mark.parametrize(("word", "warns"), [("new_project_name", False), ("name", True)])
def test_a_name_that_ansible_does_not_reserve_draws_no_warning(word: str, warns: bool) -> None:
    command = [".venv/bin/ansible-playbook", "playbooks/new_project.yml", "-e", f"{word}=my_llm_test", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "run it: .venv/bin/ansible-playbook playbooks/my_llm_test.yml -e preset=smoke" in done.stdout
    assert ("reserved name" in done.stderr) is warns, done.stderr


@pytest.mark.long
def test_the_scenario_of_a_new_project_passes_molecule(clone: Path, tmp_path: Path) -> None:
    artifacts = tmp_path / "artifacts"
    shell(".venv/bin/ansible-playbook playbooks/new_project.yml -e new_project_name=mol_test", clone, artifacts)
    try:
        shell(".venv/bin/molecule test -s mol_test", clone, artifacts)
    finally:
        shell(".venv/bin/ansible-playbook molecule/shared/stop.yml", clone, artifacts)

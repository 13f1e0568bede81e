"""The manifests of a role call are kept in its directory, without what a Secret holds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import playbook
import yaml

ANSIBLE = Path(sys.executable).parent / "ansible"
SECRET = {"kind": "Secret", "metadata": {"name": "token"}, "data": {"key": "aGlkZGVu"}}


def keep(tmp_path: Path, step_dir: str) -> subprocess.CompletedProcess[str]:
    """Run the action as a task does; its result is printed."""
    given = json.dumps({"step_dir": step_dir, "name": "prepare", "definitions": [SECRET]})
    command = [str(ANSIBLE), "-i", "localhost,", "-c", "local", "-m", "perfscale.seatrial.save_manifests", "-a", given]
    env = playbook.environment(tmp_path)
    return subprocess.run(
        [*command, "localhost"], cwd=playbook.ROOT, env=env, capture_output=True, text=True, timeout=120
    )


def test_a_secret_is_kept_without_its_data(tmp_path: Path) -> None:
    done = keep(tmp_path, str(tmp_path))
    assert done.returncode == 0, done.stdout
    kept = yaml.safe_load((tmp_path / "src" / "prepare.yml").read_text())
    assert kept["metadata"] == {"name": "token"}
    assert "aGlkZGVu" not in str(kept)


def test_an_empty_directory_is_refused_by_name(tmp_path: Path) -> None:
    done = keep(tmp_path, "")
    assert done.returncode != 0
    assert "step_dir is empty: pass the path that step_directory returned" in done.stdout

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole playbooks: what a run holds is given back, and nothing is recorded before it is true."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import leftovers
from ansible_collections.perfscale.seatrial.plugins.module_utils import _files
from playbook import Done, play, run_dirs
from processes import traces

SMALL = ["-e", '{"rehearsal_components": []}', "-e", "fake_gpu_nodes=2"]


def give_back(run_dir: Path) -> Done:
    """Run GIVE_BACK as somebody who has nothing but the file: another folder, a bare environment."""
    done = subprocess.run(
        ["sh", str(run_dir / "GIVE_BACK")],
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "HOME": str(Path.home()), "ANSIBLE_NOCOLOR": "1"},
        timeout=300,
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    return Done(done.returncode, done.stdout + done.stderr)


def cluster_of(run_dir: Path) -> dict[str, Any]:
    return _files.read_yaml(run_dir / "cluster.yml")["clusters"]["sutest"]


def held(run_dir: Path) -> list[dict[str, Any]]:
    return _files.read_yaml(run_dir / "run.yml")["held"]


def test_the_file_gives_back_a_kept_run_and_what_would_refuse_does_so_before_anything_is_deleted(
    tmp_path: Path,
) -> None:
    data = ["-e", f"rehearsal_data_dir={tmp_path / 'data'}"]
    done = play(*SMALL, *data, "-e", "preset=light,keep", "--tags", "cluster", artifacts=tmp_path / "runs")
    try:
        assert done.code == 0, done.output
        [run_dir] = run_dirs(tmp_path / "runs")
        words = ["--tags", "cleanup,release", "-e", f"run_dir={run_dir}"]
        refused = play(*words, artifacts=tmp_path / "runs")
        assert refused.code == 2 and "is kept (cluster_keep)" in refused.flat(), refused.output
        assert "nothing was touched" in refused.flat() and "-e cluster_keep=false" in refused.flat()
        assert not list(run_dir.glob("*__cleanup__*")), "the clean-up did not begin"
        assert _files.read_yaml(run_dir / "run.yml")["status"] == "passed", "nor did the session"
        given = give_back(run_dir)
        assert given.code == 0, given.output
        assert held(run_dir) == [] and cluster_of(run_dir)["state"] == "released"
        assert traces(tmp_path / "data") == []
    finally:
        leftovers.remove_all(tmp_path / "data")

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Capturing and comparing a cluster never fails, so that it hides no failure of the run."""

from __future__ import annotations

from pathlib import Path

from role_lab import Lab


def test_a_capture_and_a_comparison_that_fail_are_shown_and_fail_nothing(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab", "t1123-abcdef")
    (lab.run_dir / "capture").write_text("no folder can be made of this name", encoding="utf-8")
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("[", encoding="utf-8")
    acquired = f'{{"cluster_acquired": {{"sutest": {{"kubeconfig": "{kubeconfig}"}}}}}}'
    words = ["-e", "role=run", "-e", "run_capture_why=test", "-e", "run_diff_moment=before", "-e", acquired]
    done = lab.run("capture,diff", *words)
    assert done.code == 0, done.output
    assert "The state of the cluster was not captured test: " in done.flat()
    assert "The cluster was not compared before the run: " in done.flat()
    without = lab.run("capture,diff", *words[:-1], "{}")
    assert without.code == 0 and "there is none" in without.flat(), without.output

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The directory of a role call holds its arguments without secrets, its failure, and a command that runs it again."""

from __future__ import annotations

import subprocess
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.detect_moved_run import recorded_path_and_inode
from playbook import ROOT, environment
from role_lab import Lab

CANARY = "canary-7f3a9c2e"


def test_a_role_call_can_be_run_again_from_its_directory_and_a_failed_one_holds_its_failure(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab", "t1123-abcdef")
    lab.env = {"ANSIBLE_CALLBACK_PLUGINS": str(ROOT / "playbooks/callback_plugins"), "SEATRIAL_METRICS_TOKEN": CANARY}
    play = ["-e", "role=cleanup", "-e", "cleanup_timeout=7", "-e", '{"cleanup_kinds": ["Job", "Pod"]}']
    first = lab.run("verify", *play)
    assert first.code == 0, first.output
    step = lab.run_dir / "001__cleanup__verify"
    opened = {"id": lab.run_id, **recorded_path_and_inode(lab.run_dir, lab.run_dir)}
    files.write_yaml(lab.run_dir / "run.yml", opened)
    held = files.read_yaml(step / "arguments.yml")
    assert (held["step_role"], held["step_entry"]) == ("perfscale.seatrial.cleanup", "verify")
    assert held["cleanup_kinds"] == ["Job", "Pod"] and float(held["cleanup_timeout"]) == 7
    again = subprocess.run(
        ["sh", str(step / "COMMAND")],
        cwd="/",
        env=environment(tmp_path),
        timeout=300,
        check=False,
        capture_output=True,
        text=True,
    )
    assert again.returncode == 0, again.stdout + again.stderr
    repeated = files.read_yaml(lab.run_dir / "002__cleanup__verify" / "arguments.yml")
    assert repeated == held
    assert not list(lab.run_dir.glob("*/FAILURE"))
    _refuses_what_no_run_wrote(step, tmp_path)

    (lab.run_dir / "cluster.yml").write_text("[", encoding="utf-8")
    failed = lab.run("verify", *play)
    assert failed.code != 0
    text = (lab.run_dir / "003__cleanup__verify" / "FAILURE").read_text(encoding="utf-8")
    assert text.startswith("perfscale.seatrial.cleanup : Read the record of the clusters: ") and "cluster.yml" in text
    assert not (step / "FAILURE").exists()

    (lab.run_dir / "cluster.yml").unlink()
    metrics = lab.run("main", "-e", "role=metrics", "-e", "metrics_url=https://me:hunter22@127.0.0.1:1", *play[2:])
    arguments = files.read_yaml(next(lab.run_dir.glob("*__metrics__main")) / "arguments.yml")
    assert arguments["metrics_url"] == "<secret>:1" and "metrics_token" not in arguments, metrics.output
    assert CANARY not in lab.everything() and "hunter22" not in lab.everything()


def _refuses_what_no_run_wrote(step: Path, tmp_path: Path) -> None:
    """A stranger's files are not loaded: neither templates, nor other variables, nor another role's files."""
    path, proof = step / "arguments.yml", tmp_path / "proof"
    written = path.read_text(encoding="utf-8")
    trap = f"\"{{{{ lookup('ansible.builtin.pipe', 'touch {proof}; echo 3') }}}}\""
    for name, value, words in (
        ("cleanup_timeout", trap, "A template that only a run directory has is not executed"),
        ("step_role", trap, "is not a valid role"),
        ("step_role", str(tmp_path / "my.role"), "is not a valid role"),
        ("step_entry", "../../../x", "has no entry point '../../../x'"),
        ("ansible_python_interpreter", str(proof), "is not a setting that a run writes"),
    ):
        lines = [line for line in written.splitlines() if not line.startswith(f"{name}:")]
        path.write_text("\n".join([*lines, f"{name}: {value}"]) + "\n", encoding="utf-8")
        command = ["sh", str(step / "COMMAND")]
        done = subprocess.run(
            command, cwd="/", env=environment(tmp_path), timeout=300, check=False, capture_output=True, text=True
        )
        assert done.returncode != 0 and words in done.stdout + done.stderr, (name, done.stdout)
    assert not proof.exists()
    path.write_text(written, encoding="utf-8")

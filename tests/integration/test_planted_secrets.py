# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets of an interrupted run, and of what people do with it afterwards: none in a file, none on the terminal."""

from __future__ import annotations

import base64
import json
import os
import secrets
import signal
import subprocess
import time
from pathlib import Path

import pytest
import rehearsal as support
from playbook import begin, play, run_dirs

pytestmark = pytest.mark.long

#: One of a secret setting, one in a setting whose key looks like a secret.
TOKEN, KEY = (f"planted-{secrets.token_hex(12)}" for _number in range(2))


def spellings() -> list[bytes]:
    """Each secret as it is, in base64 and in hexadecimal digits."""
    texts = [word.encode() for word in (TOKEN, KEY)]
    return [form for text in texts for form in (text, base64.b64encode(text)[:20], text.hex().encode())]


def holders(*places: Path) -> list[str]:
    """Return the files below these places that hold a secret."""
    files = [path for place in places for path in ([place] if place.is_file() else place.rglob("*"))]
    return [str(path) for path in files if path.is_file() and any(form in path.read_bytes() for form in spellings())]


def end_in_the_load(run: subprocess.Popen[bytes], log: Path) -> None:
    """Interrupt a run when its load has begun, and wait for its end."""
    deadline = time.monotonic() + 400
    while b" submitted" not in log.read_bytes():
        assert run.poll() is None and time.monotonic() < deadline, log.read_text(encoding="utf-8")
        time.sleep(0.2)
    os.killpg(run.pid, signal.SIGINT)
    assert run.wait(300) != 0, "it was interrupted"


def test_no_file_and_no_output_holds_a_secret(rehearsal: support.Rehearsal, tmp_path: Path) -> None:
    runs, log = tmp_path / "runs", tmp_path / "outputs" / "run"
    log.parent.mkdir()
    cluster = [
        "-e",
        "cluster_provider=existing",
        "-e",
        f"cluster_kubeconfig={rehearsal.kubeconfig}",
        "-e",
        "doctor_fail=false",
    ]
    pods = json.dumps({"fine_tuning_environment": {"HUB_API_KEY": KEY}, "fine_tuning_run_seconds": 60})
    words = ["-vvv", "-e", "preset=light", "-e", pods, *cluster]
    env = {"SEATRIAL_FINE_TUNING_MODEL_TOKEN": TOKEN}
    end_in_the_load(begin(*words, artifacts=runs, log=log, env=env), log)
    [run_dir] = run_dirs(runs)
    assert list(run_dir.glob("points/*/ledger.jsonl")), "it was interrupted before its load"
    others = {
        "doctor": [*words[1:], "-e", "doctor_project=fine_tuning"],
        "replot": ["-vvv", "-e", f"source={run_dir}"],
        "compare": ["-vvv", "-e", f"runs={run_dir},{run_dir}"],
    }
    for project, arguments in others.items():
        done = play(*arguments, artifacts=runs, project=project, env=env)
        (log.parent / project).write_text(done.output, encoding="utf-8")
        assert "Traceback" not in done.output, done.output
    assert len(run_dirs(runs)) >= 2, "a replot is a folder of its own"
    assert holders(runs, log.parent) == []
    (tmp_path / "control").write_text(f"x {base64.b64encode(KEY.encode()).decode()}", encoding="utf-8")
    assert holders(tmp_path / "control"), "the search finds a secret"

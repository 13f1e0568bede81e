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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rehearsal as support
import suite_prerequisites
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.secret_gate import SecretScanner
from ansible_collections.perfscale.seatrial.plugins.module_utils._care import pod_logs
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import cluster_lifecycle
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
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


#: What a pod prints that has the secret in its environment: as it is, as base64 in one line, in lines of which two
#: share it, and of those again, in hexadecimal digits, in JSON, and at the end of its log, which a status has too.
PRINTS = """
echo "token: $TOKEN"; printf %s "$TOKEN" | base64; printf %s "$TOKEN" | od -An -tx1 | tr -d ' \\n'; echo
printf 'first: line of a configuration\\npassword: %s\\nlast: line\\n' "$TOKEN" | base64
printf 'first: line of a configuration\\npassword: %s\\nlast: line\\n' "$TOKEN" | base64 | base64
echo "{\\"event\\": \\"{\\\\\\"token\\\\\\": \\\\\\"$TOKEN\\\\\\"}\\"}"; echo "end of the log $TOKEN"; exit 1
"""


def printing_pod() -> dict[str, Any]:
    """A pod of a real node that gets the secret from a Secret and prints it."""
    container = {
        "name": "main",
        "image": "localhost/seatrial/base:trixie",
        "command": ["bash", "-c", PRINTS],
        "env": [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "planted", "key": "token"}}}],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "prints", "namespace": "default", "labels": {"app": "prints"}},
        "spec": {
            "restartPolicy": "Never",
            "nodeSelector": {"perfscale.seatrial/real": "true"},
            "tolerations": [{"key": "perfscale.seatrial/real", "operator": "Exists"}],
            "containers": [container],
        },
    }


@pytest.mark.skipif(bool(suite_prerequisites.real_node_lacks()), reason=suite_prerequisites.real_node_lacks())
def test_the_log_of_a_real_pod_that_prints_a_secret_does_not_hold_it(
    own_instance: Callable[..., cluster_lifecycle.RehearsalOptions], tmp_path: Path
) -> None:
    info = cluster_lifecycle.create_or_repair_instance(own_instance("planted", components=["node"]), support.quiet)
    planted = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "planted", "namespace": "default"}}
    with Client.from_kubeconfig(info["kubeconfig"]) as client:
        client.create({**planted, "stringData": {"token": TOKEN}})
        client.create(printing_pod())
        kind, deadline = client.kind("v1", "Pod"), time.monotonic() + 300
        while ((client.get(kind, "prints", "default") or {}).get("status") or {}).get("phase") != "Failed":
            assert time.monotonic() < deadline, "the pod has not ended"
            time.sleep(0.2)
        said = client.text("/api/v1/namespaces/default/pods/prints/log")
        assert TOKEN in said and len(said.splitlines()) >= 9, "it prints all of them"
        spec = pod_logs.LogCollectionSpec(str(tmp_path / "logs"), "default", "app=prints")
        pod_logs.LogCollection(client, spec, SecretScanner({"token": TOKEN})).run()
    [log] = (tmp_path / "logs").iterdir()
    kept = log.read_text(encoding="utf-8")
    assert "token: <secret>" in kept and "end of the log <secret>" in kept
    assert holders(log) == [] and SecretScanner({"token": TOKEN}).in_text(kept) == []

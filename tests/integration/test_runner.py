"""Started by ansible-runner as AWX starts a job, with variables as surveys give them. docs/awx.md tells of it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ansible_runner
import pytest
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils import _files
from playbook import ROOT, environment, run_dirs
from processes import open_ports, ports_of, traces


def job(
    folder: Path,
    tags: str,
    extra: dict[str, Any],
    env: dict[str, str] | None = None,
    cancelled: Callable[[], bool] = lambda: False,
) -> ansible_runner.Runner:
    """Run playbooks/fine_tuning.yml as a job template would, until it ends or ``cancelled`` says that it was."""
    folder.mkdir()
    (folder / "project").symlink_to(ROOT)
    told = {name: value for name, value in environment(folder).items() if name != "ARTIFACT_DIR"}
    # AWX puts the folder of what it synced before the paths of ansible.cfg.
    told["ANSIBLE_COLLECTIONS_PATH"] = f"{folder}/requirements_collections:{ROOT}/collections"
    return ansible_runner.run(
        private_data_dir=str(folder),
        playbook="playbooks/fine_tuning.yml",
        inventory=str(ROOT / "inventories" / "localhost"),
        extravars=extra,
        envvars={**told, **(env or {})},
        cmdline=f"--tags {tags}" if tags else None,
        cancel_callback=cancelled,
        quiet=True,
    )


def said(runner: ansible_runner.Runner) -> str:
    """What the job has printed."""
    return runner.stdout.read()


def test_a_survey_gives_lists_and_texts(tmp_path: Path) -> None:
    extra = {"preset": ["light", "keep"], "fine_tuning_count": "3", "run_artifacts_dir": str(tmp_path / "runs")}
    done = job(tmp_path / "job", "settings", extra, {"ANSIBLE_STDOUT_CALLBACK": "perfscale.seatrial.quiet"})
    assert (done.status, done.rc) == ("successful", 0), said(done)
    assert "TASK [" not in said(done)
    assert re.search(r"fine_tuning_count +3 +-e", said(done)) and "preset keep" in said(done)
    refused = job(tmp_path / "other", "settings", {**extra, "fine_tuning_count": "three"})
    assert refused.status == "failed" and 'fine_tuning_count is a whole number, and "three" is not' in said(refused)
    assert not run_dirs(tmp_path / "runs"), "to look at settings makes no run"


def test_the_credential_type_of_the_docs_injects_what_is_read() -> None:
    page = (ROOT / "docs" / "awx.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"<!-- test: credential type -->\n```yaml\n(.*?)```", page, re.DOTALL)
    injected = yaml.safe_load(text)["injectors"]
    settings = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    secrets = set(re.findall(r"^\| `(\w+)` \| str \| \*secret\*", settings, re.MULTILINE))
    assert {name.removeprefix("SEATRIAL_").lower() for name in injected["env"]} <= secrets
    assert all(f"| `{name}` |" in settings for name in injected["extra_vars"])


@pytest.mark.long
def test_a_cancelled_job_is_given_back_by_another_one(tmp_path: Path) -> None:
    runs, data = tmp_path / "runs", tmp_path / "data"
    extra = {"preset": ["light"], "run_artifacts_dir": str(runs), "rehearsal_data_dir": str(data)}
    begun = time.monotonic()

    def under_load() -> bool:
        assert time.monotonic() - begun < 300, "the load has not begun"
        return any(path.stat().st_size for path in runs.glob("*/points/001/ledger.jsonl"))

    cancelled = job(tmp_path / "job", "", extra, cancelled=under_load)
    assert cancelled.status == "canceled", said(cancelled)
    (run_dir,) = run_dirs(runs)
    assert str(run_dir) in "\n".join(said(cancelled).splitlines()[:20]), "the output says early where the run is"
    ports = [port for path in data.glob("*") for port in ports_of(path)]
    assert open_ports(ports), "the cluster is still up"

    back = {"run_dir": str(run_dir)}
    for turn in ("first", "second"):
        done = job(tmp_path / turn, "cleanup,release", back)
        assert (done.status, done.rc) == ("successful", 0), said(done)
    assert traces(data) == [] and open_ports(ports) == []
    assert [path.name for path in data.glob("*") if path.is_dir()] == []
    assert _files.read_yaml(run_dir / "cluster.yml")["clusters"]["sutest"]["state"] == "released"

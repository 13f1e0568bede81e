# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole playbooks: what a run holds is given back, and nothing is recorded before it is true."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import leftovers
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from playbook import PROGRAM, ROOT, Done, begin, environment, play, run_dirs
from processes import traces

SMALL = ["-e", "fine_tuning_api=job", "-e", "fake_gpu_nodes=2"]  # Jobs need no component


def give_back(run_dir: Path, **more: str) -> Done:
    """Run GIVE_BACK as somebody who has nothing but the file: another folder, a bare environment."""
    done = subprocess.run(
        ["sh", str(run_dir / "GIVE_BACK")],
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "HOME": str(Path.home()), "ANSIBLE_NOCOLOR": "1", **more},
        timeout=300,
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    return Done(done.returncode, done.stdout + done.stderr)


def cluster_of(run_dir: Path) -> dict[str, Any]:
    return files.read_yaml(run_dir / "cluster.yml")["clusters"]["sutest"]


def held(run_dir: Path) -> list[dict[str, Any]]:
    return files.read_yaml(run_dir / "run.yml")["held"]


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
        assert "nothing was touched" in refused.flat() and '"cluster_keep": false' in refused.flat()
        assert not list(run_dir.glob("*__cleanup__*")), "the clean-up did not begin"
        assert files.read_yaml(run_dir / "run.yml")["status"] == "passed", "nor did the session"
        given = give_back(run_dir)
        assert given.code == 0, given.output
        assert held(run_dir) == [] and cluster_of(run_dir)["state"] == "released"
        assert traces(tmp_path / "data") == []
    finally:
        leftovers.remove_all(tmp_path / "data")


def labelled(kubeconfig: str, run_id: str) -> list[str]:
    """The run's namespaces and ConfigMaps."""
    with Client.from_kubeconfig(kubeconfig) as client:
        query = {"labelSelector": f"perfscale.seatrial/run={run_id}"}
        lists = [client.request("GET", f"/api/v1/{kind}", query=query) for kind in ("namespaces", "configmaps")]
    return [one["metadata"]["name"] for listed in lists for one in listed["items"]]


@pytest.mark.long
def test_a_give_back_that_could_not_look_says_so_and_fails_until_a_kubeconfig_is_given(
    tmp_path: Path, rehearsal: Any
) -> None:
    """As on AWX, where each job gets the file of its credential at a new path."""
    first, second = tmp_path / "job-1", tmp_path / "job-2"
    first.write_bytes(Path(rehearsal.kubeconfig).read_bytes())
    words = ["-e", "preset=light", "-e", "cluster_provider=existing", "-e", "doctor_fail=false"]
    done = play(*words, "--tags", "cluster,prepare", "-e", f"cluster_kubeconfig={first}", artifacts=tmp_path / "runs")
    assert done.code == 0, done.output
    [run_dir] = run_dirs(tmp_path / "runs")
    run_id = files.read_yaml(run_dir / "run.yml")["id"]
    assert [one["what"].split()[0] for one in held(run_dir)] == ["objects"] and labelled(rehearsal.kubeconfig, run_id)
    first.rename(second)
    for _attempt in range(2):
        failed = give_back(run_dir)
        assert failed.code == 2 and "no longer exists" in failed.flat() and "-e cluster_kubeconfig=" in failed.flat()
        assert [one["what"].split()[0] for one in held(run_dir)] == ["objects"], failed.output
        assert files.read_yaml(run_dir / "run.yml")["phases"]["cleanup"]["status"] == "failed"
    assert labelled(rehearsal.kubeconfig, run_id)
    other = tmp_path / "other"
    other.write_text(second.read_text().replace("127.0.0.1", "127.0.0.2"), encoding="utf-8")
    refused = play(
        "--tags", "cleanup", "-e", f"run_dir={run_dir}", "-e", f"cluster_kubeconfig={other}", artifacts=tmp_path
    )
    assert refused.code == 2 and "leads to https://127.0.0.2" in refused.flat(), refused.output
    given = give_back(run_dir, KUBECONFIG=str(second))
    assert given.code == 0, given.output
    assert held(run_dir) == [] and cluster_of(run_dir)["state"] == "released"
    assert labelled(rehearsal.kubeconfig, run_id) == []
    assert give_back(run_dir).code == 0, "the server has said that nothing is left"


class Cut:
    """A run that is cut short under load."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data, self.tmp = folder, folder / "data", folder / "modules"
        self.tmp.mkdir()
        self.words = ["-e", f"rehearsal_data_dir={self.data}", "-e", "preset=light", "-e", "run_capture_seconds=120"]
        # Without pipelining each module needs the folder that is taken away, as on a disk that is full.
        self.environment = {"ANSIBLE_PIPELINING": "false", "ANSIBLE_REMOTE_TMP": str(self.tmp)}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> subprocess.Popen[bytes]:
        self.process = begin(*self.words, artifacts=self.folder / "runs", log=self.folder / "log", env=self.environment)
        self.await_load()
        return self.process

    def await_load(self) -> None:
        deadline = time.monotonic() + 300
        while not any(
            '"created"' in one.read_text() for one in (self.folder / "runs").glob("*/points/001/ledger.jsonl")
        ):
            assert time.monotonic() < deadline and (self.process is None or self.process.poll() is None), self.output()
            time.sleep(0.1)

    def output(self) -> str:
        path = self.folder / "log"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def run_dir(self) -> Path:
        [found] = run_dirs(self.folder / "runs")
        return found

    def assert_given_back(self, status: str) -> None:
        assert held(self.run_dir()) == [], self.output()
        assert files.read_yaml(self.run_dir() / "run.yml")["status"] == status
        deadline = time.monotonic() + 120
        while (left := traces(self.data)) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert left == []


@pytest.fixture
def cut(tmp_path: Path) -> Iterator[Cut]:
    made = Cut(tmp_path)
    yield made
    if made.process is not None and made.process.poll() is None:
        made.process.kill()
        made.process.wait()
    leftovers.remove_all(made.data)


def interrupt(one: Cut, process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGINT)


def terminate(one: Cut, process: subprocess.Popen[bytes]) -> None:
    for _time in range(2):  # as timeout(1) does, which tells the group and make, which tells us again
        os.killpg(process.pid, signal.SIGTERM)


@pytest.mark.parametrize("end", [pytest.param(interrupt, marks=pytest.mark.long), terminate])
def test_a_run_that_is_cut_short_gives_back_and_ends_with_the_command_that_does(
    end: Callable[[Cut, subprocess.Popen[bytes]], None], cut: Cut
) -> None:
    process = cut.start()
    end(cut, process)
    assert process.wait(timeout=300) != 0
    command = (cut.run_dir() / "GIVE_BACK").read_text(encoding="utf-8").strip()
    assert cut.output().splitlines()[-1] == f"  give back {command}", cut.output()
    cut.assert_given_back("interrupted")
    captured = files.read_json(cut.run_dir() / "capture" / "index.json")["captures"][-1]
    assert (captured["why"], captured["point"]) == ("after an interruption", "001"), "before anything was deleted"
    assert captured["notes"] == [] and "workloads-trainjob.jsonl" in [one["file"] for one in captured["files"]]


@pytest.mark.long
def test_a_second_interrupt_ends_the_session_that_gives_back(cut: Cut) -> None:
    process = cut.start()
    interrupt(cut, process)
    deadline = time.monotonic() + 120
    while "giving back what it holds" not in cut.output():
        assert time.monotonic() < deadline and process.poll() is None, cut.output()
        time.sleep(0.1)
    time.sleep(1.5)  # two at once count as one
    interrupt(cut, process)
    assert process.wait(timeout=120) != 0
    assert held(cut.run_dir()) and cut.output().splitlines()[-1].startswith("  give back "), cut.output()
    assert give_back(cut.run_dir()).code == 0
    cut.assert_given_back("interrupted")


# That modules need no such folder: test_a_folder_for_modules_that_can_not_be_used, in seconds.
@pytest.mark.long
def test_a_run_whose_temporary_folder_is_gone_goes_on_and_gives_back(cut: Cut) -> None:
    """Modules that Ansible packs would make the host unreachable; ours run from their own files."""
    process = cut.start()
    cut.tmp.rename(cut.folder / "away")
    cut.tmp.touch()
    assert process.wait(timeout=300) == 0, cut.output()
    assert "UNREACHABLE" not in cut.output()
    cut.assert_given_back("passed")


@pytest.mark.long
def test_a_run_whose_terminal_is_closed_gives_back(cut: Cut) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        command = [str(PROGRAM), "playbooks/fine_tuning.yml", *cut.words]
        os.execve(command[0], command, environment(cut.folder / "runs"))
    cut.await_load()
    os.close(terminal)
    os.waitpid(pid, 0)
    cut.assert_given_back("interrupted")


@pytest.mark.long
def test_what_stays_up_on_purpose_is_not_given_back(cut: Cut) -> None:
    cut.words += ["--tags", "cluster,prepare,test"]
    process = cut.start()
    interrupt(cut, process)
    assert process.wait(timeout=120) != 0
    assert [one["what"].split()[0] for one in held(cut.run_dir())] == ["rehearsal"]
    assert "giving back" not in cut.output() and cut.output().splitlines()[-1].startswith("  give back ")
    assert traces(cut.data)


def test_a_folder_for_modules_that_can_not_be_used_is_replaced_before_anything_is_taken(tmp_path: Path) -> None:
    words = ["--tags", "info", "-e", f"rehearsal_data_dir={tmp_path / 'data'}"]
    unusable = {"ANSIBLE_PIPELINING": "false", "ANSIBLE_REMOTE_TMP": "/proc/none"}
    done = play(*words, artifacts=tmp_path / "runs", project="cluster", env=unusable)
    assert done.code == 0 and "nothing is held" in done.flat(), done.output
    opened = play("--tags", "settings", artifacts=tmp_path / "runs", env=unusable)
    assert opened.code == 0 and "No folder can be created in /proc/none" in opened.flat(), opened.output
    refused = play("-e", "ansible_remote_tmp=/proc/none", artifacts=tmp_path / "no")
    assert refused.code == 2 and "-e ansible_remote_tmp=/proc/none: no folder can be created there" in refused.flat()
    assert run_dirs(tmp_path / "no") == []

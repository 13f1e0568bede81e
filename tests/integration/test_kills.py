# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asked to end at any moment, a run ends and gives back; killed, its printed command does. Nothing is left.

SEATRIAL_SIGNALS is the number of runs that are asked to end; a quarter of it is the number of those that are killed.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import leftovers
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from killed_runs import give_back
from playbook import run_dirs
from processes import open_ports, ports_of, traces
from rehearsal import Rehearsal
from terminal_run import Moment, TerminalRun, busy_machine

SIGNALS = int(os.environ.get("SEATRIAL_SIGNALS", "200"))
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
FIRST = int(os.environ.get("SEATRIAL_FIRST_SEED", "0"))
ENDED = [Moment.drawn(seed, ENDING) for seed in range(FIRST, FIRST + SIGNALS)]
KILLED = [Moment.drawn(10_000 + seed, (signal.SIGKILL,)) for seed in range(FIRST, FIRST + SIGNALS // 4)]

#: Seconds in which a run that was asked to end does so: 20 for Ansible, 120 for its tasks, the rest for giving back on
#: a busy machine.
LIMIT = 600.0


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[TerminalRun]]:
    """The runs of a test, with an own folder for rehearsal clusters."""
    runs: list[TerminalRun] = []
    yield runs
    for run in runs:
        run.stop()
    leftovers.remove_all(tmp_path / "rehearsal")


def own_cluster(tmp_path: Path, started: list[TerminalRun]) -> TerminalRun:
    words = ["-e", "preset=light", "-e", f"rehearsal_data_dir={tmp_path / 'rehearsal'}"]
    started.append(TerminalRun(words, tmp_path / "artifacts", tmp_path / "log"))
    return started[-1]


def end(run: TerminalRun, moment: Moment) -> None:
    """End the run and assert that it ends in time."""
    with busy_machine(moment.busy):
        run.end(moment)
        sent = time.monotonic()
        in_time = run.await_end(LIMIT)
    print(f"\n{moment}: {time.monotonic() - sent:.1f} s, exit code {run.code}", end="")
    print(", taken over" * ("Ansible has not ended" in run.output()))
    assert in_time, f"it hangs\n{run.output()[-6000:]}"


def assert_nothing_left(tmp_path: Path, ports: list[int]) -> None:
    deadline = time.monotonic() + 120  # a module that was killed with its run ends within seconds
    while traces(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert traces(tmp_path) == []
    assert open_ports(ports) == []
    assert [path.name for path in (tmp_path / "rehearsal").glob("[!.]*")] == []


def held_by(run_dir: Path) -> list[str]:
    """What a run holds by its record and its locks."""
    locks = [files.read_json(path) for path in run_dir.glob("lock-*.json")]
    held = [one["what"] for one in files.read_yaml(run_dir / "run.yml")["held"]]
    return held + [f"lock of {lock['holder']}" for lock in locks if lock["state"] == "held"]


def left_to_command(moment: Moment) -> bool:
    """Whether the user may have pressed Ctrl-C again while the run gave back, which leaves the rest to GIVE_BACK."""
    return moment.number == signal.SIGINT and moment.again is not None


@pytest.mark.long
@pytest.mark.parametrize("moment", ENDED, ids=str)
def test_a_run_that_is_asked_to_end_gives_back(moment: Moment, tmp_path: Path, started: list[TerminalRun]) -> None:
    run = own_cluster(tmp_path, started)
    end(run, moment)
    ports = [port for path in (tmp_path / "rehearsal").glob("[!.]*") for port in ports_of(path)]
    for run_dir in run_dirs(tmp_path / "artifacts"):
        if left_to_command(moment) and held_by(run_dir):
            assert give_back(run_dir).returncode == 0
        assert held_by(run_dir) == [], run.output()[-6000:]
    assert_nothing_left(tmp_path, ports)


@pytest.mark.long
@pytest.mark.parametrize("moment", KILLED, ids=str)
def test_nothing_is_left_after_the_give_back_command(
    moment: Moment, tmp_path: Path, started: list[TerminalRun]
) -> None:
    run = own_cluster(tmp_path, started)
    end(run, moment)
    ports = [port for path in (tmp_path / "rehearsal").glob("[!.]*") for port in ports_of(path)]
    for run_dir in run_dirs(tmp_path / "artifacts"):
        done = give_back(run_dir)
        assert done.returncode == 0, done.stdout[-6000:]
        assert held_by(run_dir) == [], done.stdout[-6000:]
    assert_nothing_left(tmp_path, ports)


@pytest.mark.long
@pytest.mark.parametrize("moment", ENDED[::8] + KILLED[::8], ids=str)
def test_nothing_is_left_on_a_cluster_of_others(
    moment: Moment, tmp_path: Path, started: list[TerminalRun], rehearsal: Rehearsal
) -> None:
    data = Path(rehearsal.info["data_dir"])
    words = ["-e", "preset=light", "-e", f"rehearsal_name={data.name}", "-e", f"rehearsal_data_dir={data.parent}"]
    started.append(TerminalRun(words, tmp_path / "artifacts", tmp_path / "log"))
    end(started[0], moment)
    for run_dir in run_dirs(tmp_path / "artifacts"):
        if moment.number == signal.SIGKILL or left_to_command(moment):
            done = give_back(run_dir)
            assert done.returncode == 0, done.stdout[-6000:]
        assert held_by(run_dir) == []
        run_id = files.read_yaml(run_dir / "run.yml")["id"]
        assert labelled(rehearsal.kubeconfig, run_id) == [], started[0].output()[-6000:]
    assert_nothing_left(tmp_path, [])


def labelled(kubeconfig: str, run_id: str) -> list[str]:
    """Objects of the run, of every kind that it makes or that is made for it."""
    client = Client.from_kubeconfig(kubeconfig)
    found = []
    for path in (
        "api/v1/namespaces",
        "api/v1/pods",
        "api/v1/configmaps",
        "api/v1/secrets",
        "api/v1/services",
        "api/v1/nodes",
        "apis/coordination.k8s.io/v1/leases",
        "apis/trainer.kubeflow.org/v1alpha1/trainjobs",
    ):
        listed = client.request("GET", f"/{path}", query={"labelSelector": f"perfscale.seatrial/run={run_id}"})
        found += [f"{path} {one['metadata']['name']}" for one in listed["items"]]
    return found


#: Signals while the settings are printed, when a worker writes a line after the other. Seconds each, so in every test.
PRINTING = [
    Moment("settings", 0.0, signal.SIGINT, "terminal", None, False),
    Moment("settings", 0.0, signal.SIGTERM, "group", 0.1, False),
    Moment("settings", 0.0, signal.SIGHUP, "terminal", None, False),
]


@pytest.mark.parametrize("moment", PRINTING, ids=str)
def test_a_session_that_prints_its_settings_ends(moment: Moment, tmp_path: Path, started: list[TerminalRun]) -> None:
    words = ["-e", "preset=light", "--tags", "settings"]
    started.append(TerminalRun(words, tmp_path / "artifacts", tmp_path / "log"))
    end(started[0], moment)
    assert_nothing_left(tmp_path, [])

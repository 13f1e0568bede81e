# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cuts of one failure end each by itself, and one whose guard was killed does not stay."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ProcessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import instance_dir
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.failures import (
    control_plane_failures,
    failure_guard_processes,
    kubelet_and_network_failures,
)

SERVER = "https://127.0.0.1:1"
#: A network with an interface as that of a pod.
POD = "ip link add eth0 type bridge && ip link set eth0 up && ip addr add 10.9.0.{0}/24 dev eth0 && exec sleep 120"
COMMANDS = [f"unshare -n sh -c '{POD.format(number)}' &" for number in (1, 2, 3, 4)]


def await_true(condition: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def lacks_networks() -> str:
    if not shutil.which("ip") or not shutil.which("unshare"):
        return "needs ip and unshare"
    made = subprocess.run(["unshare", "-Urn", "ip", "link", "add", "eth0", "type", "bridge"], check=False)
    return "this machine creates no networks for its users" if made.returncode else ""


@pytest.fixture
def instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[instance_dir.InstancePaths]:
    """A cluster whose real node runs four pods."""
    if lacks := lacks_networks():
        pytest.skip(lacks)
    found = instance_dir.InstancePaths(tmp_path, "mine")
    found.records.mkdir(parents=True)
    found.log_of("x").parent.mkdir(parents=True, exist_ok=True)
    node = subprocess.Popen(["unshare", "-Ur", "sh", "-c", f"{' '.join(COMMANDS)} wait"], start_new_session=True)
    monkeypatch.setattr(control_plane_failures, "find_rehearsal_cluster", lambda _server: found)
    monkeypatch.setattr(control_plane_failures, "instance_in_folder", lambda _path: found)
    monkeypatch.setattr(
        control_plane_failures, "running_processes", lambda _instance: {"node": SimpleNamespace(pid=node.pid)}
    )
    try:
        addresses = [f"10.9.0.{number}" for number in (1, 2, 3, 4)]
        await_true(
            lambda: len(kubelet_and_network_failures._processes_with_addresses(node.pid, addresses)) == 4, "no networks"
        )
        yield found
    finally:
        os.killpg(node.pid, signal.SIGKILL)
        node.wait(10)


def row(instance: instance_dir.InstancePaths, *numbers: int) -> dict[str, Any]:
    pods = [{"namespace": "ns", "name": f"p{number}", "address": f"10.9.0.{number}"} for number in numbers]
    before = {"instance": str(instance.path)}
    failure = {"number": 0, "kind": "network_cut", "target": f"ns/p{numbers[0]}", "duration": 60.0}
    return {**failure, "before": before, "pods": pods}


def cuts(failure: dict[str, Any]) -> list[bool]:
    instance = control_plane_failures.instance_in_folder(Path(failure["before"]["instance"]))
    node = control_plane_failures.running_processes(instance)["node"].pid
    return [kubelet_and_network_failures._is_cut(*pair) for pair in kubelet_and_network_failures._pairs(node, failure)]


def kill_guard(instance: instance_dir.InstancePaths, failure: dict[str, Any]) -> None:
    flag = failure_guard_processes.flag_file_of_guard(instance, kubelet_and_network_failures._guard_name(failure))
    os.kill(files.read_json(flag)["pid"], signal.SIGKILL)


def test_cuts_of_one_failure_end_each_by_itself(instance: instance_dir.InstancePaths) -> None:
    first, second = row(instance, 1, 2), row(instance, 3, 4)
    kubelet_and_network_failures.inject_pod_network_cut(first)
    kubelet_and_network_failures.inject_pod_network_cut(second)
    assert kubelet_and_network_failures.undo_pod_network_cut(SERVER, first)
    assert cuts(first) == [False, False] and cuts(second) == [True, True]
    assert kubelet_and_network_failures.undo_pod_network_cut(SERVER, second) and cuts(second) == [False, False]
    assert not kubelet_and_network_failures.undo_pod_network_cut(SERVER, second)


def test_a_cut_whose_guard_was_killed_is_undone(instance: instance_dir.InstancePaths) -> None:
    failure = row(instance, 1, 2)
    kubelet_and_network_failures.inject_pod_network_cut(failure)
    kill_guard(instance, failure)
    assert cuts(failure) == [True, True]
    assert kubelet_and_network_failures.undo_pod_network_cut(SERVER, failure) and cuts(failure) == [False, False]


def test_what_is_still_cut_is_not_recorded_as_undone(
    instance: instance_dir.InstancePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure = row(instance, 1, 2)
    kubelet_and_network_failures.inject_pod_network_cut(failure)
    kill_guard(instance, failure)
    monkeypatch.setattr(kubelet_and_network_failures, "_NETWORK_GUARD", "raise SystemExit('not permitted')")
    with pytest.raises(ProcessError, match="network of ns/p1 is still cut, and its guard has ended: not permitted"):
        kubelet_and_network_failures.undo_pod_network_cut(SERVER, failure)


def test_a_guard_that_cuts_nothing_names_the_failure_and_its_log(
    instance: instance_dir.InstancePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubelet_and_network_failures, "_NETWORK_GUARD", "sys.exit(3)")
    with pytest.raises(
        ProcessError,
        match=r"^network_cut of ns/p1 has not begun: its guard has ended with exit code 3; see .*-guard.log",
    ):
        kubelet_and_network_failures.inject_pod_network_cut(row(instance, 1, 2))
    assert not list(instance.records.iterdir())


def test_a_pod_that_has_ended_is_named(instance: instance_dir.InstancePaths) -> None:
    with pytest.raises(kubelet_and_network_failures.PodEnded, match=r"address 10.9.0.9 of pod p9"):
        kubelet_and_network_failures.inject_pod_network_cut(row(instance, 1, 9))
    assert not list(instance.records.iterdir())

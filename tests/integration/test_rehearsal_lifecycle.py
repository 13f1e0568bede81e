"""Instances that are started, broken, repaired and removed. Each test has instances of its own."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import rehearsal as support
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import OwnershipError, ProcessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters import cluster_properties
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import (
    cached_and_user_programs,
    cluster_lifecycle,
    component_selection,
    instance_processes,
    process_launch_plan,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from playbook import environment, play


def pids(options: cluster_lifecycle.RehearsalOptions) -> dict[str, int]:
    return {one.name: one.pid for one in instance_processes.list_running_processes(options.instance.path)}


def assert_gone(options: cluster_lifecycle.RehearsalOptions, used: dict[str, int]) -> None:
    """Nothing is left: no process, no port, no file."""
    assert instance_processes.list_running_processes(options.instance.path) == []
    for port in used.values():
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0
    root = Path(options.data_dir)
    left = [one.name for one in root.iterdir() if one.name.lstrip(".").startswith(options.name)]
    assert set(left) <= {f".{options.name}.gone"}


@pytest.fixture
def taker(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Listen, from the moment of its choice on, on each port whose name is the next in the list."""
    names: list[str] = []
    sockets: list[socket.socket] = []
    choose = instance_processes.choose_ports

    def taken(*words: Any) -> dict[str, int]:
        chosen = choose(*words)
        if names:
            sockets.append(socket.create_server(("127.0.0.1", chosen[names.pop(0)])))
        return chosen

    monkeypatch.setattr(instance_processes, "choose_ports", taken)
    yield names
    for one in sockets:
        one.close()


@pytest.mark.long
def test_a_port_that_another_program_takes_meanwhile_is_given_up(own_instance, taker: list[str]) -> None:
    options = own_instance("life-taken", components=[])
    taker += ["kube-apiserver.https", "kwok.https"]
    said: list[str] = []
    assert cluster_lifecycle.create_or_repair_instance(options, said.append)["ready"]
    given_up = [one for one in said if "choosing another port" in one]
    assert [one.partition(":")[0] for one in given_up] == ["kube-apiserver", "kwok"]
    assert all(f"of 127.0.0.1 is in use by process {os.getpid()} (python" in one for one in given_up)


@pytest.mark.long
def test_ports_that_are_taken_again_and_again_are_one_sentence(own_instance, taker: list[str]) -> None:
    taker += ["etcd.client"] * 3
    with pytest.raises(ProcessError) as raised:
        cluster_lifecycle.create_or_repair_instance(own_instance("life-never", components=[]), support.quiet)
    assert re.fullmatch(r"etcd: port \d+ of 127.0.0.1 is in use by process \d+ \(python[\d.]*\)", str(raised.value))


def test_a_process_that_was_dying_when_it_was_found_is_started(own_instance, monkeypatch: pytest.MonkeyPatch) -> None:
    options = own_instance("life-dying", components=[])
    cluster_lifecycle.create_or_repair_instance(options, support.quiet)
    victims = [pids(options)["kwok"]]
    wait = instance_processes.await_process_ready

    def waited(name: str, *words: Any) -> None:
        if name == "kwok" and victims:
            os.kill(victims[0], signal.SIGKILL)
            wait_until_ended(victims.pop())
        wait(name, *words)

    monkeypatch.setattr(instance_processes, "await_process_ready", waited)
    assert cluster_lifecycle.create_or_repair_instance(options, support.quiet)["changes"] == ["started kwok"]


#: A stand-in for Go whose build of a component ends when the cluster is ready.
GO = """#!/bin/sh
case "$1" in
version) echo "go version go1.30.1 linux/amd64" ;;
env) echo '{"GOCACHE": "", "GOMODCACHE": ""}' ;;
build)
    while [ "$1" != "-o" ]; do shift; done
    for _ in $(seq 1200); do
        if [ -e "$READY" ]; then echo built > "${2%/}/late"; exit 0; fi
        sleep 0.1
    done
    echo "the cluster waits for this build" >&2; exit 1 ;;
esac
"""


def test_a_new_cluster_starts_while_a_program_that_it_can_start_without_is_built(
    own_instance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds, cache, program = tmp_path / "components", tmp_path / "cache" / "rehearsal", tmp_path / "bin" / "go"
    for folder in (kinds / "late", cache, program.parent):
        folder.mkdir(parents=True)
    for one in (one for one in component_selection.load_all_components(support.COMPONENTS).values() if one.always):
        (kinds / one.name).symlink_to(one.folder)
        made = cached_and_user_programs.component_cache_folder(one, support.CACHE)
        (cache / made.name).symlink_to(made)
    build = {"module": "example.invalid/late", "binaries": {"late": "example.invalid/late"}}
    document = {"about": "a test", "version": "1.0.0", "build": build}
    (kinds / "late" / "component.yml").write_text(json.dumps(document), encoding="utf-8")
    (kinds / "late" / "go.mod").write_text("module late\n\ngo 1.26.0\n", encoding="utf-8")
    program.write_text(GO, encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("READY", str(tmp_path / "ready"))

    def say(line: str) -> None:
        if "is ready after" in line:
            (tmp_path / "ready").touch()

    options = own_instance("life-early", components=["late"])
    options = dataclasses.replace(options, cache_dir=str(cache.parent), components_dir=str(kinds))
    done = cluster_lifecycle.create_or_repair_instance(options, say)
    assert done["ready"] and "started kube-apiserver" in done["changes"]
    assert options.instance.marker().components == ["late"]
    status = Path(f"/proc/{pids(options)['kube-apiserver']}/status").read_text(encoding="ascii")
    (blocked,) = re.findall(r"^SigBlk:\t(\w+)$", status, re.MULTILINE)
    assert not int(blocked, 16) & 1 << (signal.SIGTERM - 1), "SIGTERM would not end it"


def test_two_side_by_side_one_broken_and_repaired_and_removed(own_instance) -> None:
    one, two = own_instance("life-one", owner="run-1"), own_instance("life-two", components=[])
    first = cluster_lifecycle.create_or_repair_instance(one, support.quiet)
    second = cluster_lifecycle.create_or_repair_instance(two, support.quiet)
    assert first["ready"] and second["ready"]
    ports = {name: process_launch_plan.read_ports(options.instance) for name, options in (("one", one), ("two", two))}
    assert not set(ports["one"].values()) & set(ports["two"].values())

    # A second present changes nothing at all.
    before = pids(one)
    again = cluster_lifecycle.create_or_repair_instance(one, support.quiet)
    assert (again["changed"], again["changes"], pids(one)) == (False, [], before)

    os.kill(before["kwok"], signal.SIGKILL)
    wait_until_ended(before["kwok"])
    broken = cluster_lifecycle.read_instance_state(one)
    assert broken["state"] == "partial"
    assert [row["name"] for row in broken["processes"] if not row["running"]] == ["kwok"]

    # What is in the cluster survives the death of its parts, and only the dead are started anew.
    assert cluster_lifecycle.create_or_repair_instance(one, support.quiet)["changes"] == ["started kwok"]
    with Client.from_kubeconfig(first["kubeconfig"]) as client:
        client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kept"}})
    for victims in (["etcd"], ["kube-apiserver", "kube-scheduler"]):
        before = pids(one)
        for victim in victims:
            os.kill(before[victim], signal.SIGKILL)
        # At once: the kernel may still be closing the sockets of the dead.
        repaired = cluster_lifecycle.create_or_repair_instance(one, support.quiet)
        assert repaired["changed"] and repaired["ready"]
        assert sorted(repaired["changes"]) == sorted(f"started {victim}" for victim in victims)
        after = pids(one)
        assert {name for name in before if before[name] != after[name]} == set(victims)
    with Client.from_kubeconfig(first["kubeconfig"]) as client:
        assert client.get(client.kind("v1", "Namespace"), "kept") is not None

    # Another run may use it, but not remove it.
    other = support.options(Path(one.data_dir), one.name, owner="run-2")
    assert not cluster_lifecycle.create_or_repair_instance(other, support.quiet)["owned"]
    with pytest.raises(OwnershipError, match="belongs to run run-1"):
        cluster_lifecycle.remove_instance(other, support.quiet)

    assert cluster_lifecycle.remove_instance(one, support.quiet)["changed"]
    assert_gone(one, ports["one"])
    assert not cluster_lifecycle.remove_instance(one, support.quiet)["changed"]
    assert cluster_lifecycle.read_instance_state(two)["ready"]


def test_started_twice_at_once_it_stands_there_once(own_instance) -> None:
    options = own_instance("life-twice", components=[])
    starters = [support.drive(options) for _number in range(2)]
    outputs = [one.communicate(timeout=600)[0].split() for one in starters]
    assert sorted(outputs) == [["go", "False"], ["go", "True"]]
    assert (
        len(instance_processes.list_running_processes(options.instance.path))
        == len(cluster_lifecycle.read_instance_state(options)["processes"])
        == 5
    )


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 12))])
def test_killed_while_it_starts_it_leaves_nothing_that_can_not_be_removed(own_instance, seed: int) -> None:
    options = own_instance(f"life-killed-{seed}", components=[])
    starter = support.drive(options)
    assert starter.stdout is not None and starter.stdout.readline() == "go\n"
    time.sleep(random.Random(seed).uniform(0, 5))
    os.kill(starter.pid, signal.SIGKILL)
    starter.wait()
    if seed % 2 == 0:
        # What is half there is completed.
        assert cluster_lifecycle.create_or_repair_instance(options, support.quiet)["ready"]
        assert len(instance_processes.list_running_processes(options.instance.path)) == 5
    ports = process_launch_plan.read_ports(options.instance)
    cluster_lifecycle.remove_instance(options, support.quiet)
    assert_gone(options, ports)


@pytest.fixture(scope="module")
def standing(rehearsal_folder: Path) -> Iterator[cluster_lifecycle.RehearsalOptions]:
    """An instance for the tests below, each of which leaves it whole; the last one loses it."""
    options = support.options(rehearsal_folder, "life-standing", components=[])
    cluster_lifecycle.create_or_repair_instance(options, support.quiet)
    yield options
    cluster_lifecycle.remove_instance(options, support.quiet)


def test_a_port_taken_by_another_program_while_it_was_down_is_given_up(
    standing: cluster_lifecycle.RehearsalOptions,
) -> None:
    before = process_launch_plan.read_ports(standing.instance)
    os.kill(pids(standing)["kube-scheduler"], signal.SIGKILL)
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        wait_until_free(taken, before["kube-scheduler.https"])
        taken.listen()
        changed: dict[str, Any] = cluster_lifecycle.create_or_repair_instance(standing, support.quiet)
    assert changed["changes"] == ["started kube-scheduler"]
    after = process_launch_plan.read_ports(standing.instance)
    assert {name for name in before if before[name] != after[name]} == {"kube-scheduler.https"}


def test_a_component_is_added_to_an_instance_that_runs(standing: cluster_lifecycle.RehearsalOptions) -> None:
    before = pids(standing)
    grown = cluster_lifecycle.create_or_repair_instance(
        support.options(Path(standing.data_dir), standing.name), support.quiet
    )
    assert "started training-operator" in grown["changes"]
    after = pids(standing)
    assert set(after) - set(before) == {"training-operator"}
    assert {name for name in before if before[name] != after[name]} == set()
    assert not cluster_lifecycle.create_or_repair_instance(standing, support.quiet)["changed"]


def test_processes_whose_folder_was_deleted_are_found_and_removed(
    standing: cluster_lifecycle.RehearsalOptions, tmp_path: Path
) -> None:
    ports, count = process_launch_plan.read_ports(standing.instance), len(pids(standing))
    standing.instance.path.rename(tmp_path / "elsewhere")
    with pytest.raises(OwnershipError, match=f"was deleted, but {count} of its processes still run"):
        cluster_lifecycle.create_or_repair_instance(standing, support.quiet)
    assert cluster_lifecycle.read_instance_state(standing)["state"] == "partial"
    assert cluster_lifecycle.remove_instance(standing, support.quiet)["changed"]
    assert_gone(standing, ports)


def wait_until_ended(pid: int) -> None:
    deadline = time.monotonic() + 120
    while processes.start_ticks_of(pid) is not None:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def wait_until_free(listener: socket.socket, port: int) -> None:
    deadline = time.monotonic() + 120
    while True:
        try:
            return listener.bind(("127.0.0.1", port))
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_the_playbook_ends_with_a_command_that_removes_the_cluster_from_any_folder(tmp_path: Path) -> None:
    data = tmp_path / "clusters of mine"
    words = ("-e", "rehearsal_name=printed", "-e", json.dumps({"rehearsal_data_dir": str(data)}))
    started = play(*words, artifacts=tmp_path, project="rehearsal")
    assert started.code == 0, started.output
    try:
        command = next(line for line in reversed(started.output.splitlines()) if "--tags absent" in line)
        command = command.strip().removeprefix("- ")
        subprocess.run(["/bin/sh", "-c", command], cwd="/", env=environment(tmp_path), check=True, timeout=300)
        assert not (data / "printed").exists()
    finally:
        cluster_lifecycle.remove_instance(support.options(data, "printed", force=True), support.quiet)


@pytest.mark.long
def test_a_component_gets_another_release_and_everything_else_goes_on(own_instance) -> None:
    options = own_instance("life-versions", components=["kueue"], versions={"kueue": "0.18.3"})
    said: list[str] = []
    assert cluster_lifecycle.create_or_repair_instance(options, said.append)["changed_versions"] == {"kueue": "0.18.3"}
    with Client.from_kubeconfig(options.instance.kubeconfig) as client:
        assert cluster_properties.changed_rehearsal_component_versions(client) == {"kueue": "0.18.3"}
    before = pids(options)

    kept = cluster_lifecycle.create_or_repair_instance(dataclasses.replace(options, versions={}), said.append)
    assert kept["changed_versions"] == {"kueue": "0.18.3"} and pids(options) == before

    own = cluster_lifecycle.create_or_repair_instance(dataclasses.replace(options, versions={"kueue": ""}), said.append)
    after = pids(options)
    assert own["ready"] and own["changed_versions"] == {}
    assert {name for name in before if before[name] != after[name]} == {"kueue"}
    with Client.from_kubeconfig(options.instance.kubeconfig) as client:
        assert cluster_properties.changed_rehearsal_component_versions(client) == {}

    of_a_run = dataclasses.replace(options, owner="t1", versions={"kueue": "0.18.3"})
    with pytest.raises(OwnershipError, match=r"0\.18\.3"):
        cluster_lifecycle.create_or_repair_instance(of_a_run, said.append)
    assert pids(options) == after

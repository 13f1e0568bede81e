"""An instance without its programs: who may remove it, what is said of it, what is stopped first."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import rehearsal as support
from ansible_collections.kubernetes.core.plugins.module_utils.client import discovery
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    InputError,
    OwnershipError,
    ProcessError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import (
    cluster_lifecycle,
    component_selection,
    component_spec,
    instance_dir,
    instance_processes,
    process_launch_plan,
    provide_component_programs,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal.instance_dir import (
    InstancePaths,
    seconds_since_boot,
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def made(data: Path, owner: str = "") -> InstancePaths:
    instance = InstancePaths(data, "tests")
    instance.create(owner, [])
    instance.create_directories()
    return instance


@pytest.mark.parametrize(
    ("owner", "asked", "words"),
    [
        ("run-1", "run-2", "belongs to run run-1, created .*: not removed for run run-2. rehearsal_force=true"),
        ("run-1", "", "belongs to run run-1, created .*: not removed. rehearsal_force=true"),
        ("", "run-2", r"belongs to no run \(it was started by hand\)"),
    ],
)
def test_an_instance_of_another_owner_is_not_removed(data: Path, owner: str, asked: str, words: str) -> None:
    instance = made(data, owner)
    with pytest.raises(OwnershipError, match=words):
        cluster_lifecycle.remove_instance(support.options(data, owner=asked), support.quiet)
    assert instance.marker() is not None


@pytest.mark.parametrize(("owner", "more"), [("run-1", {"owner": "run-1"}), ("", {}), ("run-1", {"force": True})])
def test_an_instance_is_removed_by_its_owner_or_by_force(data: Path, owner: str, more: dict[str, Any]) -> None:
    made(data, owner)
    assert cluster_lifecycle.remove_instance(support.options(data, **more), support.quiet)["changed"]
    assert [one.name for one in data.iterdir()] == [".tests.gone"]
    assert not cluster_lifecycle.remove_instance(support.options(data, **more), support.quiet)["changed"]


@pytest.fixture
def sleepers() -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Starts processes in place of ansible-playbook, which end with the test."""
    processes: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        processes.append(subprocess.Popen(["sleep", "600"]))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait()


def test_an_instance_passes_to_a_run_that_uses_it_and_goes_with_the_last(
    data: Path,
    started: list[component_spec.RehearsalComponent],
    sleepers: Callable[[], subprocess.Popen[bytes]],
) -> None:
    def of_run(number: int, pid: int = 0) -> cluster_lifecycle.RehearsalOptions:
        return support.options(data, owner=f"run-{number}", user_pid=pid)

    def release(number: int) -> list[str]:
        return list(cluster_lifecycle.set_instance_state(of_run(number), "released", support.quiet)["lines"])

    def owner() -> str | None:
        marker = of_run(1).instance.marker()
        return marker.owner if marker else None

    ended, alive, left = sleepers(), sleepers(), sleepers()
    for number, process in enumerate((sleepers(), ended, alive, left), start=1):
        cluster_lifecycle.create_or_repair_instance(of_run(number, process.pid), support.quiet)
    ended.kill()
    ended.wait()
    assert release(4) == ["rehearsal cluster tests is of run run-1 and stays"]
    assert release(1) == ["rehearsal cluster tests stays, because run run-3 uses it, which removes it"]
    assert owner() == "run-3"
    assert release(1) == ["rehearsal cluster tests is of run run-3 and stays"]
    assert release(3) == [] and owner() is None
    assert release(3) == []


def test_runs_that_were_killed_keep_no_instance(
    data: Path,
    started: list[component_spec.RehearsalComponent],
    sleepers: Callable[[], subprocess.Popen[bytes]],
) -> None:
    killed = sleepers()
    cluster_lifecycle.create_or_repair_instance(support.options(data, owner="run-1"), support.quiet)
    cluster_lifecycle.create_or_repair_instance(
        support.options(data, owner="run-2", user_pid=killed.pid), support.quiet
    )
    killed.kill()
    killed.wait()
    cluster_lifecycle.set_instance_state(support.options(data, owner="run-1"), "released", support.quiet)
    assert InstancePaths(data, "tests").marker() is None


def test_an_instance_that_was_started_by_hand_passes_to_nobody(
    data: Path,
    started: list[component_spec.RehearsalComponent],
    sleepers: Callable[[], subprocess.Popen[bytes]],
) -> None:
    cluster_lifecycle.create_or_repair_instance(support.options(data), support.quiet)
    by_run = support.options(data, owner="run-1", user_pid=sleepers().pid)
    cluster_lifecycle.create_or_repair_instance(by_run, support.quiet)
    done = cluster_lifecycle.set_instance_state(by_run, "released", support.quiet)
    assert done["lines"] == ["rehearsal cluster tests was started to stay and stays"]
    marker = by_run.instance.marker()
    assert marker and marker.owner == ""


@pytest.mark.parametrize("content", ["{", "[]", '{"run-2": 3}', '{"run-2": {"pid": "x", "ticks": 1}}'])
def test_a_damaged_record_of_users_keeps_no_instance(data: Path, content: str) -> None:
    instance = made(data, "run-1")
    (instance.path / instance_dir.USERS_FILE).write_text(content)
    cluster_lifecycle.set_instance_state(support.options(data, owner="run-1"), "released", support.quiet)
    assert instance.marker() is None


def test_a_start_that_was_on_its_way_when_the_instance_was_given_back_starts_nothing(data: Path) -> None:
    started = seconds_since_boot()
    assert not cluster_lifecycle.remove_instance(support.options(data, owner="run-1"), support.quiet)["changed"]
    late = support.options(data, owner="run-1", components=[], binaries_dir="/bin", started=started)
    with pytest.raises(ProcessError, match="tests was removed while its start was under way: nothing was started"):
        cluster_lifecycle.create_or_repair_instance(dataclasses.replace(late, binaries=programs()), support.quiet)
    assert InstancePaths(data, "tests").marker() is None


def test_a_later_start_or_another_run_is_not_hindered_by_an_end(data: Path) -> None:
    cluster_lifecycle.remove_instance(support.options(data), support.quiet)
    instance = InstancePaths(data, "tests")
    assert instance.was_removed_since(0, "")
    assert not instance.was_removed_since(seconds_since_boot(), "")
    assert not instance.was_removed_since(0, "another-run")
    (data / ".tests.gone").write_text("{")
    assert not instance.was_removed_since(0, "")


def test_old_notes_of_ends_are_swept(data: Path) -> None:
    cluster_lifecycle.remove_instance(support.options(data, "old"), support.quiet)
    hour_ago = time.time() - 3600
    os.utime(data / ".old.gone", (hour_ago, hour_ago))
    cluster_lifecycle.remove_instance(support.options(data), support.quiet)
    assert [one.name for one in data.iterdir()] == [".tests.gone"]


def programs() -> dict[str, str]:
    """Some executable for every program of the components that are always there."""
    known = component_selection.load_all_components(support.COMPONENTS)
    return {
        name: "/bin/true"
        for one in component_selection.select_required_components(known, [])
        for name in one.build.binaries
    }


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of Kueue, without Git and without programs."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "go.mod").write_text("module sigs.k8s.io/kueue\n")
    (folder / "a.go").write_text("package a\n")
    return folder


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[component_spec.RehearsalComponent]:
    """The components whose processes were to be started. Nothing is built or started; an instance counts as running."""
    components: list[component_spec.RehearsalComponent] = []

    def start(*arguments: Any) -> SimpleNamespace:
        components[:] = arguments[2]
        return SimpleNamespace(run=list)

    monkeypatch.setattr(provide_component_programs, "provide_component_programs", lambda *_arguments: ({}, False))
    monkeypatch.setattr(cluster_lifecycle, "InstanceProcessStarter", start)
    monkeypatch.setattr(cluster_lifecycle, "_is_running", lambda _instance: True)
    return components


def of_checkout(data: Path, checkout: Path, **more: Any) -> cluster_lifecycle.RehearsalOptions:
    sources = {"kueue": str(checkout)}
    return support.options(data, components=["kueue"], sources=sources, **more)


def test_a_checkout_that_is_edited_during_the_build_keeps_the_version_that_was_built(
    data: Path,
    checkout: Path,
    started: list[component_spec.RehearsalComponent],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = of_checkout(data, checkout)
    version = next(one for one in options.select(["kueue"]) if one.name == "kueue").version

    def build(*_arguments: Any) -> tuple[dict[str, Any], bool]:
        (checkout / "a.go").write_text("package a // edited\n")
        return {}, True

    monkeypatch.setattr(provide_component_programs, "provide_component_programs", build)
    result = cluster_lifecycle.create_or_repair_instance(options, support.quiet)
    assert next(one for one in started if one.name == "kueue").version == version
    assert result["changed_versions"] == {"kueue": version}
    marker = options.instance.marker()
    assert marker and marker.built == {"kueue": version}


@pytest.mark.parametrize("more", [{}, {"sources": {}}])
def test_a_run_does_not_rebuild_a_cluster_of_others_whose_checkout_was_edited(
    data: Path, checkout: Path, started: list[component_spec.RehearsalComponent], more: dict[str, Any]
) -> None:
    by_hand = of_checkout(data, checkout)
    cluster_lifecycle.create_or_repair_instance(by_hand, support.quiet)
    by_run = dataclasses.replace(by_hand, owner="run-1", **more)
    cluster_lifecycle.create_or_repair_instance(by_run, support.quiet)  # the same version

    (checkout / "a.go").write_text("package a // edited\n")
    started.clear()
    with pytest.raises(OwnershipError, match=f"its checkout {checkout}, which was changed since, gives .*content-"):
        cluster_lifecycle.create_or_repair_instance(by_run, support.quiet)
    assert not started
    cluster_lifecycle.create_or_repair_instance(by_hand, support.quiet)
    cluster_lifecycle.create_or_repair_instance(by_run, support.quiet)  # that version was started by hand


def test_a_run_gives_a_cluster_of_others_no_other_release(
    data: Path, started: list[component_spec.RehearsalComponent]
) -> None:
    by_hand = support.options(data, components=["kueue"])
    cluster_lifecycle.create_or_repair_instance(by_hand, support.quiet)
    kueue = next(one for one in started if one.name == "kueue")
    other = next(iter(kueue.versions))
    by_run = dataclasses.replace(by_hand, owner="run-1", versions={"kueue": other})
    with pytest.raises(OwnershipError, match=f"has kueue {kueue.version}, and this run gives {other}"):
        cluster_lifecycle.create_or_repair_instance(by_run, support.quiet)
    cluster_lifecycle.create_or_repair_instance(dataclasses.replace(by_run, owner=""), support.quiet)
    marker = by_hand.instance.marker()
    assert marker and marker.built == {"kueue": other}


@pytest.mark.parametrize("owner", ["", "run-1"])
def test_another_version_of_kubernetes_needs_a_new_cluster(
    data: Path, started: list[component_spec.RehearsalComponent], owner: str
) -> None:
    own = support.options(data, owner=owner)
    cluster_lifecycle.create_or_repair_instance(own, support.quiet)
    now = next(one for one in started if one.name == "control-plane")
    version = next(iter(now.versions))
    other = dataclasses.replace(own, versions={"control-plane": version})
    started.clear()
    with pytest.raises(InputError, match=f"has control-plane {now.version}, and .* {version}, which needs a new"):
        cluster_lifecycle.create_or_repair_instance(other, support.quiet)
    assert not started
    cluster_lifecycle.create_or_repair_instance(own, support.quiet)
    second = dataclasses.replace(other, name="second")
    for _again in range(2):
        cluster_lifecycle.create_or_repair_instance(second, support.quiet)
    with pytest.raises(InputError, match=f"has control-plane {version}, and .* {now.version}, which needs a new"):
        cluster_lifecycle.create_or_repair_instance(
            dataclasses.replace(second, versions={"control-plane": now.version}), support.quiet
        )


def test_a_folder_of_somebody_else_is_not_removed(data: Path) -> None:
    (data / "tests").mkdir(parents=True)
    (data / "tests" / "thesis.txt").write_text("all my work")
    for force in (False, True):
        with pytest.raises(OwnershipError, match="it is not a rehearsal cluster: nothing was changed"):
            cluster_lifecycle.remove_instance(support.options(data, force=force), support.quiet)
    assert (data / "tests" / "thesis.txt").exists()


def test_what_clients_cached_of_an_instance_goes_with_it(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    instance = made(data)
    files.write_json(instance.ports_file, {process_launch_plan.API_PORT: 6411})
    caches = []
    for port in (6411, 6412):
        client = SimpleNamespace(configuration=SimpleNamespace(host=f"https://127.0.0.1:{port}"))
        known = object.__new__(discovery.Discoverer)
        known.client = client
        key = hashlib.sha256(known._Discoverer__get_default_cache_id()).hexdigest()
        caches.append(tmp_path / f"k8srcp-{key}.json")
        caches[-1].touch()
    cluster_lifecycle.remove_instance(support.options(data), support.quiet)
    assert [one.exists() for one in caches] == [False, True]


def test_info_of_nothing_says_so_and_makes_nothing(data: Path) -> None:
    found = cluster_lifecycle.read_instance_state(support.options(data))
    assert (found["state"], found["ready"], found["changed"]) == ("absent", False, False)
    assert found["lines"] == [f"there is no rehearsal cluster tests in {data}"]
    assert not data.exists()


def test_info_of_an_instance_that_is_down_names_what_does_not_run(data: Path) -> None:
    made(data, "run-1")
    found = cluster_lifecycle.read_instance_state(support.options(data))
    assert found["state"] == "partial"
    assert found["lines"][0].startswith("rehearsal cluster tests is incomplete, not ready - etcd, ")
    assert any(line.startswith("belongs to run run-1, created ") for line in found["lines"])
    assert "etcd does not run, client port 0, peer port 0" in found["lines"]


def test_info_of_an_instance_names_the_versions_that_were_built(data: Path) -> None:
    instance = made(data, "run-1")
    marker = instance.marker()
    assert marker
    instance.update(dataclasses.replace(marker, built={"kueue": "0.18.3"}))
    found = cluster_lifecycle.read_instance_state(support.options(data))
    assert found["changed_versions"] == {"kueue": "0.18.3"}
    assert "in another version - kueue 0.18.3" in found["lines"]


def test_info_of_an_instance_does_without_the_folder_of_a_component_that_is_gone(data: Path, tmp_path: Path) -> None:
    instance = made(data, "run-1")
    marker = instance.marker()
    assert marker
    instance.update(dataclasses.replace(marker, components=[str(tmp_path / "kinds" / "x")]))
    found = cluster_lifecycle.set_instance_state(support.options(data), "queried", support.quiet)
    assert (found["state"], found["owner"]) == ("partial", "run-1")


def test_the_record_of_a_cluster_is_one_that_a_run_can_keep(data: Path) -> None:
    made(data, "run-1")
    found = cluster_lifecycle.read_instance_state(support.options(data, owner="run-1"))["cluster"]
    files.validate_schema_if_enabled("cluster/2", {"schema": "cluster/2", "clusters": {"sutest": found}})
    assert found["owned"] and found["simulated"] and found["simulated_writers"] == ["node"]
    assert not cluster_lifecycle.read_instance_state(support.options(data, owner="run-2"))["cluster"]["owned"]


def test_check_mode_says_what_would_change_and_changes_nothing(data: Path) -> None:
    options = support.options(data, binaries_dir="/bin")
    assert cluster_lifecycle.set_instance_state(options, "present", support.quiet, check=True)["changed"]
    assert not cluster_lifecycle.set_instance_state(options, "absent", support.quiet, check=True)["changed"]
    assert not data.exists()


def test_parameters_without_a_folder_of_components_are_refused() -> None:
    with pytest.raises(InputError, match="components_dir is empty"):
        cluster_lifecycle.RehearsalOptions.of(
            {"name": "x", "data_dir": "/x", "cache_dir": "/x", "components_dir": None}
        )


@pytest.mark.parametrize("value", ["~/.cache/seatrial", "/here/~/.cache/seatrial"])
def test_a_home_folder_that_there_is_none_of_is_refused(value: str) -> None:
    given = {"name": "x", "data_dir": "/x", "cache_dir": value, "components_dir": "/x"}
    with pytest.raises(InputError, match="rehearsal_cache_dir is '.*', but HOME is not set .* set HOME"):
        cluster_lifecycle.RehearsalOptions.of(given)


def test_what_started_last_is_stopped_first_and_the_unknown_before_all(data: Path) -> None:
    names = ["etcd", "kube-scheduler", "kube-apiserver", "old-operator", "kwok"]
    found = [instance_processes.RunningProcess(name, number, number, "/x") for number, name in enumerate(names)]
    order = cluster_lifecycle._stop_order(support.options(data), found)
    assert [[one.name for one in level] for level in order] == [
        ["old-operator"],
        ["kube-scheduler", "kwok"],
        ["kube-apiserver"],
        ["etcd"],
    ]


def test_ports_of_two_instances_differ_and_stay(data: Path) -> None:
    known = component_selection.load_all_components(support.COMPONENTS)
    wanted = component_selection.processes_of_components(component_selection.select_required_components(known, []))
    chosen = []
    for name in ("one", "two"):
        instance = InstancePaths(data, name)
        instance.create("", [])
        chosen.append(process_launch_plan.load_or_choose_ports(instance, wanted, set()))
        assert process_launch_plan.load_or_choose_ports(instance, wanted, set()) == chosen[-1]
    assert not set(chosen[0].values()) & set(chosen[1].values())


def given(**more: Any) -> dict[str, Any]:
    return {"name": "x", "data_dir": "/x", "cache_dir": "/x", "components_dir": "/x", **more}


def test_a_real_node_is_a_component_and_there_is_at_most_one() -> None:
    options = cluster_lifecycle.RehearsalOptions.of(given(nodes_real=1, components=["olm"]))
    assert options.components == ["olm", "node"]
    assert cluster_lifecycle.RehearsalOptions.of(given(nodes_real=0)).components == []
    for wrong in (-1, 2):
        with pytest.raises(InputError, match=f"rehearsal_nodes_real is {wrong}: 0 or 1 is required"):
            cluster_lifecycle.RehearsalOptions.of(given(nodes_real=wrong))


def test_a_machine_without_namespaces_is_refused_before_anything_is_made(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "unshare").write_text("#!/bin/sh\necho 'unshare: Operation not permitted' >&2\nexit 1\n")
    (programs / "unshare").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs) + ":/usr/bin:/bin")
    cache = tmp_path / "no-cache"
    options = dataclasses.replace(support.options(data, components=["node"]), cache_dir=str(cache))
    for call in (cluster_lifecycle.create_or_repair_instance, cluster_lifecycle.make_programs_available):
        with pytest.raises(InputError, match="permits .* no new namespaces.*Operation not permitted"):
            call(options, support.quiet)
    assert not cache.exists() and not options.instance.path.exists()


@pytest.mark.parametrize("mark", [{"components": ["kwok", "/tmp/mine"]}, {"sources": {"kueue": "/tmp/mine"}}])
def test_folders_that_only_the_file_of_an_instance_names_are_not_built(data: Path, mark: dict[str, Any]) -> None:
    instance = made(data, "run-1")
    marker = instance.marker()
    assert marker
    instance.update(dataclasses.replace(marker, **mark))
    with pytest.raises(InputError, match="was last started with /tmp/mine: give this again"):
        cluster_lifecycle.create_or_repair_instance(support.options(data), support.quiet)

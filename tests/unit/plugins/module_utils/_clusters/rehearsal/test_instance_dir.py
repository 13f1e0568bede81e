"""The folder of an instance: whose it is, and that it appears and goes as a whole."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    InputError,
    OwnershipError,
    ProcessError,
    WaitTimeout,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal.instance_dir import (
    InstancePaths,
    hold_file_lock,
    list_instance_markers,
)


@pytest.fixture
def instance(tmp_path: Path) -> InstancePaths:
    return InstancePaths(tmp_path / "data", "one")


def test_a_new_instance_carries_its_marker(instance: InstancePaths) -> None:
    made = instance.create("r1", ["training-operator"])
    assert instance.marker() == made
    assert (made.owner, made.components) == ("r1", ["training-operator"])
    assert stat.S_IMODE(instance.path.stat().st_mode) == 0o700


def test_a_folder_that_is_not_there_or_empty_has_no_marker(instance: InstancePaths) -> None:
    assert instance.marker() is None
    instance.path.mkdir(parents=True)
    assert instance.marker() is None
    instance.create("", [])
    assert instance.marker() is not None


def test_a_folder_with_files_of_others_is_refused(instance: InstancePaths) -> None:
    instance.path.mkdir(parents=True)
    (instance.path / "thesis.txt").write_text("all my work")
    with pytest.raises(OwnershipError, match="holds files but no instance.json.*nothing was changed"):
        instance.marker()


def test_an_instance_of_another_user_is_refused(instance: InstancePaths, monkeypatch: pytest.MonkeyPatch) -> None:
    instance.create("r1", [])
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(OwnershipError, match=f"{instance.path} belongs to another user.*nothing was changed"):
        instance.marker()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_no_instance_is_made_in_a_folder_whose_owner_could_replace_it(instance: InstancePaths) -> None:
    instance.root.mkdir()
    os.chown(instance.root, 65534, 65534)
    for act in (lambda: instance.create("r1", []), lambda: instance.lock(1).__enter__()):
        with pytest.raises(OwnershipError, match="belongs to another user.*Choose another rehearsal_data_dir"):
            act()
    assert not any(instance.root.iterdir())


def test_a_link_in_the_place_of_a_lock_is_refused_and_its_target_stays(instance: InstancePaths, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("all my work")
    instance.root.mkdir()
    (instance.root / f".{instance.name}.lock").symlink_to(tmp_path / "thesis.txt")
    with pytest.raises(ProcessError, match="can't be locked: Too many levels of symbolic links"), instance.lock(1):
        pass
    assert (tmp_path / "thesis.txt").read_text() == "all my work"


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"name": "one"}',
        json.dumps({"schema": "other/1", "name": "one", "owner": "", "created": "x", "components": []}),
        json.dumps({"schema": "rehearsal-instance/1", "name": "two", "owner": "", "created": "x", "components": []}),
    ],
)
def test_a_marker_that_is_not_ours_is_refused(instance: InstancePaths, text: str) -> None:
    instance.path.mkdir(parents=True)
    instance.marker_file.write_text(text)
    with pytest.raises(OwnershipError, match="instance.json"):
        instance.marker()


def test_a_file_or_link_in_its_place_is_refused(instance: InstancePaths, tmp_path: Path) -> None:
    other = InstancePaths(tmp_path / "data", "other")
    other.create("", [])
    instance.path.symlink_to(other.path)
    with pytest.raises(OwnershipError, match="is not a folder"):
        instance.marker()


@pytest.mark.parametrize("name", ["", "..", "a/b", "A", "-a", "a-", ".a", "a" * 41])
def test_a_name_that_could_lead_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="rehearsal_name"):
        InstancePaths(tmp_path, name)


def test_what_a_killed_creation_or_removal_left_is_swept(instance: InstancePaths) -> None:
    instance.root.mkdir()
    for left in (".one.new-x", ".one.old-7", ".two.new-x"):
        (instance.root / left).mkdir()
        (instance.root / left / "file").write_text("x")
    instance.create("", [])
    assert sorted(one.name for one in instance.root.iterdir()) == [".two.new-x", "one"]


def test_a_removed_instance_is_gone(instance: InstancePaths) -> None:
    instance.create("", [])
    instance.create_directories()
    instance.remove()
    assert list(instance.root.iterdir()) == []


def test_instances_are_listed_and_strangers_are_not(instance: InstancePaths, tmp_path: Path) -> None:
    instance.create("r1", [])
    (instance.root / "stranger").mkdir()
    (instance.root / "stranger" / "instance.json").write_text("{")
    assert [(one["name"], one["owner"]) for one in list_instance_markers(instance.root)] == [("one", "r1")]


def test_ports_of_other_instances_are_known_and_damaged_files_do_not_hurt(instance: InstancePaths) -> None:
    for name, text in (("one", '{"a": 1}'), ("two", '{"a": 2, "b": 3}'), ("three", "{")):
        folder = instance.root / name
        folder.mkdir(parents=True)
        (folder / "ports.json").write_text(text)
    assert instance.others_ports() == {2, 3}


def test_a_lock_is_held_by_one_and_names_its_holder(tmp_path: Path) -> None:
    words = rf"the thing: process {os.getpid()} has been working on it for over 0 s"
    with hold_file_lock(tmp_path / "lock", 1, "the thing"):
        again = hold_file_lock(tmp_path / "lock", 0, "the thing")
        with pytest.raises(WaitTimeout, match=words), again:
            pass


def test_a_lock_leaves_no_file(tmp_path: Path) -> None:
    with hold_file_lock(tmp_path / "lock", 1, "x"):
        assert (tmp_path / "lock").exists()
    assert list(tmp_path.iterdir()) == []


def test_many_who_wait_for_a_lock_get_it_one_after_the_other(tmp_path: Path) -> None:
    inside: list[int] = []
    most: list[int] = []

    def work(number: int) -> None:
        for _round in range(5):
            with hold_file_lock(tmp_path / "lock", 30, "x"):
                inside.append(number)
                most.append(len(inside))
                time.sleep(0.001)
                inside.remove(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert most == [1] * 20


def _hold(path: str, ready) -> None:
    with hold_file_lock(Path(path), 5, "x"):
        ready.set()
        time.sleep(60)


def test_a_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    holder = context.Process(target=_hold, args=(str(tmp_path / "lock"), ready))
    holder.start()
    assert ready.wait(120)
    os.kill(holder.pid, signal.SIGKILL)
    holder.join()
    with hold_file_lock(tmp_path / "lock", 5, "x"):
        pass


#: Removes the folder "old" as a user that is not root, which may enter all.
REMOVE = """
import os, sys
from pathlib import Path
sys.path[:0] = {path!r}
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import instance_dir
if os.geteuid() == 0:
    os.setgroups([])
    os.setresuid(12345, 12345, 12345)
instance_dir.remove_tree(Path("old"))
"""


def test_folders_that_their_owner_may_not_enter_are_removed(tmp_path: Path) -> None:
    folder = tmp_path / "old"
    (folder / "work" / "work").mkdir(parents=True)
    (folder / "upper" / "deep" / "er").mkdir(parents=True)
    (folder / "upper" / "deep" / "er" / "file").write_text("")
    if os.geteuid() == 0:
        for one in (tmp_path, folder, *folder.rglob("*")):
            os.chown(one, 12345, 12345)
    for closed in ("work/work", "upper/deep/er", "upper/deep"):
        (folder / closed).chmod(0)
    code = REMOVE.format(path=[one for one in sys.path if one])
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not folder.exists()

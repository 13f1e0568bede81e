"""Control groups of real nodes: found by name wherever they are, and removed when nothing runs in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ProcessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import instance_dir

INSTANCE = Path("/state/one")


@pytest.fixture
def hierarchy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree like /sys/fs/cgroup, with groups of two instances."""
    monkeypatch.setattr(instance_dir, "CGROUP_ROOT", tmp_path)
    name = instance_dir.control_group_name(INSTANCE)
    for folder in (f"cpu/{name}/kubepods/pod1", f"memory/{name}", f"memory/system.slice/{name}"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "cpu" / instance_dir.control_group_name(Path("/state/two"))).mkdir()
    return tmp_path


def test_the_name_is_that_of_the_folder_and_of_no_other() -> None:
    name = instance_dir.control_group_name(INSTANCE)
    assert name == instance_dir.control_group_name(INSTANCE) != instance_dir.control_group_name(Path("/other/one"))
    assert name.removeprefix("seatrial-").isalnum()


def test_all_groups_of_an_instance_are_removed_and_no_others(hierarchy: Path) -> None:
    assert instance_dir.remove_control_groups(INSTANCE)
    assert instance_dir.instance_control_groups(INSTANCE) == []
    left = [str(one.relative_to(hierarchy)) for one in hierarchy.rglob("*")]
    assert sorted(left) == [
        "cpu",
        f"cpu/{instance_dir.control_group_name(Path('/state/two'))}",
        "memory",
        "memory/system.slice",
    ]
    assert not instance_dir.remove_control_groups(INSTANCE)


def test_a_group_in_use_is_named(hierarchy: Path) -> None:
    group = hierarchy / "memory" / instance_dir.control_group_name(INSTANCE)
    (group / "busy").write_text("")
    with pytest.raises(ProcessError, match=f"still in use after 0 s: {group}$"):
        instance_dir.remove_control_groups(INSTANCE, patience=0)
    assert instance_dir.instance_control_groups(INSTANCE) == [group]


def test_a_machine_without_control_groups_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance_dir, "CGROUP_ROOT", Path("/no/such/folder"))
    assert not instance_dir.remove_control_groups(INSTANCE)

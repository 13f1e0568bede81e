"""Control groups of real nodes: found by name wherever they are, and removed when nothing runs in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ProcessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import control_groups

INSTANCE = Path("/state/one")


@pytest.fixture
def hierarchy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree like /sys/fs/cgroup, with groups of two instances."""
    monkeypatch.setattr(control_groups, "ROOT", tmp_path)
    name = control_groups.name_of(INSTANCE)
    for folder in (f"cpu/{name}/kubepods/pod1", f"memory/{name}", f"memory/system.slice/{name}"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "cpu" / control_groups.name_of(Path("/state/two"))).mkdir()
    return tmp_path


def test_the_name_is_that_of_the_folder_and_of_no_other() -> None:
    name = control_groups.name_of(INSTANCE)
    assert name == control_groups.name_of(INSTANCE) != control_groups.name_of(Path("/other/one"))
    assert name.removeprefix("seatrial-").isalnum()


def test_all_groups_of_an_instance_are_removed_and_no_others(hierarchy: Path) -> None:
    assert control_groups.remove(INSTANCE)
    assert control_groups.left(INSTANCE) == []
    left = [str(one.relative_to(hierarchy)) for one in hierarchy.rglob("*")]
    assert sorted(left) == ["cpu", f"cpu/{control_groups.name_of(Path('/state/two'))}", "memory", "memory/system.slice"]
    assert not control_groups.remove(INSTANCE)


def test_a_group_in_use_is_named(hierarchy: Path) -> None:
    group = hierarchy / "memory" / control_groups.name_of(INSTANCE)
    (group / "busy").write_text("")
    with pytest.raises(ProcessError, match=f"still in use after 0 s: {group}$"):
        control_groups.remove(INSTANCE, patience=0)
    assert control_groups.left(INSTANCE) == [group]


def test_a_machine_without_control_groups_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_groups, "ROOT", Path("/no/such/folder"))
    assert not control_groups.remove(INSTANCE)

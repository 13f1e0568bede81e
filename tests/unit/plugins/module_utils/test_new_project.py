"""A new project is the skeleton under another name; what is there is never changed."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils import _new_project
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError

ROOT = Path(__file__).resolve().parents[4]
SKELETON = ROOT / "roles" / "new_project" / "files" / "skeleton"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    for folder in ("roles", "playbooks/group_vars/all", "group_vars/all"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "galaxy.yml").touch()
    (tmp_path / "playbooks" / "_project.yml").touch()
    return tmp_path


def test_a_second_call_changes_nothing(clone: Path) -> None:
    first = _new_project.write(SKELETON, clone, "my_llm_test")
    second = _new_project.write(SKELETON, clone, "my_llm_test")
    assert (first["changed"], second["changed"]) == (True, False)
    assert first["files"] == second["files"]
    presets = clone / "playbooks/group_vars/all/my_llm_test_presets.yml"
    assert "smoke" in yaml.safe_load(presets.read_text(encoding="utf-8"))["my_llm_test_presets"]


def test_nothing_of_the_skeletons_name_is_left_and_every_setting_has_the_new_one(clone: Path) -> None:
    found = _new_project.write(SKELETON, clone, "my_llm_test")
    for name in found["files"]:
        assert "my_project" not in name + (clone / name).read_text(encoding="utf-8"), name
    defaults = yaml.safe_load((clone / "roles/my_llm_test/defaults/main.yml").read_text(encoding="utf-8"))
    assert {name for name in defaults if not name.startswith("my_llm_test_")} == {"cluster_acquired"}
    # A namespace may hold no underscore.
    assert defaults["my_llm_test_namespace"] == "my-llm-test-{{ run_id }}"


def test_a_dry_call_says_the_same_and_writes_nothing(clone: Path) -> None:
    found = _new_project.write(SKELETON, clone, "my_llm_test", dry=True)
    assert found["changed"] and not (clone / "roles" / "my_llm_test").exists()


def test_a_file_that_is_another_one_is_named_and_nothing_is_written(clone: Path) -> None:
    (clone / "playbooks" / "mine.yml").write_text("--- # mine\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"playbooks/mine\.yml exists and has other content"):
        _new_project.write(SKELETON, clone, "mine")
    assert list((clone / "roles").iterdir()) == []


@pytest.mark.parametrize("name", ["My_Test", "a-b", "9lives", "a__b", "x" * 31, "my_project", ""])
def test_a_name_that_can_not_be_one_is_refused(name: str, clone: Path) -> None:
    with pytest.raises(InputError, match="name '"):
        _new_project.write(SKELETON, clone, name)


def test_a_folder_that_is_no_clone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is no clone of the collection"):
        _new_project.write(SKELETON, tmp_path, "mine")

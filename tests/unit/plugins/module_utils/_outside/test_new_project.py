"""A new project is the skeleton under another name; what is there is never changed."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside import new_project
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.new_project import (
    OURS,
    NewProject,
    write_project_files,
)

SKELETONS = Path(__file__).resolve().parents[5] / "skeletons"
BOTH = pytest.mark.parametrize("collection", [OURS, "me.bench"])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder that can be a clone, and that of a new collection."""
    for folder in ("roles", "playbooks/group_vars/all", "group_vars/all"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "playbooks" / "_project.yml").touch()
    return tmp_path


def project(root: Path, collection: str = OURS, name: str = "my_llm_test") -> NewProject:
    if collection == OURS:
        (root / "galaxy.yml").touch()
    return NewProject(name, collection, root)


@BOTH
def test_a_second_call_changes_nothing(root: Path, collection: str) -> None:
    first = write_project_files(project(root, collection), SKELETONS)
    second = write_project_files(project(root, collection), SKELETONS)
    assert (first["changed"], second["changed"]) == (True, False)
    assert set(second["files"]) <= set(first["files"])
    assert first["diff"] == {"before": "", "after": "".join(f"{name}\n" for name in first["files"])}
    assert second["diff"]["before"] == second["diff"]["after"] != ""
    presets = root / "playbooks/group_vars/all/my_llm_test_presets.yml"
    assert "light" in yaml.safe_load(presets.read_text(encoding="utf-8"))["my_llm_test_presets"]
    assert presets.is_symlink() == (collection == OURS)


@BOTH
def test_nothing_of_the_skeletons_names_is_left_and_every_setting_has_the_new_one(root: Path, collection: str) -> None:
    found = write_project_files(project(root, collection), SKELETONS)
    for name in found["files"]:
        text = name + (root / name).read_text(encoding="utf-8")
        assert not [word for word in ("my_project", "my_namespace", "my_collection") if word in text], name
    defaults = yaml.safe_load((root / "roles/my_llm_test/defaults/main.yml").read_text(encoding="utf-8"))
    assert {name for name in defaults if not name.startswith("my_llm_test_")} == {"cluster_acquired"}
    # A namespace may hold no underscore.
    assert defaults["my_llm_test_namespace"] == "my-llm-test-{{ run_id }}"
    (play,) = yaml.safe_load((root / "playbooks/my_llm_test.yml").read_text(encoding="utf-8"))
    assert play["vars"] == {"run_role": f"{collection}.my_llm_test"}


def test_the_skeletons_words_may_be_part_of_a_name(root: Path) -> None:
    write_project_files(NewProject("a_my_collection", "my_namespace2.my_project", root), SKELETONS)
    assert yaml.safe_load((root / "galaxy.yml").read_text(encoding="utf-8"))["name"] == "my_project"
    assert (root / "roles" / "a_my_collection").is_dir()


def test_a_second_project_leaves_the_files_of_the_collection_alone(root: Path) -> None:
    write_project_files(project(root, "me.bench"), SKELETONS)
    (root / "README.md").write_text("mine", encoding="utf-8")
    found = write_project_files(project(root, "me.bench", "other"), SKELETONS)
    assert "roles/other/tasks/main.yml" in found["files"] and "README.md" not in found["files"]
    assert (root / "README.md").read_text(encoding="utf-8") == "mine"


@BOTH
def test_a_dry_call_says_the_same_and_writes_nothing(root: Path, collection: str) -> None:
    found = write_project_files(project(root, collection), SKELETONS, dry=True)
    assert found["changed"] and not (root / "roles" / "my_llm_test").exists()


def test_a_file_that_is_another_one_is_named_and_nothing_is_written(root: Path) -> None:
    (root / "playbooks" / "mine.yml").write_text("--- # mine\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"playbooks/mine\.yml exists and has other content"):
        write_project_files(project(root, name="mine"), SKELETONS)
    assert list((root / "roles").iterdir()) == []


@BOTH
@pytest.mark.parametrize("name", ["My_Test", "a-b", "9lives", "a__b", "x" * 31, "my_project", ""])
def test_a_name_that_can_not_be_one_is_refused(name: str, collection: str, root: Path) -> None:
    with pytest.raises(InputError, match="name '"):
        write_project_files(project(root, collection, name), SKELETONS)


def test_the_name_of_one_of_our_roles_is_refused_in_another_collection(root: Path) -> None:
    with pytest.raises(InputError, match=r"perfscale\.seatrial has a role of this name"):
        write_project_files(project(root, "me.bench", "workload"), SKELETONS)


@pytest.mark.parametrize("collection", ["me", "me.bench.more", "Me.bench", "me.9", "me-too.bench"])
def test_a_collection_that_can_not_be_one_is_refused(collection: str, root: Path) -> None:
    with pytest.raises(InputError, match=r"write <namespace>\.<collection>"):
        write_project_files(NewProject("mine", collection, root), SKELETONS)


def test_an_installed_archive_is_refused(root: Path) -> None:
    (root / "MANIFEST.json").touch()
    with pytest.raises(InputError, match="installing it again would delete the project"):
        write_project_files(project(root, "me.bench"), SKELETONS)


def test_a_folder_that_is_no_clone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is no clone of the collection.*-e namespace=me\.bench"):
        write_project_files(NewProject("mine", OURS, tmp_path), SKELETONS)


def test_the_words_of_the_skeletons_exist_in_them() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in SKELETONS.rglob("*") if path.is_file())
    assert all(word in text for word in (new_project.WORD, new_project.DASHED, "my_namespace", "my_collection"))

"""Names that a task uses for files are replaced by what the files hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.kinds import stage_definitions
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import read_workload_files, workload_kinds


def finder(folder: Path) -> read_workload_files.Find:
    def find(where: str, name: str) -> str:
        return str(folder / where / name)

    return find


def test_a_template_is_read_and_named_after_its_file(tmp_path: Path) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "job.yml.j2").write_text("kind: {{ name }}\n")
    given = [{"src": "job.yml.j2", "weight": 2}, {"src": "job.yml.j2", "name": "other"}, {"content": "x"}]
    assert read_workload_files.templates_with_content(given, finder(tmp_path)) == [
        {"name": "job", "weight": 2, "content": "kind: {{ name }}\n"},
        {"name": "other", "content": "kind: {{ name }}\n"},
        {"content": "x"},
    ]
    with pytest.raises(InputError, match="give src or content, not both"):
        read_workload_files.templates_with_content([{"src": "a", "content": "b"}], finder(tmp_path))


def test_the_name_of_a_kind_stands_for_the_shipped_definition(tmp_path: Path) -> None:
    own = {"kind": "Mine", "api_version": "v1", "stages": []}
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "mine.yml").write_text("kind: Mine\napi_version: v1\nstages: []\n")
    found: list[Any] = workload_kinds.resolve_stage_definitions(["PyTorchJob", "mine.yml", own], finder(tmp_path))
    assert [one["kind"] for one in found] == ["PyTorchJob", "Mine", "Mine"]
    with pytest.raises(InputError) as caught:
        workload_kinds.resolve_stage_definitions(["PytorchJobs"], finder(tmp_path))
    assert "did you mean 'PyTorchJob'?" in str(caught.value) and "write a folder with a kind.yml" in str(caught.value)
    (tmp_path / "files" / "mine.yml").write_text("- 1\n")
    with pytest.raises(DataError, match="a stage definition must be a dictionary"):
        workload_kinds.resolve_stage_definitions(["mine.yml"], finder(tmp_path))


def test_a_shipped_definition_may_be_used_with_other_keys(tmp_path: Path) -> None:
    (found,) = workload_kinds.resolve_stage_definitions([{"use": "Pod", "select": "owners"}], finder(tmp_path))
    assert (found["kind"], found["select"], "use" in found) == ("Pod", "owners", False)
    assert found["stages"] == workload_kinds.resolve_stage_definitions(["Pod"], finder(tmp_path))[0]["stages"]


def test_a_workload_may_be_complete_at_an_earlier_stage(tmp_path: Path) -> None:
    (found,) = workload_kinds.resolve_stage_definitions([{"use": "Job", "ends_at": "running"}], finder(tmp_path))
    ends = {one["name"]: one.get("ends") for one in found["stages"]}
    assert (ends["running"], ends["succeeded"], ends["started"]) == ("succeeded", "succeeded", None)
    assert "ends_at" not in found and stage_definitions.compile_stages_of_kind(found).ends
    (usual,) = workload_kinds.resolve_stage_definitions(["Job"], finder(tmp_path))
    assert {one["name"]: one.get("ends") for one in usual["stages"]}["running"] is None
    with pytest.raises(InputError, match=r"Job has no stage 'runing' \(did you mean 'running'\?\); there are"):
        workload_kinds.resolve_stage_definitions([{"use": "Job", "ends_at": "runing"}], finder(tmp_path))


def test_kinds_of_one_name_have_files_of_their_own(tmp_path: Path) -> None:
    usual, runai = workload_kinds.resolve_stage_definitions(["PodGroup", "RunaiPodGroup"], finder(tmp_path))
    assert usual["kind"] == runai["kind"] == "PodGroup" and usual["api_version"] != runai["api_version"]
    with pytest.raises(InputError, match="runaipodgroup"):
        workload_kinds.resolve_stage_definitions(["RunaiPodGroups"], finder(tmp_path))


def test_a_trace_is_read_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "monday.csv").write_text("offset\n1\n")
    given = {"type": "trace", "src": "monday.csv", "speed": 2}
    assert read_workload_files.arrival_with_trace(given, finder(tmp_path)) == {**given, "content": "offset\n1\n"}
    assert read_workload_files.arrival_with_trace({"rate": 3}, finder(tmp_path)) == {"rate": 3}


def test_what_is_no_list_is_left_to_the_module() -> None:
    assert workload_kinds.resolve_stage_definitions(None, finder(Path("/"))) is None
    assert read_workload_files.templates_with_content("text", finder(Path("/"))) == "text"


def test_a_file_that_no_role_has_is_relative_to_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path by -e reaches a role as it was written, because -e outranks the resolved setting."""
    for folder, name, text in (("tpl", "x.yaml.j2", "kind: X"), ("traces", "t.csv", "offset\n0\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(text)
    (tmp_path / "own.yml").write_text("{api_version: v1, kind: X, stages: []}")
    monkeypatch.chdir(tmp_path)

    def needle(_folder: str, name: str) -> str:
        raise AnsibleError(f"Could not find or access '{name}'")

    find = read_workload_files.with_working_directory_fallback(needle)
    options = {"templates": [{"src": "tpl/x.yaml.j2"}], "arrival": {"src": "traces/t.csv"}, "stages": ["own.yml"]}
    found = read_workload_files.submit_options_with_content(options, find)
    assert found["templates"][0]["content"] == "kind: X" and found["arrival"]["content"] == "offset\n0\n"
    assert found["stages"] == [{"api_version": "v1", "kind": "X", "stages": []}]
    with pytest.raises(AnsibleError, match="none.yml"):
        find("files", "none.yml")
    assert (
        read_workload_files.with_working_directory_fallback(lambda _folder, _name: "of a role")("files", "own.yml")
        == "of a role"
    )

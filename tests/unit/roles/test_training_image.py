"""The script that completes the image of trainings: a torch that its patches do not fit is never half patched."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
import yaml

COMPONENT = Path(__file__).parents[3] / "roles/rehearsal/files/components/training-image"


@pytest.fixture(scope="module")
def setup() -> ModuleType:
    spec = importlib.util.spec_from_file_location("training_image_setup", COMPONENT / "setup.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def torch(setup: ModuleType, tmp_path: Path) -> Path:
    """Return a folder with files of which only the patched lines are those of torch."""
    for name, old, times, _new in setup.PATCHES:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a", encoding="utf-8") as stream:
            stream.write(f"before\n{old * times}after\n")
    return tmp_path


def contents(folder: Path) -> dict[str, str]:
    return {str(one.relative_to(folder)): one.read_text() for one in folder.rglob("*.py")}


def test_every_patch_is_applied_once(setup: ModuleType, torch: Path) -> None:
    setup.patch(torch)
    found = contents(torch)
    assert all(new in found[name] for name, _old, _times, new in setup.PATCHES)
    assert sum(text.count("use_libuv=False") for text in found.values()) == 2
    with pytest.raises(ValueError, match="do not fit this torch"):
        setup.patch(torch)
    assert contents(torch) == found


@pytest.mark.parametrize("times", [0, 2])
def test_a_torch_that_a_patch_does_not_fit_stays_as_it_is(setup: ModuleType, torch: Path, times: int) -> None:
    name, old, _times, _new = setup.PATCHES[-1]
    (torch / name).write_text("x" + old * times)
    before = contents(torch)
    with pytest.raises(ValueError, match=f"static_tcp_rendezvous.py has .* {times} times, not 1: .* do not fit"):
        setup.patch(torch)
    assert contents(torch) == before


def test_the_dataset_has_the_columns_of_an_instruction_dataset(setup: ModuleType, tmp_path: Path) -> None:
    texts = setup.texts_of(Path(json.__file__).parents[1])
    setup.make_dataset(texts, tmp_path / "rows.jsonl")
    rows = [json.loads(one) for one in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert len(rows) == setup.ROWS
    for row in rows:
        assert row["text"].partition("\n### Response:\n") == (
            f"### Input:\n{row['input']}\n",
            "\n### Response:\n",
            row["output"],
        )


def test_every_package_of_pypi_is_pinned_by_version_and_hash() -> None:
    text = (COMPONENT / "requirements.txt").read_text().replace("\\\n", " ")
    lines = [one for one in text.splitlines() if one and not one.startswith("#")]
    assert len(lines) > 40
    assert [one for one in lines if "==" not in one or "--hash=sha256:" not in one] == []


def test_the_preset_downloads_from_the_server_of_the_component() -> None:
    objects = {one["kind"]: one for one in yaml.safe_load((COMPONENT / "objects.yml").read_text())}
    service, pod = objects["Service"], objects["Deployment"]["spec"]["template"]["spec"]
    server = f"http://{service['metadata']['name']}.{service['metadata']['namespace']}.svc.cluster.local"
    presets = yaml.safe_load((COMPONENT.parents[4] / "group_vars/all/fine_tuning_presets.yml").read_text())
    preset = presets["fine_tuning_presets"]["light_real"]
    assert preset["storage_registries"] == {"lab": f"{server}:8080/"}
    names = preset["fine_tuning_model_name"], preset["fine_tuning_dataset_name"]
    assert names == ("tiny-llama@lab", "tiny-text.jsonl@lab")
    (container,) = pod["containers"]
    # The server has the image from the start, the trainings pull theirs.
    assert container["image"] == preset["fine_tuning_image"].replace("localhost:5000/", "localhost/")
    # Two pods of one CPU each fill the smallest machine.
    assert "cpu" not in container["resources"]["requests"]

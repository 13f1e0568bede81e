"""The definition of the execution environment: ansible-builder makes a build context of it."""

from __future__ import annotations

from pathlib import Path

import execution_environment
import yaml
from common import ROOT
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

DEFINITION = yaml.safe_load((ROOT / "execution-environment.yml").read_text(encoding="utf-8"))


def test_ansible_builder_makes_a_build_context_with_the_built_collection(tmp_path: Path) -> None:
    made = execution_environment.context(tmp_path)
    text = (made / "Containerfile").read_text(encoding="utf-8")
    assert f'ARG EE_BASE_IMAGE="{DEFINITION["images"]["base_image"]["name"]}"' in text
    assert len(list((made / "_build" / "seatrial").glob("perfscale-seatrial-*.tar.gz"))) == 1
    assert text.index("requirements.yml --collections-path") < text.index("seatrial/perfscale-seatrial-*.tar.gz")
    assert (
        yaml.safe_load((made / "_build" / "requirements.yml").read_text())["collections"][0]["name"]
        == "kubernetes.core"
    )


def test_its_ansible_core_is_one_that_the_collection_supports() -> None:
    wanted = Requirement(DEFINITION["dependencies"]["ansible_core"]["package_pip"])
    supported = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    (ours,) = [Requirement(line.split("#")[0]) for line in supported if line.startswith("ansible-core")]
    for version in ("2.15.9", "2.18.9", "2.19.14", "2.20.0", "2.21.5", "2.22.0"):
        assert version not in wanted.specifier or version in ours.specifier
    runner = Requirement(DEFINITION["dependencies"]["ansible_runner"]["package_pip"])
    assert "2.4.0" not in runner.specifier and runner.specifier != SpecifierSet()


def test_the_collection_names_what_it_needs_in_any_other_execution_environment() -> None:
    own = yaml.safe_load((ROOT / "meta" / "execution-environment.yml").read_text(encoding="utf-8"))
    for kind in ("python", "system"):
        assert (ROOT / own["dependencies"][kind]).is_file()

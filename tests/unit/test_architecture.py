"""The code is built as docs/packages.yml says: which package imports which, no arrow runs back up, thin actions."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = ROOT / "plugins"
TABLE: dict[str, Any] = yaml.safe_load((ROOT / "docs" / "packages.yml").read_text(encoding="utf-8"))
PACKAGES, FOLDERS = TABLE["packages"], TABLE["plugins"]
BASE = "_base"
PREFIX = "ansible_collections.perfscale.seatrial.plugins."
LONGEST_ACTION = 60
Graph = Mapping[str, set[str]]


def sources() -> dict[str, ast.Module]:
    """Dotted name below plugins -> what is in the file."""
    found = {}
    for path in sorted(PLUGINS.rglob("*.py")):
        parts = path.relative_to(PLUGINS).with_suffix("").parts
        if parts[0] != "doc_fragments":
            name = ".".join(parts).removesuffix(".__init__")
            found[name] = ast.parse(path.read_text(encoding="utf-8"), str(path))
    return found


SOURCES = sources()


def imported(name: str, tree: ast.Module) -> Iterator[str]:
    """Files of ours that a file imports, also inside of its functions."""
    package = name if (PLUGINS / Path(*name.split("."))).is_dir() else name.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = importlib.util.resolve_name("." * node.level + (node.module or ""), PREFIX + package)
            targets = [f"{module}.{alias.name}" for alias in node.names]
        else:
            continue
        for target in (target.removeprefix(PREFIX) for target in targets if target.startswith(PREFIX)):
            yield target if target in SOURCES else target.rpartition(".")[0]


def package_of(name: str) -> str:
    """The package that a file belongs to: a folder of module_utils or of plugin_utils, or another folder of plugins."""
    parts = name.split(".")
    if parts[0] == "module_utils" and len(parts) > 1:
        return parts[1]
    return ".".join(parts[:2]) if parts[0] == "plugin_utils" else parts[0]


def part_of(name: str) -> str:
    """The folder inside its package that a file of module_utils belongs to; "" for a file directly in the package."""
    parts = name.split(".")
    return parts[2] if len(parts) > 2 and (PLUGINS / Path(*parts[:3])).is_dir() else ""


FILES: dict[str, set[str]] = {name: set(imported(name, tree)) for name, tree in SOURCES.items()}
ARROWS: dict[str, set[str]] = defaultdict(set)
PARTS: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
for _name, _targets in FILES.items():
    _package, _part = package_of(_name), part_of(_name)
    ARROWS[_package] |= {package_of(target) for target in _targets} - {_package}
    PARTS[_package][_part] |= {part_of(target) for target in _targets if package_of(target) == _package} - {_part}


def circle(graph: Graph) -> list[str]:
    """One circle of a graph, empty when there is none."""
    state: dict[str, int] = {}

    def follow(node: str, way: list[str]) -> list[str]:
        state[node] = 1
        for other in sorted(graph.get(node, ())):
            if state.get(other) == 1:
                return [*way[way.index(other) :], other] if other in way else [node, other]
            if other not in state and (found := follow(other, [*way, other])):
                return found
        state[node] = 2
        return []

    for start in sorted(graph):
        if start not in state and (found := follow(start, [start])):
            return found
    return []


def test_every_package_is_in_the_table_and_every_entry_is_there():
    assert sorted(ARROWS) == sorted([*PACKAGES, *FOLDERS])


def test_a_circle_is_found():
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_no_circle_of_files():
    assert circle(FILES) == []


def test_no_circle_of_packages():
    assert circle(ARROWS) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_base_and_exactly_what_the_table_says(package: str):
    assert sorted(ARROWS[package] - {BASE}) == sorted(PACKAGES[package]["uses"])


@pytest.mark.parametrize("package", PACKAGES)
def test_no_arrow_runs_back_up(package: str):
    order = list(PACKAGES)
    assert set(PACKAGES[package]["uses"]) <= set(order[: order.index(package)])


@pytest.mark.parametrize("package", [name for name in PACKAGES if name != BASE])
def test_the_parts_of_a_package_are_in_the_table_and_import_only_what_stands_above_them(package: str):
    order = ["", *PACKAGES[package].get("parts", [])]
    assert sorted(PARTS[package].keys() | {""}) == sorted(order)
    for part, targets in PARTS[package].items():
        assert targets <= set(order[: order.index(part)]), part


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_inside_a_package_are_relative_and_others_absolute(package: str):
    wrong = []
    for name, tree in SOURCES.items():
        if name.startswith("module_utils.") and package_of(name) == package:
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(
                    f"{PREFIX}module_utils.{package}."
                ):
                    wrong.append(f"{name}:{node.lineno}")
    assert wrong == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_of_plugins_imports_what_the_table_says(folder: str):
    uses = FOLDERS[folder]["uses"]
    if uses == "all":
        assert ARROWS[folder] <= set(PACKAGES)
    else:
        assert sorted(ARROWS[folder] - {BASE}) == sorted(uses)


def test_module_utils_need_no_ansible_on_the_target_but_its_module_utils():
    """Whatever else is imported of Ansible is there on the controller only."""
    wrong = []
    for name, tree in SOURCES.items():
        if not name.startswith(("module_utils", "modules")):
            continue
        for node in ast.walk(tree):
            found = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found += [one.name for one in node.names] if isinstance(node, ast.Import) else []
            wrong += [
                f"{name}: {one}"
                for one in found
                if one.partition(".")[0] == "ansible" and not one.startswith("ansible.module_utils")
            ]
    assert wrong == []


def test_action_plugins_are_thin():
    lines = {
        path.stem: len(path.read_text(encoding="utf-8").splitlines()) for path in (PLUGINS / "action").glob("*.py")
    }
    assert not {name: count for name, count in lines.items() if count > LONGEST_ACTION}


def providers() -> set[str]:
    """The folders of role cluster's tasks."""
    return {path.name for path in (ROOT / "roles" / "cluster" / "tasks").iterdir() if path.is_dir()}


def test_the_interface_to_clusters_knows_no_provider():
    """Only the file of the providers may name one."""
    known = providers()
    assert "rehearsal" in known
    knowing = set()
    for name, tree in SOURCES.items():
        parts = (("_clusters", ""), ("_clusters", "held"))
        if (package_of(name), part_of(name)) not in parts or name.endswith(".providers"):
            continue
        if any(isinstance(node, ast.Constant) and node.value in known for node in ast.walk(tree)):
            knowing.add(name.rpartition(".")[2])
    assert knowing == set()


def test_no_code_asks_whether_a_cluster_has_a_certain_provider():
    """What depends on the provider is an attribute or a method of it."""
    asking = [
        f"{name}:{node.lineno}"
        for name, tree in SOURCES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        for one in ast.walk(node)
        if isinstance(one, ast.Constant) and one.value in providers()
    ]
    assert asking == []


def test_a_class_name_stands_for_one_thing():
    found: dict[str, list[str]] = defaultdict(list)
    for name, tree in SOURCES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and node.name not in ("ActionModule", "LookupModule"):
                found[node.name].append(name)
    assert {one: where for one, where in found.items() if len(where) > 1} == {}


def test_a_file_name_stands_for_one_thing():
    found: dict[str, list[str]] = defaultdict(list)
    for name in SOURCES:
        first, _dot, last = name.rpartition(".")
        if first.startswith(("module_utils", "plugin_utils")):
            found[last].append(name)
    assert {one: where for one, where in found.items() if len(where) > 1} == {}


def test_every_file_that_the_architecture_page_names_is_there():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:plugins|playbooks|roles|tests)/[\w/]+\.(?:py|yml))`", text))
    assert len(named) > 40
    assert [one for one in sorted(named) if not (ROOT / one).is_file()] == []

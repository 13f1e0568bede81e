"""The code is built as docs/rooms.yml says: which part imports which, no arrow runs back up, thin actions."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = ROOT / "plugins"
TABLE: dict[str, Any] = yaml.safe_load((ROOT / "docs" / "rooms.yml").read_text(encoding="utf-8"))
GROUND, ROOMS, FOLDERS = (TABLE[key] for key in ("ground", "rooms", "plugins"))
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


def imported(tree: ast.Module) -> Iterator[str]:
    """Files of ours that a file imports, also inside of its functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            named = [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "relative imports are not used here"
            named = [f"{node.module}.{one.name}" for one in node.names]
        else:
            continue
        for name in (one.removeprefix(PREFIX) for one in named if one.startswith(PREFIX)):
            yield name if name in SOURCES else name.rpartition(".")[0]


def part_of(name: str) -> str:
    """The part that a file belongs to: a folder of plugins, or of module_utils a room or a file of the ground floor."""
    parts = name.split(".")
    return parts[1] if parts[0] == "module_utils" and len(parts) > 1 else parts[0]


FILES: dict[str, set[str]] = {name: set(imported(tree)) for name, tree in SOURCES.items()}
PARTS: dict[str, set[str]] = defaultdict(set)
for _name, _targets in FILES.items():
    PARTS[part_of(_name)] |= {part_of(one) for one in _targets} - {part_of(_name)}


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


def test_every_part_is_in_the_table_and_every_entry_is_there():
    assert sorted(PARTS) == sorted([*GROUND, *ROOMS, *FOLDERS])


def test_a_circle_is_found():
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_no_circle_of_files():
    assert circle(FILES) == []


def test_no_circle_of_parts():
    assert circle(PARTS) == []


@pytest.mark.parametrize("part", GROUND)
def test_the_ground_floor_imports_only_what_stands_above_it_in_the_table(part: str):
    order = list(GROUND)
    assert PARTS[part] <= set(order[: order.index(part)])


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_the_ground_floor_and_exactly_what_the_table_says(room: str):
    assert sorted(PARTS[room] - set(GROUND)) == sorted(ROOMS[room]["uses"])


@pytest.mark.parametrize("room", ROOMS)
def test_no_arrow_runs_back_up(room: str):
    order = list(ROOMS)
    assert set(ROOMS[room]["uses"]) <= set(order[: order.index(room)])


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_of_plugins_imports_what_the_table_says(folder: str):
    uses = FOLDERS[folder]["uses"]
    if uses == "all":
        assert PARTS[folder] <= {*GROUND, *ROOMS}
    else:
        assert sorted(PARTS[folder] - set(GROUND)) == sorted(uses)


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
    """Only the provider modules may name a provider."""
    known = providers()
    assert "rehearsal" in known
    knowing = set()
    for name, tree in SOURCES.items():
        if part_of(name) not in ("_cluster", "_held_clusters") or name.rpartition(".")[2].startswith("provider_"):
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

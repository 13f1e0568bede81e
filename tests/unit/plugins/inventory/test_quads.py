# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory of a lease: which files it takes, what it refuses, the groups it fills, when its cache is too old."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleParserError
from ansible.inventory.data import InventoryData
from ansible.parsing.dataloader import DataLoader
from ansible_collections.perfscale.seatrial.plugins.inventory import quads
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab import lab_inventory
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.compat import ansible_core

ROOT = Path(__file__).parents[4]
LEASE = {"lease_id": "t1-a", "assignment_id": 7, "expires_at": "2999-01-01T00:00:00+00:00"}
OPTIONS: dict[str, Any] = {
    "api_url": "https://quads.example.com",
    "username": "",
    "validate_certs": True,
    "ca_path": None,
    "timeout": 60,
    "lease_id": "t1-a",
    "assignment_id": None,
    "cloud": None,
    "lease_file": None,
    "inventory_url": None,
    "group": "quads",
    "roles": [{"name": "worker", "count": 1}, {"name": "rest"}],
    "bmc": False,
    "strict": False,
    "compose": {},
    "groups": {},
    "keyed_groups": [],
    "cache": True,
}


def plugin(**given: Any) -> Any:
    one = quads.InventoryModule()
    options = {**OPTIONS, **given}
    one.get_option = lambda name: options[name]
    one.inventory = InventoryData()
    one.loader = DataLoader()
    one._cache = {}
    return one


def found(**lease: Any) -> dict[str, Any]:
    asked = {name: OPTIONS[name] for name in quads.SERVER_AND_LEASE}
    about = {"model": "R650"}
    machines = {f"h{number}": {"about": about, "vars": {"quads_model": "R650"}} for number in (1, 2, 10)}
    return {"asked": asked, "lease": {**LEASE, **lease}, "common": {"quads_lease": "t1-a"}, "machines": machines}


@pytest.mark.parametrize(("name", "taken"), [("a.quads.yml", True), ("quads.yaml", True), ("hosts.yml", False)])
def test_only_files_of_its_name_are_taken(tmp_path: Path, name: str, taken: bool) -> None:
    (tmp_path / name).touch()
    assert quads.InventoryModule().verify_file(str(tmp_path / name)) is taken


@pytest.mark.parametrize("given", [{"lease_id": None}, {"cloud": "cloud02"}])
def test_exactly_one_lease_must_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any]
) -> None:
    one = plugin(**given)
    monkeypatch.setattr(one, "_read_config_data", lambda _path: None)
    monkeypatch.setattr(one, "load_cache_plugin", lambda: None)
    path = str(tmp_path / "quads.yml")
    with pytest.raises(
        AnsibleParserError, match=f"{path}: which machines. Give one of lease_id, assignment_id and cloud"
    ):
        one.parse(one.inventory, one.loader, path, cache=False)


def test_machines_are_put_into_the_groups_in_the_order_of_the_rules() -> None:
    one = plugin()
    one._fill(found())
    groups = one.inventory.get_groups_dict()
    assert (groups["worker"], groups["rest"]) == (["h1"], ["h2", "h10"])
    assert sorted(groups["quads"]) == ["h1", "h10", "h2"]
    assert one.inventory.hosts["h1"].vars["quads_model"] == "R650"
    assert one.inventory.groups["quads"].vars["quads_lease"] == "t1-a"


def test_no_value_of_the_server_is_a_template(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before version 2.19 Ansible renders each text of an inventory plugin that is not marked."""

    class Marked(str):
        __slots__ = ()

    def mark(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: mark(entry) for key, entry in value.items()}
        return [*map(mark, value)] if isinstance(value, list) else Marked(value)

    monkeypatch.setattr(ansible_core, "HAS_TAGS", False)
    monkeypatch.setattr(ansible_core.unsafe_proxy, "wrap_var", mark)
    one = plugin()
    content = found()
    content["machines"]["h1"]["vars"] = {"quads_model": "{{ 1 + 1 }}", "quads_pxe_interfaces": ["{{ 1 + 1 }}"]}
    one._fill(content)
    values = [*one.inventory.groups["quads"].vars.values()]
    values += [value for host in ("h1", "h2") for name, value in one.inventory.hosts[host].vars.items() if "q" in name]
    texts = [text for value in values for text in (value if isinstance(value, list) else [value])]
    assert len(texts) == 4 and all(isinstance(text, Marked) for text in texts), texts


def test_the_cache_serves_the_same_question_until_the_lease_ends() -> None:
    one = plugin()
    one._cache["key"] = found()
    assert one._cached("key") == found()
    assert one._cached("other") is None
    one.get_option = {**OPTIONS, "lease_id": "t2-b"}.__getitem__
    assert one._cached("key") is None
    one.get_option = OPTIONS.__getitem__
    one._cache["key"] = found(expires_at="2020-01-01T00:00:00+00:00")
    assert one._cached("key") is None


@pytest.mark.parametrize(("name", "written"), [("lease_file", "lease.yml"), ("ca_path", "../inventory/ca.pem")])
def test_a_path_is_relative_to_the_file_wherever_the_command_runs(tmp_path: Path, name: str, written: str) -> None:
    folder, elsewhere = tmp_path / "inventory", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    (elsewhere / Path(written).name).touch()  # of the same name, where the command runs
    file = folder / "my.quads.yml"
    given = f"plugin: perfscale.seatrial.quads\napi_url: https://127.0.0.1:1\ncloud: cloud02\n{name}: {written}\n"
    file.write_text(given)
    done = subprocess.run(
        [Path(sys.executable).with_name("ansible-inventory"), "-i", file, "--list"],
        cwd=elsewhere,
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"), "COLUMNS": "1000"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert f"{name}: {folder}/{written} does not exist" in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("end", "over"),
    [
        ("2026-11-22T21:00:00Z", "2026-11-22T21:00:00+00:00"),
        ("2026-11-22T21:00:00", "2026-11-23T09:00:00+00:00"),  # twelve hours west of UTC
    ],
)
def test_a_cached_lease_is_over_at_its_end_in_every_possible_time_zone(end: str, over: str) -> None:
    moment = datetime.fromisoformat(over).timestamp()
    assert not lab_inventory.is_lease_expired({"expires_at": end}, moment - 1)
    assert lab_inventory.is_lease_expired({"expires_at": end}, moment)

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run holds: whatever no server has said to be gone."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, OwnershipError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters import clusters_of_run
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import held_resources
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import project_role

SINCE = "2026-11-21T05:00:00.000Z"
OWN = {"provider": "rehearsal", "name": "t1-abcdef", "owned": True, "state": "acquired"}
FOREIGN = {"provider": "existing", "api_host": "api.lab.example", "owned": False, "state": "acquired"}


def whats(folder: Path, **cluster: Any) -> list[str]:
    clusters_of_run.update_host_records(folder, ["sutest", "driver"], cluster)
    return [one["what"] for one in held_resources.resources_held(folder, SINCE)]


def test_an_owned_cluster_is_held_once_until_it_is_released(tmp_path: Path) -> None:
    assert held_resources.resources_held(tmp_path, SINCE) == []
    assert whats(tmp_path, **OWN) == ["rehearsal cluster t1-abcdef"]
    assert whats(tmp_path, state="failed") == ["rehearsal cluster t1-abcdef"]
    assert whats(tmp_path, state="released") == []


@pytest.mark.parametrize("state", ["acquiring", "failed"])
def test_a_cluster_that_nobody_knows_to_be_made_may_be_held(tmp_path: Path, state: str) -> None:
    assert whats(tmp_path, **{**OWN, "owned": False, "state": state}) == ["rehearsal cluster t1-abcdef"]
    assert whats(tmp_path, state="acquired") == [], "it is known as somebody else's"


@pytest.mark.parametrize("state", ["acquiring", "acquired", "failed", "released"])
def test_objects_on_a_cluster_of_others_are_held_until_a_clean_up_has_seen_none(tmp_path: Path, state: str) -> None:
    assert whats(tmp_path, **{**FOREIGN, "state": state}) == []
    assert whats(tmp_path, objects=True) == ["objects on cluster api.lab.example"]
    assert whats(tmp_path, objects=False) == []


def test_scaled_nodes_are_held_until_they_are_put_back(tmp_path: Path) -> None:
    entry = {"name": "workers-a", "created": False, "before": 1, "wanted": 3}
    memo = {"schema": "scaling/1", "sets": [entry], "namespaces": [{"name": "ns", "before": {}, "wanted": {}}]}
    files.write_json(tmp_path / "scaling.json", memo, "scaling/1")
    scaled = ["scaled MachineSet workers-a", "namespace with dedicated nodes: ns"]
    assert whats(tmp_path, **{**FOREIGN, "state": "released"}) == scaled
    assert whats(tmp_path, **{**OWN, "state": "released"}) == [], "they went with the cluster"


def test_scaled_nodes_of_a_driver_are_held_until_they_are_put_back(tmp_path: Path) -> None:
    entry = {"name": "clients", "created": True, "before": 0, "wanted": 3}
    memo = {"schema": "scaling/1", "sets": [entry], "namespaces": []}
    files.write_json(tmp_path / "scaling-driver.json", memo, "scaling/1")
    assert whats(tmp_path, **{**FOREIGN, "state": "released"}) == ["scaled MachineSet clients of the driver"]
    assert whats(tmp_path, **{**OWN, "state": "released"}) == []


def test_access_to_a_registry_is_held_until_it_is_put_back(tmp_path: Path) -> None:
    manifest = {"kind": "ImageDigestMirrorSet", "metadata": {"name": "seatrial-r"}}
    inventory = {"schema": "registry/1", "mirrors": [{"manifest": manifest}], "secret": {"registries": ["quay.io/pre"]}}
    files.write_json(tmp_path / "registry.json", inventory, "registry/1")
    given = ["ImageDigestMirrorSet seatrial-r", "credentials of quay.io/pre in the pull secret of the cluster"]
    assert whats(tmp_path, **{**FOREIGN, "state": "released"}) == given
    assert whats(tmp_path, **{**OWN, "state": "released"}) == [], "they went with the cluster"


def test_monitoring_of_user_workloads_is_held_until_it_is_restored(tmp_path: Path) -> None:
    record = {"schema": "monitoring/1", "existed": False, "before": None, "wanted": "enableUserWorkload: true\n"}
    files.write_json(tmp_path / "monitoring.json", record, "monitoring/1")
    held = "monitoring of user workloads, which this run switched on"
    assert whats(tmp_path, **{**FOREIGN, "state": "released"}) == [held]
    assert whats(tmp_path, **{**OWN, "state": "released"}) == []


def test_what_ends_by_itself_says_who_ends_it(tmp_path: Path) -> None:
    clusters_of_run.update_host_records(tmp_path, ["sutest"], {**OWN, "provider": "hive_pool"})
    assert held_resources.resources_held(tmp_path, SINCE)[0]["ends"] == "Hive takes it back"


KEEP = {"cluster_keep": True}


def refuse(run_dir: Path, settings: dict, *tags: str) -> None:
    held_resources.refuse_release_of_kept_cluster(run_dir, settings, tags, "THE COMMAND")


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    values = {"provider": "rehearsal", "name": "one", "owned": True, "state": "acquired"}
    clusters_of_run.update_host_records(
        tmp_path, ["sutest", "driver"], {**values, "expires": "2026-11-23T04:00:00.000000Z"}
    )
    return tmp_path


def test_a_release_of_a_kept_cluster_is_refused_with_the_command_that_works(run_dir: Path) -> None:
    with pytest.raises(OwnershipError, match="rehearsal cluster one is kept .* until 2026.*nothing.*: THE COMMAND$"):
        refuse(run_dir, KEEP, "cleanup", "release")


def test_what_is_not_kept_not_asked_for_or_not_ours_is_not_refused(run_dir: Path) -> None:
    refuse(run_dir, {"cluster_keep": False}, "cleanup", "release")
    refuse(run_dir, KEEP, "cleanup")
    for change in ({"state": "released"}, {"state": "acquired", "owned": False}):
        clusters_of_run.update_host_records(run_dir, ["sutest", "driver"], change)
        refuse(run_dir, KEEP, "release")


ARGV = ["/bin/ansible-playbook", "playbooks/cluster.yml", "--tags", "reap"]


def run_directory(folder: Path, name: str, record: object) -> Path:
    directory = folder / name
    directory.mkdir()
    files.write_yaml(directory / "cluster.yml", {"schema": "cluster/2", "clusters": {}})
    files.write_yaml(directory / "run.yml", record)
    (directory / "GIVE_BACK").write_text("touch /tmp/never\n", encoding="utf-8")
    return directory


@pytest.mark.parametrize(
    ("project", "tags"),
    [("fine_tuning", "cleanup,release"), ("cluster", "release"), ("workload_scale", "cleanup,release")],
)
def test_the_command_is_that_of_the_project_with_the_files_of_this_session(
    tmp_path: Path, project: str, tags: str
) -> None:
    directory = run_directory(tmp_path, "with blanks", {"project": project, "give_back": "touch /tmp/never"})
    vault = tmp_path / "vault.yml"
    vault.write_text("{}\n", encoding="utf-8")
    cli = {
        "args": ["playbooks/cluster.yml"],
        "inventory": ["a,b"],
        "extra_vars": [f"@{vault}", "cluster_reap_dry_run=false"],
    }
    [(folder, command)] = held_resources.commands_by_run_directory(tmp_path, ARGV, cli).items()
    words = shlex.split(command)
    words = words[words.index("/bin/ansible-playbook") :]
    playbook = str((project_role.ROOT / "playbooks" / f"{project}.yml").resolve())
    assert folder == str(directory)
    assert words[:6] == ["/bin/ansible-playbook", playbook, "-i", "a,b", "-e", f"@{vault}"]
    assert words[6:8] == ["--tags", tags] and "touch" not in words and "cluster_reap_dry_run" not in command
    assert any(word.startswith("{") and json.loads(word)["run_dir"] == str(directory) for word in words)


@pytest.mark.parametrize(
    "record",
    [{"project": "../x"}, {"role": "no.such.role"}, {"role": "/tmp/my.role"}, {"project": "nosuch"}, [], "x", {}],
)
def test_a_run_of_a_project_that_is_not_installed_has_no_command(tmp_path: Path, record: object) -> None:
    run_directory(tmp_path, "t1121-abcdef", record)
    assert held_resources.commands_by_run_directory(tmp_path, ARGV, {}) == {}


def test_a_path_instead_of_a_role_has_no_command(tmp_path: Path) -> None:
    (tmp_path / "evil.yml").write_text("[]\n", encoding="utf-8")
    run_directory(tmp_path, "t1121-abcdef", {"role": str(tmp_path / "evil")})
    assert held_resources.commands_by_run_directory(tmp_path, ARGV, {}) == {}


@pytest.mark.parametrize(
    "text", ["", "x", "[]", "schema: lease/1", "state: held", "lease_id: t1121-abcdef\nstate: asking"]
)
def test_a_damaged_lease_file_is_an_error_and_not_no_lease(tmp_path: Path, text: str) -> None:
    (tmp_path / "lease.yml").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match="lease.yml is damaged: it has no "):
        held_resources.resources_held(tmp_path, SINCE)


@pytest.mark.parametrize("text", ["", "x", "[]", "{}", "clusters: []", "clusters: {sutest: 5}"])
def test_a_damaged_record_of_clusters_is_an_error_and_not_no_cluster(tmp_path: Path, text: str) -> None:
    (tmp_path / "cluster.yml").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match="cluster.yml is damaged: "):
        held_resources.resources_held(tmp_path, SINCE)

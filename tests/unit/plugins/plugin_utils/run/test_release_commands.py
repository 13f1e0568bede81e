# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command that gives back what a run holds comes from this session and the installed project, never from a file."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import release_commands
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import project_role

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
    [(folder, command)] = release_commands.commands_by_run_directory(tmp_path, ARGV, cli).items()
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
    assert release_commands.commands_by_run_directory(tmp_path, ARGV, {}) == {}


def test_a_path_instead_of_a_role_has_no_command(tmp_path: Path) -> None:
    (tmp_path / "evil.yml").write_text("[]\n", encoding="utf-8")
    run_directory(tmp_path, "t1121-abcdef", {"role": str(tmp_path / "evil")})
    assert release_commands.commands_by_run_directory(tmp_path, ARGV, {}) == {}

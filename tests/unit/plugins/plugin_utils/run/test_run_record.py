# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command that gives back what a run holds."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from ansible import constants
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import run_record


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to stand in, and an environment and a configuration of Ansible without anything."""
    monkeypatch.chdir(tmp_path)
    for name in (
        "ANSIBLE_CONFIG",
        "ANSIBLE_COLLECTIONS_PATH",
        "ANSIBLE_STDOUT_CALLBACK",
        "ANSIBLE_VAULT_PASSWORD_FILE",
        "XDG_STATE_HOME",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(constants, "CONFIG_FILE", None)
    for name in ("ansible-playbook", "play.yml", "hosts", "word", "secrets.yml"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def give_back(here: Path, secret_files: tuple[str, ...] = (), **cli: object) -> str:
    words = {"args": ("play.yml",), "inventory": ("hosts", "a,"), **cli}
    command = run_record.CommandLine(["ansible-playbook"], words, [], secret_files)
    return command.give_back(here / "run", "p", ["cleanup", "release"])


def test_the_give_back_command_is_complete_and_absolute(here: Path) -> None:
    tail = f"""--tags cleanup,release -e '{{"run_dir": "{here}/run", "cluster_keep": false}}'"""
    assert give_back(here) == f"{here}/ansible-playbook {here}/play.yml -i {here}/hosts -i a, {tail}"


def test_every_command_keeps_the_text_of_a_path(here: Path) -> None:
    """Executed by a shell and ansible-playbook: with blanks, quotes, a backslash, a line break and a template."""
    folder = here / "a b  'c' \"d\" \\e\\n {{ 7 * 7 }} {% x %} #f ;\nlast"  # Ansible expands "$HOME" itself
    folder.mkdir()
    program, play, hosts, secrets = (folder / name for name in ("ansible-playbook", "p.yml", "hosts", "secrets.yml"))
    program.symlink_to(Path(sys.executable).with_name("ansible-playbook"))
    tasks = [{"ansible.builtin.copy": {"content": "{{ [run_dir, step_dir, word, secret] }}", "dest": "{{ out }}"}}]
    play.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "connection": "local", "tasks": tasks}]))
    hosts.write_text(f"one out={here}/out ansible_python_interpreter={sys.executable} step_dir=- run_dir=- word=-\n")
    secrets.write_text("secret: kept\n")
    cli = {"args": (str(play),), "inventory": (str(hosts),), "extra_vars": (f"@{secrets}", '{"word": "a b"}')}
    command = run_record.CommandLine([str(program)], cli, [], [str(secrets)])
    line = {
        "give_back": command.give_back(folder / "$HOME run", "p", ["all"]),
        "role_call": command.role_call(play, folder / "step"),
        "again": shlex.join(command.again(folder / "$HOME run", "p", ["all"])),
    }
    seen = {}
    for name, text in line.items():
        done = subprocess.run(
            ["/bin/bash", "-c", f"PATH={os.defpath}; {text}"], capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, (name, text, done.stdout, done.stderr)
        seen[name] = json.loads((here / "out").read_text())
    assert seen == {
        "give_back": [f"{folder}/$HOME run", "-", "-", "kept"],
        "role_call": ["-", f"{folder}/step", "-", "kept"],
        "again": [f"{folder}/$HOME run", "-", "a b", "kept"],
    }


def test_the_give_back_command_opens_the_same_vaults(here: Path) -> None:
    cli = {"vault_password_files": ["word"], "vault_ids": ["lab@word", "home@prompt"], "ask_vault_pass": True}
    words = f"--vault-password-file {here}/word --vault-id lab@{here}/word --vault-id home@prompt --ask-vault-password"
    assert f" {words} --tags " in give_back(here, **cli)


def test_the_give_back_command_names_the_files_that_held_secrets(here: Path) -> None:
    assert f" -e @{here}/secrets.yml --tags " in give_back(here, ("secrets.yml",))


def test_the_give_back_command_finds_the_same_configuration(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "CONFIG_FILE", f"{here}/ansible.cfg")
    monkeypatch.setenv("ANSIBLE_COLLECTIONS_PATH", ".:/usr/share/collections")
    monkeypatch.setenv("XDG_STATE_HOME", "/state of mine")
    before = f"ANSIBLE_COLLECTIONS_PATH={here}:/usr/share/collections ANSIBLE_CONFIG={here}/ansible.cfg "
    assert give_back(here).startswith(f"{before}XDG_STATE_HOME='/state of mine' {here}/ansible-playbook ")


def test_the_give_back_command_leaves_out_an_inventory_that_does_not_exist(here: Path) -> None:
    assert " -i " not in give_back(here, inventory=("/etc/none/hosts",))


def test_the_give_back_command_prints_as_quietly_as_the_run(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSIBLE_STDOUT_CALLBACK", "perfscale.seatrial.quiet")
    assert give_back(here).startswith("ANSIBLE_STDOUT_CALLBACK=perfscale.seatrial.quiet ")
    monkeypatch.setenv("ANSIBLE_STDOUT_CALLBACK", "awx_display")
    assert "ANSIBLE_STDOUT_CALLBACK" not in give_back(here)


def test_a_copied_project_of_awx_has_the_revision_of_the_job(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROJECT_REVISION", "c0ffee")
    assert run_record.git_revision_and_changes(here) == {"revision": "c0ffee", "dirty": None}
    assert run_record.git_revision_and_changes(here.parent)["revision"] is None, (
        "what the project does not contain has another revision"
    )
    monkeypatch.delenv("PROJECT_REVISION")
    assert run_record.git_revision_and_changes(here)["revision"] is None

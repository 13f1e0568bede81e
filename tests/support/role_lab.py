"""Role cluster as a playbook uses it: a run directory, an inventory, and its entry points called one after another."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _files
from playbook import PROGRAM, ROOT, Done, environment

PLAY = """
- hosts: localhost
  gather_facts: false
  tasks:
    - ansible.builtin.include_role:
        name: "perfscale.seatrial.{{ role | default('cluster') }}"
        tasks_from: "{{ one }}"
        rolespec_validate: false
      loop: "{{ entries.split(',') }}"
      loop_control: {loop_var: one}
"""


class Lab:
    """A run directory, and a role called on it."""

    def __init__(self, folder: Path, run_id: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.run_id = folder, run_id
        self.run_dir = folder / "run"
        self.run_dir.mkdir()
        self.play = folder / "play.yml"
        self.play.write_text(PLAY, encoding="utf-8")
        self.inventory = folder / "hosts.yml"
        local = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
        _files.write_yaml(self.inventory, {"all": {"hosts": {"localhost": local}}})

    def run(self, entries: str, *words: str) -> Done:
        """Call these entry points."""
        facts = f"entries={entries} run_id={self.run_id} run_dir={self.run_dir}"
        command = [str(PROGRAM), "-i", str(self.inventory), str(self.play), "-e", facts, *words]
        where = environment(self.folder, {"ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections")})
        done = subprocess.run(
            command, cwd=self.folder, env=where, timeout=300, check=False, capture_output=True, text=True
        )
        return Done(done.returncode, done.stdout + done.stderr)

    @property
    def clusters(self) -> dict[str, Any]:
        """The run's record of its clusters."""
        return _files.read_yaml(self.run_dir / "cluster.yml")["clusters"]

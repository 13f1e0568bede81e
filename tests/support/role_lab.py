"""A run directory and an inventory, and role cluster called on them as a playbook would."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
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
    """Role cluster in a folder."""

    def __init__(self, folder: Path, run_id: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.run_id = run_id
        self.env: dict[str, str] = {}
        self.run_dir = folder / "run"
        self.run_dir.mkdir()
        self.play = folder / "play.yml"
        self.play.write_text(PLAY, encoding="utf-8")
        self.inventory = folder / "hosts.yml"
        self.hosts({})

    def hosts(self, more: dict[str, dict[str, Any]]) -> None:
        """Write the inventory."""
        local = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
        files.write_yaml(self.inventory, {"all": {"hosts": {"localhost": local, **more}}})

    def settings(self, **values: Any) -> list[str]:
        """Words of a command line that set these in the inventory's stead, where hosts may differ."""
        path = self.folder / "settings.json"
        path.write_text(json.dumps(values), encoding="utf-8")
        lab = {"vars": values, "hosts": {"localhost": None}}
        files.write_yaml(self.folder / "lab.yml", {"lab": lab})
        return ["-i", str(self.folder / "lab.yml")]

    def run(self, entries: str, *words: str) -> Done:
        """Call these entry points of the role one after the other."""
        facts = f"entries={entries} run_id={self.run_id} run_dir={self.run_dir}"
        command = [str(PROGRAM), "-i", str(self.inventory), *words, str(self.play), "-e", facts]
        where = environment(self.folder, {"ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"), **self.env})
        done = subprocess.run(
            command, cwd=self.folder, env=where, timeout=300, check=False, capture_output=True, text=True
        )
        return Done(done.returncode, done.stdout + done.stderr)

    @property
    def clusters(self) -> dict[str, Any]:
        """The record."""
        return files.read_yaml(self.run_dir / "cluster.yml")["clusters"]

    def everything(self) -> str:
        """The content of all files of the run and beside it, to search for secrets."""
        return "".join(path.read_text(errors="replace") for path in self.run_dir.rglob("*") if path.is_file())

    @staticmethod
    def first_line(folder: Path, text: str) -> str:
        """The time of the first line of an installer's log that holds this text."""
        log = (folder / "assets" / ".openshift_install.log").read_text(encoding="utf-8")
        return next(line for line in log.splitlines() if text in line).split('"')[1]

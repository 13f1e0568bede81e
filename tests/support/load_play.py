"""A play that runs role workload, as a controller does whose load runs on another host or in pods."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from load_world import SUSPENDED, World
from playbook import PROGRAM, ROOT, environment

PLAY = """
- hosts: localhost
  gather_facts: false
  tasks:
    - ansible.builtin.include_role:
        name: perfscale.seatrial.workload
        tasks_from: "{{ entry | default('main') }}"
        rolespec_validate: false
"""


class LoadPlay:
    """The play, its inventory and a run directory in ``folder``.

    hosts: further hosts of the inventory, with their variables. settings: of role workload, beside those of every load.
    """

    def __init__(self, world: World, folder: Path, hosts: dict[str, Any], settings: dict[str, Any]) -> None:
        self.world, self.folder = world, folder
        self.point = folder / "run" / "points" / "001"
        (folder / "run").mkdir()
        (folder / "play.yml").write_text(PLAY, encoding="utf-8")
        template = folder / "job.yml.j2"
        template.write_text(SUSPENDED, encoding="utf-8")
        local = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
        values = {
            "run_id": world.run_id,
            "run_dir": str(folder / "run"),
            "workload_kubeconfig": world.kubeconfig,
            "workload_context": "",
            "workload_namespace": world.namespace,
            "workload_simulated_writers": ["node"],
            "workload_templates": [{"src": str(template)}],
            "workload_wait": False,
            "workload_settle": 0.2,
            **settings,
        }
        inventory = {"all": {"hosts": {"localhost": local, **hosts}, "vars": values}}
        files.write_yaml(folder / "hosts.yml", inventory)

    def begin(self, log: str = "log", *words: str) -> subprocess.Popen[bytes]:
        """Start a controller in its own process group. Its output is appended to the file ``log``."""
        command = [str(PROGRAM), "-i", str(self.folder / "hosts.yml"), str(self.folder / "play.yml"), *words]
        where = environment(self.folder, {"ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections")})
        with open(self.folder / log, "ab") as stream:
            return subprocess.Popen(
                command, cwd=self.folder, env=where, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream,
                start_new_session=True,
            )  # fmt: skip

    def said(self, log: str = "log") -> str:
        """Return everything that controllers have written to ``log``, without line breaks."""
        return " ".join((self.folder / log).read_text(encoding="utf-8", errors="replace").split())

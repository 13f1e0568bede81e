# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands that give back what the runs in a directory hold, built from the present session.

The file GIVE_BACK is for people: whoever can write a file into a run directory must not be able to run a command.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters import run_cluster_records
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import project_role

from .run_record import CommandLine


def commands_by_run_directory(artifacts: Path, argv: list[str], cli: Mapping[str, Any]) -> dict[str, str]:
    """Return run directory -> command, for runs with a cluster whose project is installed here.

    argv, cli: the command line of this session, which gives the program, the inventories, the passwords of vaults and
    the files of ``-e @file``.
    """
    variable_files = [argument[1:] for argument in cli.get("extra_vars") or () if argument.startswith("@")]
    commands = {}
    for path in sorted(artifacts.glob(f"*/{run_cluster_records.FILE}")):
        try:
            record = files.read_yaml(path.parent / "run.yml")
            role = project_role.find_role(str(record.get("role") or record["project"]))
        except (DataError, InputError, KeyError, TypeError, AttributeError):
            continue
        playbook = role.root / "playbooks" / f"{role.project}.yml"
        if playbook.is_file():
            command_line = CommandLine(argv, {**cli, "args": [str(playbook)]}, [], variable_files)
            tags = ["cleanup", "release"] if project_role.variables_passed_by_playbook(playbook) else ["release"]
            commands[str(path.parent)] = command_line.give_back(path.parent, role.project, tags)
    return commands

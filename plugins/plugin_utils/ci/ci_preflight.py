# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a CI job could find out only at its end, checked before its playbook runs."""

from __future__ import annotations

import tempfile
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, nearest_file
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.project_role import ROOT

PLAYBOOKS = ROOT / "playbooks"
#: How the playbooks of this collection are named without a path.
FULL_NAME = "perfscale.seatrial."
#: What a playbook has that opens a run and judges it. A comparison has a verdict, too.
_OPENS_RUN, _COMPARES = "import_playbook: _project.yml", "compare.yml"


def check_playbook(playbook: str) -> None:
    """Raise InputError for a playbook of this collection that has no verdict, and for a path that leads to nothing.

    What a playbook of somebody else does is seen only when it has run.
    """
    named = playbook.startswith(FULL_NAME) and "/" not in playbook
    path = PLAYBOOKS / f"{playbook.removeprefix(FULL_NAME)}.yml" if named else Path(playbook)
    if not path.is_file():
        if "/" in playbook:
            raise InputError(f"there is no playbook {playbook}{nearest_file(path)}")
        return
    if path.resolve().parent != PLAYBOOKS.resolve() or path.name == _COMPARES:
        return
    if _OPENS_RUN not in path.read_text(encoding="utf-8"):
        raise InputError(
            f"{playbook} opens no run, whose verdict the exit status would be: only playbooks of projects, bisect.yml,"
            " ci.yml and compare.yml do. Run others with ansible-playbook"
        )


def check_junit_file(target: Path) -> None:
    """Create the folder of the JUnit file. Raises InputError if the file could not be written at the end."""
    if target.is_dir():
        raise InputError(f"--junit {target} is a folder: name a file")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=target.parent).close()
    except OSError as error:
        raise InputError(f"--junit {target}: no file can be created in its folder: {error.strerror}") from error

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each playbook refuses what Ansible would ignore: a tag that it does not have, a part of -e without a name."""

from __future__ import annotations

from pathlib import Path

import pytest

PLAYBOOKS = sorted((Path(__file__).parents[3] / "playbooks").glob("*.yml"))
#: What checks the command line: the settings of a run, the project's playbook, or the tasks for all others.
CHECKS = ("tasks_from: open\n", "import_playbook: _project.yml\n", "import_tasks: tasks/check_command_line.yml\n")


@pytest.mark.parametrize("path", PLAYBOOKS, ids=lambda path: path.stem)
def test_a_playbook_checks_its_command_line(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert any(check in text for check in CHECKS)
    # A step takes the settings of its role, and checks them itself.
    assert CHECKS[2] not in text or "        known_variables: [" in text or path.stem == "step"

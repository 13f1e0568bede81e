# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find a file in the role of a project."""

from __future__ import annotations

DOCUMENTATION = r"""
name: project_file
short_description: Find a file in the role of a project
version_added: 0.2.0
author:
  - The perfscale.seatrial authors (@perfscale)
description:
  - Returns the path of a file in the role of a project, whichever collection has the role. Nothing is returned for a
    role without this file.
  - Fails if the collection is not installed.
options:
  _terms:
    description: Roles of this collection, or full names of roles of any collection.
    required: true
    type: list
    elements: str
  path:
    description: Path of the file in the folder of the role.
    required: true
    type: str
"""

EXAMPLES = r"""
- name: Show where the KPI definitions of a project are
  ansible.builtin.debug:
    msg: "{{ query('perfscale.seatrial.project_file', 'me.bench.my_llm_test', path='files/kpis.yml') }}"
"""

RETURN = r"""
_raw:
  description: The paths of the files that exist.
  type: list
  elements: path
"""

from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import SeatrialError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import project_role


class LookupModule(LookupBase):
    """Lookup of files of projects."""

    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[str]:
        """Return the path of the file in each role that has it."""
        self.set_options(var_options=variables, direct=kwargs)
        try:
            paths = [project_role.find_role(str(name)).folder / self.get_option("path") for name in terms]
        except SeatrialError as error:
            raise AnsibleLookupError(str(error)) from error
        return [str(path) for path in paths if path.is_file()]

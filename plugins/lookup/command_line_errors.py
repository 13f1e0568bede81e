# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Say what is wrong with the variables that a command line gives."""

from __future__ import annotations

DOCUMENTATION = r"""
name: command_line_errors
short_description: Say which variable of the command line is no setting
version_added: 1.0.0
author:
  - The perfscale.seatrial authors (@perfscale)
description:
  - Looks at the variables that C(-e) gives. One that begins with the name of a role of this collection, or is very
    similar to a setting, is a typing error if there is no such setting. Ansible ignores it.
  - Other variables are accepted, because inventories and other collections may use them. So are those that begin with
    the name of a role of another collection that is installed, such as C(workload_llm_count) of role C(workload_llm).
options:
  _terms:
    description: Variables that the playbook has besides settings.
    required: true
    type: list
    elements: str
  role:
    description:
      - The role that the playbook calls. A variable that is the end of one of its settings, or of one of role
        P(perfscale.seatrial.cluster#role), such as C(project) of C(doctor_project), is an error, too.
    type: str
    default: ''
"""

EXAMPLES = r"""
- name: Check the variables of the command line
  ansible.builtin.assert:
    that: wrong | length == 0
    fail_msg: "{{ wrong | first }}"
  vars:
    wrong: "{{ query('perfscale.seatrial.command_line_errors', 'source', 'head', 'tail') }}"
"""

RETURN = r"""
_raw:
  description: A sentence, with the nearest setting; empty if nothing is wrong.
  type: list
  elements: str
"""

from typing import Any

from ansible.plugins.lookup import LookupBase
from ansible.utils.vars import load_extra_vars
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.project_role import (
    ROOT,
    roles_of_other_collections,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_catalogue import load_catalogue


class LookupModule(LookupBase):
    """Lookup of errors in the variables of the command line."""

    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[str]:
        """Return what is wrong."""
        catalogue = load_catalogue(ROOT)
        others = roles_of_other_collections() - catalogue.roles.keys()
        names = [
            name
            for name in load_extra_vars(self._loader)
            if name not in terms
            and not any(catalogue.is_presets(name, role) for role in catalogue.roles)
            and not any(name.startswith(f"{role}_") and len(role) > len(catalogue.role_of(name)) for role in others)
        ]
        role = str(kwargs.get("role") or "")
        for name, setting in ((name, f"{prefix}_{name}") for name in names for prefix in (role, "cluster") if role):
            if name not in catalogue.settings and setting in catalogue.settings:
                return [f"-e: unknown setting '{name}' (did you mean '{setting}'?)"]
        try:
            catalogue.check_names(names, "", "-e", known=terms)
        except InputError as error:
            return [str(error)]
        return []

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a kind of workload."""

from __future__ import annotations

DOCUMENTATION = r"""
name: workload_kind
short_description: Read a kind of workload
version_added: 1.0.0
author:
  - The perfscale.seatrial authors (@perfscale)
description:
  - Returns what the C(kind.yml) of a kind says, such as its API group, its plural and its parts. A kind is a folder in
    C(files/kinds/) of role workload or of the role of the project.
options:
  _terms:
    description: Names of kinds, in any case, or paths of their folders.
    required: true
    type: list
    elements: str
"""

EXAMPLES = r"""
- name: Show what is watched with a RayJob
  ansible.builtin.debug:
    var: lookup('perfscale.seatrial.workload_kind', 'RayJob').stages
"""

RETURN = r"""
_raw:
  description:
    - The kinds, each with C(name), C(kind), C(group), C(resource), C(references) (group, version and kind of each
      version), C(stages) (what O(perfscale.seatrial.workload_submit#module:stages) takes), C(endless), C(log),
      C(component), C(install) (what to do where a cluster lacks it) and C(definition) (of the stages).
  type: list
  elements: dict
"""

from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import SeatrialError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import workload_kinds


class LookupModule(LookupBase):
    """Lookup of kinds of workloads."""

    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[dict[str, Any]]:
        """Return one kind for each name."""
        try:
            places = workload_kinds.kind_folders_of_task(variables or {}, self._template)
            kinds = [workload_kinds.load_kind_by_name_or_path(str(name), places) for name in terms]
            return [kind.variables(workload_kinds.find_wrapped_kind(kind, places=places)) for kind in kinds]
        except SeatrialError as error:
            raise AnsibleLookupError(str(error)) from error

    def _template(self, value: Any) -> Any:
        """Render a value; there is a templar only when a template calls the lookup."""
        return self._templar.template(value)

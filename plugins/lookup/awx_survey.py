# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Return the survey of a project for AWX."""

from __future__ import annotations

DOCUMENTATION = r"""
name: awx_survey
short_description: Return the survey of a project for AWX
version_added: 1.0.0
author:
  - The perfscale.seatrial authors (@perfscale)
description:
  - Returns a survey for a job template or a workflow of AWX. Its first question is the presets of the project, and each
    other one a setting, with the type and the choices of its argument spec.
  - No question has a default, because AWX sends defaults as extra variables, which override every preset. The
    description of a question states the default of the setting.
options:
  _terms:
    description: Roles of this collection, or full names of roles of any collection.
    required: true
    type: list
    elements: str
  settings:
    description:
      - Settings to ask for. The default is those of the role's C(meta/outside.yml) that are numbers, texts or booleans.
    type: list
    elements: str
"""

EXAMPLES = r"""
- name: Show the questions for a run of fine-tuning jobs
  ansible.builtin.debug:
    var: lookup('perfscale.seatrial.awx_survey', 'fine_tuning', settings=['fine_tuning_count'])
"""

RETURN = r"""
_raw:
  description: The surveys, as option C(survey_spec) of module C(awx.awx.job_template) takes them.
  type: list
  elements: dict
"""

from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import SeatrialError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.ci import awx
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import project_role, settings_catalogue


class LookupModule(LookupBase):
    """Lookup of surveys."""

    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[dict[str, Any]]:
        """Return one survey for each project."""
        self.set_options(var_options=variables, direct=kwargs)
        try:
            return [self._survey(str(name), variables or {}) for name in terms]
        except SeatrialError as error:
            raise AnsibleLookupError(str(error)) from error

    def _survey(self, name: str, variables: dict[str, Any]) -> dict[str, Any]:
        role = project_role.find_role(name)
        catalogue = settings_catalogue.load_catalogue(project_role.ROOT, role)
        presets = awx.presets_by_name(role, variables, self._loader)
        return awx.project_survey_spec(role, catalogue, presets, self.get_option("settings"))

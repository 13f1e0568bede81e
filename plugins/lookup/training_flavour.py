# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a flavour of fine-tuning."""

from __future__ import annotations

DOCUMENTATION = r"""
name: training_flavour
short_description: Read a flavour of fine-tuning
version_added: 0.1.0
author:
  - The perfscale.seatrial authors (@perfscale)
description:
  - Returns what describes a flavour of fine-tuning, the C(flavour.yml) of its folder in C(files/flavours/) of role
    fine_tuning, with the text of its template.
options:
  _terms:
    description: Name of the flavour.
    required: true
    type: list
    elements: str
"""

EXAMPLES = r"""
- name: Show the hyper-parameters that a flavour has by default
  ansible.builtin.debug:
    var: lookup('perfscale.seatrial.training_flavour', 'ilab').hyper_parameters
"""

RETURN = r"""
_raw:
  description: The flavour.
  type: list
  elements: dict
"""

from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import SeatrialError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import training_flavours


class LookupModule(LookupBase):
    """Lookup of flavours."""

    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[dict[str, Any]]:
        """Return one flavour for each name."""
        try:
            return [training_flavours.load_flavour(str(name)).variables() for name in terms]
        except SeatrialError as error:
            raise AnsibleLookupError(str(error)) from error

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Describe a version of OpenShift AI."""

from __future__ import annotations

DOCUMENTATION = r"""
name: rhoai_release
short_description: Describe a version of OpenShift AI, and check what is requested of it
version_added: 1.0.0
author:
  - The perfscale.seatrial authors (@perfscale)
description:
  - Returns what role rhoai installs for its settings, from C(files/releases.yml) of the role.
  - What the version does not have is not an error of the lookup; it is listed in C(checks).
options:
  _terms:
    description: Settings of role rhoai, without the prefix of their names. C(version) is required.
    required: true
    type: list
    elements: dict
"""

EXAMPLES = r"""
- name: Show the operators that a component needs
  ansible.builtin.debug:
    var: lookup('perfscale.seatrial.rhoai_release', request).prerequisites
  vars:
    request: {version: "3", components: [trainer]}
"""

RETURN = r"""
_raw:
  description:
    - C(checks), the entries of a C(meta/checks.yml) that refuse what the version does not have.
    - If there are none, also C(major), C(api_version), C(channel), C(version), C(components) with their states,
      and C(prerequisites), operators as module olm_operator takes them.
  type: list
  elements: dict
"""

from dataclasses import fields
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import suggest_similar_name
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.rhoai_release import (
    RhoaiRequest,
    release_facts_and_checks,
)


class LookupModule(LookupBase):
    """Lookup of releases."""

    def run(
        self, terms: list[dict[str, Any]], variables: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[dict[str, Any]]:
        """Return one description for each term."""
        known = [field.name for field in fields(RhoaiRequest)]
        for term in terms:
            if not isinstance(term, dict) or term.get("version") is None:
                raise AnsibleLookupError(f"version is missing: {term!r}; version is one of the settings of role rhoai")
            for name in term:
                if name not in known:
                    raise AnsibleLookupError(f"'{name}' is not a setting{suggest_similar_name(name, known)}")
        return [release_facts_and_checks(RhoaiRequest(**{**term, "version": str(term["version"])})) for term in terms]

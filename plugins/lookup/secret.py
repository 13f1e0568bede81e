# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a secret setting."""

from __future__ import annotations

DOCUMENTATION = r"""
name: secret
short_description: Read a secret setting
version_added: 0.1.0
author:
  - The perfscale.seatrial authors (@perfscale)
description:
  - Returns the value of a secret setting. That is the variable of this name, else the content of the file in
    variable C(<name>_file), else that of the file C(<name>) in the folder C(secrets_dir), else the environment variable
    C(SEATRIAL_<NAME>).
  - A task that uses it needs C(no_log=true).
options:
  _terms:
    description: Name of the secret setting.
    required: true
    type: list
    elements: str
  required:
    description: Whether to fail if the secret is not given. Otherwise an empty string is returned.
    type: bool
    default: false
  entries:
    description:
      - Whether to return the secrets inside a setting that is a dictionary, such as tokens among environment variables,
        as a dictionary. The files of the run have them masked.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Create the secret with the token of the model hub
  kubernetes.core.k8s:
    definition:
      apiVersion: v1
      kind: Secret
      metadata: {name: model-hub, namespace: seatrial}
      stringData:
        token: "{{ lookup('perfscale.seatrial.secret', 'fine_tuning_model_token', required=true) }}"
  no_log: true
"""

RETURN = r"""
_raw:
  description: The value.
  type: list
  elements: str
"""

import os
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import SeatrialError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import (
    read_secret_settings,
    secrets_inside_settings,
)


class LookupModule(LookupBase):
    """Lookup of secret settings."""

    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[Any]:
        """Return one value for each name."""
        self.set_options(var_options=variables, direct=kwargs)
        try:
            return [self._one(name, variables or {}) for name in terms]
        except SeatrialError as error:
            raise AnsibleLookupError(str(error)) from error

    def _one(self, name: str, variables: dict[str, Any]) -> Any:
        if self.get_option("entries"):
            return secrets_inside_settings.unmasked_secrets_of_setting(
                name, self._templar.template(variables.get(name))
            )
        value = read_secret_settings.read_secret_if_given(name, variables, os.environ, self._templar.template)
        if value is None and self.get_option("required"):
            raise read_secret_settings.missing_secret_error(name, "here")
        return value or ""

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Return the record of a run."""

from __future__ import annotations

DOCUMENTATION = r"""
name: run_record
short_description: Return the record of a run
version_added: 1.0.0
author:
  - The perfscale.seatrial authors (@perfscale)
description:
  - Returns C(run.yml) of a run directory. The record is empty if the file is missing or empty.
  - Fails with the name of the file if it is not a YAML dictionary.
options:
  _terms:
    description: Run directories.
    required: true
    type: list
    elements: path
"""

EXAMPLES = r"""
- name: Show the project of a run
  ansible.builtin.debug:
    msg: "{{ lookup('perfscale.seatrial.run_record', run_dir).project }}"
"""

RETURN = r"""
_raw:
  description: The records.
  type: list
  elements: dict
"""

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import SeatrialError


class LookupModule(LookupBase):
    """Lookup of records of runs."""

    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[dict[str, Any]]:
        """Return the record of each run directory."""
        try:
            return [_record(Path(str(top)).expanduser() / "run.yml") for top in terms]
        except (SeatrialError, OSError) as error:
            raise AnsibleLookupError(str(error)) from error


def _record(path: Path) -> dict[str, Any]:
    document = (files.read_yaml(path) if path.exists() else None) or {}
    if not isinstance(document, dict):
        raise AnsibleLookupError(f"{path}: not a YAML dictionary")
    return document

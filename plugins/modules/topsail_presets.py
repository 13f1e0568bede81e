#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: topsail_presets
short_description: Write presets from a configuration of TOPSAIL
version_added: 0.1.0
description:
  - Translates the presets in the C(config.yaml) of TOPSAIL's project fine_tuning into presets of project fine_tuning,
    and lists what has no counterpart. Each preset gets what TOPSAIL's rules make of it and of the presets that it
    extends.
  - The names of the imported presets begin with C(topsail_), so that they replace no other preset. No text of the
    configuration is rendered as a template.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  src:
    description: The configuration.
    type: path
    required: true
  dest:
    description:
      - The file of presets, in a folder C(group_vars/<group>) of your inventory. A file that was not written by this
        module, or that was edited since, is never overwritten.
    type: path
    required: true
  presets:
    description:
      - Presets to translate. An element with several names, such as V(gating light), applies them in this order and
        gives one preset, V(topsail_gating__light). Without it, every preset that TOPSAIL can run alone is translated.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Translate two presets, the second one with another
  perfscale.seatrial.topsail_presets:
    src: config.yaml
    dest: inventories/my_lab/group_vars/my_lab/topsail.yml
    presets: [dgx_single_full, fms gating light]
"""

RETURN = r"""
presets:
  description: Names of the presets that were translated.
  returned: success
  type: list
  elements: str
unmapped:
  description: By preset, what has no counterpart.
  returned: success
  type: dict
base:
  description: Values of the configuration outside of presets that have no counterpart.
  returned: success
  type: list
  elements: str
report:
  description: The same for a reader, one line for each reason.
  returned: success
  type: list
  elements: str
refused:
  description: Presets that cannot be translated, with the reason. If O(presets) is not empty, this is an error instead.
  returned: success
  type: dict
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.topsail import write_topsail_presets


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "src": {"type": "path", "required": True},
            "dest": {"type": "path", "required": True},
            "presets": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    params = module.params

    def work(_step: StepDirectory) -> dict[str, Any]:
        return write_topsail_presets.write_presets_file(
            Path(params["src"]), Path(params["dest"]), params["presets"], module.check_mode
        )

    ansible_module.run_module_work(module, work)


if __name__ == "__main__":
    main()

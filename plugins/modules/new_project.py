#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: new_project
short_description: Write a new project
version_added: 0.1.0
description:
  - Writes the playbook, role, presets, KPIs and molecule scenario of a project from a skeleton. The project runs
    without changes.
  - Writes to a collection of the user's, which is created if it does not exist, or to a clone of this one.
  - Fails before anything is written if a file exists with other content.
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
  name:
    description: Name of the project, such as V(my_llm_test).
    type: str
    required: true
  collection:
    description: Full name of the collection to write the project to. That of this one means a clone of it.
    type: str
    default: perfscale.seatrial
  root:
    description: Folder of that collection.
    type: path
    required: true
  skeletons:
    description: Folder of the skeletons.
    type: path
    required: true
"""

EXAMPLES = r"""
- name: Write the project my_llm_test to the collection me.bench
  perfscale.seatrial.new_project:
    name: my_llm_test
    collection: me.bench
    root: /home/me/collections/ansible_collections/me/bench
    skeletons: /home/me/collections/ansible_collections/perfscale/seatrial/skeletons
"""

RETURN = r"""
files:
  description: The files of the project, relative to O(root).
  returned: success
  type: list
  elements: str
root:
  description: Folder of the collection.
  returned: success
  type: str
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside import new_project


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "collection": {"type": "str", "default": new_project.OURS},
            "root": {"type": "path", "required": True},
            "skeletons": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    params = module.params

    def work(_step: StepDirectory) -> dict[str, Any]:
        project = new_project.NewProject(params["name"], params["collection"], Path(params["root"]))
        return new_project.write_project_files(project, Path(params["skeletons"]), module.check_mode)

    ansible_module.run_module_work(module, work)


if __name__ == "__main__":
    main()

#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: openshift_install
short_description: Make or destroy a cluster with openshift-install
version_added: 0.1.0
description:
  - Does one step of an installation and says meanwhile what the installer says. A step that was done is not done again.
  - The log, without passwords, is copied into O(step_dir) when the step ends, whatever its end.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._openshift
  - perfscale.seatrial._openshift.bundle
  - perfscale.seatrial._step
  - perfscale.seatrial._step.progress
attributes:
  check_mode:
    support: none
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  state:
    description:
      - V(prepared), on a cloud, has everything written that comes before the first request to it, and returns the
        metadata by which the cluster can be destroyed. V(begun) begins to create it, V(created) waits for that.
      - V(image), on bare metal, makes the image that machines boot from. V(bootstrapped) and V(installed) wait.
      - V(gathered) puts what tells why an installation failed into O(bundle). V(destroyed) destroys the cluster on a
        cloud by its metadata. V(absent) ends what runs and removes O(install_dir).
    type: str
    choices: [prepared, begun, created, image, bootstrapped, installed, gathered, destroyed, absent]
    required: true
  program:
    description: Path of openshift-install; that of the PATH when empty and there is no O(mirror).
    type: str
    default: ''
  mirror:
    description: Address of a folder with a folder for each version, from which it is fetched.
    type: str
    default: ''
  version:
    description: The version that is fetched.
    type: str
    default: ''
  checksum:
    description: SHA-256 of the archive that is fetched.
    type: str
    default: ''
  cache_dir:
    description: Where what was fetched is kept.
    type: path
    default: ~/.cache/seatrial/openshift
  environment:
    description: Environment variables of the installer, such as credentials. Empty ones are left out.
    type: dict
    default: {}
  spot:
    description: Whether workers are spot instances.
    type: bool
    default: false
  timeout:
    description: How long the step may take, in seconds.
    type: float
    default: 3600
  store:
    description: Where O(entry) is kept for other machines; a folder or C(s3://bucket/prefix). Empty is nowhere.
    type: str
    default: ''
  entry:
    description: What is kept there beside the metadata.
    type: dict
    default: {}
  metadata:
    description: The metadata of a cluster that is destroyed from another machine.
    type: dict
    default: {}
  addresses:
    description: Addresses that V(gathered) asks; C(bootstrap) and C(masters).
    type: dict
    default: {}
  ssh_private_key:
    description: File of a private key for the nodes.
    type: path
    default: ''
"""

EXAMPLES = r"""
- name: Have everything written by which the cluster can be destroyed
  perfscale.seatrial.openshift_install:
    state: prepared
    name: t1121-k3f9xa
    install_dir: ~/.local/state/seatrial/clusters/t1121-k3f9xa
"""

RETURN = r"""
metadata:
  description: What the installer needs to destroy the cluster.
  returned: state is prepared
  type: dict
image:
  description: Path of the image.
  returned: state is image
  type: str
kubeconfig:
  description: Path of the cluster's kubeconfig.
  returned: state is created, image or installed
  type: str
files:
  description: What was gathered.
  returned: state is gathered
  type: list
  elements: str
version:
  description: What the installer says of its version.
  returned: state is prepared or image
  type: str
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils import _common_options, _module_main
from ansible_collections.perfscale.seatrial.plugins.module_utils._openshift import install_steps, openshift_options
from ansible_collections.perfscale.seatrial.plugins.module_utils._step_dir import Step


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": list(install_steps.STEPS), "required": True},
            **openshift_options.CLUSTER,
            "program": {"type": "str", "default": ""},
            "mirror": {"type": "str", "default": ""},
            "version": {"type": "str", "default": ""},
            "checksum": {"type": "str", "default": ""},
            "cache_dir": {"type": "path", "default": "~/.cache/seatrial/openshift"},
            "environment": {"type": "dict", "default": {}, "no_log": True},
            "spot": {"type": "bool", "default": False},
            "timeout": {"type": "float", "default": 3600},
            "store": {"type": "str", "default": ""},
            "entry": {"type": "dict", "default": {}},
            "metadata": {"type": "dict", "default": {}},
            **openshift_options.BUNDLE,
            "addresses": {"type": "dict", "default": {}},
            "ssh_private_key": {"type": "path", "default": "", "no_log": False},
            **_common_options.STEP,
            **_common_options.PROGRESS,
        },
        required_if=[("state", "gathered", ["bundle"])],
    )
    given = module.params

    def work(step: Step) -> dict[str, Any]:
        say = step.teller(given["progress_file"], "openshift-install")
        with step.timed("cluster", f"openshift-install {given['state']}"):
            return install_steps.do(
                given["state"], {**given, "install_dir": Path(given["install_dir"])}, say, step.path
            )

    _module_main.run(module, work)


if __name__ == "__main__":
    main()

#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: openshift_install
short_description: Create or destroy a cluster with openshift-install
version_added: 0.1.0
description:
  - Runs one step of an installation and prints the installer's messages meanwhile. A completed step is not repeated.
  - The log, without passwords, is copied into O(step_dir) when the step ends, also if it fails.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._openshift
  - perfscale.seatrial._openshift.bundle
  - perfscale.seatrial._run.expires
  - perfscale.seatrial._run.owner
  - perfscale.seatrial._step_directory
  - perfscale.seatrial._step_directory.progress
attributes:
  check_mode:
    support: partial
    details: O(state=configured) renders and checks, and writes nothing. The other states are skipped.
  diff_mode:
    support: partial
    details: Of the files that O(state=configured) writes; pull secret and SSH key are hidden.
  idempotent:
    support: full
options:
  state:
    description:
      - V(configured) renders C(install-config.yaml), and C(agent-config.yaml) for bare metal, from settings of role
        C(cluster), checks every field against the documented ones, and writes them to O(install_dir). Copies without
        secrets are written to O(step_dir).
      - V(prepared), on a cloud, writes all files that precede the first request to the cloud, and returns the metadata
        with which the cluster can be destroyed. V(begun) starts the creation, V(created) waits for its end.
      - V(image), on bare metal, creates the image that machines boot from. V(bootstrapped) and V(installed) wait.
      - V(gathered) collects logs of a failed installation in O(bundle). V(destroyed) destroys the cluster on a cloud
        by its metadata. V(absent) ends running programs and removes O(install_dir).
    type: str
    choices: [configured, prepared, begun, created, image, bootstrapped, installed, gathered, destroyed, absent]
    required: true
  provider:
    description: Provider of the cluster. It, O(settings) and O(pull_secret) are required with O(state=configured).
    type: str
    choices: [openshift_ipi, openshift_agent]
  settings:
    description: Settings of role C(cluster), by name.
    type: dict
  machines:
    description: The machines of a cluster on bare metal.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the machine.
        type: str
        required: true
      role:
        description: Role in the cluster.
        type: str
        choices: [master, worker]
        required: true
      vars:
        description: Its inventory variables.
        type: dict
        required: true
  pull_secret:
    description: The pull secret, as JSON.
    type: str
  ssh_key:
    description: Public key that may log in to the nodes.
    type: str
    default: ''
  program:
    description: Path of openshift-install. If it and O(mirror) are empty, the one in PATH is used.
    type: str
    default: ''
  mirror:
    description: URL of a folder with one folder per version, from which openshift-install is downloaded.
    type: str
    default: ''
  version:
    description: The version to download.
    type: str
    default: ''
  checksum:
    description: SHA-256 of the downloaded archive.
    type: str
    default: ''
  cache_dir:
    description: Folder of downloaded programs.
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
    description: Timeout of the step, in seconds.
    type: float
    default: 3600
  store:
    description: Store of O(entry) for other machines, a folder or C(s3://bucket/prefix); empty for none.
    type: str
    default: ''
  entry:
    description: Values stored there beside the metadata.
    type: dict
    default: {}
  metadata:
    description: Metadata of a cluster that was created on another machine.
    type: dict
    default: {}
  run_id:
    description: The run. What another run has in O(install_dir) or O(store) is neither used nor removed.
    type: str
    default: ''
  addresses:
    description: Addresses for V(gathered), C(bootstrap) and C(masters).
    type: dict
    default: {}
  ssh_private_key:
    description: File of a private key for the nodes.
    type: path
    default: ''
"""

EXAMPLES = r"""
- name: Write the installer's configuration
  perfscale.seatrial.openshift_install:
    state: configured
    provider: openshift_ipi
    name: t1121-k3f9xa
    settings:
      cluster_base_domain: perf.example.com
      cluster_ipi_region: us-east-2
    pull_secret: "{{ my_pull_secret }}"
    install_dir: ~/.local/state/seatrial/clusters/t1121-k3f9xa
  no_log: true

- name: Write the files with which the cluster can be destroyed
  perfscale.seatrial.openshift_install:
    state: prepared
    name: t1121-k3f9xa
    install_dir: ~/.local/state/seatrial/clusters/t1121-k3f9xa
"""

RETURN = r"""
machines:
  description:
    - The machines of a cluster on bare metal, with C(name), C(role), C(ip) and their BMC (C(address), C(user),
      C(system)).
  returned: state is configured
  type: list
  elements: dict
rendezvous:
  description: Address of the rendezvous host, which installs the others.
  returned: state is configured
  type: str
metadata:
  description: Metadata with which the installer destroys the cluster.
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
  description: Names of the collected files.
  returned: state is gathered
  type: list
  elements: str
version:
  description: Version of the installer.
  returned: state is prepared or image
  type: str
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.openshift import (
    agent_config,
    installer_actions,
)

MACHINE = {
    "name": {"type": "str", "required": True},
    "role": {"type": "str", "choices": list(agent_config.ROLES), "required": True},
    "vars": {"type": "dict", "required": True},
}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["configured", *installer_actions.STEPS], "required": True},
            **ansible_module.NEW_CLUSTER,
            "provider": {"type": "str", "choices": ["openshift_ipi", "openshift_agent"]},
            "settings": {"type": "dict"},
            "machines": {"type": "list", "elements": "dict", "default": [], "options": MACHINE},
            **ansible_module.OWNER,
            **ansible_module.EXPIRES,
            "pull_secret": {"type": "str", "no_log": True},
            "ssh_key": {"type": "str", "default": "", "no_log": False},
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
            "run_id": {"type": "str", "default": ""},
            **ansible_module.BUNDLE,
            "addresses": {"type": "dict", "default": {}},
            "ssh_private_key": {"type": "path", "default": "", "no_log": False},
            **ansible_module.STEP,
            **ansible_module.PROGRESS,
        },
        required_if=[
            ("state", "gathered", ["bundle"]),
            ("state", "configured", ["provider", "settings", "pull_secret"]),
        ],
        supports_check_mode=True,
    )
    params = {**module.params, "install_dir": Path(module.params["install_dir"])}

    def work(step: StepDirectory) -> dict[str, Any]:
        if params["state"] == "configured":
            return installer_actions.configure_installer(params, step, module.check_mode)
        if module.check_mode:
            return {"changed": False, "skipped": True}
        say = step.reporter(params["progress_file"], "openshift-install")
        with step.timed("cluster", f"openshift-install {params['state']}"):
            return installer_actions.run_install_step(params["state"], params, say, step.path)

    ansible_module.run_module_work(module, work)


if __name__ == "__main__":
    main()

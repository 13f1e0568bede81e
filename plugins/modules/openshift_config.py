#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: openshift_config
short_description: Write the configuration of openshift-install
version_added: 0.1.0
description:
  - Renders C(install-config.yaml), and C(agent-config.yaml) for bare metal, from settings of role C(cluster), checks
    every field against the documented ones, and writes them to the installer's folder.
  - Copies without secrets are written to O(step_dir).
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._openshift
  - perfscale.seatrial._run.expires
  - perfscale.seatrial._run.owner
  - perfscale.seatrial._step
attributes:
  check_mode:
    support: full
    details: Renders and checks, writes nothing.
  diff_mode:
    support: full
    details: Pull secret and SSH key are hidden.
  idempotent:
    support: full
options:
  provider:
    description: Provider of the cluster.
    type: str
    choices: [openshift_ipi, openshift_agent]
    required: true
  settings:
    description: Settings of role C(cluster), by name.
    type: dict
    required: true
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
    required: true
  ssh_key:
    description: Public key that may log in to the nodes.
    type: str
    default: ''
"""

EXAMPLES = r"""
- name: Write the installer's configuration
  perfscale.seatrial.openshift_config:
    provider: openshift_ipi
    name: t1121-k3f9xa
    settings:
      cluster_base_domain: perf.example.com
      cluster_ipi_region: us-east-2
    pull_secret: "{{ my_pull_secret }}"
    install_dir: ~/.local/state/seatrial/clusters/t1121-k3f9xa
  no_log: true
"""

RETURN = r"""
machines:
  description:
    - The machines of a cluster on bare metal, with C(name), C(role), C(ip) and their BMC (C(address), C(user),
      C(system)).
  returned: success
  type: list
  elements: dict
rendezvous:
  description: Address of the rendezvous host, which installs the others.
  returned: success
  type: str
"""

import json
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module, files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import Step
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters import providers
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.openshift import (
    bare_metal_hosts,
    install_config,
    openshift_options,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.openshift.installer_commands import (
    OpenshiftInstaller,
)

MACHINE = {
    "name": {"type": "str", "required": True},
    "role": {"type": "str", "choices": list(bare_metal_hosts.ROLES), "required": True},
    "vars": {"type": "dict", "required": True},
}


def render(params: dict[str, Any]) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Return the documents by file name, and the module's results. Raises InputError."""
    try:
        auths = json.loads(params["pull_secret"])["auths"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError("cluster_pull_secret is not a pull secret: JSON with a dictionary 'auths'") from error
    if not isinstance(auths, dict):
        raise InputError("cluster_pull_secret is not a pull secret: JSON with a dictionary 'auths'")
    settings = {**params["settings"], "cluster_provider": params["provider"]}
    results: dict[str, Any] = {"machines": [], "rendezvous": ""}
    documents: dict[str, dict[str, Any]] = {}
    if not providers.PROVIDERS[params["provider"]].bare_metal:
        tags = install_config.cloud_resource_tags(settings, params["expires"], params["owner"])
        config = install_config.cloud_install_config(settings, params["name"], tags)
    else:
        machines = [
            bare_metal_hosts.read_host_from_inventory(machine["name"], machine["role"], machine["vars"], settings)
            for machine in params["machines"]
        ]
        config = install_config.bare_metal_install_config(
            settings, params["name"], *bare_metal_hosts.check_set(machines)
        )
        agent = bare_metal_hosts.agent_config(machines, settings, params["name"])
        documents["agent-config.yaml"] = agent
        addresses = bare_metal_hosts.assign_addresses(machines, settings)
        results["rendezvous"] = agent["rendezvousIP"]
        results["machines"] = [
            {
                "name": machine.name,
                "role": machine.role,
                "ip": addresses[machine.name],
                "address": machine.bmc_address,
                "user": machine.bmc_user,
                "system": machine.bmc_system,
            }
            for machine in machines
        ]
        unreachable = [
            machine["name"] for machine in results["machines"] if not machine["address"] or not machine["user"]
        ]
        if unreachable:
            raise InputError(f"{unreachable[0]}: bmc_address or bmc_user is missing in the inventory")
    documents["install-config.yaml"] = install_config.add_secrets(config, params["pull_secret"], params["ssh_key"])
    return documents, results


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "provider": {"type": "str", "choices": ["openshift_ipi", "openshift_agent"], "required": True},
            "settings": {"type": "dict", "required": True},
            "machines": {"type": "list", "elements": "dict", "default": [], "options": MACHINE},
            **ansible_module.OWNER,
            **ansible_module.EXPIRES,
            "pull_secret": {"type": "str", "required": True, "no_log": True},
            "ssh_key": {"type": "str", "default": "", "no_log": False},
            **openshift_options.CLUSTER,
            **ansible_module.STEP,
        },
        supports_check_mode=True,
    )

    def work(step: Step) -> dict[str, Any]:
        documents, results = render(module.params)
        installer = OpenshiftInstaller("openshift-install", Path(module.params["install_dir"]), {})
        before = installer.configure(documents, module.check_mode)
        after = {name: files.to_plain_types(document) for name, document in documents.items()}
        diff = {
            "before": {name: install_config.hide_secrets(document) for name, document in before.items()},
            "after": {name: install_config.hide_secrets(document) for name, document in after.items()},
        }
        for name, document in diff["after"].items():
            step.manifest(name.removesuffix(".yaml"), [document])
        step.log(f"{', '.join(documents)} for {module.params['name']}")
        return {"changed": before != after, **results, "diff": diff}

    ansible_module.run(module, work)


if __name__ == "__main__":
    main()

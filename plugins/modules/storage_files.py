#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: storage_files
short_description: Fetch files of a volume
version_added: 0.3.0
description:
  - Runs Jobs whose pod prints files of a PersistentVolumeClaim, compressed, and writes them to a folder of the
    controller. The volume is mounted read-only.
  - Each file is compared with its checksum in the volume. Files beyond O(limit_bytes) are left out and listed.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.cluster
  - perfscale.seatrial._cluster
  - perfscale.seatrial._cluster.pod
  - perfscale.seatrial._step
  - perfscale.seatrial._step.progress
  - perfscale.seatrial._storage
attributes:
  check_mode:
    support: none
    details: It only reads from a cluster; without its files there is no result.
  diff_mode:
    support: none
    details: The files that it writes are its result.
  idempotent:
    support: full
    details: Each call fetches the files again, and reports a change only if they differ.
options:
  namespace:
    description: Namespace of the claim.
    type: str
    required: true
  run_id:
    description: Run to which the Job belongs.
    type: str
    required: true
  beginning:
    description: Beginning of the names of the folders in the volume, such as the name of a run.
    type: str
    default: ''
  files:
    description:
      - Paths of files in these folders, with C(*) for any part of a name and C(**) for any folders. A folder means all
        files below it.
    type: list
    elements: str
    required: true
  dest:
    description: Folder to which the files are written, with their paths in the volume. It is created if it is missing.
    type: path
    required: true
  limit_bytes:
    description: Maximum size of all files together, in bytes.
    type: int
    default: 33554432
  image:
    description: Image with Python 3.9 or later.
    type: str
    default: ''
  script:
    description: The program that prints the files.
    type: str
    required: true
  timeout:
    description: Timeout of each Job, in seconds.
    type: float
    default: 600
"""

EXAMPLES = r"""
- name: Fetch the adapters that a run has trained
  perfscale.seatrial.storage_files:
    kubeconfig: "{{ cluster_acquired.sutest.kubeconfig }}"
    namespace: training
    claim: output
    run_id: "{{ run_id }}"
    beginning: "{{ run_id }}-001-"
    files: ["**/adapter_model.safetensors", "**/adapter_config.json"]
    dest: "{{ run_dir }}/points/001/files"
    image: registry.example.com/python:3.12
    script: "{{ lookup('ansible.builtin.file', 'print_files.py') }}"
"""

RETURN = r"""
files:
  description: The files that were written.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Path in the volume and in O(dest).
      type: str
    bytes:
      description: Size of the file.
      type: int
    sha256:
      description: Checksum of the file.
      type: str
left_out:
  description: Files beyond O(limit_bytes), with C(name) and C(bytes).
  returned: success
  type: list
  elements: dict
unmatched:
  description: Entries of O(files) that no file matches.
  returned: success
  type: list
  elements: str
summary:
  description: The result in one sentence.
  returned: success
  type: str
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module, files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import Step
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack import fetch_files, volume_job


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **ansible_module.CLUSTER,
            "namespace": {"type": "str", "required": True},
            "claim": {"type": "str", "required": True},
            "run_id": {"type": "str", "required": True},
            "beginning": {"type": "str", "default": ""},
            "files": {"type": "list", "elements": "str", "required": True},
            "dest": {"type": "path", "required": True},
            "limit_bytes": {"type": "int", "default": 33554432},
            "image": {"type": "str", "default": ""},
            "script": {"type": "str", "required": True},
            "timeout": {"type": "float", "default": 600},
            "node_selector": {"type": "dict", "default": {}},
            "tolerations": {"type": "list", "elements": "dict", "default": []},
            "service_account": {"type": "str", "default": ""},
            **ansible_module.STEP,
            **ansible_module.PROGRESS,
        },
        supports_check_mode=False,
    )
    params = module.params

    def work(step: Step) -> dict[str, Any]:
        say = step.reporter(params["progress_file"], "files")
        spec = fetch_files.FetchSpec(
            params["namespace"],
            params["claim"],
            params["run_id"],
            params["beginning"],
            tuple(params["files"]),
            Path(params["dest"]),
            params["limit_bytes"],
            params["image"],
            params["script"],
            params["timeout"],
            params["node_selector"],
            tuple(params["tolerations"]),
            params["service_account"],
        )
        fetch_files.check_fetch(spec)
        # Cleanup reads from these which kinds the run created, if it may not list all of them.
        step.manifest("files", volume_job.job_manifests(spec.job(0)))
        with step.timed("wait", "files"), Client.from_kubeconfig(params["kubeconfig"], params["context"]) as client:
            result = fetch_files.fetch_files(client, spec, say)
        summary = fetch_files.format_files(result)
        say(summary)
        listed = {key: result[key] for key in ("files", "left_out", "unmatched")}
        document = {"schema": "volume_files/1", "claim": f"{spec.namespace}/{spec.claim}", **listed}
        spec.to.mkdir(parents=True, exist_ok=True)
        files.write_json(spec.to / "files.json", document, "volume_files/1")
        return {**result, "summary": summary}

    ansible_module.run(module, work)


if __name__ == "__main__":
    main()

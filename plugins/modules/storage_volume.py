#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: storage_volume
short_description: Download models and datasets to a volume, or fetch files of it
version_added: 0.1.0
description:
  - Creates a PersistentVolumeClaim if there is none, and runs one Job that downloads what its volume does not hold
    yet. Labels and an annotation of the claim record what it holds, with checksums.
  - Each file is compared with the checksum of its server, as far as the server has one. An interrupted download is
    continued.
  - The credentials are in a Secret, which is deleted with the Job when the download has ended.
  - With O(state=fetched), runs Jobs whose pod prints files of the volume, compressed, and writes them to a folder of
    the controller. The volume is mounted read-only, and each file is compared with its checksum in the volume.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.cluster
  - perfscale.seatrial._cluster
  - perfscale.seatrial._cluster.pod
  - perfscale.seatrial._step_directory
  - perfscale.seatrial._step_directory.progress
  - perfscale.seatrial._volume_job
attributes:
  check_mode:
    support: partial
    details: With O(state=fetched), the task is skipped; without its files there is no result.
  diff_mode:
    support: none
    details: What it downloads, or would download, is in RV(summary).
  idempotent:
    support: full
    details: With O(state=fetched), files are fetched again, and a change is reported only if they differ.
options:
  state:
    description: Whether the volume should hold the sources, the claim should be gone, or O(files) should be in O(dest).
    type: str
    choices: [present, absent, fetched]
    default: present
  namespace:
    description: Namespace of the claim, which must exist.
    type: str
    required: true
  run_id:
    description: Run to which the objects belong.
    type: str
    required: true
  size:
    description: Size of the claim, as a Kubernetes quantity. A larger claim that exists is used.
    type: str
    default: 100Gi
  access_mode:
    description: Access mode of the claim. Pods on several nodes need V(ReadWriteMany).
    type: str
    choices: [ReadWriteOnce, ReadWriteMany]
    default: ReadWriteOnce
  storage_class:
    description: Storage class of the claim. Empty means the default one.
    type: str
    default: ''
  keep:
    description: Whether the claim stays when the run ends. Its namespace must not belong to a run.
    type: bool
    default: false
  sources:
    description:
      - What to download, each C(name@registry), an address (C(hf://), C(s3://), C(https://), C(http://)), or a
        dictionary with C(source), and optionally C(name), C(revision), C(files) and C(sha256).
    type: list
    elements: raw
    default: []
  registries:
    description: Registries in addition to C(hf) and C(hf-datasets), and with what the addresses of each begin.
    type: dict
    default: {}
  verify:
    description: Whether to check the checksums of what the volume holds already, and to download again what differs.
    type: bool
    default: false
  simulated:
    description: Whether the cluster runs no containers. The claim is created and nothing is downloaded.
    type: bool
    default: false
  image:
    description: Image with Python 3.9 or later. Required unless the volume holds everything.
    type: str
    default: ''
  script:
    description: The program that downloads, or that prints the files.
    type: str
    default: ''
  hub_url:
    description: Address of the model hub for C(hf://).
    type: str
    default: https://huggingface.co
  hub_token:
    description: Token for the model hub.
    type: str
    default: ''
  s3_endpoint:
    description: Address of the S3 server. Empty means Amazon S3.
    type: str
    default: ''
  s3_region:
    description: Region of the S3 server.
    type: str
    default: us-east-1
  s3_access_key:
    description: Access key for S3. Empty means anonymous requests.
    type: str
    default: ''
  s3_secret_key:
    description: Secret key that belongs to O(s3_access_key).
    type: str
    default: ''
  https_token:
    description: Bearer token for C(https://).
    type: str
    default: ''
  ca_file:
    description: Certificate authorities (PEM) of these servers, in addition to those of the image.
    type: path
  parallel:
    description: Number of files that are downloaded at once.
    type: int
    default: 4
  timeout:
    description: Timeout of the download, of the deletion, or of each Job that prints files, in seconds.
    type: float
    default: 3600
  beginning:
    description: Beginning of the names of the folders in the volume to fetch files of, such as the name of a run.
    type: str
    default: ''
  files:
    description:
      - Paths of files to fetch in these folders, with C(*) for any part of a name and C(**) for any folders. A folder
        means all files below it. Required with O(state=fetched).
    type: list
    elements: str
  dest:
    description:
      - Folder to which the files are written, with their paths in the volume. It is created if it is missing.
        Required with O(state=fetched).
    type: path
  limit_bytes:
    description: Maximum size of all fetched files together, in bytes. Files beyond it are left out and listed.
    type: int
    default: 33554432
"""

EXAMPLES = r"""
- name: Download a model and a dataset
  perfscale.seatrial.storage_volume:
    kubeconfig: "{{ cluster_acquired.sutest.kubeconfig }}"
    namespace: training
    claim: models
    run_id: "{{ run_id }}"
    image: registry.example.com/python:3.12
    script: "{{ lookup('ansible.builtin.file', 'download.py') }}"
    sources:
      - HuggingFaceTB/SmolLM2-135M@hf
      - source: s3://datasets/alpaca
        name: alpaca

- name: Fetch the adapters that a run has trained
  perfscale.seatrial.storage_volume:
    state: fetched
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
claim:
  description: Name of the claim.
  returned: when O(state) is V(present) or V(absent)
  type: str
downloads:
  description: One entry for each source.
  returned: when O(state=present)
  type: list
  elements: dict
  contains:
    name:
      description: Its path in the volume.
      type: str
    source:
      description: Its address.
      type: str
    revision:
      description: The commit of a model hub, else an empty string.
      type: str
    sha256:
      description: Checksum of its only file, or of the list of its files as C(sha256sum) prints it.
      type: str
    files:
      description: Number of its files.
      type: int
    bytes:
      description: Its size.
      type: int
    downloaded:
      description: Bytes that were downloaded, 0 if it was there.
      type: int
    seconds:
      description: Duration of the download.
      type: float
files:
  description: The files that were written.
  returned: when O(state=fetched)
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
  returned: when O(state=fetched)
  type: list
  elements: dict
unmatched:
  description: Entries of O(files) that no file matches.
  returned: when O(state=fetched)
  type: list
  elements: str
summary:
  description: The result in one sentence.
  returned: success
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module, files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack import (
    fetch_volume_files,
    storage_volume,
    volume_job,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.storage_sources import read_sources
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.storage_volume import DownloadSpec, VolumeClaim


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **ansible_module.CLUSTER,
            "state": {"type": "str", "choices": ["present", "absent", "fetched"], "default": "present"},
            "namespace": {"type": "str", "required": True},
            "claim": {"type": "str", "required": True},
            "run_id": {"type": "str", "required": True},
            "size": {"type": "str", "default": "100Gi"},
            "access_mode": {
                "type": "str",
                "choices": ["ReadWriteOnce", "ReadWriteMany"],
                "default": "ReadWriteOnce",
            },
            "storage_class": {"type": "str", "default": ""},
            "keep": {"type": "bool", "default": False},
            "sources": {"type": "list", "elements": "raw", "default": []},
            "registries": {"type": "dict", "default": {}},
            "verify": {"type": "bool", "default": False},
            "simulated": {"type": "bool", "default": False},
            "image": {"type": "str", "default": ""},
            "script": {"type": "str", "default": ""},
            "hub_url": {"type": "str", "default": "https://huggingface.co"},
            "hub_token": {"type": "str", "default": "", "no_log": True},
            "s3_endpoint": {"type": "str", "default": ""},
            "s3_region": {"type": "str", "default": "us-east-1"},
            "s3_access_key": {"type": "str", "default": "", "no_log": False},
            "s3_secret_key": {"type": "str", "default": "", "no_log": True},
            "https_token": {"type": "str", "default": "", "no_log": True},
            "ca_file": {"type": "path"},
            "parallel": {"type": "int", "default": 4},
            "timeout": {"type": "float", "default": 3600},
            "beginning": {"type": "str", "default": ""},
            "files": {"type": "list", "elements": "str"},
            "dest": {"type": "path"},
            "limit_bytes": {"type": "int", "default": 33554432},
            "node_selector": {"type": "dict", "default": {}},
            "tolerations": {"type": "list", "elements": "dict", "default": []},
            "service_account": {"type": "str", "default": ""},
            **ansible_module.STEP,
            **ansible_module.PROGRESS,
        },
        required_if=[("state", "fetched", ["files", "dest"])],
        supports_check_mode=True,
    )
    params = module.params

    def work(step: StepDirectory) -> dict[str, Any]:
        if params["state"] == "fetched":
            return {"changed": False, "skipped": True} if module.check_mode else _fetch(params, step)
        say = step.reporter(params["progress_file"], "storage")
        namespace, name = params["namespace"], params["claim"]
        with Client.from_kubeconfig(params["kubeconfig"], params["context"]) as client:
            if params["state"] == "absent":
                changed = storage_volume.remove_volume(
                    client, namespace, name, params["timeout"], say, module.check_mode
                )
                return {"changed": changed, "claim": name, "summary": f"claim {namespace}/{name} is gone"}
            sources = read_sources(params["sources"], params["registries"])
            options = ("size", "access_mode", "storage_class", "run_id", "keep", "simulated")
            volume = VolumeClaim(namespace, name, **{option: params[option] for option in options})
            spec = DownloadSpec.from_params(params)
            # Cleanup reads from these which kinds the run created, if it may not list all of them.
            job = spec.job(sources)
            made = [manifest for manifest in volume_job.volume_job_manifests(job) if manifest["kind"] != "Secret"]
            step.manifest(
                "storage",
                [*([] if volume.keep else volume.manifests()), *made, volume_job.secret_without_credentials(job)],
            )
            with step.timed("wait", "downloads"):
                result = storage_volume.ensure_volume(
                    client, volume, spec, sources, say, params["verify"], module.check_mode
                )
        say(result["summary"])
        if step.path is not None:
            document = {"schema": "downloads/1", "claim": f"{namespace}/{name}", "downloads": result["downloads"]}
            files.write_json(step.path / "downloads.json", document, "downloads/1")
        return result

    ansible_module.run_module_work(module, work)


def _fetch(params: dict[str, Any], step: StepDirectory) -> dict[str, Any]:
    """Fetch files of the volume; return the module's result."""
    say = step.reporter(params["progress_file"], "files")
    spec = fetch_volume_files.FetchSpec.from_params(params)
    fetch_volume_files.check_fetch_spec(spec)
    # Cleanup reads from these which kinds the run created, if it may not list all of them.
    step.manifest("files", volume_job.volume_job_manifests(spec.job(0)))
    with step.timed("wait", "files"), Client.from_kubeconfig(params["kubeconfig"], params["context"]) as client:
        result = fetch_volume_files.fetch_volume_files(client, spec, say)
    summary = fetch_volume_files.format_fetched_files(result)
    say(summary)
    listed = {key: result[key] for key in ("files", "left_out", "unmatched")}
    document = {"schema": "volume_files/1", "claim": f"{spec.namespace}/{spec.claim}", **listed}
    spec.to.mkdir(parents=True, exist_ok=True)
    files.write_json(spec.to / "files.json", document, "volume_files/1")
    return {**result, "summary": summary}


if __name__ == "__main__":
    main()

#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: users_files
short_description: Fetch reports and files of users in pods
version_added: 1.0.0
description:
  - Reads what the helper in each pod has reported about a user, and fetches the files that the user has written, from
    ConfigMaps to which the helper has copied them, or from an S3 server. ConfigMaps and objects are deleted.
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.cluster
  - perfscale.seatrial._cluster
  - perfscale.seatrial._s3_pod_files
  - perfscale.seatrial._run.point
  - perfscale.seatrial._step_directory
attributes:
  check_mode:
    support: none
    details: Without the files there is no result.
  diff_mode:
    support: none
    details: The files that it writes are its result.
  idempotent:
    support: full
    details: A second call finds the files of the first one.
options:
  state:
    description:
      - V(prepared), before the users are created, checks the bucket of O(collect_s3) and creates a Secret with a URL
        for each user. V(fetched) fetches reports and files. V(absent) ends the pods of an interrupted point, and
        fetches and deletes what they have uploaded; without a record of uploads in O(dest) it does nothing.
    type: str
    choices: [prepared, fetched, absent]
    default: fetched
  namespace:
    description: Namespace of the users.
    type: str
    required: true
  count:
    description: Number of users of the point. Required unless O(state=absent).
    type: int
  required:
    description: How many of them have to succeed, V(all), a percentage such as V(95 %), or a number.
    type: str
    default: all
  dest:
    description:
      - Folder that gets C(users.json), and for each user a folder of its number with C(user.json) and C(files/). It is
        created if it is missing.
    type: path
    required: true
"""

EXAMPLES = r"""
- name: Fetch the reports and files of the users
  perfscale.seatrial.users_files:
    kubeconfig: "{{ cluster_acquired.sutest.kubeconfig }}"
    namespace: "users-{{ run_id }}"
    run_id: "{{ run_id }}"
    point: "001"
    count: 100
    required: 95 %
    dest: "{{ run_dir }}/points/001/users"
"""

RETURN = r"""
succeeded:
  description: Number of users that succeeded.
  returned: when O(state=fetched)
  type: int
required:
  description: Number of users that have to succeed.
  returned: when O(state=fetched)
  type: int
failed_users:
  description: Pods of the users that did not succeed.
  returned: when O(state=fetched)
  type: list
  elements: str
summary:
  description: The result in one sentence.
  returned: when O(state=fetched)
  type: str
  sample: 6 of 6 users succeeded, 6 are required; fetched 6 files
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.users import (
    fetch_large_user_files,
    fetch_user_files,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.users.fetch_large_user_files import UserUploads


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **ansible_module.CLUSTER,
            **ansible_module.POINT,
            "state": {"type": "str", "choices": ["prepared", "fetched", "absent"], "default": "fetched"},
            **ansible_module.COLLECT_S3,
            "namespace": {"type": "str", "required": True},
            "count": {"type": "int"},
            "required": {"type": "str", "default": "all"},
            "dest": {"type": "path", "required": True},
            **ansible_module.STEP,
        },
        required_if=[("state", "prepared", ["count"]), ("state", "fetched", ["count"])],
    )
    ansible_module.run_module_work(module, lambda step: _work(module.params, step))


def _work(params: Mapping[str, Any], step: StepDirectory) -> dict[str, Any]:
    """Do what ``state`` asks for; return the result."""
    dest, recorded = Path(params["dest"]), fetch_large_user_files.number_of_expected_uploads(Path(params["dest"]))
    count = recorded if params["state"] == "absent" else params["count"]
    if count is None:
        return {"changed": False}
    spec = fetch_user_files.UsersSpec(
        params["namespace"], params["run_id"], params["point"], count, params["required"], dest
    )
    uploads = UserUploads.from_params(params, spec.namespace, spec.run, spec.point, dest, count)
    with Client.from_kubeconfig(params["kubeconfig"], params["context"]) as client:
        if params["state"] == "fetched":
            result = fetch_user_files.fetch_reports_and_files_of_users(client, spec, uploads)
            step.log(result["summary"])
            return result
        if uploads is None:
            if recorded:
                where = f"{dest / fetch_large_user_files.FILE} names them"
                step.log(f"workload_collect_s3 is not set: files that users have uploaded stay there; {where}")
            return {"changed": False}
        if params["state"] == "prepared":
            uploads.prepare(client)
        else:
            fetch_large_user_files.end_pods_and_fetch_uploads(client, uploads, step.log)
        return {"changed": True}


if __name__ == "__main__":
    main()

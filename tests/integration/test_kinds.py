# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A new kind of workload is one folder: the rehearsal cluster plays it, and a project measures it."""

from __future__ import annotations

import json
import secrets
from pathlib import Path

import playbook
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files

FOLDER = {
    "kind.yml": """---
api_version: example.com/v1
kind: Simulation
resource: simulations
operator: the operator of simulations
stages:
  - {name: created, field: metadata.creationTimestamp, writer: api-server}
  - {name: running, condition: Running, writer: controller, depends_on: [created], running: true}
  - {name: succeeded, condition: Complete, writer: controller, depends_on: [running], ends: succeeded}
  - {name: failed, condition: Failed, writer: controller, depends_on: [created], ends: failed}
""",
    "template.yaml.j2": """apiVersion: example.com/v1
kind: Simulation
metadata: {{ metadata | to_json }}
spec:
  replicas: {{ pods }}
""",
    "component.yml": """---
about: Simulations, whose life KWOK plays
objects: objects.yml
stages: stages.yml
""",
    "objects.yml": """---
- apiVersion: apiextensions.k8s.io/v1
  kind: CustomResourceDefinition
  metadata: {name: simulations.example.com}
  spec:
    group: example.com
    scope: Namespaced
    names: {kind: Simulation, plural: simulations}
    versions:
      - name: v1
        served: true
        storage: true
        subresources: {status: {}}
        schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
- apiVersion: rbac.authorization.k8s.io/v1
  kind: ClusterRole
  metadata: {name: "simulations:kwok"}
  rules:
    - {apiGroups: [example.com], resources: [simulations], verbs: [get, list, watch]}
    - {apiGroups: [example.com], resources: [simulations/status], verbs: [patch, update]}
- apiVersion: rbac.authorization.k8s.io/v1
  kind: ClusterRoleBinding
  metadata: {name: "simulations:kwok"}
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "simulations:kwok"}
  subjects:
    - {apiGroup: rbac.authorization.k8s.io, kind: User, name: "seatrial:kwok"}
""",
    "stages.yml": """---
- apiVersion: kwok.x-k8s.io/v1alpha1
  kind: Stage
  metadata: {name: simulation-runs}
  spec:
    resourceRef: {apiGroup: example.com/v1, kind: Simulation}
    selector:
      matchExpressions:
        - jq: {key: '.status.conditions.[] | select(.type == "Running") | .status', operator: NotIn, values: ["True"]}
    delay: {durationMilliseconds: 300}
    steps:
      - patch:
          subresource: status
          root: status
          type: merge
          template: |
            conditions:
            - {type: Running, status: "True", lastTransitionTime: {{ Now | Quote }}}
- apiVersion: kwok.x-k8s.io/v1alpha1
  kind: Stage
  metadata: {name: simulation-completes}
  spec:
    resourceRef: {apiGroup: example.com/v1, kind: Simulation}
    selector:
      matchExpressions:
        - jq: {key: '.status.conditions.[] | select(.type == "Running") | .status', operator: In, values: ["True"]}
        - jq: {key: '.status.conditions.[] | select(.type == "Complete") | .status', operator: NotIn, values: ["True"]}
    delay: {durationMilliseconds: 1000}
    steps:
      - patch:
          subresource: status
          root: status
          type: merge
          template: |
            {{ $running := index .status.conditions 0 }}
            conditions:
            - {type: Running, status: "True", lastTransitionTime: {{ $running.lastTransitionTime | Quote }}}
            - {type: Complete, status: "True", lastTransitionTime: {{ Now | Quote }}}
""",
}


def test_a_kind_that_is_one_folder_runs_through_all_phases(tmp_path: Path, rehearsal_folder: Path) -> None:
    kind = tmp_path / "kinds" / "simulation"
    kind.mkdir(parents=True)
    for name, text in FOLDER.items():
        (kind / name).write_text(text, encoding="utf-8")
    settings = {
        "rehearsal_name": f"kinds-{secrets.token_hex(3)}",
        "rehearsal_data_dir": str(rehearsal_folder),
        "rehearsal_components": [str(kind)],
        "workload_scale_kind": str(kind),
        "workload_scale_count": 4,
        "workload_max_lateness": 60,
    }
    done = playbook.play("-e", json.dumps(settings), artifacts=tmp_path / "runs", project="workload_scale", timeout=900)
    assert done.code == 0, done.output[-6000:]
    (run,) = playbook.run_dirs(tmp_path / "runs")
    rows = [row for row in files.read_json_lines(run / "points/001/timeline.jsonl") if row["type"] == "workload"]
    assert [(row["kind"], row["outcome"]) for row in rows] == [("Simulation", "succeeded")] * 4
    for row in rows:
        stages = row["stages"]
        assert stages["created"][0] <= stages["running"][1] <= stages["succeeded"][1]
        # KWOK waits a second between the two, and what the intervals say must permit it.
        assert stages["succeeded"][1] - stages["running"][0] >= 1
    assert files.read_yaml(run / "run.yml")["status"] == "passed"

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The object that role fine_tuning creates for given settings, made from the role's variables as Ansible does it."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan import (
    rendered_workload_templates,
    template_renderer,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import read_workload_files

ROLE = Path(__file__).parents[2] / "roles" / "fine_tuning"
LOADER = DataLoader()


@cache
def _role_variables() -> dict[str, Any]:
    files = [ROLE / folder / "main.yml" for folder in ("defaults", "vars")]
    return {
        name: value
        for file in files
        for name, value in LOADER.load_from_file(str(file), trusted_as_template=True).items()
    }


def variables(settings: Mapping[str, Any], *names: str, simulated: bool = False) -> list[Any]:
    """Return the values of variables of the role for these settings of a point."""
    cluster = {"kubeconfig": "/none", "simulated": simulated, "simulated_writers": []}
    known = {"run_id": "t1", "run_point": "001", "run_dir": "/none", "cluster_acquired": {"sutest": cluster}}
    known["__fine_tuning_role_path"] = str(ROLE)
    given = {name: value for name, value in settings.items() if "fine_tuning_" in name}
    templar = Templar(loader=LOADER, variables={**_role_variables(), **known, **given})
    return [templar.template(_role_variables()[name]) for name in names]


def resolved(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return a template with the text of its files, as workload_submit gets it."""
    return dict(read_workload_files.templates_with_content([dict(template)], lambda _folder, name: name)[0])


def rendered(
    settings: Mapping[str, Any],
    indices: Sequence[int] = (0,),
    simulated: bool = False,
    run_id: str = "t1",
    model: int = 0,
) -> rendered_workload_templates.RenderedTemplate:
    """Return the objects of trainings as the load engine creates them; of several models, those of one."""
    given = variables(settings, "__fine_tuning_templates", simulated=simulated)[0][model]
    template = rendered_workload_templates.WorkloadTemplate(**resolved(given))
    return template_renderer.render_template_for_indices(template, run_id, "001", run_id, indices)


def workloads(
    settings: Mapping[str, Any], count: int = 1, simulated: bool = False, run_id: str = "t1"
) -> list[dict[str, Any]]:
    """Return the objects of ``count`` trainings, in the namespace of the run; of several models, those of the first."""
    made = rendered(settings, range(count), simulated, run_id).workload
    found = [made.manifest(index) for index in range(count)]
    return [{**one, "metadata": {**one["metadata"], "namespace": run_id}} for one in found]


def pods(made: rendered_workload_templates.RenderedTemplate, index: int = 0) -> list[dict[str, Any]]:
    """Return the templates of the pods that train, as the controllers of the kind complete them."""
    manifest = made.workload.manifest(index)
    spec = manifest["spec"]
    if manifest["kind"] == "Job":
        return [spec["template"]]
    if manifest["kind"] == "JobSet":
        return [job["template"]["spec"]["template"] for job in spec["replicatedJobs"]]
    if manifest["kind"] == "PyTorchJob":
        return [one["template"] for one in spec["pytorchReplicaSpecs"].values()]
    if manifest["kind"] == "TrainJob":
        return [_pod_of_train_job(spec, made.shared[0]["spec"])]
    cluster = spec["rayClusterSpec"]
    return [one["template"] for one in (cluster["headGroupSpec"], *cluster.get("workerGroupSpecs", []))]


def _pod_of_train_job(spec: Mapping[str, Any], runtime: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the pod of a runtime with what a TrainJob changes: its program, and the labels of its pods."""
    (job,) = runtime["template"]["spec"]["replicatedJobs"]
    pod: dict[str, Any] = copy.deepcopy(job["template"]["spec"]["template"])
    ((patch,),) = (one["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"] for one in spec["runtimePatches"])
    pod["metadata"] = patch["template"]["spec"]["template"]["metadata"]
    (container,) = pod["spec"]["containers"]
    container.update({name: spec["trainer"][name] for name in ("command", "args", "env") if name in spec["trainer"]})
    # What the kubelet does: the folder that a volume is mounted from may be named by a variable.
    values = {f"$({one['name']})": one.get("value") for one in container["env"]}
    for mount in container["volumeMounts"]:
        if "subPathExpr" in mount:
            mount["subPath"] = values[mount.pop("subPathExpr")]
    return pod

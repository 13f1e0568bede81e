# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Trainings that are refused before a run begins, because their flavour cannot make them."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import phase_preconditions, point_loads
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_layers import SettingsLayer
from preflight import PHASES, check, preflight

pytestmark = pytest.mark.usefixtures("ansible_plugins")  # defaults look up the environment


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"fine_tuning_hyper_parameters": {"lora_alfa": 16}},
            r"unknown hyper-parameter 'lora_alfa' of flavour fms \(did you mean 'lora_alpha'\?\) \(set by -e\)",
        ),
        (
            {"matrix": {"fine_tuning_hyper_parameters.rr": [1, 2]}},
            "point 001: fine_tuning_hyper_parameters: unknown hyper-parameter 'rr'",
        ),
        (
            {"fine_tuning_flavour": "ilab", "fine_tuning_hyper_parameters": {"num_train_epochs": 1}},
            "unknown hyper-parameter 'num_train_epochs' of flavour ilab",
        ),
        (
            {"fine_tuning_pod_count": 2, "fine_tuning_command": ["python", "/app/accelerate_launch.py"]},
            "fine_tuning_pod_count is 2: the launcher of the image, accelerate_launch.py",
        ),
        (
            {"fine_tuning_pod_count": 2, "fine_tuning_command": ["accelerate", "launch", "-m", "tuning.sft_trainer"]},
            "and accelerate launch without --machine_rank start processes in their own pod only",
        ),
        ({"fine_tuning_models": {"a": 1, "b": 0}}, "each model needs a number of jobs, 1 or more"),
        ({"fine_tuning_models": {"a": 1, "b@lb": 1}, "storage_registries": {"lab": "s3://x/"}}, "is neither hf"),
        ({"fine_tuning_flavour": "ilab", "fine_tuning_gpus": 0}, "trains on GPUs only"),
        ({"fine_tuning_flavour": "ray"}, "flavour ray comes without a program"),
        (
            {"fine_tuning_api": "pytorchjob", "fine_tuning_runtime": "torch-distributed"},
            "only TrainJobs have a runtime; set fine_tuning_api=trainjob",
        ),
        (
            {"fine_tuning_api": "trainjob", "fine_tuning_runtime": "torch-distributed-rocm"},
            "fine_tuning_runtime is torch-distributed-rocm: its image is for another accelerator",
        ),
        (
            {"fine_tuning_api": "trainjob", "fine_tuning_runtime": "ClusterTrainingRuntime/torch-distributed-rocm"},
            "its image is for another accelerator",
        ),
        (
            {"fine_tuning_api": "trainjob", "fine_tuning_runtime": "mine", "fine_tuning_host_network": True},
            "can't change host network and priority",
        ),
        ({"fine_tuning_queue": "Team A"}, "fine_tuning_queue is Team A: it can't be the name of a LocalQueue"),
        ({"fine_tuning_cluster_queue": "all"}, "fine_tuning_queue is empty, so that no job goes to a queue"),
        (
            {"fine_tuning_api": "rayjob"},
            r"fine_tuning_api is rayjob: flavour fms runs as trainjob, pytorchjob, jobset, job only \(set by -e\)",
        ),
        (
            {"matrix": {"fine_tuning_flavour": ["fms", "ilab"]}, "fine_tuning_api": "rayjob"},
            "point 001: fine_tuning_api is rayjob",
        ),
    ],
)
@pytest.mark.parametrize("chosen", [PHASES, ["settings"]], ids=["run", "settings"])
def test_what_a_flavour_cannot_train_is_refused(chosen: list[str], given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        check(chosen, **given)


def test_a_flavour_brings_its_hyper_parameters_and_a_dotted_key_adds_one() -> None:
    added = SettingsLayer("overrides", "overrides", {"fine_tuning_hyper_parameters.lora_r": 4})
    found = preflight(PHASES, added, fine_tuning_flavour="ilab")
    found.check(None)
    values = found.found.settings["fine_tuning_hyper_parameters"]
    assert values["lora_r"] == 4 and values["num_epochs"] == 1
    check(PHASES, fine_tuning_hyper_parameters={"mine": 1}, fine_tuning_hyper_parameters_also=["mine"])
    check(PHASES, fine_tuning_pod_count=2)
    check(PHASES, fine_tuning_pod_count=2, fine_tuning_command=["accelerate", "launch", "--machine_rank=$(RANK)"])


def test_a_point_has_the_hyper_parameters_of_its_flavour_and_may_change_one() -> None:
    points = [
        {"fine_tuning_flavour": "ilab", "fine_tuning_hyper_parameters.lora_r": 8},
        {"fine_tuning_hyper_parameters.r": 8},
    ]
    found = preflight(PHASES, matrix_points=points)
    found.check(None)
    ilab, fms = (point.settings["fine_tuning_hyper_parameters"] for point in found.found.points)
    assert ilab["lora_r"] == fms["r"] == 8 and "num_epochs" in ilab and "num_train_epochs" in fms


def test_several_models_at_once_are_accepted_and_their_jobs_counted() -> None:
    models = [{"org/a@hf": 1}, {"org/b@lab": 1}, {"org/a@hf": 2, "org/b@lab": 3}]
    found = preflight(PHASES, storage_registries={"lab": "s3://x/"}, matrix={"fine_tuning_models": models})
    found.check(None)
    role = phase_preconditions.ROOT / "roles" / "fine_tuning"
    said = point_loads.describe_loads_of_points(role, found.found.measured, found.render)
    assert [said[name].split(" in ")[0] for name in ("001", "002", "003")] == [
        "1 workload",
        "1 workload",
        "5 workloads",
    ]

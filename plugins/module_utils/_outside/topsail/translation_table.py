# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The counterparts of TOPSAIL's keys, as data, and the types of their values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.formats import setting_text
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.secret_names import (
    is_secret_entry,
    mask_assignments,
    mask_entries,
)

from .topsail_configuration import HYPER, TESTS

OURS = f"fine_tuning_{HYPER}"
MODEL, DATASET = "fine_tuning_model_name", "fine_tuning_dataset_name"
REPLICATION = "fine_tuning_dataset_replication"

#: Test setting -> ours, and what its value must be.
SAME: dict[str, tuple[str, str]] = {
    "pod_count": ("fine_tuning_pod_count", "whole number"),
    "model_name": (MODEL, "text"),
    "dataset_name": (DATASET, "text"),
    "dataset_replication": (REPLICATION, "number"),
    "gpu": ("fine_tuning_gpus", "whole number"),
    "shared_memory": ("fine_tuning_shared_memory", "size"),
    "memory": ("fine_tuning_memory", "size"),
    "cpu": ("fine_tuning_cpu", "number or text"),
    "use_primary_nic": ("fine_tuning_pod_network", "true or false"),
    "use_host_network": ("fine_tuning_host_network", "true or false"),
    "container_image": ("fine_tuning_image", "text"),
    "secondary_nic_count": ("fine_tuning_network_count", "whole number"),
    "ephemeral_output_pvc_size": ("fine_tuning_output_size", "size"),
}
_TYPES: dict[str, tuple[type, ...]] = {
    "whole number": (int,),
    "number": (int, float),
    "size": (int, float, str),
    "number or text": (int, float, str),
    "text": (str,),
    "true or false": (bool,),
}
#: Test settings that are translated in another way, or that mean nothing here.
OTHERWISE = (
    *("name", HYPER, "use_secondary_nic", "secondary_nic_prefix", "node_selector_key", "node_selector_value"),
    "dataset_transform",
)
#: What TOPSAIL's role gives each program unless a test sets it: fms_base_config.yaml.j2 and ilab_base_config.yaml.j2.
DEFAULTS: dict[str, dict[str, Any]] = {
    "fms": {
        "num_train_epochs": 1,
        "per_device_train_batch_size": 4,
        "per_device_eval_batch_size": 4,
        "gradient_accumulation_steps": 4,
        "eval_strategy": "no",
        "save_strategy": "no",
        "learning_rate": 1.0e-05,
        "weight_decay": 0,
        "lr_scheduler_type": "cosine",
        "max_seq_length": 4096,
        "include_tokens_per_second": True,
        "dataset_text_field": "output",
        "use_flash_attn": False,
    },
    "ilab": {
        "num_epochs": 1,
        "effective_batch_size": 3840,
        "learning_rate": 1.0e-04,
        "num_warmup_steps": 800,
        "save_samples": 0,
        "log_level": "INFO",
        "max_batch_len": 20000,
        "seed": 42,
        "distributed_training_framework": "fsdp",
        "use_dolomite": True,
    },
    "ray": {},
}
#: Names that a program only accepts as an abbreviation.
RENAMED = {"cpu_offload_params": "cpu_offload_params_fsdp"}
#: Its scripts that rewrite datasets -> our transforms.
TRANSFORMS = {"convert_alpaca.py": "text"}
CLUSTER = "clusters.sutest"
MACHINES = f"{CLUSTER}.compute.machineset"
#: Which plots TOPSAIL makes.
WITHOUT_MEANING = ("matbench.workload", "matbench.prom_workload", "matbench.config_file")
#: Start of a key -> where its counterpart is; the first that fits.
_ELSEWHERE = {
    "clusters.create": "settings cluster_* choose or create the cluster",
    CLUSTER: "settings node_scaling_* scale the nodes",
    "clusters.metal_profiles": "cluster_profiles",
    "gpu": "settings gpu_operator_* configure the GPU operator",
    "rhods": "stack and rhoai_* install OpenShift AI",
    "nfs_provisioner": "storage classes are not installed",
    "tests.capture_prom": "metrics_url and metrics_route capture metrics",
    f"{TESTS}.ray.workload": "set fine_tuning_command to a program of yours",
    "matbench": "results_* and export_* evaluate and export every run",
    "export_artifacts": "export_s3_url exports the run",
    "secrets": "secret settings",
    "exec_list": "--tags and --skip-tags",
}


def text_without_secrets(key: str, value: Any, longest: int) -> str:
    """Return a value as text, without what is a secret by its name, wherever it is in the value."""

    def is_secret(name: Any, entry: Any) -> bool:
        return is_secret_entry(name, entry, anywhere=True)

    safe = mask_entries({key: value}, is_secret, mask_assignments)[key]
    return setting_text(safe if isinstance(safe, str) else repr(safe), longest)


def format_key_value(key: str, value: Any) -> str:
    """Return ``key = value (where its counterpart is)``, without the value of a secret."""
    safe = text_without_secrets(key, value, 80)
    hint = next((hint for start, hint in _ELSEWHERE.items() if key == start or key.startswith(f"{start}.")), "")
    return f"{key} = {safe}: {hint or 'there is no such setting'}"


def checked_value(key: str, value: Any, kind: str) -> Any:
    """Return a value as a setting has it. Raises InputError for one of another type."""
    fits = isinstance(value, _TYPES[kind]) and isinstance(value, bool) == (kind == "true or false")
    if not fits or (isinstance(value, (int, float)) and not 0 <= value < math.inf):
        raise InputError(f"{key} = {setting_text(repr(value), 80)} is not a {kind}")
    if kind == "size" and not isinstance(value, str):
        return f"{value}Gi"
    return str(value) if kind == "number or text" else value


def is_plain(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and is_plain(entry) for key, entry in value.items())
    if isinstance(value, list):
        return all(map(is_plain, value))
    return value is None or isinstance(value, (str, bool, int)) or (isinstance(value, float) and math.isfinite(value))

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The counterparts of TOPSAIL's keys, as data, and where it gets models and datasets from, as settings of role storage.

TOPSAIL downloads each model and dataset to a volume. A name with ``@registry``, and a model that
``fine_tuning.sources`` does not have if there is a ``fine_tuning.model_registry``, comes from a registry; the others
have their own entry in ``fine_tuning.sources``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.formats import format_setting_value
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.secret_names import (
    is_secret_entry,
    mask_assignments,
    mask_secret_entries,
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

    safe = mask_secret_entries({key: value}, is_secret, mask_assignments)[key]
    return format_setting_value(safe if isinstance(safe, str) else repr(safe), longest)


def format_key_value(key: str, value: Any) -> str:
    """Return ``key = value (where its counterpart is)``, without the value of a secret."""
    safe = text_without_secrets(key, value, 80)
    hint = next((hint for start, hint in _ELSEWHERE.items() if key == start or key.startswith(f"{start}.")), "")
    return f"{key} = {safe}: {hint or 'there is no such setting'}"


def value_of_expected_type(key: str, value: Any, kind: str) -> Any:
    """Return a value as a setting has it. Raises InputError for one of another type."""
    fits = isinstance(value, _TYPES[kind]) and isinstance(value, bool) == (kind == "true or false")
    if not fits or (isinstance(value, (int, float)) and not 0 <= value < math.inf):
        raise InputError(f"{key} = {format_setting_value(repr(value), 80)} is not a {kind}")
    if kind == "size" and not isinstance(value, str):
        return f"{value}Gi"
    return str(value) if kind == "number or text" else value


def is_json_compatible(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and is_json_compatible(entry) for key, entry in value.items())
    if isinstance(value, list):
        return all(map(is_json_compatible, value))
    return value is None or isinstance(value, (str, bool, int)) or (isinstance(value, float) and math.isfinite(value))


SOURCES = "fine_tuning.sources"
CLAIM = "fine_tuning.pvc"
HUB = "https://huggingface.co/"
#: Key of fine_tuning.pvc -> setting.
_CLAIM = {"name": "fine_tuning_storage_claim", "size": "storage_size", "storage_class_name": "storage_class"}
_MODES = ("ReadWriteOnce", "ReadWriteMany")
#: Scheme of an address -> settings with its credentials.
_CREDENTIALS = {
    "hf": "storage_hub_token",
    "s3": "storage_s3_access_key and storage_s3_secret_key",
    "https": "storage_https_token",
    "http": "storage_https_token",
}


class DataSources:
    """The models and datasets that the points of one preset use.

    get: reads a key of the effective configuration. note: lists what cannot be translated.
    """

    def __init__(self, get: Callable[[str], Any], note: Callable[[str], None]) -> None:
        self._get, self._note = get, note
        self._known: Mapping[str, Any] = get(SOURCES) or {}
        self._claim: Mapping[str, Any] = get(CLAIM) or {}
        if not isinstance(self._known, Mapping) or not isinstance(self._claim, Mapping):
            raise InputError(f"{SOURCES} or {CLAIM} is no dictionary")
        self._default = str(get("fine_tuning.model_registry") or "")
        #: A volume without a name: TOPSAIL downloads nothing.
        self.volume = not ("name" in self._claim and self._claim["name"] is None)
        self._wanted: list[Any] = []
        self._registries: dict[str, str] = {}
        self._images: list[str] = []
        self._used = False

    def model(self, source_name: str) -> str:
        """Return the name of a model as a setting has it, and remember where it comes from."""
        return self._name(source_name, self._default)

    def dataset(self, source_name: str) -> str:
        """Return the name of a dataset, as model(); a dataset needs an entry in ``fine_tuning.sources``."""
        return self._name(source_name, "")

    def _name(self, source_name: str, default: str) -> str:
        path, _at, registry = source_name.partition("@")
        if not self.volume:
            return path
        self._used = True
        if not registry and path not in self._known:
            registry = default
        source = self._source(registry or path)
        if not source:
            self._note(f"{source_name}: {SOURCES} has no {registry or path}: put {path} into the volume")
            return path
        address = _storage_source_address(str(source.get("source_dir") or ""))
        scheme = address.partition("://")[0]
        if scheme not in _CREDENTIALS:
            self._note(
                f"{source_name}: it cannot be downloaded from {source.get('source_dir')}: put {path} into the volume"
            )
            return path
        self._credentials(source, scheme)
        if registry:
            if (registry, address) != ("hf", "hf://"):
                self._registries[registry] = address
            return f"{path}@{registry}"
        source_url = f"{address.rstrip('/')}/{path}"
        if source_url not in self._wanted:
            self._wanted.append(source_url)
        return path

    def of_dataset(self, name: str, key: str) -> Any:
        """Return a key of a dataset's entry, such as ``response_template``; None without one."""
        return self._source(name).get(key)

    def settings(self) -> dict[str, Any]:
        """Return the settings of the volume and of what is downloaded to it; none if nothing is in a volume."""
        if not self._used:
            return {}
        values: dict[str, Any] = {name: str(self._claim[key]) for key, name in _CLAIM.items() if self._claim.get(key)}
        mode = self._claim.get("access_mode")
        if mode in _MODES:
            values["storage_access_mode"] = mode
        elif mode:
            self._note(f"{CLAIM}.access_mode = {mode}: storage_access_mode is one of {', '.join(_MODES)}")
        if self._wanted:
            values["storage_sources"] = self._wanted
        if self._registries:
            values["storage_registries"] = self._registries
        if self._images:
            values["storage_image"] = self._images[0]
            for image in self._images[1:]:
                self._note(f"{image}: storage_image is one image for all downloads, {self._images[0]}")
        return values

    def _source(self, name: str) -> Mapping[str, Any]:
        source = self._known.get(name) or {}
        if not isinstance(source, Mapping):
            raise InputError(f"{SOURCES}.{name} is no dictionary")
        return source

    def _credentials(self, source: Mapping[str, Any], scheme: str) -> None:
        if source.get("secret_key"):
            self._note(f"{source['secret_key']}: set {_CREDENTIALS[scheme]}")
        image = self._get(str(source["download_pod_image_key"])) if source.get("download_pod_image_key") else None
        if image and str(image) not in self._images:
            self._images.append(str(image))


def _storage_source_address(url: str) -> str:
    """Return an address for role storage: repositories of the model hub have their own scheme, files have not."""
    if not url.startswith(HUB) or "/resolve/" in url or "/raw/" in url:
        return url
    return f"hf://{url.removeprefix(HUB)}"

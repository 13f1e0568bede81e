# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Presets of TOPSAIL's project fine_tuning as presets of ours, and what could not be translated.

docs/from_topsail.md has the translation of each key.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError

from . import configuration, data_sources
from .configuration import HYPER

TESTS = "tests.fine_tuning"
SETTINGS = f"{TESTS}.test_settings"
FLAVOURS = ("fms", "ilab", "ray")
OURS = f"fine_tuning_{HYPER}"
MODEL, DATASET = "fine_tuning_model_name", "fine_tuning_dataset_name"
REPLICATION = "fine_tuning_dataset_replication"

#: Test setting -> ours.
_SAME = {
    "pod_count": "fine_tuning_pod_count",
    "model_name": MODEL,
    "dataset_name": DATASET,
    "dataset_replication": REPLICATION,
    "gpu": "fine_tuning_gpus",
    "shared_memory": "fine_tuning_shared_memory",
    "memory": "fine_tuning_memory",
    "cpu": "fine_tuning_cpu",
    "use_primary_nic": "fine_tuning_pod_network",
    "use_host_network": "fine_tuning_host_network",
    "container_image": "fine_tuning_image",
    "secondary_nic_count": "fine_tuning_network_count",
    "ephemeral_output_pvc_size": "fine_tuning_output_size",
}
#: What its role gives fms-hf-tuning, unless a test sets it.
_FMS = {
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
}
#: Its scripts that rewrite datasets -> our transforms.
_TRANSFORMS = {"convert_alpaca.py": "text"}
_SCALING = "clusters.sutest"
_MACHINES = f"{_SCALING}.compute.machineset"
_TYPES: dict[str, type] = {"cpu": str, "dataset_replication": float}
#: Test settings that are translated in another way, or that mean nothing here.
_OTHERWISE = ("name", HYPER, "use_secondary_nic", "secondary_nic_prefix", "node_selector_key", "node_selector_value")
_OUTPUT = "output"
_EQUAL = f"{TESTS}.node_count_equal_pod_count"
#: Other keys that are translated.
_READ = (
    *(f"{TESTS}.{flavour}.{key}" for flavour in FLAVOURS for key in ("enabled", "image")),
    *(f"{TESTS}.matbenchmarking.{key}" for key in ("enabled", "stop_on_error")),
    *(f"{TESTS}.many_model.{key}" for key in ("enabled", "count", "timespan")),
    *(f"{TESTS}.multi_model.{key}" for key in ("enabled", "models")),
    *(f"{_MACHINES}.{key}" for key in ("name", "type", "count", "spot", "rest_count", "taint")),
    f"{_SCALING}.is_metal",
    f"{_SCALING}.compute.dedicated",
    "gpu.prepare_cluster",
    _EQUAL,
    f"{TESTS}.namespace",
    f"{TESTS}.test_extra_settings",
    "fine_tuning.default_response_template",
    "fine_tuning.model_registry",
)
#: Start of a key -> where its counterpart is.
_ELSEWHERE = {
    "ci_presets": "",
    "clusters.create": "settings cluster_* choose or create the cluster",
    _SCALING: "settings node_scaling_* scale the nodes",
    "gpu": "settings gpu_operator_* configure the GPU operator",
    "rhods": "stack installs OpenShift AI",
    "nfs_provisioner": "storage classes are not installed",
    data_sources.CLAIM: "",
    data_sources.SOURCES: "",
    "matbench.workload": "",
    "matbench.prom_workload": "",
    "matbench.config_file": "",
    "tests.capture_prom": "metrics_url and metrics_route capture metrics",
    "matbench": "results_* and export_* settings evaluate and export every run",
    "export_artifacts": "export_s3_url exports the run",
}


@dataclass
class ImportedPreset:
    """One preset in our words; unmapped: what has no counterpart, one sentence each."""

    name: str
    description: str
    settings: dict[str, Any] = field(default_factory=dict)
    unmapped: list[str] = field(default_factory=list)


def combined_preset_name(presets: str) -> str:
    """Return the name of the preset that does what these presets (``a b``) do together."""
    return "__".join(presets.split())


def translate_presets(config: Mapping[str, Any], presets: str) -> ImportedPreset:
    """Translate what presets (``a b``: several, in this order) make of a configuration.

    Raises InputError if TOPSAIL could not apply them, or if they choose no training.
    """
    effective, keys = configuration.apply_presets(config, presets.split())
    return _ConfigurationTranslator(
        effective, keys, ImportedPreset(combined_preset_name(presets), f"TOPSAIL's {' '.join(presets.split())}")
    ).run()


class _ConfigurationTranslator:
    """The translation of one effective configuration."""

    def __init__(self, config: Mapping[str, Any], keys: list[str], made: ImportedPreset) -> None:
        self.config, self.keys, self.made = config, keys, made
        self.flavour = ""
        self.node_for_each_pod = False
        self.data = data_sources.DataSources(self._get, self._note)

    def run(self) -> ImportedPreset:
        """Return the preset."""
        chosen = [flavour for flavour in FLAVOURS if self._get(f"{TESTS}.{flavour}.enabled")]
        if len(chosen) > 1:
            raise InputError(f"{' and '.join(chosen)} are enabled, a training has one flavour")
        self.flavour = chosen[0] if chosen else FLAVOURS[0]
        if not chosen:
            self._note("no flavour is enabled; fms is assumed")
        tests = self._get(SETTINGS) or {}
        made = self.made.settings
        made["fine_tuning_flavour"] = self.flavour
        if image := self._get(f"{TESTS}.{self.flavour}.image"):
            made["fine_tuning_image"] = image
        if namespace := self._get(f"{TESTS}.namespace"):
            made["fine_tuning_namespace"] = namespace
        self._load()
        self._nodes()
        made["run_stop_on_error"] = bool(self._get(f"{TESTS}.matbenchmarking.stop_on_error"))
        self._points(tests)
        self._several_models()
        made.update(self.data.settings())
        self._rest(tests)
        return self.made

    def _get(self, key: str) -> Any:
        """Return the value of a key, None if there is none or if it refers to a secret."""
        try:
            value = configuration.value_at_path(self.config, configuration.parse_key_path(key))
        except InputError:
            return None
        try:
            return configuration.resolve_references(self.config, value)
        except InputError as error:
            self._note(f"{key}: {error}")
            return None

    def _note(self, text: str) -> None:
        if text not in self.made.unmapped:
            self.made.unmapped.append(text)

    def _load(self) -> None:
        many = self._get(f"{TESTS}.many_model") or {}
        made = self.made.settings
        made["fine_tuning_count"] = 1
        if many.get("enabled"):
            made["fine_tuning_count"] = int(many["count"])
            if many.get("timespan"):
                made["fine_tuning_rate"] = round(int(many["count"]) / (60 * float(many["timespan"])), 7)

    def _nodes(self) -> None:
        """Translate the nodes that are added for the run, and the operators of GPUs."""
        made = self.made.settings
        if self._get("gpu.prepare_cluster"):
            made["stack"] = ["nfd", "gpu_operator"]
        machines = self._get(_MACHINES) or {}
        if self._get(f"{_SCALING}.is_metal"):
            return
        self.node_for_each_pod = bool(self._get(_EQUAL))
        if machines.get("count") and not self.node_for_each_pod:
            made["node_scaling_count"] = int(machines["count"])
        elif not self.node_for_each_pod:
            return
        for key, name in (("name", "node_scaling_name"), ("type", "node_scaling_instance_type")):
            if machines.get(key):
                made[name] = str(machines[key])
        if machines.get("spot"):
            made["node_scaling_spot"] = True
        taint = machines.get("taint")
        if taint and self._get(f"{_SCALING}.compute.dedicated"):
            key, value = str(taint["key"]), str(taint.get("value") or "")
            made["node_scaling_taint"] = f"{key}{value and '='}{value}:{taint['effect']}"
            toleration = {"key": key, "operator": "Exists", "effect": taint["effect"]}
            made["fine_tuning_tolerations"] = [toleration]
            made["fine_tuning_node_selector"] = {key: value}
        if machines.get("rest_count"):
            self._note(f"{_MACHINES}.rest_count: after a run, there are as many machines as before it")

    def _points(self, tests: Mapping[str, Any]) -> None:
        """Translate the settings of the tests: the common ones, and a matrix or a list of points for the others."""
        varied = bool(self._get(f"{TESTS}.matbenchmarking.enabled"))
        if not varied and configuration.has_lists(tests):
            self._note(
                "matbenchmarking is not enabled, so TOPSAIL cannot run this preset alone; its lists are a matrix here"
            )
            varied = True
        entries = (self._get(f"{TESTS}.test_extra_settings") or []) if varied else []
        whole = [
            configuration.merge_extra_test_settings(tests, entry)
            for entry in ([entries] if isinstance(entries, Mapping) else entries) or [{}]
        ]
        points, skipped = [], 0
        for config in whole:
            for point in configuration.expand_test_points(config):
                if configuration.is_skipped(point):
                    skipped += 1
                elif (made := self._translated(point)) not in points:
                    points.append(made)
        if skipped:
            self._note(f"skip_if: {skipped} of {skipped + len(points)} points are left out")
        if not points:
            raise InputError("skip_if leaves no point")
        common = {key: value for key, value in points[0].items() if all(point.get(key) == value for point in points)}
        if common.get(REPLICATION) == 1:
            del common[REPLICATION]
            points = [{key: value for key, value in point.items() if key != REPLICATION} for point in points]
        hyper = {key.partition(".")[2]: value for key, value in common.items() if key.startswith(f"{OURS}.")}
        self.made.settings.update({key: value for key, value in common.items() if not key.startswith(f"{OURS}.")})
        self.made.settings[OURS] = hyper
        rest = [{key: value for key, value in point.items() if key not in common} for point in points]
        lists: dict[str, list[Any]] = {}
        for differing in rest:
            for key, value in differing.items():
                if value not in lists.setdefault(key, []):
                    lists[key].append(value)
        product = [dict(zip(lists, combination, strict=True)) for combination in itertools.product(*lists.values())]
        if lists and len(rest) == len(product) and all(combination in rest for combination in product):
            self.made.settings["matrix"] = lists
        elif lists:
            self.made.settings["matrix_points"] = rest

    def _several_models(self) -> None:
        """Translate a test of several models: each alone, one after the other, then all at once."""
        several = self._get(f"{TESTS}.multi_model") or {}
        if not several.get("enabled"):
            return
        if self._get(f"{TESTS}.matbenchmarking.enabled"):
            raise InputError("multi_model and matbenchmarking are both enabled, and TOPSAIL does one of them")
        together: dict[str, int] = {}
        for model in several.get("models") or []:
            name = self.data.model(str(model["name"]))
            together[name] = together.get(name, 0) + int(model.get("replicas") or 1)
        points = [{name: 1} for name in together]
        if together not in points:
            points.append(together)
        self.made.settings.pop(MODEL, None)
        self.made.settings["matrix"] = {"fine_tuning_models": points}

    def _translated(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of one point, hyperparameters as dotted keys; nothing for a null."""
        settings: dict[str, Any] = {}
        for key, name in _SAME.items():
            value = point.get(key)
            if value is not None:
                settings[name] = self._value(key, value)
        self._of_dataset(settings, str(point.get("dataset_name")))
        if "fine_tuning_output_size" in settings:
            settings["fine_tuning_output_claim"] = _OUTPUT
        settings.setdefault("fine_tuning_gpus", 0)
        networks = self._networks(point)
        if networks:
            settings["fine_tuning_networks"] = networks
        if self.node_for_each_pod:
            settings["node_scaling_count"] = int(point.get("pod_count") or 1)
        if point.get("node_selector_key"):
            settings["fine_tuning_node_selector"] = {point["node_selector_key"]: point.get("node_selector_value") or ""}
        hyperparameters = {**point.get(HYPER, {}), **(point.get(HYPER, {}).get("raw_lists") or {})}
        hyper = {key: value for key, value in hyperparameters.items() if value is not None}
        if self.flavour == "fms":
            hyper = {**_FMS, **hyper}
        variables = {}
        if self.flavour == "fms" and hyper.get("response_template") is None:
            hyper["response_template"] = self._response_template(str(point.get("dataset_name") or ""))
        for key, value in hyper.items():
            if key in ("raw_lists", "skip_if"):
                continue
            if key.startswith("NCCL_"):
                variables[key] = str(value)
            else:
                settings[f"{OURS}.{key}"] = value
        if variables:
            settings["fine_tuning_environment"] = variables
        return settings

    def _value(self, key: str, value: Any) -> Any:
        if key == "model_name":
            return self.data.model(str(value))
        if key == "dataset_name":
            return self.data.dataset(str(value))
        if key in ("shared_memory", "memory", "ephemeral_output_pvc_size") and not isinstance(value, str):
            return f"{value}Gi"
        as_type = _TYPES.get(key)
        return as_type(value) if as_type else value

    def _of_dataset(self, settings: dict[str, Any], dataset: str) -> None:
        """Leave out a replication that is not possible here, and translate or note a transformation."""
        factor = settings.get(REPLICATION, 1.0)
        transform = str(self.data.of_dataset(dataset, "transform") or "")
        if transform in _TRANSFORMS and self.data.volume and dataset.endswith((".json", ".jsonl")):
            settings["fine_tuning_dataset_transform"] = _TRANSFORMS[transform]
        elif transform:
            self._note(f"dataset {dataset}: {transform}: write it as a script for fine_tuning_dataset_transform")
        if not self.data.volume or not str(settings.get(DATASET)).partition("@")[0].endswith((".json", ".jsonl")):
            settings.pop(REPLICATION, None)
            if factor != 1:
                self._note(
                    f"{SETTINGS}.dataset_replication = {factor:g}: {dataset} is no .json or .jsonl file in a volume"
                )

    def _response_template(self, dataset: str) -> Any:
        return self.data.of_dataset(dataset, "response_template") or self._get("fine_tuning.default_response_template")

    def _networks(self, point: Mapping[str, Any]) -> list[str]:
        networks = point.get("use_secondary_nic")
        if networks:
            return [networks] if isinstance(networks, str) else list(networks)
        prefix = point.get("secondary_nic_prefix")
        if not prefix:
            return []
        counts = self._get(f"{SETTINGS}.secondary_nic_count") or 0
        most = max(counts) if isinstance(counts, list) else int(counts)
        return [f"{prefix}{number:02d}" for number in range(1, most + 1)]

    def _rest(self, tests: Mapping[str, Any]) -> None:
        """Note what has no counterpart."""
        for key, value in tests.items():
            if key not in (*_SAME, *_OTHERWISE) and value is not None:
                self._note(f"{SETTINGS}.{key} = {value}: there is no such setting")
        for key in self.keys:
            if key.startswith(f"{SETTINGS}.") or key == SETTINGS or key in _READ:
                continue
            value = self._get(key)
            why = next(
                (text for start, text in _ELSEWHERE.items() if key == start or key.startswith(f"{start}.")), None
            )
            if why != "" and value not in (None, False, {}, []):
                self._note(f"{key} = {value}: {why or 'there is no such setting'}")

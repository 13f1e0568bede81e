# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Presets of TOPSAIL's project fine_tuning as presets of ours, and what could not be translated.

docs/from_topsail.md has the translation of each key.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.formats import join_with_and

from . import topsail_configuration, topsail_key_translation
from .topsail_configuration import HYPER, SETTINGS, TESTS
from .topsail_key_translation import (
    CLUSTER,
    DATASET,
    DEFAULTS,
    MACHINES,
    MODEL,
    OTHERWISE,
    OURS,
    RENAMED,
    REPLICATION,
    SAME,
    TRANSFORMS,
    WITHOUT_MEANING,
    format_key_value,
    is_json_compatible,
    value_of_expected_type,
)

#: Of every imported preset, so that none replaces another one.
PREFIX = "topsail_"
_HYPER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
FLAVOURS = ("fms", "ilab", "ray")
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_OUTPUT = "output"


@dataclass
class ImportedPreset:
    """One preset in our words.

    unmapped: what has no counterpart, one sentence each. read: the keys that the translation has considered.
    """

    name: str
    description: str
    settings: dict[str, Any] = field(default_factory=dict)
    unmapped: list[str] = field(default_factory=list)
    read: set[str] = field(default_factory=set)


def translate_presets(config: Mapping[str, Any], names: Sequence[str]) -> ImportedPreset:
    """Translate what presets, in this order, make of a configuration.

    Raises InputError if TOPSAIL could not run a test with them, or if a value is not of the right type.
    """
    for name in names:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InputError("the name of a preset has letters, digits, '_', '-' and '.' only; rename it in the file")
    effective, keys = topsail_configuration.configuration_with_presets(config, names)
    made = ImportedPreset(PREFIX + "__".join(names), f"TOPSAIL's {' '.join(names)}")
    return _ConfigurationTranslator(effective, keys, made).run()


def is_translation_covered(key: str, read: set[str]) -> bool:
    """Return whether a translation that has considered the keys ``read`` has considered this one."""
    return any(key == one or key.startswith((f"{one}.", f"{one}[")) for one in read)


class _ConfigurationTranslator:
    """The translation of one effective configuration."""

    def __init__(self, config: Mapping[str, Any], keys: list[str], made: ImportedPreset) -> None:
        self.config, self.keys, self.made = config, keys, made
        self.flavour = ""
        self.node_for_each_pod = False
        self.data = topsail_key_translation.DataSources(self._get, self._note)

    def run(self) -> ImportedPreset:
        """Return the preset."""
        chosen = [flavour for flavour in FLAVOURS if self._section(f"{TESTS}.{flavour}").get("enabled")]
        if not chosen:
            raise InputError("it enables none of fms, ilab and ray; name it with one that does, such as 'fms <preset>'")
        if len(chosen) > 1:
            raise InputError(f"it enables {join_with_and(chosen)}, and a training has one flavour")
        self.flavour = chosen[0]
        made = self.made.settings
        made["fine_tuning_flavour"] = self.flavour
        if image := self._section(f"{TESTS}.{self.flavour}").get("image"):
            made["fine_tuning_image"] = value_of_expected_type(f"{TESTS}.{self.flavour}.image", image, "text")
        if namespace := self._get(f"{TESTS}.namespace"):
            made["fine_tuning_namespace"] = value_of_expected_type(f"{TESTS}.namespace", namespace, "text")
        self._load()
        self._nodes()
        self._points(self._section(SETTINGS))
        made.update(self.data.settings())
        if self.flavour == "ray":
            self._note(format_key_value(f"{TESTS}.ray.workload", self._section(f"{TESTS}.ray").get("workload")))
        for key in self.keys:
            value = topsail_configuration.value_at_path(self.config, topsail_configuration.parse_key_path(key))
            if not is_translation_covered(key, self.made.read) and not key.startswith(
                (topsail_configuration.PRESETS, *WITHOUT_MEANING)
            ):
                self._note(format_key_value(key, value))
        return self.made

    def _get(self, key: str) -> Any:
        """Return the value of a key, None if there is none. Raises InputError for a reference that has no value."""
        self.made.read.add(key)
        try:
            value = topsail_configuration.value_at_path(self.config, topsail_configuration.parse_key_path(key))
        except InputError:
            return None
        try:
            return topsail_configuration.resolve_references(self.config, value)
        except InputError as error:
            raise InputError(f"{key}: {error}") from error

    def _section(self, key: str) -> Mapping[str, Any]:
        section = self._get(key)
        if section is not None and not isinstance(section, Mapping):
            raise InputError(f"{key} is no dictionary")
        return section or {}

    def _note(self, text: str) -> None:
        if text not in self.made.unmapped:
            self.made.unmapped.append(text)

    def _load(self) -> None:
        key = f"{TESTS}.many_model"
        many, made = self._section(key), self.made.settings
        made["fine_tuning_count"] = 1
        if not many.get("enabled"):
            return
        made["fine_tuning_count"] = value_of_expected_type(f"{key}.count", many.get("count"), "whole number")
        if many.get("timespan"):
            seconds = 60 * value_of_expected_type(f"{key}.timespan", many["timespan"], "number")
            made["fine_tuning_arrival"] = {"type": "poisson", "timespan": seconds}
        if queue := many.get("kueue_name"):
            made["fine_tuning_queue"] = value_of_expected_type(f"{key}.kueue_name", queue, "text")
            made["rehearsal_components"] = ["kueue"]

    def _nodes(self) -> None:
        """Translate the nodes that are added for the run, and the operators of GPUs."""
        made = self.made.settings
        if self._get("gpu.prepare_cluster"):
            made["stack"] = ["nfd", "gpu_operator"]
        machines, taint = self._section(MACHINES), self._section(f"{MACHINES}.taint")
        dedicated = self._get(f"{CLUSTER}.compute.dedicated")
        self.node_for_each_pod = bool(self._get(f"{TESTS}.node_count_equal_pod_count"))
        if self._get(f"{CLUSTER}.is_metal"):
            self.node_for_each_pod = False
            return
        key, value, effect = (str(taint.get(part) or "") for part in ("key", "value", "effect"))
        if dedicated and taint and not (key and effect):
            raise InputError(f"{MACHINES}.taint has no key or no effect")
        if not machines.get("count") and not self.node_for_each_pod:
            if dedicated and taint:
                self._note(
                    f"{CLUSTER}.compute.dedicated: TOPSAIL lets the pods run only on nodes with label and taint"
                    f" {key}={value}, unless the cluster is bare metal: set fine_tuning_node_selector and"
                    " fine_tuning_tolerations"
                )
            return
        if not self.node_for_each_pod:
            made["node_scaling_count"] = value_of_expected_type(f"{MACHINES}.count", machines["count"], "whole number")
        for part, name in (("name", "node_scaling_name"), ("type", "node_scaling_instance_type")):
            if machines.get(part):
                made[name] = value_of_expected_type(f"{MACHINES}.{part}", machines[part], "text")
        if machines.get("spot"):
            made["node_scaling_spot"] = True
        if dedicated and taint:
            made["node_scaling_taint"] = f"{key}{value and '='}{value}:{effect}"
            made["fine_tuning_tolerations"] = [{"key": key, "operator": "Exists", "effect": effect}]
            made["fine_tuning_node_selector"] = {key: value}
        if machines.get("rest_count"):
            self._note(f"{MACHINES}.rest_count: after a run, there are as many machines as before it")

    def _points(self, tests: Mapping[str, Any]) -> None:
        """Translate the settings of the tests: the common ones, and a matrix or a list of points for the others."""
        matrix, models = self._section(f"{TESTS}.matbenchmarking"), self._section(f"{TESTS}.multi_model")
        varied = bool(matrix.get("enabled"))
        if varied and models.get("enabled"):
            raise InputError("multi_model and matbenchmarking are both enabled, and TOPSAIL does one of them")
        self.made.settings["run_stop_on_error"] = bool(matrix.get("stop_on_error"))
        extras = self._get(f"{TESTS}.test_extra_settings") or [{}]
        if not isinstance(extras, list) or not all(isinstance(extra, Mapping) for extra in extras):
            raise InputError(f"{TESTS}.test_extra_settings is no list of dictionaries")
        if extras != [{}] and not varied:
            raise InputError("it has test_extra_settings, which TOPSAIL refuses unless matbenchmarking is enabled")
        if not isinstance(tests.get(HYPER) or {}, Mapping):
            raise InputError(f"{SETTINGS}.{HYPER} is no dictionary")
        found: list[dict[str, Any]] = []
        for extra in extras:
            merged = topsail_configuration.merge_extra_test_settings({**tests, HYPER: tests.get(HYPER) or {}}, extra)
            if not isinstance(merged[HYPER], Mapping):
                raise InputError(f"{SETTINGS}.{HYPER} is no dictionary")
            found += topsail_configuration.expand_test_points(merged) if varied else [merged]
        several = self._several_models(models) if models.get("enabled") else []
        networks = _most_networks(found)
        points: list[dict[str, Any]] = []
        skipped = 0
        for point in found:
            hyper, skip = topsail_configuration.hyper_parameters_of_point(point)
            if skip and varied:
                skipped += 1
            elif (made := self._translated({**point, HYPER: hyper}, networks, bool(several))) not in points:
                points.append(made)
        if skipped:
            self._note(f"skip_if: {skipped} of {len(found)} points are left out")
        if not points:
            raise InputError("skip_if leaves no point")
        if several:
            points = [{**points[0], "fine_tuning_models": together} for together in several]
        self._common_and_matrix(points)

    def _common_and_matrix(self, points: list[dict[str, Any]]) -> None:
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
        if lists and len(rest) == math.prod(map(len, lists.values())):
            product = [dict(zip(lists, values, strict=True)) for values in itertools.product(*lists.values())]
            if all(combination in rest for combination in product):
                self.made.settings["matrix"] = lists
                return
        if lists:
            self.made.settings["matrix_points"] = rest

    def _several_models(self, models: Mapping[str, Any]) -> list[dict[str, int]]:
        """Return the points of a test of several models: each alone, one after the other, then all at once."""
        together: dict[str, int] = {}
        key = f"{TESTS}.multi_model.models"
        entries = models.get("models")
        if not isinstance(entries, list) or not entries or not all(isinstance(entry, Mapping) for entry in entries):
            raise InputError(f"{key} is no list of dictionaries")
        for entry in entries:
            name = self.data.model(value_of_expected_type(f"{key}: name", entry.get("name"), "text"))
            replicas = value_of_expected_type(f"{key}: replicas", entry.get("replicas", 1), "whole number")
            together[name] = together.get(name, 0) + replicas
        points = [{name: 1} for name in together]
        return points if together in points else [*points, together]

    def _translated(self, point: Mapping[str, Any], networks: Mapping[str, int], several: bool) -> dict[str, Any]:
        """Return the settings of one point, hyperparameters as dotted keys; nothing for a null."""
        settings: dict[str, Any] = {}
        for key, value in point.items():
            if value is None or (key == "model_name" and several):
                continue
            if key in SAME:
                name, kind = SAME[key]
                settings[name] = value_of_expected_type(f"{SETTINGS}.{key}", value, kind)
            elif key not in OTHERWISE:
                self._note(format_key_value(f"{SETTINGS}.{key}", value))
        if self.flavour != "ray" and not (several or MODEL in settings):
            raise InputError(f"{SETTINGS}.model_name is not set")
        if MODEL in settings:
            settings[MODEL] = self.data.model(settings[MODEL])
        dataset = settings.get(DATASET, "")
        if DATASET in settings:
            settings[DATASET] = self.data.dataset(dataset)
        self._of_dataset(settings, dataset, str(point.get("dataset_transform") or ""))
        if "fine_tuning_output_size" in settings:
            settings["fine_tuning_output_claim"] = _OUTPUT
        settings.setdefault("fine_tuning_gpus", 0)
        if self.flavour == "fms" and settings["fine_tuning_gpus"] > 1:
            self._note("accelerate: TOPSAIL trains on several GPUs with FSDP; set fine_tuning_hyper_parameters.fsdp")
        if named := _networks(point, networks):
            settings["fine_tuning_networks"] = named
        if self.node_for_each_pod:
            settings["node_scaling_count"] = settings.get("fine_tuning_pod_count", 1)
        if label := point.get("node_selector_key"):
            settings["fine_tuning_node_selector"] = {str(label): str(point.get("node_selector_value") or "")}
        self._hyper_parameters(settings, {**DEFAULTS[self.flavour], **point[HYPER]}, dataset)
        return settings

    def _hyper_parameters(self, settings: dict[str, Any], hyper: dict[str, Any], dataset: str) -> None:
        if self.flavour == "fms" and hyper.get("response_template") is None:
            hyper["response_template"] = self.data.of_dataset(dataset, "response_template") or self._get(
                "fine_tuning.default_response_template"
            )
        variables = {}
        for key, value in hyper.items():
            if not isinstance(key, str) or not _HYPER_NAME.fullmatch(key):
                raise InputError(f"{SETTINGS}.{HYPER}: '{key}' is not the name of a hyperparameter")
            if not is_json_compatible(value):
                raise InputError(f"{SETTINGS}.{HYPER}.{key} = {value} is no text, number, list or dictionary")
            if key.startswith("NCCL_"):
                variables[key] = str(value)
            else:
                settings[f"{OURS}.{RENAMED.get(key, key)}"] = value
        if variables:
            settings["fine_tuning_environment"] = variables

    def _of_dataset(self, settings: dict[str, Any], dataset: str, script: str) -> None:
        """Leave out a replication that is not possible here, and translate or note a transformation."""
        factor = settings.get(REPLICATION, 1)
        transform = str(self.data.of_dataset(dataset, "transform") or script)
        rows = self.data.volume and dataset.partition("@")[0].endswith((".json", ".jsonl"))
        if transform in TRANSFORMS and rows:
            settings["fine_tuning_dataset_transform"] = TRANSFORMS[transform]
        elif transform:
            self._note(f"dataset {dataset}: {transform}: write it as a script for fine_tuning_dataset_transform")
        if not rows:
            settings.pop(REPLICATION, None)
            if factor != 1:
                self._note(
                    f"{SETTINGS}.dataset_replication = {factor}: {dataset} is no .json or .jsonl file in a volume"
                )


def _most_networks(points: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return, for each prefix of names of networks, the largest number that a point uses."""
    most: dict[str, int] = {}
    for point in points:
        prefix, count = point.get("secondary_nic_prefix"), point.get("secondary_nic_count")
        if count and not prefix:
            raise InputError(f"{SETTINGS}.secondary_nic_count is set, and secondary_nic_prefix is not")
        if count:
            number = value_of_expected_type(f"{SETTINGS}.secondary_nic_count", count, "whole number")
            if number > 99:
                raise InputError(f"{SETTINGS}.secondary_nic_count = {number} is more than 99")
            most[str(prefix)] = max(most.get(str(prefix), 0), number)
    return most


def _networks(point: Mapping[str, Any], most: Mapping[str, int]) -> list[str]:
    """Return the networks of a point: fine_tuning_network_count is the number of the first ones that it uses."""
    if point.get("secondary_nic_count"):
        prefix = str(point["secondary_nic_prefix"])
        return [f"{prefix}{number:02d}" for number in range(1, most[prefix] + 1)]
    named = point.get("use_secondary_nic") or []
    names = named if isinstance(named, list) else [named]
    return [value_of_expected_type(f"{SETTINGS}.use_secondary_nic", name, "text") for name in names]

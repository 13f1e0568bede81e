# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Flavours of fine-tuning, each a folder in roles/fine_tuning/files/flavours, and runtimes: docs/fine_tuning.md."""

from __future__ import annotations

import functools
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    DataError,
    InputError,
    suggest_similar_name,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.training_figures import training_rows
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.training_figures.training_log import (
    LogFormat,
)

from . import project_role

ROLE = project_role.ROOT / "roles" / "fine_tuning"
FOLDER = ROLE / "files" / "flavours"
#: Runtimes of TrainJobs that platforms bring.
RUNTIMES = ROLE / "files" / "runtimes.yml"
#: How a program gets its configuration.
CONFIGURATIONS = ("file", "arguments")


@dataclass(frozen=True)
class TrainingFlavour:
    """A training program and the kinds of workloads that can run it.

    apis: values of fine_tuning_api, which are names of kinds in lower case, the default first.
    names: the program's names for model, dataset and output. hyper_parameters: their defaults; without_gpus: what a
    training without GPUs needs in addition. known: names of all hyper-parameters, empty if any is permitted.
    log_format: as module_utils' LogFormat describes it. progress: as ProgressFormat does.
    """

    name: str
    about: str
    apis: list[str]
    log_format: dict[str, Any]
    command: list[str]
    configuration: str
    names: dict[str, str]
    hyper_parameters: dict[str, Any]
    known: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    without_gpus: dict[str, dict[str, Any]] = field(default_factory=dict)
    checks: list[dict[str, Any]] = field(default_factory=list)
    progress: dict[str, str] = field(default_factory=dict)

    def variables(self) -> dict[str, Any]:
        """Return what a role uses."""
        return asdict(self)


def flavour_names() -> list[str]:
    """Return the names of all flavours."""
    return sorted(path.parent.name for path in FOLDER.glob("*/flavour.yml"))


@functools.cache
def load_flavour(name: str) -> TrainingFlavour:
    """Read a flavour. Raises InputError for an unknown one, DataError for a wrong file."""
    path = FOLDER / name / "flavour.yml"
    if name not in flavour_names():
        raise InputError(
            f"unknown flavour of fine-tuning '{name}'{suggest_similar_name(name, flavour_names())}; there"
            f" are {', '.join(flavour_names())}"
        )
    document = dict(files.read_yaml(path))
    known = {attribute.name for attribute in fields(TrainingFlavour)} - {"name"}
    for key in document:
        if key not in known:
            raise DataError(f"{path}: unknown key '{key}'{suggest_similar_name(key, known)}")
    if document.get("configuration") not in CONFIGURATIONS:
        raise DataError(
            f"{path}: configuration is '{document.get('configuration')}', not one of {', '.join(CONFIGURATIONS)}"
        )
    try:
        LogFormat.of(document.get("log_format", {}))
        training_rows.ProgressFormat.of(document.get("progress", {}))
    except InputError as error:
        raise DataError(f"{path}: {error}") from error
    try:
        return TrainingFlavour(name=name, **document)
    except TypeError as error:
        raise DataError(f"{path}: {error}") from error


@functools.cache
def training_runtime_reference(name: str) -> dict[str, str]:
    """Return kind and name of a runtime of TrainJobs, and the ``gpu_resource`` of one that a platform brings.

    name: of a ClusterTrainingRuntime, or TrainingRuntime/<name>.
    """
    kind, _slash, short = name.rpartition("/")
    known = {} if kind == "TrainingRuntime" else (files.read_yaml(RUNTIMES).get(short) or {})
    resource = {"gpu_resource": known["gpu_resource"]} if known else {}
    return {"kind": kind or "ClusterTrainingRuntime", "name": short, **resource}

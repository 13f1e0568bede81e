# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Flavours of fine-tuning: each is a folder in roles/fine_tuning/files/flavours, described in docs/fine_tuning.md."""

from __future__ import annotations

import functools
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, InputError, nearest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.training_figures.training_log import (
    LogFormat,
)

ROLE = Path(__file__).resolve().parents[3] / "roles" / "fine_tuning"
FOLDER = ROLE / "files" / "flavours"
#: Macro of the pod, which every template can use.
POD = ROLE / "templates" / "pod.yaml.j2"
#: How a program gets its configuration.
CONFIGURATIONS = ("file", "arguments")


@dataclass(frozen=True)
class TrainingFlavour:
    """A training program and the kind of object that runs it.

    names: the program's names for model, dataset and output. hyper_parameters: their defaults; without_gpus: what a
    training without GPUs needs in addition. known: names of all hyper-parameters, empty if any is permitted. template:
    the text that workload_submit renders. log_format: as _training_figures.log_format describes it.
    """

    name: str
    about: str
    kind: str
    resource: str
    operator: str
    stages: list[str]
    template: str
    logs: dict[str, str]
    log_format: dict[str, Any]
    command: list[str]
    configuration: str
    names: dict[str, str]
    hyper_parameters: dict[str, Any]
    known: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    without_gpus: dict[str, dict[str, Any]] = field(default_factory=dict)
    checks: list[dict[str, Any]] = field(default_factory=list)

    @property
    def group(self) -> str:
        """API group of the kind."""
        return self.kind.split("/")[0]

    def variables(self) -> dict[str, Any]:
        """Return what a role uses: all fields, the group, and the kind's name."""
        return {**asdict(self), "group": self.group, "kind_name": self.kind.split("/")[-1]}


def names() -> list[str]:
    """Return the names of all flavours."""
    return sorted(path.parent.name for path in FOLDER.glob("*/flavour.yml"))


@functools.cache
def load(name: str) -> TrainingFlavour:
    """Read a flavour. Raises InputError for an unknown one, DataError for a wrong file."""
    path = FOLDER / name / "flavour.yml"
    if name not in names():
        raise InputError(
            f"'{name}' is no flavour of fine-tuning{nearest(name, names())}; there are {', '.join(names())}"
        )
    given = dict(files.read_yaml(path))
    known = {one.name for one in fields(TrainingFlavour)} - {"name"}
    for key in given:
        if key not in known:
            raise DataError(f"{path}: unknown key '{key}'{nearest(key, known)}")
    if given.get("configuration") not in CONFIGURATIONS:
        raise DataError(
            f"{path}: configuration is '{given.get('configuration')}', not one of {', '.join(CONFIGURATIONS)}"
        )
    places = (path.parent, POD.parent)
    template = next((one / given["template"] for one in places if (one / given["template"]).is_file()), None)
    if template is None:
        raise DataError(f"{path}: there is no template {given['template']} in {' or '.join(map(str, places))}")
    try:
        LogFormat.of(given.get("log_format", {}))
    except InputError as error:
        raise DataError(f"{path}: {error}") from error
    text = POD.read_text(encoding="utf-8") + template.read_text(encoding="utf-8")
    try:
        return TrainingFlavour(name=name, **{**given, "template": text})
    except TypeError as error:
        raise DataError(f"{path}: {error}") from error

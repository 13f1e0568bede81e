# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The progress of a training, from the files that it has written: when it did each step, and its checkpoints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import (
    limit_processor_time,
    parse_json,
)

#: Seconds of processor time in which the names of the files of a training are searched for checkpoints.
PATHS_LIMIT = 10.0
#: Seconds by which the times in a log and in the progress may differ.
_TOLERANCE = 1.0


@dataclass(frozen=True)
class ProgressFormat:
    """How a program writes its progress, as ``progress`` in flavour.yml.

    file: JSON lines, below the folder of the training. step, time: dotted names in a line; a time without an offset is
    in UTC. checkpoint: regular expression for the path of a file that each checkpoint has; its group is the step.
    """

    file: str
    step: str
    time: str
    checkpoint: str = "($^)"

    @classmethod
    def of(cls, values: Mapping[str, str]) -> ProgressFormat | None:
        """Return the format that a flavour describes, None if it describes none. Raises InputError."""
        if not values:
            return None
        if not isinstance(values, Mapping):
            raise InputError(f"progress is a {type(values).__name__}, and it must be a dictionary")
        known = {entry.name for entry in fields(cls)}
        if (unknown := sorted(values.keys() - known)) or (values.keys() < known - {"checkpoint"}):
            wrong = f"unknown {unknown[0]}" if unknown else "file, step and time are needed"
            raise InputError(f"progress: {wrong}; it has {', '.join(sorted(known))}")
        for name, text in values.items():
            if not isinstance(text, str):
                raise InputError(f"progress.{name} is a {type(text).__name__}, and it must be a text")
        form = cls(**values)
        try:
            groups = re.compile(form.checkpoint).groups
        except re.error as error:
            what = f"'{form.checkpoint}' is not a valid regular expression: {error}"
            raise InputError(f"progress.checkpoint: {what}") from error
        if groups != 1:
            raise InputError(f"progress.checkpoint: '{form.checkpoint}' has {groups} groups, and one must be the step")
        return form


def read_training_progress(folder: Path, form: ProgressFormat) -> dict[str, Any]:
    """Return the progress of the training whose files are in ``folder``; empty if it has written none.

    steps: [step, seconds since 1970] in their order. checkpoints: their steps. A line that is no step is left out, such
    as the last one of a process that was killed while it wrote.
    """
    path = folder / form.file
    if not path.is_file():
        return {}
    steps: list[list[float]] = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            row = parse_json(line)
            moment = datetime.fromisoformat(_value(row, form.time))
            step = int(_value(row, form.step))
        except (ValueError, TypeError, KeyError, OverflowError):
            continue
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=timezone.utc)
        steps.append([step, moment.timestamp()])
    pattern = re.compile(form.checkpoint)
    paths = (str(found.relative_to(folder)) for found in folder.rglob("*") if found.is_file())
    with limit_processor_time(
        PATHS_LIMIT, f"searching the names of files with progress.checkpoint '{form.checkpoint}'"
    ):
        found_steps = {match[1] or "" for path in paths if (match := pattern.search(path))}
    return {"steps": steps, "checkpoints": sorted(int(step) for step in found_steps if step.isdecimal())}


def was_training_restarted(progress: Mapping[str, Any], runtime: float) -> bool:
    """Return whether a training went on in a further process: its steps go back, or take longer than its last one.

    runtime: seconds that the last process trained, as it says.
    """
    steps = progress["steps"]
    moments = [moment for _step, moment in steps]
    backwards = any(later < step for (step, _at), (later, _then) in pairwise(steps))
    return backwards or (bool(moments) and max(moments) - min(moments) > runtime + _TOLERANCE)


def _value(row: Any, name: str) -> Any:
    for part in name.split("."):
        row = row[part]
    return row

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The failures and the requests of a load, checked from the settings of a run before there is a cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    InputError,
    suggest_nearest_file,
    suggest_similar_name,
)

from . import point_loads
from .convert_setting_values import absolute_path
from .setting_templates import Render


def setting_refused_for_failures(
    entry: Mapping[str, Any], settings: Mapping[str, Any], render: Render
) -> tuple[str, str] | None:
    """Return the setting of which workload_submit would refuse the failures, and why; None if there is none.

    entry: of meta/checks.yml, with the templates of ``failures`` and ``seed``.
    """
    options, unknown = render({"failures": entry["failures"], "seed": entry["seed"]}, settings)
    if unknown:
        return None
    name, failures = entry["setting"], options["failures"]
    if not isinstance(failures, list):
        return name, f"{name}: a list of failures is expected, not {type(failures).__name__}"
    try:
        _check_failures(name, failures, int(options["seed"] or 1))
    except InputError as error:
        return name, str(error)
    return None


def _check_times(times: Any, where: str) -> None:
    """Raise InputError for a time that is no number: Ansible's own message does not name it."""
    for time in times if isinstance(times, list) else ():
        try:
            float(time)
        except (TypeError, ValueError):
            raise InputError(f"{where}: at has '{time}', a number of seconds is expected") from None


def _check_failures(name: str, failures: list[Any], seed: int) -> None:
    from ansible_collections.perfscale.seatrial.plugins.module_utils._load.failures import failure_schedule

    known = failure_schedule.OPTIONS
    entries = []
    for place, failure in enumerate(failures):
        where = f"{name}[{place}]"
        if not isinstance(failure, Mapping):
            raise InputError(f"{where}: a dictionary is expected, not {type(failure).__name__}")
        for key in failure:
            if key not in known:
                raise InputError(f"{where}: unknown option '{key}'{suggest_similar_name(key, known)}")
        kind = failure.get("kind")
        if kind not in failure_schedule.KINDS:
            hint = suggest_similar_name(str(kind), failure_schedule.KINDS)
            kinds = ", ".join(failure_schedule.KINDS)
            raise InputError(f"{where}: kind is '{kind or ''}', it must be one of {kinds}{hint}")
        _check_times(failure.get("at"), f"{where} ({kind})")
        validation = ArgumentSpecValidator(known).validate(dict(failure))
        if validation.error_messages:
            raise InputError(f"{where} ({kind}): {'; '.join(validation.error_messages)}")
        entries.append(validation.validated_parameters)
    failure_schedule.schedule_failures(entries, seed, name)


def setting_refused_by_inference_load(
    templates: Mapping[str, Any], settings: Mapping[str, Any], render: Render
) -> tuple[str, str] | None:
    """Return the setting that inference_load would refuse, and why; None if there is none.

    templates: of options of the module. The setting is the first one that the template of an option contains.
    """
    # The engine needs Linux, and a run of another project does not.
    from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference import inference_spec

    options, unknown = render(dict(templates), settings)
    if unknown:
        return None
    arrival = options.get("arrival")
    if isinstance(arrival, dict):
        options["arrival"] = point_loads.arrival_with_trace_content(arrival)
        if arrival.get("src") and "content" not in options["arrival"]:
            path = Path(absolute_path(str(arrival["src"])))
            return _with_setting_name("arrival", f"there is no {path}{suggest_nearest_file(path)}", templates, settings)
    fixed = {"run_id": "run", "point_dir": "001", **options}
    result = ArgumentSpecValidator(inference_spec.SPEC).validate(
        {name: value for name, value in fixed.items() if value is not None}
    )
    if result.error_messages:
        return "", "; ".join(result.error_messages)
    try:
        inference_spec.InferenceSpec.from_params(result.validated_parameters)
    except InputError as error:
        return _with_setting_name(error.setting, str(error), templates, settings)
    return None


def _with_setting_name(
    option: str, text: str, templates: Mapping[str, Any], settings: Mapping[str, Any]
) -> tuple[str, str]:
    """Return the setting from which an option comes, and the text with its name instead of that of the option."""
    named = re.findall(r"\w+", str(templates.get(option, "")))
    name = next((word for word in named if word in settings), option)
    return name, f"{name}: {text.removeprefix(f'{option}: ')}"

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A load of requests to inference servers, checked from the settings of a run before there is a cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, nearest_file

from . import point_loads
from .setting_templates import Render
from .setting_values import absolute_path


def problem_of_requests(
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
            return _with_setting_name("arrival", f"there is no {path}{nearest_file(path)}", templates, settings)
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

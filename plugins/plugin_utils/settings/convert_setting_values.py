# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Convert a value to the declared type of its setting; a path of the user becomes absolute.

Ansible runs a module in the playbook's folder. A relative path must therefore become absolute on the controller, where
an action still has the caller's working directory.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import suggest_similar_name
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.formats import format_setting_value
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.kubeconfig import IN_CLUSTER
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.collect_history import OPENSEARCH

from .setting_templates import UnsafeText, has_template, looks_like_template
from .settings_catalogue import Setting
from .settings_layers import SettingsError

_ARTICLE = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "list": "a list",
    "dict": "a dictionary",
    "str": "text",
    "path": "a path",
    "raw": "any value",
}

#: How a description names the unit of a number.
_UNIT = re.compile(r"\bin (seconds|minutes|hours|days|bytes|MiB|GiB)\b", re.IGNORECASE)

#: Types whose values are valid as they are, unless the setting has choices.
_PLAIN: dict[str, type] = {"int": int, "float": float, "bool": bool, "str": str}


def coerce_to_declared_type(setting: Setting, value: Any, source: str, at: Any = None) -> Any:
    """Return ``value`` as the declared type of ``setting``; a path becomes absolute.

    Null is a value only of a setting without a default. A number is within the bounds of its setting.

    Raises SettingsError naming setting, source and value. Stricter than Ansible's conversion, which turns any text into
    a list and any dictionary into text: such mistakes would surface only later.
    """
    if value is None:
        if setting.default is None:
            return None
        raise SettingsError(f"{_not_a(setting, value, source)}; without a value it has its default", at, source)
    refuse_impossible_numbers(value, source, setting.name)
    kind = setting.type
    if kind in ("list", "dict") and isinstance(value, str):
        example = json.dumps({setting.name: ["a", "b"] if kind == "list" else {"key": "value"}})
        raise SettingsError(
            f"{source}: {setting.name} is {_ARTICLE[kind]}, and '{value}' is text; from the command line give JSON: "
            f"-e '{example}'",
            at,
            source,
        )
    wrong = (
        (kind == "list" and not isinstance(value, (list, tuple)))
        or (kind in ("str", "path", "int", "float", "bool") and isinstance(value, (list, dict)))
        or (kind in ("int", "float") and isinstance(value, bool))
        or (kind == "str" and isinstance(value, bool))
    )
    if wrong:
        raise SettingsError(_not_a(setting, value, source), at, source)
    return _validate_with_ansible(setting, value, source, at)


def _validate_with_ansible(setting: Setting, value: Any, source: str, at: Any) -> Any:
    from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
    from ansible.module_utils.common.text.converters import to_native

    known = ("type", "elements", "choices", "options")
    spec = {key: entry for key, entry in setting.spec.items() if key in known}
    valid, errors = value, []
    plain = _PLAIN.get(setting.type)
    # Nearly all values of a run: Ansible's validator would take a second for the points of a matrix.
    if plain is None or "choices" in spec or not isinstance(value, plain):
        try:
            result = ArgumentSpecValidator({setting.name: spec}).validate({setting.name: value})
        except OverflowError as error:  # of the text "inf" for a whole number
            raise SettingsError(_not_a(setting, value, source), at, source) from error
        valid, errors = _as_unsafe(value, result.validated_parameters.get(setting.name)), result.error_messages
    if not errors:
        if setting.type in ("int", "float") and (wanted := _wanted_range(setting, valid)):
            unit = f" {unit}" if (unit := _unit_of(setting.spec)) else ""
            raise SettingsError(
                f"{source}: {setting.name} is {_shown(valid)}{unit}, and it must be {wanted}{unit}", at, source
            )
        return absolute_paths(valid) if setting.is_path else valid
    choices = spec.get("choices")
    if choices and not isinstance(value, (list, dict)) and value not in choices:
        text = ", ".join(str(choice) for choice in choices)
        message = (
            f"{source}: {setting.name} can't be '{value}'{suggest_similar_name(str(value), choices)};"
            f" it is one of {text}"
        )
        raise SettingsError(message, at, source)
    if setting.type in ("list", "dict") and isinstance(value, (list, dict)):
        detail = _first_wrong_part(setting.name, spec, value) or "; ".join(to_native(text) for text in errors)
        detail = detail if detail.startswith(setting.name) else f"{setting.name}: {detail}"
        raise SettingsError(f"{source}: {detail}", at, source)
    raise SettingsError(_not_a(setting, value, source), at, source)


def _first_wrong_part(where: str, spec: Mapping[str, Any], value: Any) -> str:
    """Return what is wrong with an element or a key of a value, at any depth; an empty string if only Ansible knows.

    Ansible's own messages have neither the nearest key nor the value, and of a list not the element.
    """
    kind = spec.get("type", "str")
    if value is None:
        return ""
    if kind == "list" and isinstance(value, (list, tuple)):
        element = {**spec, "type": spec.get("elements", "raw")}
        parts = [(f"{where}[{place}]", element, part) for place, part in enumerate(value)]
    elif kind == "dict" and isinstance(value, dict):
        options = spec.get("options") or {}
        for key in value if options else ():
            if key not in options:
                return f"{where}: unknown key '{key}'{suggest_similar_name(key, options)}; keys: {', '.join(options)}"
        parts = [(f"{where}.{key}", options[key], part) for key, part in value.items() if options]
    else:
        return _wrong_type_or_choice(where, kind, spec.get("choices"), value, _unit_of(spec))
    return next(filter(None, (_first_wrong_part(*part) for part in parts)), "")


def _wrong_type_or_choice(where: str, kind: str, choices: Sequence[Any] | None, value: Any, unit: str) -> str:
    from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

    if ArgumentSpecValidator({where: {"type": kind}}).validate({where: value}).error_messages:
        return f"{where} is {_number_of_unit(kind, unit)}, and {_shown(value)} is not"
    if choices and value not in choices:
        text = ", ".join(str(choice) for choice in choices)
        return f"{where} can't be '{value}'{suggest_similar_name(str(value), choices)}; it is one of {text}"
    return ""


def _wanted_range(setting: Setting, value: float) -> str:
    """Return what a number must be instead; an empty string if it is within the bounds."""
    least, most = setting.bounds
    if least <= value <= most:  # false for not a number, too
        return ""
    return f"{least:,} or more" if value < least else f"{least:,} to {most:,}"


#: What every format that a run writes can hold.
LARGEST_INTEGER = 2**63 - 1
_LONGEST_SHOWN = 80


def refuse_impossible_numbers(value: Any, source: str, at: Any) -> None:
    """Raise SettingsError for a number in a value, at any depth, that is not finite or an integer of over 64 bits."""
    if isinstance(value, dict):
        for key, entry in value.items():
            refuse_impossible_numbers(key, source, at)
            refuse_impossible_numbers(entry, source, at)
    elif isinstance(value, (list, tuple)):
        for element in value:
            refuse_impossible_numbers(element, source, at)
    elif isinstance(value, int) and abs(value) > LARGEST_INTEGER:
        raise SettingsError(
            f"{source}: {at} has {_shown(value)}, and a whole number is at most {LARGEST_INTEGER:,}", at, source
        )
    elif isinstance(value, float) and not math.isfinite(value):
        raise SettingsError(f"{source}: {at} has {value}, which is no finite number", at, source)


def _shown(value: Any) -> str:
    """Return a value for a message. Python writes no integer of more than 4,300 digits, and nobody reads one."""
    if isinstance(value, int) and abs(value) > LARGEST_INTEGER:
        return f"a number of {value.bit_length()} bits"
    return format_setting_value(json.dumps(value, default=str), _LONGEST_SHOWN)


def _not_a(setting: Setting, value: Any, source: str) -> str:
    kind = _number_of_unit(setting.type, _unit_of(setting.spec))
    return f"{source}: {setting.name} is {kind}, and {_shown(value)} is not"


def _unit_of(spec: Mapping[str, Any]) -> str:
    """Return the unit of a number, as its description names it: `in seconds`; empty if it names none."""
    words = spec.get("description") or ""
    text = " ".join(words) if isinstance(words, list) else str(words)
    named = _UNIT.search(text)
    return named.group(1) if named else ""


def _number_of_unit(kind: str, unit: str) -> str:
    """Return what a value of this type is, with the unit of a number."""
    article = _ARTICLE.get(kind, kind)
    return f"{article} of {unit}" if unit and kind in ("int", "float") else article


#: Words that a setting accepts instead of a path.
NOT_PATHS = (IN_CLUSTER, OPENSEARCH)
_ADDRESS = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://")


def _as_unsafe(value: Any, valid: Any) -> Any:
    """Return a validated value in which the texts that were no templates are none, either."""
    if isinstance(value, UnsafeText) and isinstance(valid, str):
        return UnsafeText(valid)
    if isinstance(value, (list, tuple)) and isinstance(valid, list) and len(value) == len(valid):
        return [_as_unsafe(*pair) for pair in zip(value, valid, strict=True)]
    if isinstance(value, dict) and isinstance(valid, dict):
        return {key: _as_unsafe(value.get(key), entry) for key, entry in valid.items()}
    return valid


def absolute_path(path: str) -> str:
    """Return ``path`` as an absolute path. An empty text, an address (``s3://…``) and NOT_PATHS stay.

    One that is no template never becomes one by the names of the working directory and of the home.
    """
    if not path or path in NOT_PATHS or _ADDRESS.match(path):
        return path
    absolute = os.path.abspath(os.path.expanduser(os.path.expandvars(path)))
    return UnsafeText(absolute) if looks_like_template(absolute) and not has_template(path) else absolute


def absolute_paths(value: Any) -> Any:
    """Return a text, or each text of a list or dictionary, as an absolute path; anything else as it is."""
    if isinstance(value, str):
        return absolute_path(value)
    if isinstance(value, (list, tuple)):
        return [absolute_paths(element) for element in value]
    if isinstance(value, dict):
        return {key: absolute_paths(entry) for key, entry in value.items()}
    return value

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets inside settings, such as a token among environment variables: masked in every file of the run.

Only where meta/secrets.yml of a role marks the setting with ``entries: true`` are they accepted: the role creates a
Secret with them, to which the objects of the run refer. There, ``refused`` lists further names of entries that are
secrets (in small letters), and ``remedy`` says what to use instead of any secret in the setting.

The values are kept in Ansible's temporary folder, which goes when the process ends. A later session gets them from
where they were set, or they have to be given again.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from ansible import constants
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import secret_names
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.secret_gate import SecretScanner
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.secret_names import MASK
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import parse_json

from . import dotted_paths, matrix_points, read_secret_settings, setting_templates
from .settings_catalogue import Catalogue
from .settings_layers import SettingsError

#: What to do with a secret, unless meta/secrets.yml says otherwise.
_REMEDY = "Put it into a Secret on the cluster and let the pods refer to that (secretKeyRef, envFrom), or rename it"
#: Ending of the names of settings that are environment variables.
ENVIRONMENT = "_environment"
#: Endings of the names of settings that are commands or their words.
COMMANDS = ("_command", "_args", "_arguments", "_options")
_FORMS = SecretScanner({})


@functools.cache
def _setting_and_key(dotted: str) -> tuple[str, str]:
    """Return the setting of a dotted key, and the names behind it, joined by dots; indices are left out."""
    try:
        path = dotted_paths.parse_dotted_path(dotted)
    except dotted_paths.PathError:
        return dotted, ""
    return str(path[0]), ".".join(step for step in path[1:] if isinstance(step, str))


def _is_environment(setting: str) -> bool:
    return _setting_and_key(setting)[0].endswith(ENVIRONMENT)


def _is_secret(setting: str, key: object, value: object) -> bool:
    if not isinstance(value, str) or setting_templates.has_template(value):
        return False
    named = secret_names.is_secret_entry(key, value, anywhere=_is_environment(setting))
    return named or (_is_environment(setting) and bool(_FORMS.in_text(value)))


def mask_setting(setting: str, value: Any, mask_text: Callable[[str], str] = _FORMS.masked) -> Any:
    """Return the value of a setting, which may be a dotted key, as files may have it."""
    name, key = _setting_and_key(setting)
    if name in (matrix_points.MATRIX, matrix_points.POINTS):
        return _mask_points(key, value, mask_text)

    def masked(text: str) -> str:
        safe = mask_text(text)
        if safe == text:
            return text  # with its type: one with literal braces is no template
        return setting_templates.UnsafeText(safe) if isinstance(text, setting_templates.UnsafeText) else safe

    if _is_secret(setting, key, value):
        return MASK
    if _is_environment(setting) and not key:
        value = _mask_odd_environment(value)
    elif name.endswith(COMMANDS):
        value = secret_names.mask_command_options(value)
    return secret_names.mask_secret_entries(value, lambda key, entry: _is_secret(setting, key, entry), masked)


def _mask_odd_environment(value: Any) -> Any:
    """Mask what may be a secret in environment variables of a wrong form, which an error would quote.

    That is each text of what is no dictionary, such as a list of names and values, and of a list or dictionary with the
    name of a secret.
    """
    if not isinstance(value, Mapping):
        return _mask_texts(value)
    return {
        key: _mask_texts(entry)
        if secret_names.is_secret_name(key, anywhere=True) and not isinstance(entry, str)
        else entry
        for key, entry in value.items()
    }


def _mask_texts(value: Any) -> Any:
    def masked(text: str) -> str:
        return text if setting_templates.has_template(text) else MASK

    return secret_names.mask_secret_entries(value, lambda _key, _entry: False, masked)


def _mask_points(setting: str, value: Any, mask_text: Callable[[str], str]) -> Any:
    """Mask the values of settings in a matrix, or in its part for one setting: each setting by its own name."""
    if isinstance(value, (list, tuple)):
        return [_mask_points(setting, element, mask_text) for element in value]
    if setting or not isinstance(value, Mapping):
        return mask_setting(setting, value, mask_text)
    return {key: _mask_points(str(key), entry, mask_text) for key, entry in value.items()}


def mask_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as files may have them."""
    return {name: mask_setting(name, value) for name, value in values.items()}


def texts_with_secrets(values: Mapping[str, Any]) -> list[str]:
    """Return the texts in settings, and in ``overrides``, that files have masked, also if another layer replaces them.

    values: setting, dotted key or word -> value.
    """
    overrides = values.get("overrides")
    every = [values, overrides] if isinstance(overrides, Mapping) else [values]
    named = [(name, value) for settings in every for name, value in settings.items()]
    masked = setting_templates.texts_in_value([mask_setting(name, value) for name, value in named])
    texts = setting_templates.texts_in_value([value for _name, value in named])
    return [text for text, shown in zip(texts, masked, strict=True) if text != shown]


class _Values(Protocol):
    """A SettingsContext: its ``-e``, and all values: setting, dotted key or word -> value."""

    @property
    def extra(self) -> Mapping[str, Any]: ...

    def trusted_values(self) -> Iterator[Mapping[str, Any]]: ...


def error_without_secrets(error: InputError, context: _Values) -> InputError:
    """Return an error, which may show a value, without the secrets inside the settings of a context.

    It is returned as it is if the settings have none. Otherwise raise it without its cause, whose message -vvv shows.
    """
    try:
        every = list(context.trusted_values())
    except InputError:  # presets that can't be read
        every = [context.extra]
    known = [secret for values in every for secret in texts_with_secrets(values)]
    if not known:
        return error
    text = read_secret_settings.mask_secret_values(str(error), [*known, *(repr(secret)[1:-1] for secret in known)])
    return SettingsError(text, getattr(error, "at", None), getattr(error, "source", ""))


Method = TypeVar("Method", bound=Callable[..., Any])


def mask_secrets_in_errors(method: Method) -> Method:
    """Mask secrets in the InputErrors of a method, which may show a value. Its object is a SettingsContext."""

    @functools.wraps(method)
    def masked(self: Any, *args: Any) -> Any:
        try:
            return method(self, *args)
        except InputError as error:
            masked_error = error_without_secrets(error, self)
            if masked_error is error:
                raise
            raise masked_error from None

    return cast(Method, masked)


def secret_entries_of_setting(setting: str, value: Any) -> dict[str, str]:
    """Return the secrets in a dictionary of environment variables; MASK for those that were read from a file."""
    entries = value if isinstance(value, Mapping) else {}
    return {str(key): str(entry) for key, entry in entries.items() if entry == MASK or _is_secret(setting, key, entry)}


def _without(value: Any, names: Mapping[str, str]) -> Any:
    """Return a dictionary without these entries."""
    return {key: entry for key, entry in value.items() if key not in names} if isinstance(value, Mapping) else value


def _refuse_entries(setting: str, value: Any, about: Mapping[str, Any], used: bool) -> None:
    """Raise InputError for a secret inside a value; for one that was masked if it is used."""
    remedy = about.get("remedy") or _REMEDY
    names = value if isinstance(value, Mapping) else ()
    refused = [f"{setting}.{name}" for name in names if str(name).lower() in (about.get("refused") or ())]
    named = [path for path, _secret in secret_names.secret_entries(value, setting, anywhere=_is_environment(setting))]
    if paths := [*refused, *named]:
        raise InputError(f"{paths[0]} is a secret by its name, and the files of the run record every setting. {remedy}")
    for path, text in _texts_inside(value, setting):
        masked = MASK in text
        if masked and used:
            raise InputError(f"{path} is a secret, which no file of the run has: give {setting} again")
        if not masked and not setting_templates.has_template(text) and _FORMS.in_text(text):
            raise InputError(f"{path} is a secret by its form, and the files of the run record every setting. {remedy}")


def _texts_inside(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield (path, text) of the texts inside dictionaries and lists, at any depth."""
    if isinstance(value, Mapping):
        inside = [(f"{path}.{key}", entry) for key, entry in value.items()]
    elif isinstance(value, (list, tuple)):
        inside = [(f"{path}[{number}]", entry) for number, entry in enumerate(value)]
    else:
        return
    for place, entry in inside:
        if isinstance(entry, str):
            yield place, entry
        else:
            yield from _texts_inside(entry, place)


def secrets_in_settings(
    catalogue: Catalogue, settings: Mapping[str, Any], points: Sequence[Mapping[str, Any]], used: bool
) -> dict[str, dict[str, str]]:
    """Return the secrets in settings, by setting. used: whether a phase needs them.

    Raises InputError for one in a setting that accepts none, by its name or its form, for one that was masked and is
    needed, and if they differ between points. A setting that is itself a text may have the form of a secret.
    """
    found = {}
    for name, value in settings.items():
        about = catalogue.needs.get(name) or {}
        values = [value, *(other for point in points if (other := point.get(name)) != value)]
        if about.get("entries"):
            by_point = [secret_entries_of_setting(name, point.get(name)) for point in points] or [
                secret_entries_of_setting(name, value)
            ]
            if any(entries != by_point[0] for entries in by_point):
                names = ", ".join(sorted({key for entries in by_point for key in entries}))
                raise InputError(f"{name}: its secrets ({names}) must be the same for all points")
            if by_point[0]:
                found[name] = by_point[0]
            values = [_without(other, by_point[0]) for other in values]
        for other in values:
            _refuse_entries(name, other, about, used)
    for name, entries in found.items():
        missing = [key for key, entry in entries.items() if entry == MASK]
        if used and missing:
            raise InputError(
                f"{name}.{missing[0]} is a secret, which no file of the run has: give {name} again, with -e @file"
            )
    return found


def _kept_file() -> Path:
    return Path(constants.DEFAULT_LOCAL_TMP) / "seatrial-secret-entries.json"


def _read_kept() -> dict[str, dict[str, str]]:
    path = _kept_file()
    kept: dict[str, dict[str, str]] = parse_json(path.read_text(encoding="utf-8")) if path.exists() else {}
    return kept


def keep_secret_entries(found: Mapping[str, Mapping[str, str]]) -> None:
    """Keep the secrets for the roles of this process."""
    path = _kept_file()
    path.unlink(missing_ok=True)
    if found:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump(found, stream)


def unmasked_secrets_of_setting(setting: str, value: Any) -> dict[str, str]:
    """Return the secrets in the present value of a setting. Raises InputError if one is masked and was not kept."""
    entries = secret_entries_of_setting(setting, value)
    kept = _read_kept().get(setting, {})
    result = {key: kept.get(key, entry) if entry == MASK else entry for key, entry in entries.items()}
    if masked := [key for key, entry in result.items() if entry == MASK]:
        raise InputError(f"{setting}.{masked[0]} is a secret, which no file of the run has: give {setting} again")
    return result


def kept_secret_entries() -> dict[str, str]:
    """Return the secrets that were kept, for the scan before an export."""
    return known_secrets_by_dotted_key(_read_kept())


def known_secrets_by_dotted_key(found: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the secrets whose values are known, by dotted key."""
    return {
        f"{setting}.{key}": value
        for setting, entries in found.items()
        for key, value in entries.items()
        if value != MASK
    }

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What role rhoai installs: API version, channel, states of components and the operators that these need.

The facts are in roles/rhoai/files/releases.yml. What a version does not have is refused before anything is created.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.object_accessors import split_field_path
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.rhoai import component_states

from . import project_role

PATH = project_role.ROOT / "roles" / "rhoai" / "files" / "releases.yml"

#: Roles whose operators only version 2 uses.
FOR_VERSION_2 = ("service_mesh", "serverless", "authorino")


@functools.cache
def _facts() -> dict[str, Any]:
    return dict(files.read_yaml(PATH))


@dataclass(frozen=True)
class RhoaiRequest:
    """The settings of role rhoai that decide what is installed. stack: the roles that install operators."""

    version: str
    product: str = "self_managed"
    channel: str = ""
    components: Sequence[str] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    serverless: bool = False
    prerequisite_channels: Mapping[str, str] = field(default_factory=dict)
    optional_operators: Sequence[str] = ()
    stack: Sequence[str] = ()

    @property
    def major(self) -> str:
        """The version's major number."""
        return self.version.removeprefix("v").partition(".")[0]


def release_facts_and_checks(request: RhoaiRequest) -> dict[str, Any]:
    """Return what the role uses, and ``checks``: entries of a meta/checks.yml, each of which refuses a setting."""
    problems = list(_problems(request))
    checks = [{"setting": name, "refuse_when": "true", "because": why} for name, why in problems]
    if problems:
        return {"checks": checks}
    release = _facts()["releases"][request.major]
    states = component_states.parse_components(request.components, release["components"])
    return {
        "checks": checks,
        "major": request.major,
        "api_version": release["api_version"],
        "channel": request.channel or release["channels"][request.product],
        "version": "" if request.version.removeprefix("v") == request.major else request.version,
        "components": [f"{name}={state}" for name, state in states.items()],
        "prerequisites": _prerequisites(release, states, request),
        "creates": _facts()["creates"],
    }


def _prerequisites(
    release: Mapping[str, Any], states: Mapping[str, str], request: RhoaiRequest
) -> list[dict[str, Any]]:
    """Return the operators that the components need and the optional ones, as module olm_operator takes them."""
    needed = [release["needs"].get(f"{name}={state}", []) for name, state in states.items()]
    chosen = [release["optional"][name] for name in request.optional_operators]
    names = dict.fromkeys(operator for each in (*needed, *chosen) for operator in each)
    operators, channels = _facts()["operators"], request.prerequisite_channels
    return [
        {
            "package": name,
            "catalog": "redhat-operators",
            "any_channel": True,
            **operators[name],
            **({"channel": channels[name]} if name in channels else {}),
        }
        for name in names
    ]


def _problems(request: RhoaiRequest) -> Iterator[tuple[str, str]]:
    releases = _facts()["releases"]
    if request.major not in releases or not re.fullmatch(r"\d+(\.\d+\.\d+.*)?", request.version.removeprefix("v")):
        yield (
            "rhoai_version",
            f"it must be {' or '.join(releases)}, or a complete version such as 3.5.0;"
            " the newest version of a release is that of its channel (rhoai_channel=stable-2.25)",
        )
        return
    release = releases[request.major]
    product = f"version {request.major} (rhoai_version)"
    states: Mapping[str, str] = {}
    try:
        states = component_states.parse_components(
            request.components, release["components"], product, release["instead"]
        )
    except InputError as error:
        yield "rhoai_components", str(error)
    for path, value in _settings_by_full_path(request.settings):
        if why := _why_wrong_path(path, value, states, release, product):
            yield "rhoai_settings", why
    if request.serverless and "components.kserve.serving" in release["lacks"]:
        yield "rhoai_serverless", f"{product} has no Serverless mode; rhoai_version=2 has it"
    dropped = [role for role in request.stack if role in FOR_VERSION_2]
    if "rhoai" in request.stack and dropped and request.major != "2":
        yield "stack", f"{product} no longer uses {', '.join(dropped)}; leave out what rhoai_version=2 has needed"
    for name in request.optional_operators:
        if name not in (optional := release["optional"]):
            has = f"these are {', '.join(sorted(optional))}" if optional else "it has none"
            yield (
                "rhoai_optional_operators",
                f"'{name}' is not an optional operator of {product}{suggest_similar_name(name, optional)}; {has}",
            )
    known = _facts()["operators"]
    for name in request.prerequisite_channels:
        if name not in known:
            yield (
                "rhoai_prerequisite_channels",
                f"'{name}' is not an operator that a component needs{suggest_similar_name(name, known)}; these are"
                f" {', '.join(sorted(known))}",
            )


def _settings_by_full_path(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of settings that may be dictionaries of settings, such as ``components: {kserve: …}``."""
    for name, value in values.items():
        path = f"{above}{name}"
        if isinstance(value, Mapping) and value:
            yield from _settings_by_full_path(value, f"{path}.")
        else:
            yield path, value


def _why_wrong_path(
    path: str, value: object, states: Mapping[str, str], release: Mapping[str, Any], product: str
) -> str:
    """Return why a setting of the DataScienceCluster can't be set in this version, "" if it can."""
    parts = split_field_path(path)
    parts = parts[1:] if parts[:1] == ["spec"] else parts
    for absent, why in release["lacks"].items():
        if parts[: absent.count(".") + 1] == absent.split("."):
            return f"{path}: {product} does not have it: {why}"
    if len(parts) < 2 or parts[0] != "components":
        return ""
    entry = f"{parts[1]}={value}" if parts[2:] == ["managementState"] else f"{parts[1]}=Removed"
    try:
        component_states.parse_components([entry], release["components"], product, release["instead"])
    except InputError as error:
        return f"{path}: {error}"
    if parts[2:] == ["managementState"] and value not in (states.get(parts[1]), component_states.REMOVED):
        return f"{path}: set rhoai_components={parts[1]}={value}, which also installs what it needs"
    return ""

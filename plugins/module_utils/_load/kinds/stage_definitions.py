# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stage definitions, compiled to functions that read the stages of an object.

A definition is data, in the folder of a kind of workload (roles/workload/files/kinds/<kind>/kind.yml)::

    api_version: batch/v1
    kind: Job
    stages:
      - {name: created, field: metadata.creationTimestamp, writer: api-server}
      - {name: succeeded, condition: Complete, writer: controller, depends_on: [node], ends: succeeded}

A stage has one source: ``condition`` (its lastTransitionTime while its status is "True"), ``field`` (a dotted path;
with ``equals``, whether its value is one of the given) or ``jmespath`` (a time as text, or a truth value). Only the
last one requires the package jmespath.

``api_version`` may be a list; the first version that the server has is used. ``select: owners`` finds objects without
the labels of the load by the chain of their owners. A kind with ``optional: true`` is left out if the server lacks it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.formats import parse_kube_quantity
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.needed_fields import (
    ANY,
    Shape,
    merge_field_shapes,
    shape_from_dotted_path,
)

WRITERS = ("client", "api-server", "controller", "scheduler", "node", "provisioner")
ENDS = ("succeeded", "failed")
_SOURCES = ("condition", "field", "jmespath")
_KEYS = frozenset((*_SOURCES, "name", "equals", "writer", "depends_on", "ends", "gang", "running", "description"))
_TOP = frozenset(("api_version", "kind", "select", "optional", "stages", "description"))
LABELS, OWNERS = "labels", "owners"
#: The fields of an object that conditions, hindrance() and why() read.
_MESSAGES: Shape = {"status": dict.fromkeys(("message", "reason"), ANY)}
_CONDITIONS: Shape = {
    "status": {"conditions": [dict.fromkeys(("type", "status", "lastTransitionTime", "message", "reason"), ANY)]}
}
GANG = ("first", "last", "all")

#: The time in the object (text), True, or None if the stage is not reached.
#: (As text: ansible-test's pylint judges by the oldest Python of managed nodes, which has no | between types.)
Value: TypeAlias = "str | bool | None"
#: The conditions of an object by type.
Conditions: TypeAlias = "dict[str, dict[str, Any]]"
Getter = Callable[[dict[str, Any], Conditions], Value]


@dataclass(frozen=True)
class KindStages:
    """The stages of one kind. ``values(object, its conditions)`` returns one Value per name of ``names``."""

    api_versions: tuple[str, ...]  # the first one that the server has is used
    kind: str
    select: str  # labels or owners
    names: tuple[str, ...]
    values: Callable[[dict[str, Any], Conditions], tuple[Value, ...]]
    ends: dict[int, str]  # number of a stage -> outcome
    fields: Shape | None  # of an object that values(), hindrance() and why() read; None: an expression may read any
    of_metadata: tuple[int, ...]  # numbers of the stages that read metadata, and only that
    running: frozenset[int]  # numbers of the stages in which an object of the workload runs
    awaited: tuple[str, ...]  # conditions whose message explains, while they are False, why the object waits
    definition: dict[str, Any]
    optional: bool  # left out if the server does not have the kind


def compile_kind(definition: dict[str, Any]) -> KindStages:
    """Check and compile a definition. Raises InputError naming the kind, the stage and the key."""
    kind = str(definition.get("kind") or "")
    if not kind or not definition.get("api_version"):
        raise InputError(f"stage definition '{kind or definition}': it needs api_version and kind")
    unknown = next((key for key in definition if key not in _TOP), None)
    if unknown:
        raise InputError(f"stage definition of {kind}: unknown key '{unknown}'{suggest_similar_name(unknown, _TOP)}")
    versions = definition["api_version"]
    select = definition.get("select") or LABELS
    if select not in (LABELS, OWNERS):
        raise InputError(f"stage definition of {kind}: select '{select}' is none of {LABELS}, {OWNERS}")
    stages = definition.get("stages") or []
    if not stages:
        raise InputError(f"stage definition of {kind}: it has no stages")
    names: list[str] = []
    for stage in stages:
        _check_stage_definition(kind, stage, names)
        names.append(stage["name"])
    paths = [str(stage.get("field", "")) for stage in stages]
    return KindStages(
        api_versions=tuple(str(version) for version in versions) if isinstance(versions, list) else (str(versions),),
        kind=kind,
        select=select,
        names=tuple(names),
        values=_combine_getters([_stage_value_getter(kind, stage) for stage in stages]),
        ends={number: stage["ends"] for number, stage in enumerate(stages) if stage.get("ends")},
        fields=_fields_read_by_stages(stages),
        of_metadata=tuple(number for number, path in enumerate(paths) if path.startswith("metadata.")),
        running=frozenset(number for number, stage in enumerate(stages) if stage.get("running")),
        awaited=tuple(stage["condition"] for stage in stages if stage.get("condition") and not stage.get("ends")),
        definition=definition,
        optional=bool(definition.get("optional")),
    )


def compile_kinds(definitions: Sequence[dict[str, Any]]) -> list[KindStages]:
    """Compile several definitions. Raises InputError for a duplicate kind."""
    kinds = [compile_kind(definition) for definition in definitions]
    seen: set[str] = set()
    for kind in kinds:
        if kind.kind in seen:
            raise InputError(f"stages: duplicate definition of {kind.kind}")
        seen.add(kind.kind)
    return kinds


def _check_stage_definition(kind: str, stage: dict[str, Any], names: list[str]) -> None:
    name = str(stage.get("name") or "")
    where = f"stage '{name or stage}' of {kind}"
    unknown = next((key for key in stage if key not in _KEYS), None)
    if unknown:
        raise InputError(f"{where}: unknown key '{unknown}'{suggest_similar_name(unknown, _KEYS)}")
    if not name:
        raise InputError(f"{where}: it has no name")
    if name in names:
        raise InputError(f"{where}: duplicate name")
    sources = [key for key in _SOURCES if key in stage]
    if len(sources) != 1:
        raise InputError(
            f"{where}: it needs exactly one of {', '.join(_SOURCES)}, it has {', '.join(sources) or 'none'}"
        )
    if "equals" in stage and "field" not in stage:
        raise InputError(f"{where}: equals goes with field only")
    writer = str(stage.get("writer") or "")
    if writer not in WRITERS:
        raise InputError(
            f"{where}: writer '{writer}' is none of {', '.join(WRITERS)}{suggest_similar_name(writer, WRITERS)}"
        )
    gang = stage.get("gang") or []
    wrong = next((member for member in gang if member not in GANG), None) if isinstance(gang, list) else gang
    if wrong:
        raise InputError(f"{where}: gang '{wrong}' must be a list of {', '.join(GANG)}")
    if stage.get("ends") not in (None, *ENDS):
        raise InputError(f"{where}: ends '{stage['ends']}' is none of {', '.join(ENDS)}")


def _fields_read_by_stages(stages: Sequence[dict[str, Any]]) -> Shape | None:
    """Return the fields of an object that its stages read, None if an expression may read any."""
    if any("jmespath" in stage for stage in stages):
        return None
    shapes = [shape_from_dotted_path(str(stage["field"])) if "field" in stage else _CONDITIONS for stage in stages]
    return functools.reduce(merge_field_shapes, shapes, _MESSAGES)


def _stage_value_getter(kind: str, stage: dict[str, Any]) -> Getter:
    if "condition" in stage:
        return _condition_time_getter(str(stage["condition"]))
    if "field" in stage:
        return _field_value_getter(str(stage["field"]).split("."), stage.get("equals"))
    return _jmespath_getter(f"stage '{stage['name']}' of {kind}", str(stage["jmespath"]))


def _combine_getters(getters: list[Getter]) -> Callable[[dict[str, Any], Conditions], tuple[Value, ...]]:
    def read(thing: dict[str, Any], conditions: Conditions) -> tuple[Value, ...]:
        return tuple([getter(thing, conditions) for getter in getters])

    return read


def _condition_time_getter(kind: str) -> Getter:
    def get(_thing: dict[str, Any], conditions: Conditions) -> Value:
        condition = conditions.get(kind)
        if condition is None or condition.get("status") != "True":
            return None
        return condition.get("lastTransitionTime") or True

    return get


def _field_value_getter(path: list[str], equals: Any) -> Getter:
    wanted = None if equals is None else frozenset(equals if isinstance(equals, list) else [equals])
    if len(path) == 2:
        return _short_field(path[0], path[1], wanted)

    def get(thing: dict[str, Any], _conditions: Conditions) -> Value:
        value: Any = thing
        for key in path:
            if not isinstance(value, dict):
                return None
            value = value.get(key)
            if value is None:
                return None
        if wanted is not None:
            return True if value in wanted else None
        return value if isinstance(value, str) else bool(value) or None

    return get


def _short_field(outer: str, inner: str, wanted: frozenset[Any] | None) -> Getter:
    """_field() for two keys, such as status.phase, without a loop."""

    def truth(thing: dict[str, Any], _conditions: Conditions) -> Value:
        holder = thing.get(outer)
        return True if isinstance(holder, dict) and holder.get(inner) in wanted else None  # type: ignore[operator]  # not None: see below

    def time(thing: dict[str, Any], _conditions: Conditions) -> Value:
        holder = thing.get(outer)
        value = holder.get(inner) if isinstance(holder, dict) else None
        return value if isinstance(value, str) else bool(value) or None

    return time if wanted is None else truth


def _jmespath_getter(where: str, text: str) -> Getter:
    try:
        import jmespath
    except ImportError as error:
        raise InputError(f"{where}: its jmespath needs the Python package jmespath") from error
    try:
        compiled = jmespath.compile(text)
    except jmespath.exceptions.JMESPathError as error:
        raise InputError(f"{where}: jmespath '{text}' cannot be parsed: {error}") from error

    def get(thing: dict[str, Any], _conditions: Conditions) -> Value:
        value = compiled.search(thing)
        return value if isinstance(value, str) and value else bool(value) or None

    return get


def pod_gpu_count(thing: dict[str, Any]) -> float:
    """Return the number of GPUs of a pod: the limits of its containers for resources named .../gpu."""
    count = 0.0
    for container in (thing.get("spec") or {}).get("containers") or ():
        for name, asked in ((container.get("resources") or {}).get("limits") or {}).items():
            if name.endswith("/gpu"):
                count += parse_kube_quantity(asked)
    return count


def why_object_ended(thing: dict[str, Any], condition: dict[str, Any] | None) -> str | None:
    """Return why an object ended: the message of the condition that says so, else of its status."""
    status = thing.get("status")
    said = condition or (status if isinstance(status, dict) else {})
    return said.get("message") or said.get("reason")


def first_false_condition_message(conditions: Conditions, awaited: Sequence[str]) -> str:
    """Return the message of the first awaited condition of an object that is False; empty if none is."""
    for kind in awaited:
        condition = conditions.get(kind)
        if condition is not None and condition.get("status") == "False":
            message = condition.get("message") or condition.get("reason")
            if message:
                return message
    return ""

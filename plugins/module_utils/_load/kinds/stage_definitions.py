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
with ``equals``, whether its value is one of the given), ``jmespath`` (a time as text, or a truth value) or
``deleted: true`` (the API server removed the object). Only jmespath requires the package jmespath.

``api_version`` may be a list; the first version that the server has is used. ``select: owners`` finds objects without
the labels of the load by the chain of their owners. A kind with ``optional: true`` is left out if the server lacks it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats, run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    DataError,
    InputError,
    suggest_similar_name,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.formats import parse_kube_quantity
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.partial_json_decoder import (
    ANY,
    Shape,
    merge_field_shapes,
    shape_from_dotted_path,
)

WRITERS = ("client", "api-server", "controller", "scheduler", "node", "provisioner")
ENDS = ("succeeded", "failed")
_SOURCES = ("condition", "field", "jmespath", "deleted")
_KEYS = frozenset((*_SOURCES, "name", "equals", "writer", "depends_on", "ends", "gang", "running", "description"))
_TOP = frozenset(("api_version", "kind", "select", "optional", "stages", "description"))
LABELS, OWNERS = "labels", "owners"
#: The fields of an object that conditions, why_object_waits() and why_object_ended() read.
_MESSAGES: Shape = {"status": dict.fromkeys(("message", "reason"), ANY)}
_CONDITIONS: Shape = {
    "status": {"conditions": [dict.fromkeys(("type", "status", "lastTransitionTime", "message", "reason"), ANY)]}
}
#: Conditions that hold an object back while they are True: of Jobs and trainings, and of Deployments and ReplicaSets.
HINDRANCES = ("Suspended", "ReplicaFailure")
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
    #: Of an object: what values(), why_object_waits() and why_object_ended() read; None: an expression may read any.
    fields: Shape | None
    of_metadata: tuple[int, ...]  # numbers of the stages that read metadata, and only that
    at_deletion: tuple[str, ...]  # stages that an object reaches when it is deleted
    running: frozenset[int]  # numbers of the stages in which an object of the workload runs
    awaited: tuple[str, ...]  # conditions whose message explains, while they are False, why the object waits
    definition: dict[str, Any]
    optional: bool  # left out if the server does not have the kind
    #: Why the jmespath of a stage can't be evaluated on some objects, by stage; empty once an object has reached it.
    faults: dict[str, str] = field(default_factory=dict, compare=False)

    def fault_notes(self) -> list[str]:
        """Return a sentence for each stage that no object reached and whose jmespath some objects do not fit."""
        return [
            f"stage '{name}' of {self.kind} counts as not reached where its jmespath can't be evaluated: {why}"
            for name, why in self.faults.items()
            if why
        ]


def compile_stages_of_kind(definition: dict[str, Any]) -> KindStages:
    """Check and compile a definition. Raises InputError naming the kind, the stage and the key."""
    if not isinstance(definition, dict):
        raise InputError(f"stage definition '{definition}': it is not a dictionary")
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
    if not isinstance(stages, list) or not stages:
        raise InputError(f"stage definition of {kind}: stages must be a list with at least one stage")
    names: list[str] = []
    for stage in stages:
        _check_stage_definition(kind, stage, names)
        names.append(stage["name"])
    paths = [str(stage.get("field", "")) for stage in stages]
    faults: dict[str, str] = {}
    return KindStages(
        api_versions=tuple(str(version) for version in versions) if isinstance(versions, list) else (str(versions),),
        kind=kind,
        select=select,
        names=tuple(names),
        values=_combine_getters(kind, names, [_stage_value_getter(kind, stage, faults) for stage in stages]),
        ends={number: stage["ends"] for number, stage in enumerate(stages) if stage.get("ends")},
        fields=_fields_read_by_stages(stages),
        of_metadata=tuple(number for number, path in enumerate(paths) if path.startswith("metadata.")),
        at_deletion=tuple(str(stage["name"]) for stage in stages if "deleted" in stage),
        running=frozenset(number for number, stage in enumerate(stages) if stage.get("running")),
        awaited=tuple(stage["condition"] for stage in stages if stage.get("condition") and not stage.get("ends")),
        definition=definition,
        optional=bool(definition.get("optional")),
        faults=faults,
    )


def compile_stages_of_kinds(definitions: Sequence[dict[str, Any]]) -> list[KindStages]:
    """Compile several definitions. Raises InputError for a duplicate kind."""
    kinds = [compile_stages_of_kind(definition) for definition in definitions]
    seen: set[str] = set()
    for kind in kinds:
        if kind.kind in seen:
            raise InputError(f"stages: duplicate definition of {kind.kind}")
        seen.add(kind.kind)
    return kinds


def _check_stage_definition(kind: str, stage: dict[str, Any], names: list[str]) -> None:
    if not isinstance(stage, dict):
        raise InputError(f"stage '{stage}' of {kind}: it is not a dictionary")
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
    source = stage[sources[0]]
    if "deleted" in stage:
        if source is not True or stage.get("ends") or stage.get("running"):
            raise InputError(f"{where}: deleted must be true, and goes neither with ends nor with running")
    elif not isinstance(source, str) or not source:
        raise InputError(f"{where}: {sources[0]} must be a text, it is '{source}'")
    if "equals" in stage and "field" not in stage:
        raise InputError(f"{where}: equals goes with field only")
    values = _as_list(stage.get("equals", True))
    refused = [value for value in values if value is None or isinstance(value, (dict, list))]
    if refused or not values:
        shown = refused[0] if refused else values
        raise InputError(f"{where}: equals '{shown}' must be a text, a number or a truth value, or a list of them")
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
    shapes = [shape_from_dotted_path(str(stage["field"])) for stage in stages if "field" in stage]
    return functools.reduce(merge_field_shapes, [*shapes, _CONDITIONS], _MESSAGES)


def _stage_value_getter(kind: str, stage: dict[str, Any], faults: dict[str, str]) -> Getter:
    if "condition" in stage:
        return _condition_time_getter(stage["condition"])
    if "field" in stage:
        return _field_value_getter(stage["field"].split("."), stage.get("equals"))
    if "deleted" in stage:
        return lambda _thing, _conditions: None  # while it exists
    return _jmespath_getter(kind, stage["name"], stage["jmespath"], faults)


def _combine_getters(
    kind: str, names: Sequence[str], getters: list[Getter]
) -> Callable[[dict[str, Any], Conditions], tuple[Value, ...]]:
    def read(resource: dict[str, Any], conditions: Conditions) -> tuple[Value, ...]:
        values: list[Value] = []
        try:
            for getter in getters:
                values.append(getter(resource, conditions))
        except Exception as error:
            raise DataError(f"stage '{names[len(values)]}' of {kind}: {type(error).__name__}: {error}") from error
        return tuple(values)

    return read


def _condition_time_getter(kind: str) -> Getter:
    def get(_thing: dict[str, Any], conditions: Conditions) -> Value:
        condition = conditions.get(kind)
        if condition is None or condition.get("status") != "True":
            return None
        time = condition.get("lastTransitionTime")
        return time if isinstance(time, str) and time else True

    return get


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _field_value_getter(path: list[str], equals: Any) -> Getter:
    texts = frozenset(value for value in _as_list(equals) if isinstance(value, str))
    others = [value for value in _as_list(equals) if value is not None and not isinstance(value, str)]

    def truth(value: Any) -> Value:
        if isinstance(value, str):
            return value in texts or None
        # In Python, True equals 1.
        return any(value == wanted and isinstance(value, bool) == isinstance(wanted, bool) for wanted in others) or None

    read = _time_or_truth if equals is None else truth
    if len(path) == 2:
        return _short_field(path[0], path[1], read)

    def get(resource: dict[str, Any], _conditions: Conditions) -> Value:
        value: Any = resource
        for key in path:
            if not isinstance(value, dict):
                return None
            value = value.get(key)
        return read(value)

    return get


def _time_or_truth(value: Any) -> Value:
    if isinstance(value, str):
        return value or None
    return bool(value) or None


def _short_field(outer: str, inner: str, read: Callable[[Any], Value]) -> Getter:
    """_field_value_getter() for two keys, such as status.phase, without a loop."""

    def get(resource: dict[str, Any], _conditions: Conditions) -> Value:
        holder = resource.get(outer)
        return read(holder.get(inner)) if isinstance(holder, dict) else None

    return get


def compile_jmespath(where: str, text: str) -> Any:
    """Compile an expression. Raises InputError, which begins with ``where``, for one that can never be evaluated."""
    try:
        import jmespath
    except ImportError as error:
        raise InputError(f"{where}: its jmespath needs the Python package jmespath") from error
    try:
        compiled = jmespath.compile(text)
        _check_functions(compiled.parsed, jmespath.functions.Functions.FUNCTION_TABLE)
    except (jmespath.exceptions.JMESPathError, ValueError) as error:
        raise InputError(f"{where}: jmespath '{text}' cannot be parsed: {error}") from error
    return compiled


def _jmespath_getter(kind: str, stage: str, text: str, faults: dict[str, str]) -> Getter:
    compiled = compile_jmespath(f"stage '{stage}' of {kind}", text)

    def get(resource: dict[str, Any], _conditions: Conditions) -> Value:
        try:
            value = compiled.search(resource)
        except Exception as error:  # the types of this object do not fit, for example those of a status to be written
            faults.setdefault(stage, f"'{text}': {error}")
            return None
        reached = _time_or_truth(value)
        if reached is not None:
            faults[stage] = ""
        return reached

    return get


def _check_functions(node: Any, known: dict[str, Any]) -> None:
    """Check the functions of a parsed expression, which jmespath does only when it calls them. Raises ValueError."""
    if node["type"] == "function_expression":
        name, count = node["value"], len(node["children"])
        if name not in known:
            raise ValueError(f"unknown function {name}(){suggest_similar_name(name, known)}")
        signature = known[name]["signature"]
        variadic = bool(signature) and bool(signature[-1].get("variadic"))
        if count < len(signature) or (count > len(signature) and not variadic):
            raise ValueError(
                f"{name}() takes {len(signature)}{' or more' if variadic else ''} arguments, it has {count}"
            )
    for child in node["children"]:
        if isinstance(child, dict):
            _check_functions(child, known)


def pod_gpu_count(resource: dict[str, Any]) -> float:
    """Return the number of GPUs of a pod: the limits of its containers for resources named .../gpu.

    The devices of a claim are not in the pod. Our templates say their number in an annotation; a partition is a part of
    one.
    """
    claimed = (resource["metadata"].get("annotations") or {}).get(run_labels.GPUS) if "metadata" in resource else None
    count = parse_kube_quantity(claimed) if formats.is_kube_quantity(claimed) else 0.0
    for container in (resource.get("spec") or {}).get("containers") or ():
        for name, asked in ((container.get("resources") or {}).get("limits") or {}).items():
            if name.endswith("/gpu"):
                count += parse_kube_quantity(asked)
    return count


def _message(holder: dict[str, Any]) -> str:
    """Return the message of a condition or a status, else its reason; empty if neither is a text."""
    texts = (holder.get("message"), holder.get("reason"))
    return next((text for text in texts if isinstance(text, str) and text), "")


def why_object_ended(resource: dict[str, Any], condition: dict[str, Any] | None) -> str:
    """Return why an object ended: the message of the condition that says so, else of its status; empty if unknown."""
    status = resource.get("status")
    return _message(condition or (status if isinstance(status, dict) else {}))


def why_object_waits(conditions: Conditions, awaited: Sequence[str]) -> str:
    """Return why an object waits: the message of the first condition that says so; empty if none does.

    These are the conditions that hold an object back while they are True, then those that are awaited and False.
    """
    for kind in HINDRANCES:
        condition = conditions.get(kind)
        if condition is not None and condition.get("status") == "True":
            return _message(condition) or kind
    for kind in awaited:
        condition = conditions.get(kind)
        if condition is not None and condition.get("status") == "False":
            message = _message(condition)
            if message:
                return message
    return ""

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The search for hosts: its conditions, checked by the type of each field, and the hosts that are free."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name

from . import quads_errors, quads_records
from .quads_client import QuadsClient

OPERATORS = ("ne", "lt", "lte", "gt", "gte", "like", "ilike", "in")
#: The largest integer of the server's database.
LARGEST = 2**31 - 1


@dataclass(frozen=True)
class ConditionValueType:
    """The type of a value. ``split``: a comma in a text separates values."""

    says: str
    operators: tuple[str, ...] = OPERATORS
    split: bool = False
    choices: tuple[str, ...] = ()


TEXT = ConditionValueType("a text")
#: A text that never contains a comma.
WORD = ConditionValueType("a text", split=True)
NUMBER = ConditionValueType(f"a whole number from 0 to {LARGEST}", ("ne", "lt", "lte", "gt", "gte", "in"), split=True)
#: Summed over a host's parts before the comparison.
SUM = ConditionValueType(NUMBER.says, ("ne", "lt", "lte", "gt", "gte"))
TRUTH = ConditionValueType("true or false", ("ne",))


def _choice_value_type(*names: str) -> ConditionValueType:
    return ConditionValueType(" or ".join(names), ("ne", "in"), True, names)


CHILDREN: dict[str, dict[str, ConditionValueType]] = {
    "interfaces": {
        **dict.fromkeys(("name", "mac_address", "switch_ip", "bios_id"), WORD),
        **dict.fromkeys(("vendor", "switch_port"), TEXT),
        **dict.fromkeys(("pxe_boot", "maintenance"), TRUTH),
        "speed": NUMBER,
        "count": SUM,
    },
    "disks": {"disk_type": WORD, "size_gb": NUMBER, "count": SUM},
    "memory": {"handle": TEXT, "size_gb": SUM},
    "processors": {
        **dict.fromkeys(("handle", "vendor", "product"), TEXT),
        **dict.fromkeys(("cores", "threads"), SUM),
        "processor_type": _choice_value_type("CPU", "GPU"),
    },
}
FIELDS: dict[str, ConditionValueType] = {
    **dict.fromkeys(("name", "model", "host_type", "rack", "uloc", "blade"), WORD),
    **dict.fromkeys(("broken", "retired", "build", "validated", "switch_config_applied"), TRUTH),
    "bootmode": _choice_value_type("Bios", "Uefi"),
    "id": NUMBER,
    **{f"{child}.{name}": kind for child, names in CHILDREN.items() for name, kind in names.items()},
}
#: Fields of a host that are useless in a search.
NOT_SEARCHED = {
    "cloud": "it is the cloud in which a host is scheduled now, and a free host is in none. The cloud to "
    "request is a separate option",
    "can_self_schedule": "every search is limited to hosts that can be self-scheduled",
}


def host_part_and_sum_flag(key: str) -> tuple[str, bool]:
    """Return the kind of part of a checked condition, "" for the host itself, and whether it is a sum."""
    name = key.partition("__")[0]
    child, dot, _field = name.partition(".")
    return (child, FIELDS[name] is SUM) if dot else ("", False)


def render_host_condition(
    key: str, value: Any, where: str, more: Mapping[str, ConditionValueType] | None = None
) -> tuple[str, str]:
    """Return a condition in the server's format. Raises InputError naming the condition and its valid values.

    where: the option, for messages. more: fields beside those of a search.
    """
    known = {**FIELDS, **(more or {})}
    name, mark, word = str(key).rpartition("__")
    name, word = (name, word) if mark else (str(key), "")
    what = f"{where}: '{key}'"
    if name not in known and name in NOT_SEARCHED:
        raise InputError(f"{what} is not a search field: {NOT_SEARCHED[name]}")
    if name not in known:
        raise InputError(f"{what}: hosts have no '{name}'{suggest_similar_name(name, known)}")
    kind = known[name]
    if mark and word not in kind.operators:
        raise InputError(
            f"{what}: unknown operator __{word};"
            f" {_describe_valid_operators(kind)}{suggest_similar_name(word, kind.operators)}"
        )
    items = _split_condition_values(value, kind, word, what)
    listed = word == "in" or len(items) > 1
    if listed and (word not in ("", "in") or "in" not in kind.operators):
        raise InputError(f"{what} takes one value, not {' and '.join(map(str, items))}")
    texts = [_format_condition_value(item, kind, what) for item in items]
    if listed and any("," in text for text in texts):
        raise InputError(f"{what}: the server separates values of a list by a comma, which '{value}' contains")
    text = ",".join(texts)
    if text == "null" and name != "model" and (listed or word not in ("", "ne")):
        raise InputError(f"{what}: the server reads 'null' as no value, which it can't compare with __{word or 'in'}")
    return (f"{name}__in" if listed else str(key)), text.upper() if name == "model" else text


def _describe_valid_operators(kind: ConditionValueType) -> str:
    names = ", ".join(f"__{operator}" for operator in kind.operators)
    return f"there {'is' if len(kind.operators) == 1 else 'are'} {names}"


def _split_condition_values(value: Any, kind: ConditionValueType, word: str, what: str) -> Sequence[Any]:
    """Return the given values; texts are split at commas where a comma can only be a separator."""
    items = list(value) if isinstance(value, (list, tuple, set)) else [value]
    if word == "in" or (kind.split and word == ""):
        items = [part for item in items for part in (item.split(",") if isinstance(item, str) else [item])]
    items = [item.strip() if isinstance(item, str) else item for item in items]
    if not items or any(item is None or item == "" for item in items):
        raise InputError(f"{what} has no value; it requires {kind.says}")
    return items


def _format_condition_value(value: Any, kind: ConditionValueType, what: str) -> str:
    """Return one value in the format of the server's database. Raises InputError for an invalid one."""
    wrong = InputError(f"{what} is '{value}': it must be {kind.says}{_did_you_mean_hint(value, kind.choices)}")
    if kind is TRUTH:
        try:
            return str(boolean(value)).lower()
        except TypeError as error:
            raise wrong from error
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise wrong
    if kind in (NUMBER, SUM):
        number = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
        if not re.fullmatch(r"[0-9]+", number) or int(number) > LARGEST:
            raise wrong
        return number
    if kind.choices:
        matching = [choice for choice in kind.choices if choice.lower() == str(value).lower()]
        if not matching:
            raise wrong
        return matching[0]
    return str(value)


def _did_you_mean_hint(value: Any, choices: Iterable[str]) -> str:
    lower = {choice.lower(): choice for choice in choices}
    hint = suggest_similar_name(str(value).lower(), lower)
    return next((f" (did you mean '{name}'?)" for small, name in lower.items() if f"'{small}'" in hint), "")


def conditions_by_preference(
    models: Sequence[str], filters: Mapping[str, Any], prefer: Sequence[Mapping[str, Any]]
) -> list[dict[str, str]]:
    """Return the conditions to try, best first: each preference combined with each model and with ``filters``."""
    common = dict(render_host_condition(key, value, "quads_lease_filters") for key, value in filters.items())
    combined = []
    for preference in prefer or ({},):
        if not isinstance(preference, Mapping):
            raise InputError(f"quads_lease_prefer: '{preference}' is not a dictionary of filters")
        own = dict(render_host_condition(key, value, "quads_lease_prefer") for key, value in preference.items())
        chosen: list[dict[str, str]] = [{"model": model.upper()} for model in models if "model" not in own] or [{}]
        combined += [{**common, **own, **model} for model in chosen]
    return combined


def find_free_hosts(client: QuadsClient, conditions: Mapping[str, str], end: float) -> list[str]:
    """Return the hosts that meet the conditions and are free from now to ``end`` (epoch seconds, UTC)."""
    answers = [client.free_host_names(query) for query in availability_queries(conditions, end, client.ahead or 0.0)]
    return [name for name in answers[0] if all(name in names for names in answers[1:])]


def availability_queries(conditions: Mapping[str, str], end: float, ahead: float) -> list[list[tuple[str, str]]]:
    """Return the queries of GET /available for hosts that are free until ``end``; a host must be in all results.

    Without an end the server returns hosts that are free now, even if a later booking makes them unfit. The
    start is omitted: the server then uses its present time, whereas a given start has to be rounded down to the minute
    and would be before the end of a lease that was just released. Each sum gets a separate query: beside other
    conditions on parts, some servers sum up all parts of a host, others only those that meet the conditions, and some
    fail.
    """
    sums = [key for key in conditions if host_part_and_sum_flag(key)[1]]
    chosen = [[key for key in conditions if key not in sums], *([key] for key in sums)]
    until = ("end", quads_records.format_server_local_time(end, ahead))
    return [
        [("can_self_schedule", "true"), *((key, conditions[key]) for key in keys), until]
        for keys in chosen
        if keys or len(chosen) == 1
    ]


def describe_unknown_models(client: QuadsClient, preferred: Iterable[Mapping[str, str]]) -> str:
    """Return a text on the models of these conditions that the lab does not have, "" if it has all."""
    wanted = [
        name
        for preference in preferred
        for key in ("model", "model__in")
        for name in preference.get(key, "").split(",")
    ]
    if not any(wanted):
        return ""
    known = client.host_counts_by_model()
    missing = [
        f"{name}{suggest_similar_name(name, known)}" for name in dict.fromkeys(wanted) if name and name not in known
    ]
    has = ", ".join(f"{name} ({count})" for name, count in sorted(known.items()))
    return f"the lab has no {', '.join(missing)}; its models: {has or 'none'}" if missing else ""


def shuffle_hosts_by_lease(hosts: Iterable[str], lease_id: str) -> list[str]:
    """Return the hosts in an order that depends on the lease, so that simultaneous runs do not collide."""
    return sorted(hosts, key=lambda host: hashlib.sha256(f"{lease_id} {host}".encode()).digest())


@dataclass(frozen=True)
class HostSearch:
    """A search for free hosts. seconds: how long they must be free. count: the least number of them."""

    conditions: tuple[dict[str, str], ...] = ({},)
    exclude: tuple[str, ...] = ()
    seconds: float = 86400.0
    count: int = 0
    gather_metadata: bool = False

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> HostSearch:
        """Check the options of module quads_info. Raises InputError."""
        return cls(
            tuple(conditions_by_preference(params["model"], params["filters"], params["prefer"])),
            tuple(params["exclude"]),
            quads_records.parse_duration(params["duration"], "duration"),
            params["count"],
            params["gather_metadata"],
        )


def find_available_lab_resources(client: QuadsClient, search: HostSearch) -> dict[str, Any]:
    """Return free hosts, clouds and VLANs. Raises NotEnoughHosts."""
    version = client.version()
    now = client.server_now()
    names: dict[str, None] = {}
    for conditions in search.conditions:
        names.update(dict.fromkeys(find_free_hosts(client, conditions, now + search.seconds)))
    hosts = [name for name in names if name not in search.exclude]
    if not hosts and (unknown := describe_unknown_models(client, search.conditions)):
        raise InputError(unknown)
    if len(hosts) < search.count:
        asked = [
            ", ".join(f"{key}={value}" for key, value in condition.items())
            for condition in search.conditions
            if condition
        ]
        with_conditions = f" with {'; '.join(asked)}" if asked else ""
        raise quads_errors.NotEnoughHosts(
            f"{len(hosts)} hosts{with_conditions} are free for "
            f"{quads_records.format_approximate_duration(search.seconds)}, but {search.count} are required"
        )
    result: dict[str, Any] = {
        "hosts": hosts,
        "free_clouds": client.free_clouds(),
        "free_vlans": client.free_vlans(),
        "server_version": version,
    }
    if search.gather_metadata:
        result["hosts_info"] = [record for name in hosts if (record := client.host(name))]
        result["machine_types"] = machine_types(result["hosts_info"])
    return result


def machine_types(hosts: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the machine types of a lab's host records (QUADS), one per model: threads of CPUs and GiB of memory.

    Hosts of one model may differ; the smallest counts. Models without hardware data are left out.
    """
    sizes: dict[str, dict[str, Any]] = {}
    for host in hosts:
        processors = [
            processor for processor in host.get("processors") or () if processor.get("processor_type") in (None, "CPU")
        ]
        cpu = sum(processor.get("threads") or processor.get("cores") or 0 for processor in processors)
        memory = sum(module.get("size_gb") or 0 for module in host.get("memory") or ())
        if not cpu or not memory:
            continue
        model = str(host.get("model") or "")
        known = sizes.get(model, {"cpu": cpu, "memory": memory})
        sizes[model] = {"name": model, "cpu": min(cpu, known["cpu"]), "memory": min(memory, known["memory"])}
    return list(sizes.values())

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of inference_load and the checked parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import parse_json

from ..plan.arrival_times import CLOSED, TYPE_KEYS, ArrivalTimes, are_arrivals_random, arrivals_from_options
from ..plan.random_draws import draw_number_for_workload
from .replica_polling import ReplicaPollingSpec
from .request_bodies import CHAT, COMPLETIONS, WORDS
from .request_connection import split_url
from .request_engine import EngineLimits
from .request_schedule import LIMITS, SearchSpec
from .tokenizer import TextTokenizer, WordCosts

#: Most tokens of a prompt or an answer, most streams, and most clients.
_MOST_TOKENS, _MOST_STREAMS, _MOST_CLIENTS = 10_000_000, 100_000, 64
_OPEN_TYPES = [name for name in TYPE_KEYS if name != CLOSED]
#: Name of the option of clients in pods.
DRIVER = "driver"
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
#: Headers that the engine sets.
_OWN_HEADERS = frozenset(("host", "content-length", "content-type", "transfer-encoding", "x-request-id", "connection"))

SPEC: dict[str, Any] = {
    **{name: option for name, option in ansible_module.POINT.items() if name == "run_id"},
    "point_dir": {"type": "path", "required": True},
    "urls": {"type": "list", "elements": "str", "required": True},
    "metrics_urls": {"type": "list", "elements": "str", "default": []},
    "api": {"type": "str", "choices": [CHAT, COMPLETIONS], "default": CHAT},
    "stream": {"type": "bool", "default": True},
    "models": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {"name": {"type": "str", "required": True}, "weight": {"type": "float", "default": 1}},
    },
    "count": {"type": "int", "default": 0},
    "seed": {"type": "int"},
    "arrival": {"type": "dict", "default": {}},
    "streams": {
        "type": "dict",
        "default": {},
        "options": {
            "count": {"type": "int", "default": 0},
            "think_time": {"type": "raw", "default": 0},
            "duration": {"type": "float", "default": 0},
        },
    },
    "search": {
        "type": "dict",
        "default": {},
        "options": {name: {"type": "float"} for name in ("low", "high", "step", "timespan", "precision")},
    },
    "slo": {
        "type": "dict",
        "default": {},
        "options": {name: {"type": "float"} for name in (*LIMITS, "share")},
    },
    "prompt_tokens": {"type": "raw", "default": 128, "no_log": False},
    "output_tokens": {"type": "raw", "default": 128, "no_log": False},
    "prompts": {"type": "list", "elements": "str", "default": []},
    "prompts_file": {"type": "path"},
    "tokenizer": {"type": "path", "no_log": False},
    "turns": {"type": "int", "default": 1},
    "shared_prefix_tokens": {"type": "int", "default": 0, "no_log": False},
    "ignore_eos": {"type": "bool", "default": True},
    "body": {"type": "dict", "default": {}},
    "warm_up": {"type": "int", "default": 0},
    "headers": {"type": "dict", "default": {}},
    "api_key": {"type": "str", "default": "", "no_log": True},
    **ansible_module.INFERENCE_TLS,
    "connect_timeout": {"type": "float", "default": 10},
    "timeout": {"type": "float", "default": 120},
    "retries": {"type": "int", "default": 0},
    "max_open": {"type": "int", "default": 10_000},
    "connection_requests": {"type": "int", "default": 0},
    "clients": {"type": "int", "default": 1},
    "pods": {
        "type": "dict",
        "options": {
            **ansible_module.CLUSTER,
            "namespace": {"type": "str", "required": True},
            "selector": {"type": "str", "required": True},
        },
    },
    DRIVER: {
        "type": "dict",
        "options": {
            "kubeconfig": {"type": "path", "required": True},
            "urls": {"type": "list", "elements": "str", "default": []},
            "lock_dir": {"type": "path"},
            "image": {"type": "str", "required": True},
            **ansible_module.DRIVER_PODS,
            "reconnect": {"type": "float", "default": 600},
            "collect_bytes": {"type": "int", "default": 268435456},
            "canary_rate": {"type": "float", "default": 5},
        },
    },
}


def _checked_distribution(name: str, spec: Any, least: float, most: float) -> Any:
    """Return a number or a distribution. Raises InputError for another value."""
    option = name.partition(".")[0]
    if isinstance(spec, Mapping):
        try:
            draw_number_for_workload(0, spec)
        except InputError as error:
            raise InputError(f"{name}: {error}", setting=option) from error
        good = "type" in spec and (spec.get("high") or 0) <= most
        _require(good, option, f"{name}: {dict(spec)} needs type, and high of at most {most:,g}")
        return {"high": most, **{key: value for key, value in spec.items() if value is not None}}
    try:
        number = float(spec)
    except (TypeError, ValueError) as error:
        text = f"{name} is '{spec}', it must be a number or a distribution with type"
        raise InputError(text, setting=option) from error
    _require(least <= number <= most, option, f"{name} is {spec}, it must be {least:g} to {most:,g}")
    return number


def _require(good: bool, option: str, text: str) -> None:
    if not good:
        raise InputError(text, setting=option)


def _checked_arrivals(arrival: dict[str, Any], count: int, seed: int) -> ArrivalTimes:
    """Return when requests are due in the open model. Raises InputError."""
    kinds = f"arrival.type is closed; for requests use streams.count, or one of {', '.join(_OPEN_TYPES)}"
    _require(arrival.get("type") != CLOSED, "arrival", kinds)
    try:
        arrivals = arrivals_from_options(arrival, count, seed if are_arrivals_random(arrival) else None)
    except InputError as error:
        raise InputError(f"arrival: {error}", setting="arrival") from error
    _require(arrivals.count > 0, "count", "count is 0, and arrival does not say how many requests there are")
    return arrivals


@dataclass(frozen=True)
class InferenceSpec:
    """The parameters of a load. arrivals: None with streams and search. count: conversations; 0: any number.

    metrics_urls: the servers whose metrics are read, which are not those of ``urls`` behind a gateway.
    """

    run: str
    point: str
    point_dir: Path
    urls: list[str]
    metrics_urls: list[str]
    api: str
    streamed: bool
    models: list[tuple[str, float]]
    count: int
    seed: int
    arrivals: ArrivalTimes | None
    search: SearchSpec | None
    streams: int
    think_time: Any
    duration: float
    prompt_tokens: Any
    output_tokens: Any
    prompts: list[str]
    turns: int
    shared_prefix_tokens: int
    ignore_eos: bool
    body: dict[str, Any]
    warm_up: int
    headers: dict[str, str]
    ca_file: str
    validate_certs: bool
    limits: EngineLimits
    clients: int = 1
    pods: ReplicaPollingSpec | None = None
    tokenizer: TextTokenizer | None = None
    word_costs: WordCosts | None = None

    @classmethod
    def from_params(cls, params: dict[str, Any]) -> Self:
        """Check the options of the module. Raises InputError naming option and value."""
        urls = "urls is empty: name the base URL of at least one server, such as http://host:8000"
        _require(bool(params["urls"]), "urls", urls)
        for url in [*params["urls"], *params.get("metrics_urls", [])]:
            split_url(url)
        streams, count, turns = params["streams"], params["count"], params["turns"]
        number, duration = int(streams.get("count") or 0), float(streams.get("duration") or 0)
        seed = 1 if params["seed"] is None else params["seed"]
        _require(seed >= 0, "seed", f"seed is {seed}, it must be 0 or more")
        _require(1 <= turns <= 1000, "turns", f"turns is {turns}, it must be 1 to 1000")
        _require(0 <= count <= 1_000_000, "count", f"count is {count:,}, it must be 0 to 1,000,000")
        arrivals = None
        arrival = {key: value for key, value in params["arrival"].items() if value is not None}
        search = None
        if any(value is not None for value in params.get("search", {}).values()):
            one = "search decides when requests are due: give neither arrival, streams, count nor turns with it"
            _require(not (arrival or number or duration or count or turns > 1), "search", one)
            search = SearchSpec.from_params(params["search"], params["slo"])
        elif number or duration:
            both = "arrival is for the open model and streams for the closed one: give only one of them"
            _require(not arrival, "streams", both)
            most = f"streams.count is {number}, it must be 1 to {_MOST_STREAMS:,}"
            _require(1 <= number <= _MOST_STREAMS, "streams", most)
            end = "streams need an end: streams.duration in seconds, or count"
            _require(bool(count or duration > 0), "streams", end)
        else:
            arrivals = _checked_arrivals(arrival, count, seed)
            count = arrivals.count
        _require(duration >= 0, "streams", f"streams.duration is {duration:g}, it must be 0 or more")
        many = f"{count * turns:,} requests, and 1,000,000 are the most of one load"
        _require(count * turns <= 1_000_000, "count", many)
        for name in ("warm_up", "retries", "shared_prefix_tokens", "connection_requests"):
            _require(params[name] >= 0, name, f"{name} is {params[name]}, it must be 0 or more")
        for name in ("connect_timeout", "timeout", "max_open"):
            _require(params[name] > 0, name, f"{name} is {params[name]}, it must be above 0")
        clients = params.get("clients") or 1
        _require(1 <= clients <= _MOST_CLIENTS, "clients", f"clients is {clients}, it must be 1 to {_MOST_CLIENTS}")
        alone = "clients must be 1 with search: each step follows from the answers to all requests before it"
        _require(clients == 1 or search is None, "clients", alone)
        few = f"clients is {clients}, more than the {number} of streams.count"
        _require(arrivals is not None or search is not None or clients <= number, "clients", few)
        # Each client sends its share of the count: one with fewer streams than another would send its share alone.
        nearest = min(round(number / clients), _MOST_STREAMS // clients) * clients
        uneven = (
            f"streams.count (serving_streams) is {number}, which is not divisible by the {clients} of clients"
            f" (serving_clients), so with a count some would end before others: {nearest} is the nearest number"
        )
        _require(not count or number % clients == 0, "streams", uneven)
        tokenizer = TextTokenizer.from_path(params["tokenizer"]) if params.get("tokenizer") else None
        prompts = params["prompts"] or _read_prompts(params.get("prompts_file") or "")
        weights = [(model["name"], float(model.get("weight", 1))) for model in params["models"]]
        _require(all(weight > 0 for _name, weight in weights), "models", "models: each weight must be above 0")
        return cls(
            run=params["run_id"],
            point=params.get("point") or Path(params["point_dir"]).name,
            point_dir=Path(params["point_dir"]),
            urls=params["urls"],
            metrics_urls=params.get("metrics_urls") or params["urls"],
            api=params["api"],
            streamed=params["stream"],
            models=weights,
            count=count,
            seed=seed,
            arrivals=arrivals,
            search=search,
            streams=number,
            think_time=_checked_distribution("streams.think_time", streams.get("think_time") or 0, 0, 86_400),
            duration=duration,
            prompt_tokens=_checked_distribution("prompt_tokens", params["prompt_tokens"], 1, _MOST_TOKENS),
            output_tokens=_checked_distribution("output_tokens", params["output_tokens"], 1, _MOST_TOKENS),
            prompts=prompts,
            turns=turns,
            shared_prefix_tokens=params["shared_prefix_tokens"],
            ignore_eos=params["ignore_eos"],
            body=params["body"],
            warm_up=params["warm_up"],
            headers=_checked_headers(params["headers"], params["api_key"]),
            ca_file=params["ca_file"] or "",
            validate_certs=params["validate_certs"],
            limits=EngineLimits(
                params["connect_timeout"],
                params["timeout"],
                params["retries"],
                params["max_open"],
                params["connection_requests"],
            ),
            clients=clients,
            pods=ReplicaPollingSpec(**params["pods"]) if params.get("pods") else None,
            tokenizer=tokenizer,
            word_costs=WordCosts(WORDS, tokenizer) if tokenizer and not prompts else None,
        )


def _read_prompts(path: str) -> list[str]:
    """Return the prompts of a file: each line is one, or a JSON object with ``prompt``. Raises InputError."""
    prompts: list[str] = []
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").split("\n") if path else []  # JSON may contain U+2028
        for number, line in enumerate(lines, 1):
            text = parse_json(line)["prompt"] if line.startswith("{") else line.strip()
            _require(isinstance(text, str), "prompts_file", f"{path}, line {number}: prompt is not a text")
            prompts += [text] if text.strip() else []
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"prompts_file: {path} can't be read: {error}", setting="prompts_file") from error
    except (ValueError, KeyError) as error:
        text = f"{path}, line {number}: not a JSON object with prompt"
        raise InputError(text, setting="prompts_file") from error
    _require(bool(prompts) or not path, "prompts_file", f"prompts_file: {path} contains no prompt")
    return prompts


def _checked_headers(given: Mapping[str, Any], key: str) -> dict[str, str]:
    headers = {str(name): str(value) for name, value in given.items()}
    for name, value in headers.items():
        _require(bool(_HEADER.match(name)), "headers", f"headers: '{name}' is not a valid name of a header")
        _require(name.lower() not in _OWN_HEADERS, "headers", f"headers: {name} is set by the load itself")
        broken = f"headers: the value of {name} contains a line break or a control character"
        _require(value.isprintable(), "headers", broken)
    if key:
        odd = "api_key contains a space, a line break or another character that no key has"
        _require(key.isascii() and key.isprintable() and " " not in key, "api_key", odd)
        both = "headers: authorization is given, and api_key too: give only one of them"
        _require("authorization" not in {name.lower() for name in headers}, "headers", both)
        headers["Authorization"] = f"Bearer {key}"
    return headers

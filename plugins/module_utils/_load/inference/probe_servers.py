# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What inference servers are asked before a load: whether they answer, their models, a first request; their metrics."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    AccessError,
    InputError,
    suggest_similar_name,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.point_clock import MonotonicWallClock

from .inference_request import SECOND, SUCCEEDED, InferenceRequest
from .request_bodies import RequestBodies
from .request_connection import InferenceServer
from .request_engine import EngineLimits, RequestEngine
from .request_schedule import RequestSchedule
from .streamed_response import decode_json, error_text

#: Seconds for one question, and most samples that are kept of a server's metrics.
_PATIENCE, _MOST_SAMPLES = 20.0, 5_000
_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*(?:\{.*\})?) +(\S+)(?: +-?[0-9]+)?\Z")


@dataclass(frozen=True)
class ServerProbe:
    """Asks servers. ``tick``: called several times a second, may raise."""

    bodies: RequestBodies
    limits: EngineLimits
    tick: Callable[[], None]

    def ask(self, server: InferenceServer, path: str) -> InferenceRequest:
        """Send a GET and return the answer. Raises AccessError if there is none."""
        request = InferenceRequest(0, "seatrial", "", 0, 0, streamed=False)
        wire = self.bodies.encode_message(server, "GET", path, "seatrial")
        self._exchange(server, request, lambda _request, _server: wire, min(self.limits.timeout, _PATIENCE))
        if not request.http.status:
            raise AccessError(_without_answer(server, request))
        return request

    def try_request(self, server: InferenceServer, request: InferenceRequest) -> float:
        """Send a request as those of the load, and return the seconds until its first token.

        Raises AccessError or InputError if it does not succeed.
        """
        self._exchange(server, request, self.bodies.encode, self.limits.timeout)
        if request.outcome == SUCCEEDED:
            return (request.answer.times[0] - request.due) / SECOND
        where = f"{server.url}: the first request, to model '{request.model}'"
        if not request.http.status:
            raise AccessError(_without_answer(server, request))
        if request.http.status in (401, 403):
            raise AccessError(_refused_key(server, request, self.bodies.has_key), permanent=True)
        if request.cause == "not_stream":
            raise InputError(f"{where}: {request.error}; set stream to false for this server")
        raise AccessError(f"{where}, failed: {request.error}")

    def models_of(self, server: InferenceServer) -> dict[str, str] | None:
        """Return the owner of each model by its name; None if the server has no list of its models.

        Raises AccessError if the server does not answer, or refuses the key.
        """
        request = self.ask(server, "/v1/models")
        if request.http.status in (401, 403):
            raise AccessError(_refused_key(server, request, self.bodies.has_key), permanent=True)
        try:
            answer = decode_json(b"".join(request.body))
            return {str(model["id"]): str(model.get("owned_by")) for model in answer["data"]}
        except (ValueError, KeyError, TypeError):
            return None

    def metrics_of(self, server: InferenceServer) -> dict[str, Any]:
        """Return ``metrics``, a value by name and labels, or ``error``."""
        try:
            request = self.ask(server, "/metrics")
        except AccessError as error:
            return {"metrics": None, "error": str(error)}
        if request.http.status != 200:
            return {"metrics": None, "error": f"HTTP {request.http.status}"}
        samples: dict[str, float] = {}
        for line in b"".join(request.body).decode("utf-8", "replace").splitlines():
            match = None if line.startswith("#") else _SAMPLE.match(line.strip())
            if match and len(samples) < _MOST_SAMPLES:
                try:
                    value = float(match[2])
                except ValueError:
                    continue
                if value - value == 0:  # neither NaN nor infinite, which JSON lacks
                    samples[match[1]] = value
        return {"metrics": samples}

    def _exchange(
        self,
        server: InferenceServer,
        request: InferenceRequest,
        encode: Callable[[InferenceRequest, InferenceServer], bytes],
        timeout: float,
    ) -> None:
        alone = replace(server, number=0)
        limits = replace(self.limits, timeout=timeout, retries=0)
        engine = RequestEngine([alone], limits, encode, MonotonicWallClock.start())
        try:
            request.due = time.monotonic_ns()
            schedule = RequestSchedule(lambda _index, _due: request, iter([(0, 0.0)]))
            schedule.begin(request.due)
            engine.run(schedule, self.tick)
        finally:
            engine.close()


def _without_answer(server: InferenceServer, request: InferenceRequest) -> str:
    error = request.error or "no answer"
    if request.cause == "reset" and server.tls is None:
        error += "; the URL of a server with TLS begins with https://"
    return error if error.startswith(server.url) else f"{server.url}: {error}"


def _refused_key(server: InferenceServer, request: InferenceRequest, has_key: bool) -> str:
    try:
        reason = error_text(decode_json(b"".join(request.body)))
    except ValueError:
        reason = ""
    said = f": {reason}" if reason else ""
    status = f"(HTTP {request.http.status}{said})"
    if not has_key:
        return f"{server.url} requires a key, and api_key gives none {status}: set it, or the header that it expects"
    return f"{server.url} refuses the key {status}; api_key must be one that it accepts"


def choose_models(
    probe: ServerProbe, servers: list[InferenceServer], wanted: list[tuple[str, float]]
) -> tuple[list[tuple[str, float]], bool]:
    """Return the models with their weights, and whether all servers are simulated ones.

    Raises InputError for a model that a server lacks, and if none is named and there are several.
    """
    simulated = True
    for server in servers:
        known = probe.models_of(server)
        if known is None:
            if not wanted:
                raise InputError(f"{server.url} does not list its models (/v1/models): name one in models")
            simulated = False
            continue
        if not wanted:
            if len(known) != 1:
                names = ", ".join(known) or "none"
                raise InputError(f"models is empty, and {server.url} does not have exactly one model, but {names}")
            wanted = [(next(iter(known)), 1.0)]
        for name, _weight in wanted:
            if name not in known:
                raise InputError(
                    f"models: {server.url} has no model '{name}'{suggest_similar_name(name, known)};"
                    f" it has {', '.join(known) or 'none'}"
                )
            simulated = simulated and known[name] == "simulated"
    return wanted, simulated

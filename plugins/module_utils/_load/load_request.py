# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What workload_submit was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _lock_file
from ansible_collections.perfscale.seatrial.plugins.module_utils._load import load_options
from ansible_collections.perfscale.seatrial.plugins.module_utils._plan import template_renderer


@dataclass(frozen=True)
class LoadRequest:
    """What workload_submit was asked for. Times in seconds."""

    kubeconfig: str
    context: str
    run: str
    point: str
    point_dir: Path
    namespace: str
    count: int
    arrival: dict[str, Any]
    in_flight: int
    seed: int | None
    sample: bool
    templates: tuple[template_renderer.Template, ...]
    stages: tuple[dict[str, Any], ...]
    simulated_writers: tuple[str, ...]
    canary_rate: float
    wait: bool
    timeout: float
    settle: float
    request_timeout: float
    retry_time: float
    max_lateness: float
    breaker_latency: float = 0.0
    lock_dir: Path | None = None

    def lock_lost(self) -> str:
        """Return which lock of the run is lost and why, else an empty string."""
        return _lock_file.lost(self.lock_dir) if self.lock_dir else ""


def request_of(given: dict[str, Any]) -> LoadRequest:
    """Return what the module's parameters ask for."""
    return LoadRequest(
        **load_options.common(given),
        count=given["count"],
        arrival=given["arrival"],
        in_flight=given["in_flight"],
        seed=given["seed"],
        sample=given["sample"],
        templates=tuple(
            template_renderer.Template(one["name"], one["content"] or "", one["weight"], one["parameters"])
            for one in given["templates"]
        ),
        wait=given["wait"],
        request_timeout=given["request_timeout"],
        retry_time=given["retry_time"],
        max_lateness=given["max_lateness"],
        breaker_latency=given["breaker_latency"],
    )

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated inference servers of the component model-server, started without a cluster."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import rehearsal
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import ProgressLog, StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import (
    cached_and_user_programs,
    component_spec,
    instance_processes,
    provide_component_programs,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference import inference_load, inference_spec

#: Times of a server that answers at once.
QUICK = {"step_ms": 1, "step_per_request_ms": 0, "prefill_us_per_token": 1}
RUN = "tst-serving"


@dataclass
class ModelServers:
    """Running servers."""

    urls: list[str]
    truth_path: Path
    process: subprocess.Popen[bytes]
    past: set[str] = field(default_factory=set)

    def change(self, **settings: Any) -> None:
        """Change settings of all servers."""
        for url in self.urls:
            request = urllib.request.Request(f"{url}/simulation", json.dumps(settings).encode(), method="PUT")
            with urllib.request.urlopen(request, timeout=10):
                pass

    def truth(self) -> list[dict[str, Any]]:
        """Return the lines of the truth log."""
        return [json.loads(line) for line in self.truth_path.read_text(encoding="utf-8").splitlines()]

    def truth_of(self, point: str, count: int) -> dict[str, list[dict[str, Any]]]:
        """Return the lines of the requests of a point by their id, as soon as there are ``count`` or more."""
        deadline = time.monotonic() + 10
        while True:
            found: dict[str, list[dict[str, Any]]] = {}
            for line in self.truth():
                name = line["request_id"]
                if name.startswith(f"{RUN}-{point}-") and "warm-up" not in name:
                    found.setdefault(name, []).append(line)
            if sum(map(len, found.values())) >= count or time.monotonic() > deadline:
                return found
            time.sleep(0.05)


@contextmanager
def model_servers(folder: Path, number: int = 2, **settings: Any) -> Iterator[ModelServers]:
    """Start servers with these settings, and stop them."""
    component = component_spec.load_component(rehearsal.COMPONENTS / "model-server")
    sources = cached_and_user_programs.ProgramSources(rehearsal.CACHE)
    programs, _made = provide_component_programs.provide_component_programs([component], sources, rehearsal.quiet)
    ports = instance_processes.choose_ports([str(i) for i in range(number)], {}, set()).values()
    addresses = [f"127.0.0.1:{port}" for port in ports]
    truth = folder / "truth.jsonl"
    program = programs["model-server"].paths["model-server"]
    chosen = json.dumps({**QUICK, **settings})
    command = [str(program), "-listen", ",".join(addresses), "-truth", str(truth), "-settings", chosen]
    with subprocess.Popen(command) as process:
        try:
            servers = ModelServers([f"http://{address}" for address in addresses], truth, process)
            for url in servers.urls:
                _await(url)
            yield servers
        finally:
            process.terminate()


def _await(url: str) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5):
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def options(point_dir: Path, urls: list[str], **more: Any) -> dict[str, Any]:
    """Return the options of module inference_load with their defaults."""
    params = {name: option.get("default") for name, option in inference_spec.SPEC.items()}
    fixed = {"run_id": RUN, "point_dir": str(point_dir), "urls": urls, "models": [{"name": "simulated-model"}]}
    return {**params, **fixed, "prompt_tokens": 20, "output_tokens": 5, **more}


def send(point_dir: Path, urls: list[str], **more: Any) -> dict[str, Any]:
    """Send a load as the module does; return its result."""
    spec = inference_spec.InferenceSpec.from_params(options(point_dir, urls, **more))
    return inference_load.run_inference_load(spec, StepDirectory(None), ProgressLog(None))


def read_rows(point_dir: Path, kind: str) -> list[dict[str, Any]]:
    """Return the lines of requests.jsonl of one type."""
    lines = (point_dir / "requests.jsonl").read_text(encoding="utf-8").splitlines()
    return [row for row in map(json.loads, lines) if row["type"] == kind]

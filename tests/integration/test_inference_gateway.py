# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Conversations with simulated servers through Envoy and the real endpoint picker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from playbook import play, run_dirs


def kpis_of(point: Path) -> dict[str, dict[str, Any]]:
    return {kpi["name"]: kpi for kpi in files.read_json(point / "kpis.json")["kpis"]}


@pytest.mark.long
def test_the_picker_keeps_conversations_where_their_prefix_is_cached(rehearsal_folder: Path, tmp_path: Path) -> None:
    # How busy the machine is does not matter here.
    given = {
        "rehearsal_data_dir": str(rehearsal_folder),
        "serving_arrival": {"type": "constant", "rate": 4, "timespan": 10},
        "serving_max_client_lag": 60,
        "workload_max_lateness": 60,
    }
    done = play(
        "-e",
        json.dumps({"preset": "light_gateway", "overrides": given}),
        project="serving",
        artifacts=tmp_path,
        timeout=1200,
    )
    assert done.code == 0, done.output
    points = sorted((run_dirs(tmp_path)[0] / "points").iterdir())
    found = {files.read_yaml(point / "settings.yml")["serving_gateway"]: kpis_of(point) for point in points}
    assert list(found) == ["none", "round_robin", "endpoint_picker"]
    assert all(kpis["workloads_succeeded"]["value"] == 200 for kpis in found.values())
    affinity = {name: kpis["prefix_affinity"]["value"] for name, kpis in found.items()}
    # One of four servers is the right one by chance.
    assert affinity["none"] == 100 and affinity["round_robin"] < 60 and affinity["endpoint_picker"] > 75, affinity
    cached = {name: kpis["cached_share"]["value"] for name, kpis in found.items()}
    assert cached["endpoint_picker"] > cached["round_robin"] + 10, cached
    for point in points:
        servers = files.read_json(point / "server.json")["servers"]
        before, after = (
            sum(value for server in servers for name, value in server[when].items() if "request_success" in name)
            for when in ("before", "after")
        )
        assert len(servers) == 4 and after - before == 200, "the metrics are those of the servers behind the gateway"


def test_a_gateway_that_the_cluster_will_not_have_is_refused_before_the_run(tmp_path: Path) -> None:
    done = play("-e", "preset=light", "-e", "serving_gateway=endpoint_picker", project="serving", artifacts=tmp_path)
    assert done.code != 0 and "serving_gateway" in done.flat()
    assert "only with component inference-gateway" in done.flat() and not run_dirs(tmp_path)
    url = ["-e", "serving_url=http://127.0.0.1:1"]
    done = play("-e", "preset=light_gateway", *url, project="serving", artifacts=tmp_path)
    assert done.code != 0 and "serving_url is the address of the gateway" in done.flat(), done.output

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which server is asked for metrics, and which token it gets."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._results.metrics import capture_prometheus_metrics
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.metrics.capture_prometheus_metrics import (
    ROUTE,
    find_prometheus_server,
)
from scripted_server import Asked, ScriptedServer


def answer(asked: Asked) -> tuple[int, dict[str, object]]:
    return (200, {"spec": {"host": "thanos.example.com"}}) if asked.path == ROUTE else (404, {})


def test_a_server_that_the_cluster_names_does_not_get_the_token_for_another(tmp_path: Path) -> None:
    with ScriptedServer(answer) as server:
        kubeconfig = server.kubeconfig(tmp_path / "kubeconfig", {"token": "of-the-cluster"})
        found = find_prometheus_server("", "of-another", None, kubeconfig)
        assert (found.url, found.token) == ("https://thanos.example.com", "of-the-cluster")
        given = find_prometheus_server("https://metrics.example.com", "of-another", None, kubeconfig)
        assert (given.url, given.token) == ("https://metrics.example.com", "of-another")
    assert capture_prometheus_metrics.ROUTER_CA in [asked.path for asked in server.asked]

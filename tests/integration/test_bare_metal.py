"""The whole chain on made-up machines: lease, inventory, installation through BMCs, a measurement, everything back.

The QUADS server is a simulator, the BMCs are emulated, the installer is a stand-in (tests/support) that hands out
a rehearsal cluster. No hardware was ever touched by these tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils import _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._rehearsal import nodes
from bare_metal_lab import CANARIES, NAMES, Lab, lab
from playbook import play, run_dirs

#: The measurement is not what is tried here.
SMALL = ["-e", "fine_tuning_count=2", "-e", "fine_tuning_run_seconds=1"]


@pytest.fixture
def made_up(tmp_path: Path, rehearsal: Any) -> Iterator[Lab]:
    """A lab whose six machines, once installed, are the six nodes of a rehearsal cluster."""
    with Client.from_kubeconfig(rehearsal.kubeconfig) as client:
        nodes.present(client, nodes.Order(6, pool="lab"), 60, lambda _line: None, False)
        try:
            with lab(tmp_path / "lab", str(rehearsal.kubeconfig)) as running:
                yield running
        finally:
            nodes.present(client, nodes.Order(0, pool="lab"), 60, lambda _line: None, False)


def test_leased_machines_become_a_cluster_that_is_measured_and_everything_is_given_back(
    made_up: Lab, tmp_path: Path
) -> None:
    words = ["-i", str(made_up.inventory), "-e", "preset=light,bare_metal", *SMALL]
    done = play(*words, artifacts=tmp_path / "artifacts", env=made_up.environment)
    (run_dir,) = run_dirs(tmp_path / "artifacts")
    assert done.code == 0, done.output[-6000:]
    record = _files.read_yaml(run_dir / "cluster.yml")["clusters"]["sutest"]
    assert record["provider"] == "openshift_agent" and record["state"] == "released" and record["simulated"]
    assert [one["name"] for one in record["provider_data"]["machines"]] == NAMES
    assert record["provider_data"]["rendezvous"] == "198.18.0.10"
    assert _files.read_json(run_dir / "verdict.json")["verdict"] in ("pass", "inconclusive", "no_baseline", "valid")
    for one in made_up.bmcs.state().values():
        assert sum("InsertMedia" in line for line in one["log"]) == 1, "each was booted once"
    assert made_up.left() == []
    told = done.output + "".join(
        path.read_text(errors="replace") for path in run_dir.rglob("*") if path.is_file() and path.suffix != ".png"
    )
    assert [one for one in CANARIES if one in told] == []

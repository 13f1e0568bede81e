# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""cluster.yml: what is held is never forgotten, what is taken is written down before."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import OwnershipError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters import run_cluster_records

BOTH = ("sutest", "driver")
OURS = {"provider": "rehearsal", "name": "t1121-abcdef"}


def test_a_cluster_stands_in_the_file_before_it_is_taken(tmp_path: Path) -> None:
    records, changed = run_cluster_records.record_cluster_being_acquired(tmp_path, BOTH, OURS)
    assert changed and records["sutest"]["state"] == "acquiring" and records["driver"]["name"] == "t1121-abcdef"
    assert files.read_yaml(tmp_path / "cluster.yml")["clusters"] == records


def test_taking_the_same_cluster_again_keeps_what_is_known(tmp_path: Path) -> None:
    run_cluster_records.record_cluster_being_acquired(tmp_path, BOTH, OURS)
    run_cluster_records.update_host_records(tmp_path, BOTH, {"state": "acquired", "owned": True, "kubeconfig": "/k"})
    records, changed = run_cluster_records.record_cluster_being_acquired(tmp_path, BOTH, OURS)
    assert not changed and records["sutest"]["state"] == "acquired" and records["sutest"]["owned"]


def test_another_cluster_is_refused_while_one_is_held(tmp_path: Path) -> None:
    run_cluster_records.record_cluster_being_acquired(tmp_path, BOTH, OURS)
    run_cluster_records.update_host_records(tmp_path, BOTH, {"state": "acquired", "owned": True})
    with pytest.raises(OwnershipError, match="already holds rehearsal cluster t1121-abcdef for sutest: release it"):
        run_cluster_records.record_cluster_being_acquired(tmp_path, BOTH, {"provider": "existing", "kubeconfig": "/k"})


def test_after_a_release_another_cluster_may_be_taken_and_nothing_of_the_old_one_is_left(tmp_path: Path) -> None:
    run_cluster_records.record_cluster_being_acquired(tmp_path, BOTH, OURS)
    run_cluster_records.update_host_records(tmp_path, BOTH, {"state": "released", "played_logs": "/p", "gpus": 3})
    records, _changed = run_cluster_records.record_cluster_being_acquired(
        tmp_path, BOTH, {"provider": "existing", "kubeconfig": "/k"}
    )
    assert records["sutest"] == {
        "owned": False,
        "simulated": False,
        "simulated_writers": [],
        "provider": "existing",
        "kubeconfig": "/k",
        "state": "acquiring",
    }


def test_each_cluster_is_named_once(tmp_path: Path) -> None:
    run_cluster_records.record_cluster_being_acquired(tmp_path, BOTH, OURS)
    assert [
        one["hosts"]
        for one in run_cluster_records.distinct_clusters_with_hosts(run_cluster_records.read_cluster_records(tmp_path))
    ] == [["sutest", "driver"]]
    run_cluster_records.update_host_records(tmp_path, ["driver"], {"name": "other"})
    assert [
        one["hosts"]
        for one in run_cluster_records.distinct_clusters_with_hosts(run_cluster_records.read_cluster_records(tmp_path))
    ] == [
        ["sutest"],
        ["driver"],
    ]


def test_writing_what_is_there_already_is_no_change(tmp_path: Path) -> None:
    run_cluster_records.record_cluster_being_acquired(tmp_path, BOTH, OURS)
    assert run_cluster_records.update_host_records(tmp_path, BOTH, {"state": "acquiring"})[1] is False
    assert run_cluster_records.update_host_records(tmp_path, BOTH, {"state": "acquired"})[1] is True


def test_a_run_without_a_cluster_has_no_record(tmp_path: Path) -> None:
    assert (
        run_cluster_records.read_cluster_records(tmp_path) == {}
        and run_cluster_records.distinct_clusters_with_hosts({}) == []
    )


def test_a_cluster_of_another_machine_is_taken_over_to_be_given_back(tmp_path: Path) -> None:
    settings = {"settings": {"cluster_ipi_region": "us-east-2"}}
    kept = {"hosts": ["sutest"], "provider": "openshift_ipi", "name": "perf", "owned": True, "steps": ["acquire"]}
    records, changed = run_cluster_records.take_over(
        tmp_path, {**kept, "provider_data": settings, "metadata": {"infraID": "perf-abcde"}}
    )
    assert changed and list(records) == ["sutest"] and records["sutest"]["state"] == "acquiring"
    assert records["sutest"]["owned"] and records["sutest"]["provider_data"]["metadata"] == {"infraID": "perf-abcde"}

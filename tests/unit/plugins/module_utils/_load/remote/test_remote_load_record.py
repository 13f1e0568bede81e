"""The note of a load that runs elsewhere, and the lock that it renews there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.lock import lock_records
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote import host_or_pod_load


def hold(folder: Path, host: str, cluster: str, state: str = lock_records.HELD) -> None:
    process = {"pid": 1, "ticks": 1}
    stamp = "2026-11-21T10:00:00.000Z"
    record: dict[str, Any] = {
        "schema": lock_records.SCHEMA, "state": state, "cluster": cluster, "namespace": f"locks-of-{cluster}",
        "run": "run-abc", "owner": "ann", "purpose": "p", "waited": 0, "duration": 60, "since": stamp,
        "renewed": stamp, "until": stamp, "deadline": 1.0, "boot": "b", "keeper": process, "caller": process,
        "lost": "",
    }  # fmt: skip
    lock_records.write_lock_record(folder / f"lock-{host}.json", record)


def test_the_load_renews_the_lock_of_its_target_and_not_that_of_the_driver_cluster(tmp_path: Path) -> None:
    hold(tmp_path, "driver", "api.driver")
    hold(tmp_path, "sutest", "api.sutest")
    found = host_or_pod_load.renewal_parameters_of_held_lock(tmp_path, "api.sutest")
    assert found is not None and found["namespace"] == "locks-of-api.sutest"
    assert host_or_pod_load.renewal_parameters_of_held_lock(tmp_path, "api.other") is None
    assert host_or_pod_load.renewal_parameters_of_held_lock(None, "api.sutest") is None
    hold(tmp_path, "sutest", "api.sutest", lock_records.RELEASED)
    assert host_or_pod_load.renewal_parameters_of_held_lock(tmp_path, "api.sutest") is None


def test_a_note_is_forgotten_unless_its_files_are_here(tmp_path: Path) -> None:
    host_or_pod_load.write_load_record(tmp_path, "bastion", "", host_or_pod_load.STARTED)
    host_or_pod_load.delete_unfetched_load_record(tmp_path)
    assert host_or_pod_load.read_load_record(tmp_path) is None
    host_or_pod_load.write_load_record(
        tmp_path, host_or_pod_load.DRIVER_POD, "ns", host_or_pod_load.FETCHED, {"msg": "all"}
    )
    host_or_pod_load.delete_unfetched_load_record(tmp_path)
    assert (host_or_pod_load.read_load_record(tmp_path) or {})["result"] == {"msg": "all"}

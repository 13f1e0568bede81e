"""Whole playbooks on clusters that are shared, kept and forgotten."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import leftovers
import pytest
import rehearsal as support
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.lock import lock_session
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import cluster_lifecycle
from playbook import begin, play, run_dirs

pytestmark = pytest.mark.long


def moments(run_dir: Path) -> tuple[float, float]:
    """When the run's phase test began and ended."""
    phase = files.read_yaml(run_dir / "run.yml")["phases"]["test"]
    began, ended = (datetime.fromisoformat(phase[name]).timestamp() for name in ("started", "ended"))
    return began, ended


def test_whole_runs_on_one_cluster_come_one_after_the_other_and_get_past_one_that_is_killed(
    own_instance: Callable[..., cluster_lifecycle.RehearsalOptions], tmp_path: Path
) -> None:
    options = own_instance("g-shared", components=["trainer"])
    info = cluster_lifecycle.create_or_repair_instance(options, support.quiet)
    words = [
        *("-e", "preset=light", "-e", "rehearsal_name=g-shared", "-e", f"rehearsal_data_dir={options.data_dir}"),
        *("-e", "cluster_lock_duration=15", "-e", "fine_tuning_count=3", "-e", '{"results_fail_on": []}'),
    ]
    runs = [begin(*words, artifacts=tmp_path / str(n), log=tmp_path / f"{n}.log") for n in range(3)]

    def locked(number: int) -> bool:
        return any((tmp_path / str(number)).glob("*/lock-sutest.json"))

    deadline = time.monotonic() + 300
    while not any(locked(n) for n in range(3)):
        assert time.monotonic() < deadline
        time.sleep(0.5)
    doomed = next(n for n in range(3) if locked(n))
    os.kill(runs[doomed].pid, signal.SIGKILL)
    codes = [one.wait(timeout=900) for one in runs]
    said = {n: (tmp_path / f"{n}.log").read_text(encoding="utf-8") for n in range(3)}
    others = [n for n in range(3) if n != doomed]
    assert [codes[n] for n in others] == [0, 0], [said[n][-2000:] for n in others]
    assert any("in the queue for" in said[n] for n in others)
    spans = sorted(moments(run_dirs(tmp_path / str(n))[0]) for n in others)
    assert spans[0][1] <= spans[1][0], "the tests of two runs overlap"
    assert lock_session.lock_holder_and_queue(info["kubeconfig"], "", "default")["waiting"] == []


def test_a_cluster_of_one_run_is_removed_by_the_last_run_that_uses_it(tmp_path: Path, rehearsal_folder: Path) -> None:
    data = tmp_path / "data"
    words = [
        *("-e", "preset=light", "-e", "rehearsal_name=g-two", "-e", f"rehearsal_data_dir={data}"),
        *("-e", "fine_tuning_count=3", "-e", '{"results_fail_on": []}'),
    ]
    logs = [tmp_path / f"{n}.log" for n in range(2)]
    try:
        runs = [begin(*words, artifacts=tmp_path / "0", log=logs[0])]
        deadline = time.monotonic() + 300
        while not (data / "g-two" / "kubeconfig").exists():
            assert time.monotonic() < deadline and runs[0].poll() is None, logs[0].read_text(encoding="utf-8")
            time.sleep(0.5)
        # The second one measures when the first one has released the lock on the cluster, and ends.
        runs.append(begin(*words, artifacts=tmp_path / "1", log=logs[1]))
        codes = [run.wait(timeout=900) for run in runs]
        said = [" ".join(log.read_text(encoding="utf-8").split()) for log in logs]
        assert codes == [0, 0], [text[-2000:] for text in said]
        second = files.read_yaml(run_dirs(tmp_path / "1")[0] / "run.yml")
        assert f"rehearsal cluster g-two stays, because run {second['id']} uses it, which removes it" in said[0]
        assert second["held"] == [] and not (data / "g-two").exists()
    finally:
        leftovers.remove_all(data)


def test_a_cluster_that_expired_is_found_and_reaped(tmp_path: Path, rehearsal_folder: Path) -> None:
    place = ["-e", f"rehearsal_data_dir={tmp_path / 'data'}"]
    small = ["-e", '{"rehearsal_components": []}', "-e", "fake_gpu_nodes=0"]
    lab: dict[str, Any] = {"artifacts": tmp_path / "runs", "project": "cluster"}
    taken = play("--tags", "acquire", *place, *small, "-e", "cluster_lifetime=5s", "-e", "cluster_owner=ann", **lab)
    assert taken.code == 0, taken.output
    [first] = run_dirs(tmp_path / "runs")
    name = files.read_yaml(first / "cluster.yml")["clusters"]["sutest"]["name"]
    try:
        told = play("--tags", "info", *place, **lab)
        assert f"rehearsal cluster {name}: ann for performance test since" in told.flat()
        assert "EXPIRED" in told.flat() and run_dirs(tmp_path / "runs") == [first]
        dry = play("--tags", "reap", *place, **lab)
        assert f"{name} would be given back; do it with -e cluster_reap_dry_run=false" in dry.flat()
        assert (tmp_path / "data" / name).is_dir()
        done = play("--tags", "reap", *place, "-e", "cluster_reap_dry_run=false", **lab)
        assert done.code == 0, done.output
        assert not (tmp_path / "data" / name).exists()
        assert files.read_yaml(first / "cluster.yml")["clusters"]["sutest"]["state"] == "released"
        assert "nothing is held" in play("--tags", "info", *place, **lab).flat()
    finally:
        leftovers.remove_all(tmp_path / "data")

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A killed pod of a real training: its stages against the audit log, and what is done again against its own files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import rehearsal as support
import suite_prerequisites
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import cluster_lifecycle
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline import (
    failure_recoveries,
    timeline_builder,
)
from failing_load import (
    WRITES,
    windows,
)
from playbook import play, run_dirs


@pytest.mark.skipif(bool(suite_prerequisites.real_node_lacks()), reason=suite_prerequisites.real_node_lacks())
@pytest.mark.long
def test_a_real_training_goes_on_from_its_checkpoint_when_a_pod_of_it_was_killed(
    rehearsal_folder: Path, tmp_path: Path
) -> None:
    given = {
        "rehearsal_data_dir": str(rehearsal_folder),
        "rehearsal_name": "training",
        "cluster_keep": True,  # for its audit log
    }
    try:
        words = ("-e", json.dumps({"preset": "failures_real", "overrides": given}))
        done = play(*words, artifacts=tmp_path, timeout=3600)
        assert done.code == 0, done.output
        (run,) = run_dirs(tmp_path)
        log = Path(files.read_yaml(run / "cluster.yml")["clusters"]["sutest"]["audit_log"])
        check_real_recovery(run, log)
    finally:
        cluster_lifecycle.remove_instance(support.options(rehearsal_folder, "training", force=True), support.quiet)


def check_real_recovery(run: Path, log: Path) -> None:
    """Compare the stages of the recovery with the audit log, and what is done again with the files of the training."""
    point, run_id = run / "points" / "001", files.read_yaml(run / "run.yml")["id"]
    rows = list(files.read_json_lines(point / "training.jsonl"))
    seen = failure_recoveries.read_point_failures(point, run_id, "001", training=rows)
    start = timeline_builder.build_timeline_of_workloads(point, run_id, "001").header["start"]
    (recovery,) = seen.recoveries
    writes = {**WRITES, "whole": (*WRITES["whole"][:2], "system:node:real-0"), "killed": ("pods/", ("delete",), "")}
    written = windows(log, (run_id,), writes)
    for stage, (first, last) in {**recovery.stages, "killed": recovery.injected}.items():
        if stage in ("killed", "scheduled", "whole"):
            met = [window for window in written[stage] if first + start <= window[1] and last + start >= window[0]]
            assert met, f"{stage}: {first:.3f} to {last:.3f} meets no write"
    whole, resumed, useful = (recovery.stages[stage] for stage in ("whole", "resumed", "useful"))
    assert recovery.injected[0] < whole[0] < resumed[0] < useful[0] < seen.end, recovery.stages
    (folder,) = (entry for entry in (point / "files").iterdir() if entry.is_dir())
    lines = (json.loads(line) for line in (folder / "training_logs.jsonl").read_text(encoding="utf-8").splitlines())
    steps = [line["data"]["step"] for line in lines]
    (back,) = (place for place in range(1, len(steps)) if steps[place] <= steps[place - 1])
    checkpoints = {int(path.name.partition("-")[2]) for path in folder.glob("checkpoint-*")}
    assert steps[back] - 1 in checkpoints and steps[-1] == max(checkpoints), "it went on from a checkpoint to the end"
    kpis = {kpi["name"]: kpi for kpi in files.read_json(point / "kpis.json")["kpis"]}
    assert kpis["training_steps_redone_pod_killed"]["value"] == steps[back - 1] - steps[back] + 1 > 0
    assert kpis["training_seconds_redone_pod_killed"]["value"] > 0
    assert kpis["time_to_useful_pod_killed_p50"]["value"] > kpis["time_to_recover_pod_killed"]["value"]
    assert 0 < kpis["goodput"]["value"] < 100 and kpis["goodput"]["note"] == "of pod-seconds: the pods hold no GPUs"
    idle = recovery.lost["waiting"] + recovery.lost["blocked"]
    assert idle == pytest.approx(2 * (resumed[0] - recovery.injected[0]), rel=0.1), "both pods, until it did a step"
    assert not [name for name, kpi in kpis.items() if kpi["simulated"]]
    history = files.read_json(folder / f"checkpoint-{steps[-1]}" / "trainer_state.json")["log_history"]
    counted = [entry["step"] for entry in history if "loss" in entry]
    assert counted == sorted(set(counted)), "the training itself counts each step once"

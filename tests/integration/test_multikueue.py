# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MultiKueue with a manager and two worker clusters, one of which goes away, as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import playbook
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files


@pytest.mark.long
def test_jobs_of_a_lost_worker_go_to_the_other_one_and_all_clusters_are_given_back(
    tmp_path: Path, rehearsal_folder: Path
) -> None:
    # A name on the command line is that of the first cluster; the workers have their own all the same.
    own = {"rehearsal_data_dir": str(rehearsal_folder), "rehearsal_name": "manager", "workload_max_lateness": 60}
    words = ["-e", "preset=multikueue_loss", "-e", json.dumps(own)]
    done = playbook.play(*words, artifacts=tmp_path, project="scheduler", timeout=900)
    assert done.code == 0, done.output[-6000:]
    top = next(tmp_path.glob("scheduler-*"))
    found = {one["name"]: one for one in files.read_json(top / "points" / "001" / "kpis.json")["kpis"]}
    assert found["workloads_succeeded"]["value"] == found["dispatched_p50"]["of"] == 6
    # The order in which the manager reports them.
    stages = [
        f"since_sending_workload_{stage}_p50" for stage in ("quota_reserved", "nominated", "dispatched", "admitted")
    ]
    times = [found[stage]["value"] for stage in stages]
    assert times == sorted(times) and times[0] > 0
    # Kueue waits for scheduler_worker_lost_timeout before it takes jobs away.
    moved = [found[f"moved_{stage}_max"] for stage in ("evicted", "dispatched", "pods_ready")]
    assert 1 <= moved[0]["n"] == moved[1]["n"] < 6
    assert 10 <= moved[0]["value"] <= moved[1]["value"] <= moved[2]["value"]
    clusters = files.read_yaml(top / "cluster.yml")["clusters"]
    assert {host: one["state"] for host, one in clusters.items()} == dict.fromkeys(clusters, "released")
    assert [clusters[f"worker-{number}"]["name"] for number in (1, 2)] == ["manager-worker-1", "manager-worker-2"]
    assert not [one["data_dir"] for one in clusters.values() if Path(one["data_dir"]).exists()]

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write verdict.json of a run. Module results_verdict calls it."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils import _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._runai.read_scale_test_files import is_foreign
from ansible_collections.perfscale.seatrial.plugins.module_utils._rundir import run_reader
from ansible_collections.perfscale.seatrial.plugins.module_utils._rundir.each_point import Result, digest_of, tables_of
from ansible_collections.perfscale.seatrial.plugins.module_utils._rundir.point_label import point_label
from ansible_collections.perfscale.seatrial.plugins.module_utils._schemas.verdict_schemas import FAILED_CHECKS
from ansible_collections.perfscale.seatrial.plugins.module_utils._verdict import judge_run


def write_verdict(run_dir: str, max_lateness: float) -> Result:
    """Write verdict.json; return the result of module results_verdict. max_lateness: in seconds."""
    run = run_reader.read(Path(run_dir))
    warnings: list[str] = []
    foreign = [point.number for point in run.points if is_foreign(point)]
    labels = {point.number: point_label(point, str(run.record.get("project") or "")) for point in run.points}
    found = judge_run.judge(run, tables_of(run, warnings), max_lateness, foreign, labels)
    path = run.top / "verdict.json"
    before = digest_of(path)
    _files.write_json(path, found, "verdict/2")
    bad = [check for check in found["checks"] if check["result"] in FAILED_CHECKS]
    bad = bad or [check for check in found["checks"] if check["result"] == judge_run.NOT_JUDGED]
    return {
        "changed": before != digest_of(path),
        "verdict": found["verdict"],
        "checks": found["checks"],
        "headline": found["headline"],
        "answer": found["answer"],
        "doubts": found["warnings"],
        "path": str(path),
        "warnings": warnings,
        "summary": f"{found['verdict']}: {bad[0]['detail']}" if bad else found["verdict"],
    }

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is kept of objects, and which workloads are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.secret_gate import SecretScanner
from ansible_collections.perfscale.seatrial.plugins.module_utils._care import capture_contents
from ansible_collections.perfscale.seatrial.plugins.module_utils._care.capture_contents import (
    CaptureFiles,
    mask_object_secrets,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.kinds import stage_definitions
from hypothesis import given
from hypothesis import strategies as st

JOB = stage_definitions.compile_stages_of_kind(
    {
        "api_version": "batch/v1",
        "kind": "Job",
        "stages": [
            {"name": "succeeded", "condition": "Complete", "writer": "controller", "ends": "succeeded"},
            {"name": "failed", "condition": "Failed", "writer": "controller", "ends": "failed"},
        ],
    }
)
HOWS = {"succeeded": "Complete", "failed": "Failed", "unfinished": "Suspended"}


def job(number: int, how: str) -> dict[str, Any]:
    condition = {"type": HOWS[how], "status": "True"}
    meta = {"name": f"j{number:05d}", "creationTimestamp": f"2026-11-23T00:00:{number % 60:02d}Z"}
    return {"kind": "Job", "metadata": meta, "status": {"conditions": [condition]}}


def test_the_kind_of_the_workloads_of_a_point_is_read_from_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "001"
    folder.mkdir()
    assert capture_contents.kinds_of_point(folder) == []
    plan = {"type": "header", "schema": "plan/1", "templates": [{"name": "job", "kind": "Job"}]}
    (folder / "plan.jsonl").write_text(json.dumps(plan) + "\n")
    # As the sampler writes it: kind -> definition, also of kinds that are no workloads.
    stages = {"type": "stages", "kinds": {"Job": JOB.definition, "Pod": {**JOB.definition, "kind": "Pod"}}}
    (folder / "observations.jsonl").write_text(json.dumps(stages) + "\n")
    (found,) = capture_contents.kinds_of_point(folder)
    assert (found.kind, found.ends) == ("Job", JOB.ends)


@given(st.lists(st.sampled_from(sorted(HOWS)), max_size=70), st.integers(1, 30))
def test_failed_and_unfinished_workloads_are_kept_and_first_and_last_of_the_rest(hows: list[str], page: int) -> None:
    jobs = [job(number, how) for number, how in enumerate(hows)]
    chosen = capture_contents.ChosenWorkloads(JOB)
    for start in range(0, len(jobs), page):
        chosen.add(jobs[start : start + page])
    kept = [one["metadata"]["name"] for one in chosen.kept]
    assert sum(chosen.counts.values()) == len(jobs) and len(set(kept)) == len(kept)
    for how in ("failed", "unfinished"):
        names = [one["metadata"]["name"] for one, each in zip(jobs, hows, strict=True) if each == how]
        assert [one for one in kept if one in names] == names[: capture_contents.MOST]
    good = sorted(
        (one["metadata"]["creationTimestamp"], one["metadata"]["name"])
        for one, how in zip(jobs, hows, strict=True)
        if how == "succeeded"
    )
    names = [name for _at, name in good]
    assert [one for one in kept if one in names] == ([names[0], names[-1]] if len(names) > 1 else names)


@pytest.mark.parametrize(
    ("one", "ready"),
    [
        ({"kind": "DataScienceCluster", "status": {"phase": "Ready"}}, True),
        ({"kind": "DataScienceCluster", "status": {"phase": "Not Ready"}}, False),
        ({"kind": "ClusterPolicy", "status": {"state": "notReady"}}, False),
        ({"kind": "ClusterServiceVersion", "status": {"phase": "Succeeded"}}, True),
        ({"kind": "ClusterServiceVersion", "status": {"phase": "Failed"}}, False),
        ({"kind": "Subscription", "status": {"state": "AtLatestKnown"}}, True),
        ({"kind": "NodeFeatureDiscovery", "status": {"conditions": [{"type": "Available", "status": "False"}]}}, False),
        (
            {
                "kind": "ClusterOperator",
                "status": {
                    "conditions": [{"type": "Available", "status": "True"}, {"type": "Degraded", "status": "True"}]
                },
            },
            False,
        ),
        ({"kind": "Anything"}, True),
    ],
)
def test_an_object_is_ready_if_it_says_so_or_says_nothing(one: dict[str, Any], ready: bool) -> None:
    assert capture_contents.is_not_reported_unready(one) is ready


def test_secrets_in_objects_are_masked_and_secrets_left_out(tmp_path: Any) -> None:
    files = CaptureFiles(tmp_path, SecretScanner({"word": "canary-of-a-setting"}), 10_000)
    env = [{"name": "DB_PASSWORD", "value": "short1"}, {"name": "MODE", "value": "canary-of-a-setting"}]
    pod = {"kind": "Pod", "metadata": {"name": "p", "managedFields": [{}]}, "spec": {"env": env}}
    files.objects("o.jsonl", [pod, {"kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "canary"}}])
    text = (tmp_path / "o.jsonl").read_text(encoding="utf-8")
    assert "canary" not in text and "short1" not in text and "managedFields" not in text
    assert files.written == [{"file": "o.jsonl", "bytes": len(text), "objects": 1, "of": 2}]
    assert mask_object_secrets({"name": "EPOCHS", "value": "3"}) == {"name": "EPOCHS", "value": "3"}


@pytest.mark.parametrize("namespace", ["x/../../up", "/../../up", "a\x1b[2J"])
def test_a_capture_writes_no_file_outside_of_its_folder(tmp_path: Any, namespace: str) -> None:
    files = CaptureFiles(tmp_path / "capture", SecretScanner({}), 10_000)
    with pytest.raises(AccessError, match="can't be that of a file here"):
        files.objects(f"events-{namespace}.jsonl", [{"kind": "Event"}])
    with pytest.raises(AccessError, match="can't be that of a file here"):
        files.text(f"logs/{namespace}/../../pod.log", "text")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@given(st.lists(st.integers(0, 300), max_size=20), st.integers(0, 2000))
def test_a_capture_never_exceeds_its_limit(tmp_path_factory: Any, sizes: list[int], limit: int) -> None:
    folder = tmp_path_factory.mktemp("capture")
    files = CaptureFiles(folder, SecretScanner({}), limit)
    for number, size in enumerate(sizes):
        if number % 2:
            files.text(f"{number}.log", "é" * size)
        else:
            files.objects(f"{number}.jsonl", [{"kind": "Pod", "x": "y" * size}])
    on_disk = sum(path.stat().st_size for path in folder.iterdir())
    assert on_disk == sum(one["bytes"] for one in files.written) <= limit

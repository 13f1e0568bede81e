"""The parameters of a load that others submit."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import ProgressLog, StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.sample.workload_progress_and_waits import (
    WorkloadTally,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send.load_spec import SampleSpec
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send.sampling_without_sending import (
    ForeignLoadSampler,
)

CREATED = {"name": "created", "field": "metadata.creationTimestamp", "writer": "api-server"}
DONE = {"name": "done", "condition": "Done", "writer": "controller", "ends": "succeeded"}
ENDING = {"api_version": "v1", "kind": "Thing", "stages": [CREATED, DONE]}
RAN = {"name": "ran", "field": "status.ran", "writer": "controller"}


def given(**more: Any) -> dict[str, Any]:
    return {
        "kubeconfig": "k",
        "context": "",
        "run_id": "t1122-abcdef",
        "point": "001",
        "point_dir": "/nowhere",
        "submitted_by": "others",
        "namespace": "",
        "timeout": 600,
        "lock_dir": None,
        "namespaces": ["b", "a", "b"],
        "label_selector": "",
        "field_selector": "",
        "existing": False,
        "simulated_writers": [],
        "canary_rate": 20,
        "canary_namespace": "",
        "count": 0,
        "duration": 1.0,
        "idle": 0,
        "settle": 1,
        "stages": [{"api_version": "v1", "kind": "Thing", "stages": [CREATED, RAN]}],
        **more,
    }


def test_the_canary_is_written_where_the_load_is_unless_another_place_is_given() -> None:
    assert SampleSpec.from_params(given()).sampling_of_others("default").canary_namespace == "b"
    assert SampleSpec.from_params(given()).sampling_of_others("default").namespaces == ("b", "a")
    assert SampleSpec.from_params(given(namespaces=[])).sampling_of_others("mine").canary_namespace == "mine"
    assert SampleSpec.from_params(given(namespaces=[])).sampling_of_others("mine").namespaces == ("",)
    assert SampleSpec.from_params(given(canary_namespace="own")).sampling_of_others("default").canary_namespace == "own"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"stages": []}, "stages is empty"),
        ({"stages": [{"api_version": "v1", "kind": "Thing", "stages": [RAN]}]}, "field metadata.creationTimestamp"),
        ({"idle": -1}, "idle is -1, it must be 0 or more"),
        ({"count": -1}, "count is -1"),
        ({"duration": -5}, "duration is -5"),
    ],
)
def test_what_cannot_be_followed_is_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SampleSpec.from_params(given(**more))


@pytest.mark.parametrize(
    ("more", "quiet", "late", "reason"),
    [
        ({}, 900.0, False, ""),
        ({"count": 3}, 0.0, False, ""),
        ({"count": 2}, 0.0, False, "2 workloads ended"),
        ({"idle": 30}, 29.0, False, ""),
        ({"idle": 30}, 30.0, False, "nothing changed for 30 s"),
        ({"duration": 60.0}, 0.0, True, "60 s passed"),
    ],
)
def test_sampling_ends_by_number_by_silence_and_by_time(
    tmp_path: Path, more: dict[str, Any], quiet: float, late: bool, reason: str
) -> None:
    request = SampleSpec.from_params(given(point_dir=str(tmp_path), stages=[ENDING], **more))
    tally = WorkloadTally()
    tally.seen |= {0, 1, 2}
    tally.end(0, "succeeded", 1.0)
    tally.end(1, "failed", 2.0)
    sampler = ForeignLoadSampler(request, StepDirectory(None), ProgressLog(None))
    assert sampler._over(SimpleNamespace(tally=tally), quiet, late) == reason
    sampler.end_file.touch()
    assert sampler._over(SimpleNamespace(tally=tally), quiet, late) == "END was written"


def test_silence_counts_from_the_first_workload_on(tmp_path: Path) -> None:
    request = SampleSpec.from_params(given(point_dir=str(tmp_path), idle=5))
    sampler = ForeignLoadSampler(request, StepDirectory(None), ProgressLog(None))
    assert not sampler._over(SimpleNamespace(tally=WorkloadTally()), 600.0, False)

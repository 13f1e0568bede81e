"""The parameters of a load that others submit."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.follow_foreign_load import FollowSpec

CREATED = {"name": "created", "field": "metadata.creationTimestamp", "writer": "api-server"}
RAN = {"name": "ran", "field": "status.ran", "writer": "controller"}


def given(**more: Any) -> dict[str, Any]:
    return {
        "kubeconfig": "k",
        "context": "",
        "run_id": "t1122-abcdef",
        "point": "001",
        "point_dir": "/nowhere",
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
    assert FollowSpec.of(given()).sampling("default").canary_namespace == "b"
    assert FollowSpec.of(given()).sampling("default").namespaces == ("b", "a")
    assert FollowSpec.of(given(namespaces=[])).sampling("mine").canary_namespace == "mine"
    assert FollowSpec.of(given(namespaces=[])).sampling("mine").namespaces == ("",)
    assert FollowSpec.of(given(canary_namespace="own")).sampling("default").canary_namespace == "own"


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
        FollowSpec.of(given(**more))

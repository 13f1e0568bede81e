# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What kubelets say about their pulls, as figures."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack import image_preload


def pod(node: str, **state: Any) -> dict[str, Any]:
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-22T10:00:00Z"}
    statuses = [{"name": "pull", "state": state}] if state else []
    return {"spec": {"nodeName": node}, "status": {"conditions": [scheduled], "containerStatuses": statuses}}


RUNNING = {"running": {"startedAt": "2026-11-22T10:00:07Z"}}


@pytest.mark.parametrize(
    ("message", "figures"),
    [
        (
            'Successfully pulled image "r/i:1" in 2m0.5s (2m10.5s including waiting). Image size: 1234 bytes.',
            (120.5, 130.5, 1234),
        ),
        ('Successfully pulled image "r/i:1" in 850ms', (0.85, 0.85, None)),
        (
            'Successfully pulled image "r/i:1" in 850ms (1s including waiting). Image size: ' + "9" * 400 + " bytes.",
            (0.85, 1.0, None),
        ),
        ('Successfully pulled image "in 3s" in 12.5s (12.5s including waiting)', (12.5, 12.5, None)),
        ("nothing of the kind", (7.0, 7.0, None)),
    ],
)
def test_a_pull_lasts_as_long_as_the_kubelet_says_or_until_the_container_starts(
    message: str, figures: tuple[float, float, int | None]
) -> None:
    found = image_preload._image_pull_result(pod("a", **RUNNING), [message])
    assert (found["seconds"], found["waited"], found["bytes"]) == figures and not found["there"]


def test_an_image_that_was_there_took_no_time() -> None:
    said = ['Container image "r/i:1" already present on machine and can be accessed by the pod']
    found = image_preload._image_pull_result(pod("a", **RUNNING), said)
    assert found == {"node": "a", "there": True, "seconds": 0.0, "waited": 0.0, "bytes": None}


@pytest.mark.parametrize(
    ("state", "there"),
    [
        ({}, False),
        ({"waiting": {"reason": "ContainerCreating"}}, False),
        ({"waiting": {"reason": "ImagePullBackOff"}}, False),
        (RUNNING, True),
        ({"terminated": {"exitCode": 1}}, True),
        # The image has no sleep, which does not matter here.
        ({"waiting": {"reason": "RunContainerError"}}, True),
        ({"waiting": {"reason": "CrashLoopBackOff"}}, True),
    ],
)
def test_an_image_is_there_when_its_container_was_started(state: dict[str, Any], there: bool) -> None:
    assert image_preload._has_image(pod("a", **state)) is there


def test_the_daemon_set_is_for_the_named_nodes_only() -> None:
    wanted = image_preload.ImagePreloadSpec("n", "r/i:1", "t1-abcdef", 60, {"zone": "a"}, ({"operator": "Exists"},))
    spec = wanted.manifest(["a", "b"])["spec"]["template"]["spec"]
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [one["matchFields"][0]["values"] for one in terms] == [["a"], ["b"]]
    assert spec["nodeSelector"] == {"zone": "a"} and spec["tolerations"] == [{"operator": "Exists"}]
    assert "affinity" not in wanted.manifest()["spec"]["template"]["spec"]


def test_the_sentence_leaves_simulated_nodes_out_of_the_figures() -> None:
    def row(node: str, seconds: float, there: bool = False, simulated: bool = False) -> dict[str, Any]:
        return {"node": node, "seconds": seconds, "there": there, "simulated": simulated}

    rows = [row("a", 2.0), row("b", 30.0), row("c", 4.0), row("d", 0.0, there=True), row("e", 1.0, simulated=True)]
    assert image_preload.format_pulls("r/i:1", rows) == (
        "r/i:1: pulled on 3 nodes in 2.0 to 30.0 s (median 4.0 s), there on 1 node, 1 simulated node pulled nothing"
    )

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pod that failures may end, and the recovery of a workload from a failure, with the names of its stages."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, isnan

from .pod_lifetimes import NEVER, SUCCEEDED, Span, midpoint_of_span
from .training_resumption import Resumption

#: Stages of a recovery, in their order.
STAGES = ("detected", "tainted", "disrupted", "replaced", "scheduled", "whole", "resumed", "useful")
DETECTED, TAINTED, DISRUPTED, REPLACED, RESCHEDULED, WHOLE, RESUMED, USEFUL = STAGES
#: Stages of the node, which only a lost one reaches.
OF_LOST_NODE = (DETECTED, TAINTED)
#: Stages of a training that says which steps it does.
OF_TRAINING = (RESUMED, USEFUL)
NODE_LOST, NODE_DRAINED, GPU_LOST, POD_KILLED = "node_lost", "node_drained", "gpu_lost", "pod_killed"
NETWORK_CUT = "network_cut"
#: Why GPU-seconds are lost: replacements are awaited, other pods of the workload wait for them, work is done again.
WAITING, BLOCKED, REDONE = CAUSES = ("waiting", "blocked", "redone")


@dataclass
class FailingPod:
    """One pod of a workload, with everything that a recovery needs.

    weight: what its seconds count: its GPUs, or one if no pod of the load holds any.
    """

    index: int
    gpus: float = 0.0
    created: Span = NEVER
    scheduled: Span = NEVER
    running: Span = NEVER
    disrupted: Span = NEVER
    ended: Span = NEVER
    end: str = ""
    lost: Span = NEVER  # to a failure
    owner: str = ""  # uid
    disowned: Span = NEVER  # its owner was deleted
    weight: float = 0.0

    @property
    def stop(self) -> float:
        """When it stopped to work: lost to a failure, or ended; infinite if it still ran."""
        return min(midpoint_of_span(self.lost, inf), midpoint_of_span(self.ended, inf))

    @property
    def broken(self) -> bool:
        """Whether it stopped without success."""
        return self.stop < inf and (self.end != SUCCEEDED or not isnan(self.lost[0]))

    @property
    def in_vain(self) -> float:
        """When its work was lost; infinite if it was not.

        That of a pod that succeeded is lost with its owner: a Job that is made again has to do all of it again.
        """
        if self.broken:
            return self.stop
        return max(self.stop, midpoint_of_span(self.disowned, inf)) if self.end == SUCCEEDED else inf


@dataclass
class Recovery:
    """One failure and one workload that it hit. lost: GPU-seconds by cause, or pod-seconds if no pod holds GPUs."""

    number: int
    kind: str
    target: str
    index: int
    pods: int
    gpus: float
    injected: Span
    stages: dict[str, Span] = field(default_factory=dict)
    lost: dict[str, float] = field(default_factory=lambda: dict.fromkeys(CAUSES, 0.0))
    over: bool = False  # the workload has ended, or was deleted, without being whole again
    succeeded: float = inf  # when it succeeded without being whole again
    resumption: Resumption | None = None  # of a training that says which steps it does
    node_back: Span = NEVER  # the lost node is Ready again
    reconnected: Span = NEVER  # the network is not cut any more

    @property
    def idle_until(self) -> float:
        """When the workload worked again: it was whole, and did a step if it says so; infinite if it never did.

        A training that succeeded without a further step had none to do.
        """
        whole = midpoint_of_span(self.stages[WHOLE], inf)
        if self.resumption is None or self.resumption.succeeded:
            return whole
        return max(whole, midpoint_of_span(self.stages[RESUMED], inf))

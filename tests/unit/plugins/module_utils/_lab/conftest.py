"""A lab and a lease in it, in this process and on a clock that jumps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab import lease_lookup
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.lease_acquisition import (
    Acquisition,
    LeaseAcquisitionResult,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.lease_file import LeaseFile
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.lease_release import terminate_lease_assignments
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.quads_client import QuadsClient
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.quads_module_actions import (
    MachineStates,
    MachineWait,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.quads_options import LeaseSpec
from quads_simulator.core import Simulator
from quads_simulator.lab import Config
from quads_simulator.virtual import Fault, Wire, client

LEASE = "t1121-abcdef"


@dataclass
class Lab:
    """A simulator, a client with its wire, and what a run keeps."""

    simulator: Simulator
    wire: Wire
    record: LeaseFile
    told: list[str] = field(default_factory=list)

    def client(self, **more: Any) -> QuadsClient:
        """A client that goes by this lab's wire."""
        made = client(self.simulator, self.wire, **more)
        made.report = self.told.append
        return made

    def faults(self, **faults: Fault) -> None:
        """Set faults by name: schedule_0=Fault(...) is the first request for a host from now on."""
        self.wire.counts.clear()
        named = {tuple(name.rsplit("_", 1)): fault for name, fault in faults.items()}
        self.wire.faults = {(what, int(number)): fault for (what, number), fault in named.items()}

    def acquire(self, dry: bool = False, **options: Any) -> LeaseAcquisitionResult:
        """Acquire; one host unless something else is asked for."""
        wanted = options if {"count", "hosts"} & set(options) else {"count": 1, **options}
        order = LeaseSpec.from_params({"lease_id": LEASE, **wanted})
        return Acquisition(self.client(), order, self.record, self.told.append).run(dry)

    def release(self, record: LeaseFile | None = None) -> list[int]:
        """Release."""
        return terminate_lease_assignments(self.client(), LEASE, record, report=self.told.append)

    def wait(
        self, goal: str = "validated", timeout: float = 7200, min_lifetime: float = 0, **more: Any
    ) -> MachineStates:
        """Wait."""
        one = self.client()
        numbers = [part["assignment_id"] for part in self.record.known["parts"]]
        return MachineWait(
            client=one,
            find=lambda: [found for number in numbers if (found := one.assignment(number))],
            goal=goal,
            timeout=timeout,
            interval=60,
            min_lifetime=min_lifetime,
            lease_id=LEASE,
            url="",
            asked=self.record.asked,
            adopted=False,
            report=self.told.append,
        ).run()

    def active(self, owner: str = "joe") -> list[int]:
        """Numbers of somebody's active assignments."""
        return [one.id for one in self.simulator.active_of(owner)]

    def asked(self, what: str) -> list[str]:
        """The addresses of requests that hold this text."""
        return [call.url for call in self.wire.calls if what in call.url]

    def find(self) -> list[int]:
        """Numbers of the lease's active assignments, as a client finds them."""
        return [one.id for one in lease_lookup.assignments_of_lease(self.client(), LEASE, active=True)]


@pytest.fixture
def new_lab() -> Callable[..., Lab]:
    """Make labs."""

    def make(**config: Any) -> Lab:
        simulator = Simulator(Config(**config))
        return Lab(simulator, Wire(simulator), LeaseFile(None, LEASE, "https://quads.example.com", "joe"))

    return make


@pytest.fixture
def lab(new_lab: Callable[..., Lab]) -> Lab:
    """A lab with nothing in it."""
    return new_lab()

"""Two runs of two tenants at once: never do both believe that they own a host."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import SeatrialError
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.lease_acquisition import Acquisition
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.lease_file import LeaseFile
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.quads_options import LeaseSpec
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from quads_simulator.core import Simulator
from quads_simulator.lab import Config, host_names
from quads_simulator.virtual import Wire, client

NAMES = host_names()
TENANTS = ("joe", "ann")


class Baton:
    """Lets one of two threads send a request at a time, in a given order; the last one left goes on alone."""

    def __init__(self, turns: list[int]) -> None:
        self.turns = iter(turns)
        self.now = 0
        self.done: set[int] = set()
        self.change = threading.Condition()

    def step(self, me: int, do: Callable[[], Any]) -> Any:
        """Send when it is our turn."""
        with self.change:
            self._await(me)
            try:
                return do()
            finally:
                self.now = next(self.turns, 1 - me)
                self.change.notify_all()

    def let_the_other(self, me: int) -> None:
        """In the middle of our request: let the other one send."""
        self.now = 1 - me
        self.change.notify_all()
        self._await(me)

    def _await(self, me: int) -> None:
        while self.now != me and 1 - me not in self.done:
            assert self.change.wait(120), "the other tenant does not come on"

    def end(self, me: int) -> None:
        """Our run is over."""
        with self.change:
            self.done.add(me)
            self.change.notify_all()


def run_both(turns: list[int], yields: list[bool], asked: dict[str, Any]) -> tuple[Simulator, list[Any]]:
    """Run two acquisitions; ``yields``: at which requests for a host the other comes between check and insert."""
    simulator = Simulator(Config())
    baton, results, numbers = Baton(turns), [None, None], {}
    between = iter(yields)

    def give_way(host: str, cloud: str) -> None:
        if next(between, False):
            simulator.lock.release()
            baton.let_the_other(numbers[threading.get_ident()])
            simulator.lock.acquire()

    simulator.between = give_way

    def run(me: int) -> None:
        numbers[threading.get_ident()] = me
        wire = Wire(simulator)
        one = client(simulator, lambda call: baton.step(me, lambda: wire(call)), f"{TENANTS[me]}@example.com")
        order = LeaseSpec.from_params({"lease_id": f"race-{TENANTS[me]}", **asked})
        try:
            results[me] = Acquisition(
                one, order, LeaseFile(None, order.lease_id, "", TENANTS[me]), lambda _text: None
            ).run()
        except SeatrialError as error:
            results[me] = error
        finally:
            baton.end(me)

    for name in TENANTS:
        simulator.access.add(f"{name}@example.com", "made-up")
    threads = [threading.Thread(target=run, args=(me,), daemon=True) for me in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert None not in results
    return simulator, results


@settings(
    max_examples=60,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    st.lists(st.integers(0, 1), max_size=80),
    st.lists(st.booleans(), max_size=12),
    st.sampled_from([{"hosts": NAMES[:2]}, {"hosts": NAMES[:1]}, {"count": 4, "model": ["R640"]}, {"count": 7}]),
)
def test_two_racing_runs_never_both_own_a_host(turns, yields, asked):
    simulator, results = run_both(turns, yields, asked)
    owned = [set() if isinstance(one, SeatrialError) else set(one.lease.hosts) for one in results]
    assert owned[0] & owned[1] == set()
    for me, one in enumerate(results):
        if isinstance(one, SeatrialError):
            assert simulator.active_of(TENANTS[me]) == [], str(one)


def test_a_host_that_both_were_given_belongs_to_the_one_with_the_earlier_schedule():
    simulator, results = run_both([], [True], {"count": 1, "model": ["R750"]})
    got = [one for one in results if not isinstance(one, SeatrialError)]
    assert len(got) == 1, results
    assert got[0].lease.hosts == [NAMES[12]]

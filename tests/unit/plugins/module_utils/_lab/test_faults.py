"""Whatever goes wrong while a lease is made: nothing of ours is left active, unless the lease was returned."""

from __future__ import annotations

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import SeatrialError
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.lease_acquisition import (
    Acquisition,
    LeaseAcquisitionResult,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.lease_file import LeaseFile
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.lease_release import terminate_lease_assignments
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.quads_options import LeaseSpec
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from quads_simulator.core import Simulator
from quads_simulator.lab import Config
from quads_simulator.virtual import Fault, Killed, Wire, client

LEASE = "t1121-faulty"
#: How long (s) the server may still work on a request that nobody waits for.
LATEST = 280

ONE = st.one_of(
    st.builds(
        Fault,
        st.sampled_from(
            [
                *("refused", "dropped", "reset", "gateway", "gateway_executed", "crash", "crash_executed", "expired"),
                *("ended", "rival_first", "rival_second", "rival_hidden", "taken", "stranger", "same_cloud"),
            ]
        ),
        st.integers(0, 20),
    ),
    st.builds(Fault, st.just("late"), st.integers(61, LATEST)),
    st.builds(Fault, st.sampled_from(["outage", "no_tickets"]), st.integers(1, 200)),
)
#: Which request. A lease takes some thirty of them, most of which only read.
WHEN = st.one_of(
    st.tuples(st.just("create"), st.integers(0, 3)),
    st.tuples(st.just("schedule"), st.integers(0, 10)),
    st.tuples(st.just("terminate"), st.integers(0, 3)),
    st.tuples(st.just("login"), st.integers(0, 2)),
    st.tuples(st.just("read"), st.integers(0, 60)),
)
FAULTS = st.dictionaries(WHEN, ONE, max_size=12)
ORDERS = st.builds(
    lambda count, few, size, exact: (
        {"hosts": [f"s01-h{number:02d}-000-r640.lab.example.com" for number in range(1, count + 1)]}
        if exact and count < 7
        else {"count": count, "min_count": max(count - few, 1), "max_hosts": size, "split": True}
    ),
    st.integers(1, 8),
    st.integers(0, 3),
    st.sampled_from([3, 10]),
    st.booleans(),
)
SERVERS = st.builds(
    lambda dev, offset: Config(version="dev" if dev else "2.2.6", utc_offset=offset),
    st.booleans(),
    st.sampled_from([0, 120, -480, 345]),
)
# Without Phase.explain: it tries an example hundreds of times more.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)
QUICK = settings(max_examples=80, derandomize=True, phases=PHASES, suppress_health_check=[HealthCheck.too_slow])


def acquire(wire: Wire, order: LeaseSpec, record: LeaseFile) -> LeaseAcquisitionResult:
    one = client(wire.simulator, wire, skew=4000.0)
    return Acquisition(one, order, record, lambda _text: None).run()


def memo_of(wire: Wire) -> LeaseFile:
    return LeaseFile(None, LEASE, "https://quads.example.com", "joe")


def check_returned(simulator: Simulator, order: LeaseSpec, got: LeaseAcquisitionResult) -> None:
    """What was returned is what the server has: these clouds and no other, and every host of the list is ours."""
    assert got.lease is not None
    parts = {part.assignment.id for part in got.lease.parts}
    assert {one.id for one in simulator.active_of("joe")} == parts
    assert len(got.lease.hosts) >= order.enough
    assert set(order.hosts) <= set(got.lease.hosts)
    for host in got.lease.hosts:
        first = min(simulator.current(host=host), key=lambda row: row.id)
        assert first.assignment.id in parts, f"{host} is {first.assignment.owner}'s"


def calm(simulator: Simulator) -> None:
    """Let everything happen that is still under way, with the server in good health."""
    simulator.clock.advance(LATEST + 10)
    simulator.faults.database_down = simulator.faults.tickets_down = False


@QUICK
@given(FAULTS, ORDERS, SERVERS)
def test_a_lease_is_returned_or_nothing_is_left(faults, asked, config):
    simulator = Simulator(config)
    wire = Wire(simulator, faults)
    order = LeaseSpec.from_params({"lease_id": LEASE, **asked})
    record = memo_of(wire)
    try:
        got = acquire(wire, order, record)
    except SeatrialError as error:
        calm(simulator)
        if getattr(error, "facts", {}).get("held"):  # it says so, and names the command
            terminate_lease_assignments(client(simulator), LEASE, record)
        assert simulator.active_of("joe") == [], str(error)
    else:
        check_returned(simulator, order, got)
        terminate_lease_assignments(client(simulator), LEASE, record)
        calm(simulator)
        assert simulator.active_of("joe") == []


@QUICK
@given(FAULTS, ORDERS, SERVERS, WHEN, st.integers(0, 50), st.booleans())
def test_a_killed_run_is_given_back_by_the_lease_id_alone(faults, asked, config, moment, value, remembers):
    simulator = Simulator(config)
    wire = Wire(simulator, {**faults, moment: Fault("killed", value)})
    record = memo_of(wire)
    try:
        acquire(wire, LeaseSpec.from_params({"lease_id": LEASE, **asked}), record)
    except (SeatrialError, Killed):
        pass
    simulator.faults.database_down = False
    terminate_lease_assignments(client(simulator, skew=-900.0), LEASE, record if remembers else None)
    calm(simulator)
    assert simulator.active_of("joe") == []


@QUICK
@given(FAULTS, ORDERS, SERVERS, WHEN, st.integers(0, 50))
def test_a_killed_run_goes_on_where_it_was(faults, asked, config, moment, value):
    simulator = Simulator(config)
    wire = Wire(simulator, {**faults, moment: Fault("killed", value)})
    order = LeaseSpec.from_params({"lease_id": LEASE, **asked})
    record = memo_of(wire)
    try:
        acquire(wire, order, record)
    except (SeatrialError, Killed):
        pass
    simulator.faults.database_down = simulator.faults.tickets_down = False
    try:
        got = acquire(Wire(simulator), order, record)
    except SeatrialError:
        terminate_lease_assignments(client(simulator), LEASE, record)
        calm(simulator)
        assert simulator.active_of("joe") == []
    else:
        check_returned(simulator, order, got)

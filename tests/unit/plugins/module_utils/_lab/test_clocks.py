"""When a lease ends: the web server and its database write local times, each in its own zone, and call them GMT."""

from __future__ import annotations

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab import lease_lookup, quads_records
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.lease_file import LeaseFile, read_lease_file
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.quads_options import LeaseSelector
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.quads_records import format_utc_timestamp
from hypothesis import given
from hypothesis import strategies as st
from quads_simulator.state import rfc1123
from quads_simulator.virtual import Fault, Killed, Wire, client

LEASE = "t1121-abcdef"
KOLKATA, NEW_YORK = 330, -300


def looked_up(lab, skew: float = 0.0, **more):
    """What quads_info says on a machine that knows nothing."""
    one = client(lab.simulator, Wire(lab.simulator), skew=skew)
    (lease,) = lease_lookup.find_selected_leases(one, LeaseSelector.from_params({"lease_id": LEASE, **more}))
    return lease.view()


@pytest.mark.parametrize("version", ["2.2.6", "dev"])
@pytest.mark.parametrize(("web", "database"), [(KOLKATA, 0), (NEW_YORK, 0), (0, KOLKATA), (KOLKATA, NEW_YORK), (0, 0)])
def test_the_end_of_a_lease_is_in_utc_in_whatever_zones_the_server_works(new_lab, version, web, database):
    lab = new_lab(version=version, utc_offset=web, database_offset=database)
    got = lab.acquire()
    truth = lab.simulator.schedules[1].end
    assert got.lease.expires == truth
    assert got.lease.view()["expires_at"] == format_utc_timestamp(truth)
    lab.simulator.clock.advance(3 * 3600)
    assert looked_up(lab, skew=-7200.0)["expires_at"] == format_utc_timestamp(
        truth
    )  # on another machine, whose clock is wrong
    assert lab.wait().lease.expires == truth


def test_an_offset_that_was_learned_is_kept_in_the_lease_file(new_lab, tmp_path):
    lab = new_lab(utc_offset=KOLKATA)
    path = tmp_path / "lease.yml"
    lab.record = LeaseFile(str(path), LEASE, "https://quads.example.com", "joe")
    lab.faults(schedule_1=Fault("killed", 1))
    with pytest.raises(Killed):  # behind the first host
        lab.acquire(count=2)
    lab.wire = Wire(lab.simulator)
    assert read_lease_file(path)["utc_offset"] == KOLKATA
    lab.simulator.clock.advance(5 * 3600)
    for host in lab.simulator.current():
        host.end = host.start  # what told the offset is over when the lease is completed
    lab.acquire(count=2)
    truth = min(row.end for row in lab.simulator.current())
    assert looked_up(lab, lease_file=str(path))["expires_at"] == format_utc_timestamp(truth)
    assert read_lease_file(path)["expires_at"] == format_utc_timestamp(truth)


def test_an_offset_that_cannot_be_a_zone_is_not_believed(new_lab):
    """A lease whose hosts came long after its cloud, seen by somebody without its lease file."""
    lab = new_lab(utc_offset=KOLKATA)
    one = lab.client()
    mark = f"lease={LEASE} part=1/1 at=20261120T2359Z"
    made = one.create_assignment_once({"description": mark, "owner": "joe", "wipe": True})
    lab.simulator.clock.advance(20 * 3600)
    other = client(lab.simulator, Wire(lab.simulator))
    other.schedule_host_once(made.cloud, "s01-h01-000-r640.lab.example.com")
    assert looked_up(lab)["utc_offset_known"] is False


def test_a_host_that_a_stranger_put_into_the_cloud_does_not_move_its_end(new_lab):
    lab = new_lab(utc_offset=NEW_YORK)
    lab.faults(schedule_0=Fault("stranger", 3))
    lab.acquire()
    (row,) = [row for row in lab.simulator.schedules.values() if row.host in lab.record.known["hosts"]]
    view = looked_up(lab)
    assert view["starts_at"] <= format_utc_timestamp(row.start)
    assert view["utc_offset_known"]
    assert lab.record.known["utc_offset"] == NEW_YORK


ZONES = st.integers(-12 * 4, 14 * 4).map(lambda quarters: quarters * 900)
MOMENTS = st.integers(1_700_000_000, 1_900_000_000)


@given(ZONES, MOMENTS, st.lists(st.integers(0, 780), min_size=1, max_size=5), st.integers(0, 59), st.integers(0, 40))
def test_the_offset_is_found_from_starts_up_to_a_quarter_of_an_hour_after_the_request(
    zone, asked, delays, seconds, clocks_differ
):
    """``at`` is cut to the minute, and may have been noted by a clock that is a little ahead."""
    at = float((asked - seconds) + clocks_differ)
    pairs = [(rfc1123(asked + delay + zone), at) for delay in delays]
    assert quads_records.utc_offset_from_request_times(pairs) == zone


@given(ZONES, MOMENTS, st.integers(0, 400))
def test_the_offset_is_found_from_an_answer_that_took_minutes(zone, now, took):
    assert quads_records.server_utc_offset(rfc1123(now + zone), now + took) == zone


@given(ZONES, MOMENTS)
def test_a_moment_is_sent_and_read_in_the_zone_of_the_server(zone, moment):
    assert quads_records.parse_server_time(rfc1123(moment + zone), zone) == moment
    assert quads_records.format_server_local_time(moment, zone) == quads_records.format_server_local_time(
        moment + zone, 0.0
    )


def test_without_a_start_there_is_no_offset():
    assert quads_records.utc_offset_from_request_times([]) is None
    assert quads_records.utc_offset_from_request_times([("no time", 0.0)]) is None

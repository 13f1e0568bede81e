"""Whose a host and a lease are, and when a lease ends in a time zone that nobody knows."""

from __future__ import annotations

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab import (
    lease_lookup,
    quads_module_actions,
    quads_records,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.lease_acquisition import (
    lease_from_active_assignment,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.lease_file import LeaseFile, read_lease_file
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.lease_release import (
    refuse_mistyped_lease_id,
    refuse_unknown_lease_id,
    terminate_lease_assignments,
    terminate_old_leases,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.quads_options import LeaseSelector
from quads_simulator.virtual import Fault, Wire, client

LEASE = "t1121-abcdef"


@pytest.fixture
def filed(new_lab, tmp_path):
    """A lab with a lease of one host and a lease file, and a stranger's host in its cloud."""
    lab = new_lab()
    lab.record = LeaseFile(str(tmp_path / "lease.yml"), LEASE, "https://quads.example.com", "joe")
    lab.faults(schedule_0=Fault("stranger", 3))
    lab.acquire()
    return lab


@pytest.mark.parametrize("which", [{"lease_id": LEASE}, {"assignment_id": 1}, {"cloud": "cloud02"}, {}])
def test_a_stranger_s_host_is_never_one_of_the_lease_in_the_lease_file(filed, which):
    params = {**which, "lease_file": str(filed.record.path)}
    (lease,) = lease_lookup.find_selected_leases(filed.client(), LeaseSelector.from_params(params), owner="joe")
    assert (len(lease.hosts), len(lease.other_hosts)) == (1, 1)
    assert not set(lease.hosts) & set(lease.other_hosts)


def test_a_lease_file_says_nothing_of_other_leases(filed, new_lab):
    other = new_lab()
    other.acquire()
    params = {"cloud": "cloud02", "lease_file": str(filed.record.path)}
    known = read_lease_file(filed.record.path)
    filed.record.write(parts=[{**known["parts"][0], "assignment_id": 99}], asked_hosts=["elsewhere"])
    (lease,) = lease_lookup.find_selected_leases(other.client(), LeaseSelector.from_params(params))
    assert len(lease.hosts) == 1


def test_the_end_of_an_adopted_lease_is_not_called_utc_while_the_zone_is_unknown(new_lab):
    lab = new_lab(utc_offset=-300, database_offset=0)
    lab.acquire()
    for assignment in lab.simulator.assignments.values():
        assignment.description = "of the team"  # without our tag nothing tells the zone
    one = client(lab.simulator, Wire(lab.simulator))
    view = lease_from_active_assignment(one, "cloud02", LEASE).view()
    assert view["utc_offset_known"] is False
    assert view["expires_at"] and not view["expires_at"].endswith("Z")
    summary = quads_module_actions._format_lease_summary(view)
    assert f"until {view['expires_at']} by the server's clock, whose time zone is unknown" in summary
    one.ahead = -300 * 60.0
    known = lease_from_active_assignment(one, "cloud02", LEASE).view()
    assert known["expires_at"].endswith("Z")
    assert f"until {known['expires_at']}:" in quads_module_actions._format_lease_summary(known)
    assert quads_records.describe_end_of_lease(None) == "None"


@pytest.mark.parametrize("typed", ["t1121-abcdeg", "t1121-abcde", "1121-abcdef"])
def test_a_mistyped_lease_id_is_an_error_at_once_that_names_the_lease(lab, typed):
    lab.acquire()
    before = lab.simulator.clock.now()
    with pytest.raises(InputError, match=f"quads_lease_id '{typed}': .* has never had .*; did you mean '{LEASE}'"):
        refuse_mistyped_lease_id(lab.client(), typed)
    assert lab.simulator.clock.now() - before < 5


def test_a_lease_of_which_nobody_knows_is_an_error_that_names_those_that_there_are(lab):
    lab.acquire()
    refuse_mistyped_lease_id(lab.client(), "nightly-2026")  # its request may still be under way
    unknown = LeaseFile(None, "nightly-2026", "https://quads.example.com", "joe")
    with pytest.raises(InputError, match=f"'nightly-2026': .* has never had .*Active leases: {LEASE}"):
        refuse_unknown_lease_id(lab.client(), "nightly-2026", unknown)


def test_a_lease_that_has_ended_is_known(lab):
    lab.acquire()
    lab.release(lab.record)
    refuse_mistyped_lease_id(lab.client(), LEASE)
    refuse_unknown_lease_id(lab.client(), LEASE, LeaseFile(None, LEASE, "https://quads.example.com", "joe"))


def test_a_signal_just_after_the_lease_is_recorded_gives_it_back(lab, monkeypatch):
    class Told(Exception):
        pass

    one = lab.client()

    def check() -> None:
        if lab.record.known["state"] == "held":
            raise Told

    one.use_interruptible_clock(one.clock, check)
    monkeypatch.setattr(lab, "client", lambda: one)
    with pytest.raises(Told):
        lab.acquire()
    assert lab.active() == []


def test_leases_of_another_owner_are_left_whatever_the_server_lists(lab, monkeypatch):
    lab.acquire()
    lab.simulator.clock.advance(7200)
    other = lab.client(user="ann@example.com")
    asks = other._objects
    monkeypatch.setattr(
        other, "_objects", lambda path, *query: asks(path, *(pair for pair in query if pair[0] != "owner"))
    )
    assert len(other.assignments()) == 1
    assert terminate_old_leases(other, 60, (), False, lab.told.append) == []
    assert terminate_lease_assignments(other, LEASE, settle=0) == []
    assert lease_lookup.find_selected_leases(other, LeaseSelector.from_params({}), owner="ann") == []
    assert len(lab.active()) == 1
    assert len(other.assignments(("owner", "Joe"))) == 1, "some servers change the case"

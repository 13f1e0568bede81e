"""Ways in which a lease that is held fails, seen on a real server: waiting, its inventory, outages, giving back."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    AccessError,
    OwnershipError,
    WaitTimeout,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.http_transport import HttpReply
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab import lab_inventory, quads_errors, quads_records
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.lease_file import LeaseFile
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.lease_release import (
    release_assignment,
    terminate_old_leases,
)
from quads_simulator import lab as labs
from quads_simulator.virtual import Fault, Wire, client

NAMES = labs.host_names()
LEASE = "t1121-abcdef"


# waiting


def test_work_that_does_not_fit_into_the_lease_is_refused_since_it_cannot_be_extended(lab):
    lab.acquire()
    with pytest.raises(quads_errors.LeaseTooShort, match="can't be extended"):
        lab.wait(timeout=7200, min_lifetime=44 * 3600)
    assert lab.wait(timeout=7200, min_lifetime=3600).lease.seconds_left > 3600


def test_a_lease_that_is_held_and_too_short_for_the_work_is_refused_and_stays(lab):
    lab.acquire()
    with pytest.raises(
        quads_errors.LeaseTooShort, match="quads_lease_min_lifetime is 2 d 12 h. A lease can't be extended"
    ):
        lab.acquire(min_lifetime="60h")
    assert lab.active() == [1]


@pytest.mark.parametrize("moment", [0, 400, 1000])
def test_a_lease_that_ends_underneath_fails_the_wait_at_once(lab, moment):
    lab.acquire()
    lab.simulator.clock.at(lab.simulator.clock.now() + moment, lambda: lab.simulator.end(lab.simulator.assignments[1]))
    before = lab.simulator.clock.now()
    with pytest.raises(quads_errors.LeaseLost, match="terminated or has expired"):
        lab.wait()
    assert lab.simulator.clock.now() - before <= moment + 100


def test_a_host_that_never_becomes_ready_is_named(lab):
    got = lab.acquire(count=2)
    lab.simulator.faults.broken = {got.lease.hosts[1]}
    with pytest.raises(WaitTimeout, match="not validated: " + got.lease.hosts[1]):
        lab.wait(timeout=7200)


def test_newer_servers_say_what_is_wrong_with_it(new_lab):
    lab = new_lab(version="dev")
    got = lab.acquire()
    lab.simulator.faults.broken = set(got.lease.hosts)
    with pytest.raises(WaitTimeout, match="Foreman build did not finish"):
        lab.wait()


def test_stages_are_told_in_order(lab):
    lab.acquire()
    waited = lab.wait("inventory")
    assert [one["stage"] for one in waited.stages] == ["scheduled", "provisioned", "validated", "inventory"]
    assert any("to move: " in line for line in lab.told)


def test_a_cloud_that_is_taken_back_to_unvalidated_is_waited_for(new_lab):
    lab = new_lab(inventory_period=60)
    lab.acquire()
    seen = []

    class Told(list):
        def append(self, line):
            super().append(line)
            if "validated after" in line:  # a host joins, and the server validates anew
                lab.wire._stranger(lab.wire.calls[0], 3)
                lab.simulator.clock.advance(400)
                lab.simulator.handle(_get("/api/v3/version"))
                seen.append(lab.simulator.assignments[1].validated)

    lab.told = Told()
    lab.simulator.config.inventory_period = 10**9  # the wait goes on behind validated
    lab.simulator.clock.at(
        lab.simulator.clock.now() + 2400, lambda: setattr(lab.simulator.config, "inventory_period", 60)
    )
    got = lab.wait("inventory")
    assert seen == [False]
    assert got.lease.parts[0].assignment.validated


def _get(target):
    from quads_simulator.answers import Request

    return Request("GET", target)


def test_a_host_that_is_lost_later_is_no_longer_in_the_lease(lab):
    got = lab.acquire(count=2)
    lab.wire.give(lab.wire._rival(), got.lease.hosts[0], number=-1)
    assert lab.wait().lease.hosts == got.lease.hosts[1:]


# the inventory


def test_an_inventory_of_the_clouds_earlier_tenant_is_refused(lab):
    lab.acquire()
    lab.wait("inventory")
    stale = lab.simulator.inventories["cloud02"]
    lab.release()
    lab.record.known["state"] = "released"
    lab.simulator.config.inventory_period = 10**9
    lab.simulator.clock.advance(120)
    got = lab.acquire()
    lab.simulator.inventories["cloud02"] = stale
    one = lab.client()
    url = lab_inventory.inventory_url(one, "cloud02")
    with pytest.raises(quads_errors.InventoryStale, match="of another ticket than 4001"):
        lab_inventory.read_published_inventory(one, url, got.lease.hosts, "4001")
    with pytest.raises(WaitTimeout, match="not, or not yet, the inventory of this lease"):
        lab.wait("inventory")
    lab.simulator.config.inventory_period = 900
    lab.wait("inventory")


def test_an_inventory_without_our_hosts_is_refused_and_others_in_it_are_left_out(lab):
    got = lab.acquire(count=2)
    lab.wait("inventory")
    one = lab.client()
    url = lab_inventory.inventory_url(one, "cloud02")
    with pytest.raises(quads_errors.InventoryStale, match="missing in it"):
        lab_inventory.read_published_inventory(one, url, [*got.lease.hosts, NAMES[13]], "4000")
    assert [
        node.name for node in lab_inventory.read_published_inventory(one, url, got.lease.hosts[:1], "4000")
    ] == got.lease.hosts[:1]


# bodies and outages


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"message": "Invalid Authentication token!", "error": "Unauthorized"}', "Invalid Authentication token!"),
        ("Unauthorized Access", "Unauthorized Access"),
        (
            "<!doctype html>\n<title>500 X</title>\n<h1>Server Error</h1>\n<p>Sorry.</p>",
            "Server Error Sorry.",
        ),
        ('{"error":"Forbidden"}', "Forbidden"),
        ("<head><title>400 Bad Request</title></head><center><h1>400 Bad Request</h1>", "Bad Request"),
        ("400", ""),
        ("", ""),
        ("[1, 2]", "[1, 2]"),
    ],
)
def test_bodies_are_read_whatever_they_are_called(text, said):
    assert HttpReply(400, text.encode(), {"content-type": "text/html"}).explanation == said


def test_a_server_that_is_down_for_minutes_is_waited_for(lab):
    lab.acquire(dry=True)
    lab.faults(read_1=Fault("outage", 200))
    before = len(lab.wire.calls)
    assert len(lab.acquire(count=2).lease.hosts) == 2
    assert len(lab.wire.calls) - before < 60  # some twenty of them for the lease itself


def test_clients_that_were_started_together_do_not_stay_in_step(lab):
    def paused(jitter: float) -> float:
        one = client(lab.simulator, Wire(lab.simulator))
        one.clock = replace(one.clock, jitter=lambda: jitter)
        before = lab.simulator.clock.now()
        one.pause(8)
        return lab.simulator.clock.now() - before

    assert (paused(0.0), paused(1.0)) == (6.0, 10.0)


def test_a_server_that_never_answers_is_given_up_soon(lab):
    lab.faults(**{f"read_{number}": Fault("refused") for number in range(99)})
    before = lab.simulator.clock.now()
    with pytest.raises(AccessError, match="connection refused"):
        lab.acquire(dry=True)
    assert lab.simulator.clock.now() - before < 30


def test_a_status_is_said_once(lab):
    lab.acquire(dry=True)
    lab.faults(**{f"read_{number}": Fault("gateway") for number in range(99)})
    with pytest.raises(quads_errors.QuadsRefused, match="502 Bad Gateway; it was tried"):
        lab.acquire(dry=True)
    assert not [line for line in lab.told if "502 502" in line or "502: 502" in line or line.count("Bad Gateway") > 1]
    assert [line for line in lab.told if "502 Bad Gateway; retrying" in line]


# giving back


def test_giving_back_is_repeated_until_the_server_has_done_it(lab):
    lab.acquire()
    lab.faults(terminate_0=Fault("dropped"), terminate_1=Fault("crash"), terminate_2=Fault("reset"))
    assert lab.release() == [1]
    assert lab.active() == []
    assert lab.release() == []


def test_an_assignment_that_is_not_there_is_given_back(lab):
    assert lab.client().terminate_assignment(9999) is False


def test_a_request_for_a_host_that_comes_after_the_end_holds_nothing(lab):
    lab.acquire()
    one = lab.simulator.assignments[1]
    original = lab.simulator.end

    def late(assignment):
        original(assignment)
        lab.simulator.end = original
        lab.wire.give(one, NAMES[0])

    lab.simulator.end = late
    lab.release()
    assert lab.simulator.current(cloud="cloud02") == []


def test_machines_are_given_back_while_they_are_being_installed(lab):
    lab.acquire()
    lab.wait("provisioned")
    assert lab.release() == [1]


def test_what_is_about_to_be_taken_is_written_down_before_the_first_request(lab, tmp_path):
    path = tmp_path / "lease.yml"
    lab.record = LeaseFile(str(path), LEASE, "https://quads.example.com", "joe", "the command")
    original = lab.wire._none
    seen = []

    def look(call, value):
        if call.method == "POST" and "/login" not in call.url:
            seen.append(path.read_text() if path.exists() else "")
        return original(call, value)

    lab.wire._none = look
    got = lab.acquire(count=2)
    assert "pending:\n  part: 1" in seen[0]
    assert "release: the command" in seen[0]
    assert "assignment_id: 1" in seen[1]  # the cloud, before the first host
    assert got.lease.hosts[0] in seen[2]
    assert "state: held" in path.read_text()


def test_a_crashed_run_is_found_by_its_id_and_another_lease_is_not(new_lab):
    lab = new_lab(user_cloud_limit=9)
    lab.acquire()
    other = client(lab.simulator, Wire(lab.simulator))
    other.create_assignment_once(
        {"description": f"lease={LEASE}x part=1/1 at=20261121T0000Z", "owner": "joe", "wipe": True}
    )
    other.create_assignment_once({"description": f"about lease={LEASE} of yesterday", "owner": "joe", "wipe": True})
    twice = f"follows lease={LEASE} part=1/1 at=20261120T0000Z lease=t1121-others part=1/1 at=20261121T0000Z"
    assert other.create_assignment_once({"description": twice, "owner": "joe", "wipe": True}).id == 4
    assert lab.find() == [1]
    assert lab.release() == [1]
    assert lab.active() == [2, 3, 4]


def _reap(lab, age: str = "12h", keep: tuple[str, ...] = (), dry: bool = False) -> list[int]:
    return [
        one.assignment_id
        for one in terminate_old_leases(
            lab.client(), quads_records.parse_duration(age, "age"), keep, dry, lab.told.append
        )
    ]


def test_the_reaper_takes_old_leases_of_ours_and_nothing_else(new_lab):
    lab = new_lab(user_cloud_limit=9)
    old = lab.simulator.clock.now()
    mark = time.strftime("%Y%m%dT%H%MZ", time.gmtime(old))
    for owner, text in (
        ("joe", f"lease=t1121-crashed part=1/1 at={mark}"),
        ("joe", f"lease=t1121-wanted part=1/1 at={mark}"),
        ("joe", "by hand, without a mark"),
        ("ann", f"lease=t1121-ofann part=1/1 at={mark}"),
    ):
        one = client(lab.simulator, Wire(lab.simulator), user=f"{owner}@example.com")
        one.create_assignment_once({"description": text, "owner": owner, "wipe": True})
    lab.simulator.clock.advance(13 * 3600)
    lab.acquire()
    assert _reap(lab, keep=("t1121-wanted",), dry=True) == [1]
    assert (lab.active(), lab.active("ann")) == ([1, 2, 3, 5], [4])
    assert _reap(lab, age="14h") == []
    assert _reap(lab, keep=("t1121-wanted",)) == [1]
    assert (lab.active(), lab.active("ann")) == ([2, 3, 5], [4])
    with pytest.raises(OwnershipError, match="has no lease= tag"):
        release_assignment(lab.client(), 3, False, False, lab.told.append)
    assert release_assignment(lab.client(), 3, True, False, lab.told.append) == [3]
    with pytest.raises(OwnershipError, match="belongs to ann, not to"):
        release_assignment(lab.client(), 4, False, False, lab.told.append)

"""Each way in which a lease can fail that was seen on a real server, and what the client does about it."""

from __future__ import annotations

import json

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import AccessError, InputError, WaitTimeout
from ansible_collections.perfscale.seatrial.plugins.module_utils._quads import inventory, refusals
from ansible_collections.perfscale.seatrial.plugins.module_utils._quads.http import Reply
from ansible_collections.perfscale.seatrial.plugins.module_utils._quads.memo import Memo
from ansible_collections.perfscale.seatrial.plugins.module_utils._quads.records import holder
from quads_simulator import cron
from quads_simulator import lab as labs
from quads_simulator.virtual import RIVAL, Fault, Wire, client

NAMES = labs.host_names()
LEASE = "t1121-abcdef"


def first_choice(lab) -> str:
    """The host that the next lease of one host asks for."""
    return lab.acquire(dry=True).candidates[0]


# tokens


def test_reading_goes_without_credentials_so_that_no_wait_meets_an_expired_token(lab):
    lab.acquire()
    lab.simulator.access.expire_all()
    before = len(lab.wire.calls)
    lab.wait()
    assert all("Authorization" not in call.headers for call in lab.wire.calls[before:])


@pytest.mark.parametrize("moment", ["schedule_0", "schedule_1", "terminate_0", "create_0"])
def test_an_expired_token_is_renewed_once_and_the_request_repeated(lab, moment):
    lab.faults(**{moment: Fault("expired")})
    assert len(lab.acquire(count=2).lease.hosts) == 2
    assert lab.release() == [1]
    assert lab.active() == []


def test_a_token_that_is_refused_twice_is_an_error_and_no_loop(lab):
    lab.simulator.config.token_lifetime = -1
    with pytest.raises(refusals.BadCredentials, match="just given"):
        lab.acquire()
    assert len(lab.asked("/login")) <= 4  # for the lease, and for giving back


def test_nothing_is_ever_logged_out(lab):
    lab.acquire(count=2)
    lab.wait("inventory")
    lab.release()
    assert lab.asked("/logout") == []


# hosts


def test_a_host_that_is_taken_between_the_query_and_the_request_is_replaced(lab):
    wanted = first_choice(lab)
    one = lab.wire.add_assignment(RIVAL, "cloud11")
    original = lab.wire._none

    def steal(call, value):
        if call.url.endswith("/assignments/self"):
            lab.wire.give(one, wanted)
        return original(call, value)

    lab.wire._none = steal
    got = lab.acquire()
    assert got.lease.hosts != [wanted]
    assert len(got.lease.hosts) == 1


def test_a_host_that_is_already_ours_is_not_mistaken_for_taken(lab):
    lab.faults(schedule_0=Fault("gateway_executed"), read_8=Fault("none"))
    wanted = first_choice(lab)
    got = lab.acquire()
    assert got.lease.hosts == [wanted]
    assert got.rejected == []


def test_a_host_with_a_later_booking_is_not_even_asked_for(lab):
    one = lab.wire.add_assignment(RIVAL, "cloud11")
    now = lab.simulator.clock.now()
    for host in NAMES[:12]:
        lab.simulator.insert(one, host, now + 20 * 3600, now + 30 * 3600)
    assert lab.acquire().lease.hosts == [NAMES[12]]
    assert len(lab.asked("/schedules")) - len(lab.asked("/schedules/current")) == 1


@pytest.mark.parametrize("kind", ["rival_first", "rival_hidden"])
def test_a_host_that_a_rival_got_first_is_not_ours_and_is_replaced(lab, kind):
    lost = first_choice(lab)
    lab.faults(schedule_0=Fault(kind))
    got = lab.acquire()
    assert lost not in got.lease.hosts
    assert len(got.lease.hosts) == 1
    assert got.lease.lost_hosts == (lost,)


def test_a_host_that_a_rival_got_after_us_stays_ours(lab):
    wanted = first_choice(lab)
    lab.faults(schedule_0=Fault("rival_second"))
    assert lab.acquire().lease.hosts == [wanted]


def test_a_named_host_that_a_rival_got_first_ends_the_lease(lab):
    lab.faults(schedule_1=Fault("rival_first"))
    with pytest.raises(refusals.NotEnoughHosts, match="another tenant's earlier schedule"):
        lab.acquire(hosts=NAMES[:3])
    assert lab.active() == []


def test_our_own_duplicates_do_no_harm(lab):
    got = lab.acquire()
    lab.wire.give(lab.simulator.assignments[1], got.lease.hosts[0])
    again = lab.acquire()
    assert again.lease.hosts == got.lease.hosts
    assert not again.changed


def test_too_few_hosts_are_none_at_all(lab):
    for host in NAMES[:11]:
        lab.wire.give(lab.wire._rival(), host)
    with pytest.raises(refusals.NotEnoughHosts, match="3 of 3 hosts are needed, and 2 can be had"):
        lab.acquire(count=3)
    assert lab.asked("/assignments/self") == []
    assert len(lab.acquire(count=3, min_count=2).lease.hosts) == 2


def test_a_cloud_that_fills_up_meanwhile_is_given_back(new_lab):
    lab = new_lab(host_limit=2)
    with pytest.raises(refusals.NotEnoughHosts, match="The cloud is full"):
        lab.acquire(count=3)
    assert lab.active() == []


def test_a_host_that_a_stranger_put_into_our_cloud_is_not_counted(lab):
    lab.faults(schedule_1=Fault("stranger", 0))
    got = lab.acquire(count=2)
    assert len(got.lease.hosts) == 2
    assert len(got.lease.other_hosts) == 1
    lab.wait("inventory")


# clouds


@pytest.mark.parametrize("kind", ["reset", "late", "gateway_executed", "crash_executed"])
def test_a_request_for_a_cloud_without_an_answer_is_looked_up_and_not_repeated(lab, kind):
    lab.faults(create_0=Fault(kind, 200))
    lab.acquire()
    assert len(lab.asked("/assignments/self")) == 1
    assert lab.active() == [1]


@pytest.mark.parametrize("kind", ["dropped", "gateway", "refused", "crash"])
def test_a_request_that_came_to_nothing_is_repeated(lab, kind):
    lab.faults(create_0=Fault(kind))
    lab.acquire()
    assert len(lab.asked("/assignments/self")) == 2
    assert lab.active() == [1]


def test_an_answer_later_than_any_patience_leaves_no_second_cloud(lab):
    lab.faults(create_0=Fault("late", 330))
    got = lab.acquire()
    lab.simulator.clock.advance(400)
    assert lab.find() == [1, 2]  # it came, with the lease long at work
    assert [part.assignment.id for part in got.lease.parts] == [1]
    assert lab.acquire().lease.parts[0].assignment.id == 1
    assert lab.active() == [1]


def test_a_cloud_that_two_tenants_got_is_given_back_for_another(lab):
    lab.faults(create_0=Fault("same_cloud"))
    got = lab.acquire()
    cloud = got.lease.parts[0].assignment.cloud
    assert [one.owner for one in lab.simulator.assignments.values() if one.active and one.cloud == cloud] == ["joe"]


def test_a_request_for_a_host_without_an_answer_is_looked_up(lab):
    lab.faults(schedule_0=Fault("reset"), schedule_1=Fault("dropped"))
    got = lab.acquire(count=2)
    assert len(got.lease.hosts) == 2
    assert len(lab.simulator.schedules) == 2


# refusals


def test_quota_role_and_service_are_told_apart(new_lab):
    lab = new_lab(user_cloud_limit=1)
    other = client(lab.simulator, Wire(lab.simulator))
    made = other.create({"description": "by hand", "owner": "joe", "wipe": True})
    with pytest.raises(refusals.QuotaReached, match=r"1 \(cloud02, '\[SSM\] by hand'\)") as caught:
        lab.acquire()
    assert caught.value.facts["active_assignments"] == [made.id]
    lab.simulator.access.users["joe@example.com"].role = "guest"
    with pytest.raises(refusals.RoleRefused, match="role of joe@example.com"):
        lab.acquire()
    lab.simulator.access.users["joe@example.com"].role = "user"
    lab.simulator.config.enabled = False
    with pytest.raises(refusals.ServiceDisabled, match="turned self-scheduling off"):
        lab.acquire()


def test_a_ticket_system_that_is_down_is_told_and_nothing_is_left(new_lab):
    lab = new_lab()
    lab.simulator.faults.tickets_down = True
    with pytest.raises(refusals.TicketSystemDown, match="ticket system is probably down"):
        lab.acquire()
    newer = new_lab(version="dev")
    newer.simulator.faults.tickets_down = True
    with pytest.raises(refusals.TicketSystemDown, match="ticket system is down"):
        newer.acquire()
    assert lab.active() == newer.active() == []


def test_a_server_without_tickets_says_what_it_needs_by_its_version(new_lab):
    lab = new_lab(tickets=False)
    with pytest.raises(refusals.TicketNeeded, match="option ticket"):
        lab.acquire()
    with pytest.raises(refusals.TicketRefused, match="can't self-schedule at all"):
        lab.acquire(ticket="12345")
    newer = new_lab(tickets=False, version="dev")
    with pytest.raises(refusals.TicketNeeded):
        newer.acquire()
    assert newer.acquire(ticket="12345").lease.parts[0].assignment.ticket == "12345"


def test_a_deadline_that_is_past_gives_the_cloud_back(new_lab):
    lab = new_lab(deadline_day="monday")
    with pytest.raises(refusals.LeaseTooShort, match="this week's leases are over"):
        lab.acquire()
    assert lab.active() == []


def test_a_lease_that_would_be_too_short_is_given_back_after_the_first_host(lab):
    with pytest.raises(refusals.LeaseTooShort, match="min_lifetime asks for 2 d 12 h"):
        lab.acquire(count=3, min_lifetime="60h")  # 45 hours are left to the deadline
    assert len(lab.simulator.schedules) == 1
    assert lab.active() == []


def test_wipe_is_always_sent(lab):
    lab.acquire()
    lab.release()
    lab.memo.known["state"] = "released"
    lab.acquire(wipe=False)
    bodies = [json.loads(call.data) for call in lab.wire.calls if call.url.endswith("/assignments/self")]
    assert [body["wipe"] for body in bodies] == [True, False]
    assert [one.wipe for one in lab.simulator.assignments.values()] == [True, False]


# waiting


def test_work_that_does_not_fit_into_the_lease_is_refused_since_it_cannot_be_extended(lab):
    lab.acquire()
    with pytest.raises(refusals.LeaseTooShort, match="can't be extended"):
        lab.wait(timeout=7200, min_lifetime=44 * 3600)
    assert lab.wait(timeout=7200, min_lifetime=3600).lease.seconds_left > 3600


@pytest.mark.parametrize("moment", [0, 400, 1000])
def test_a_lease_that_ends_underneath_fails_the_wait_at_once(lab, moment):
    lab.acquire()
    lab.simulator.clock.at(lab.simulator.clock.now() + moment, lambda: lab.simulator.end(lab.simulator.assignments[1]))
    before = lab.simulator.clock.now()
    with pytest.raises(refusals.LeaseLost, match="terminated, or has expired underneath us"):
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


def test_a_cloud_that_is_taken_back_to_unvalidated_is_waited_for(lab):
    lab.acquire()
    lab.wait()
    lab.wire._stranger(lab.wire.calls[0], 3)  # a host joins, and the server validates anew
    lab.simulator.clock.advance(400)
    assert lab.simulator.handle(_get("/api/v3/version")).status == 200
    assert not lab.simulator.assignments[1].validated
    assert lab.wait().lease.parts[0].assignment.validated


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
    lab.memo.known["state"] = "released"
    lab.simulator.config.inventory_period = 10**9
    lab.simulator.clock.advance(120)
    got = lab.acquire()
    lab.simulator.inventories["cloud02"] = stale
    one = lab.client()
    url = inventory.default_url(one.base, "cloud02")
    with pytest.raises(refusals.InventoryStale, match="of another ticket than 4001"):
        inventory.read(one, url, got.lease.hosts, "4001")
    with pytest.raises(WaitTimeout, match="not, or not yet, the inventory of this lease"):
        lab.wait("inventory")
    lab.simulator.config.inventory_period = 900
    lab.wait("inventory")


def test_an_inventory_without_our_hosts_is_refused_and_others_in_it_are_left_out(lab):
    got = lab.acquire(count=2)
    lab.wait("inventory")
    one = lab.client()
    url = inventory.default_url(one.base, "cloud02")
    with pytest.raises(refusals.InventoryStale, match="lacks"):
        inventory.read(one, url, [*got.lease.hosts, NAMES[13]], "4000")
    assert [node.name for node in inventory.read(one, url, got.lease.hosts[:1], "4000")] == got.lease.hosts[:1]


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
        ("", ""),
        ("[1, 2]", "[1, 2]"),
    ],
)
def test_bodies_are_read_whatever_they_are_called(text, said):
    assert Reply(400, text, {"content-type": "text/html"}).said == said


def test_a_server_that_is_down_for_minutes_is_waited_for(lab):
    lab.acquire(dry=True)
    lab.faults(read_1=Fault("outage", 200))
    assert len(lab.acquire(count=2).lease.hosts) == 2


def test_a_server_that_never_answers_is_given_up_soon(lab):
    lab.faults(**{f"read_{number}": Fault("refused") for number in range(99)})
    before = lab.simulator.clock.now()
    with pytest.raises(AccessError, match="connection refused"):
        lab.acquire(dry=True)
    assert lab.simulator.clock.now() - before < 30


# giving back


def test_giving_back_is_repeated_until_the_server_has_done_it(lab):
    lab.acquire()
    lab.faults(terminate_0=Fault("dropped"), terminate_1=Fault("crash"), terminate_2=Fault("reset"))
    assert lab.release() == [1]
    assert lab.active() == []
    assert lab.release() == []


def test_an_assignment_that_is_not_there_is_given_back(lab):
    assert lab.client().terminate(9999) is False


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
    lab.memo = Memo(str(path), LEASE, "https://quads.example.com", "joe", "the command")
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


def test_a_crashed_run_is_found_by_its_id_and_another_lease_is_not(lab):
    lab.acquire()
    other = client(lab.simulator, Wire(lab.simulator))
    other.create({"description": f"lease={LEASE}x part=1/1 at=20261121T0000Z", "owner": "joe", "wipe": True})
    other.create({"description": f"about lease={LEASE} of yesterday", "owner": "joe", "wipe": True})
    assert lab.find() == [1]
    assert lab.release() == [1]
    assert lab.active() == [2, 3]


# clocks


@pytest.mark.parametrize(("version", "offset"), [("2.2.6", 0), ("2.2.6", 120), ("2.2.6", -480), ("dev", 120)])
def test_the_end_of_a_lease_is_in_utc_whatever_the_server_writes(new_lab, version, offset):
    lab = new_lab(version=version, utc_offset=offset)
    got = lab.acquire()
    truth = lab.simulator.schedules[1].end
    assert got.lease.expires == truth
    later = client(lab.simulator, Wire(lab.simulator), skew=-7200.0)  # another machine, whose clock is wrong
    from ansible_collections.perfscale.seatrial.plugins.module_utils._quads import find

    found = find.read(later, find.tagged(later, LEASE))
    assert found.expires == truth
    assert found.seconds_left == pytest.approx(truth - lab.simulator.clock.now(), abs=5)


# orders


def test_more_hosts_than_an_assignment_holds_are_refused_or_split(lab):
    with pytest.raises(InputError, match="12 hosts don't fit into one assignment"):
        lab.acquire(count=12)
    got = lab.acquire(count=12, split=True)
    assert [len(part.hosts) for part in got.lease.parts] == [10, 2]
    assert sorted(lab.release()) == [1, 2]


def test_a_lease_that_is_there_is_not_taken_twice_and_not_with_other_options(lab):
    first = lab.acquire(count=2)
    again = lab.acquire(count=2)
    assert (first.changed, again.changed) == (True, False)
    assert again.lease.hosts == first.lease.hosts
    with pytest.raises(refusals.LeaseDiffers, match="wipe True"):
        lab.acquire(count=2, wipe=False)
    assert lab.active() == [1]
    more = lab.acquire(count=3)
    assert more.changed
    assert set(first.lease.hosts) < set(more.lease.hosts)


def test_preferences_are_tried_in_order_and_exclusions_left_out(lab):
    got = lab.acquire(count=3, model=["r750", "R640"], exclude=[NAMES[0]], filters={"disks.disk_type": "nvme"})
    assert got.lease.hosts == [NAMES[2], NAMES[4], NAMES[12]]
    lab.release()
    lab.memo.known["state"] = "released"
    wanted = [{"interfaces.vendor__ilike": "%intel%", "disks.disk_type": "sata"}, {"model__in": ["R640"]}]
    got = lab.acquire(count=4, prefer=wanted)
    assert set(got.lease.hosts) > {NAMES[7], NAMES[9], NAMES[11]}


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"interfaces.speeed": 1}, "did you mean 'interfaces.speed'"),
        ({"modle": "R640"}, "did you mean 'model'"),
        ({"model__equals": "R640"}, "there is no operator 'equals'"),
        ({"disks.size_gb__gte": [1, 2]}, "takes one value"),
    ],
)
def test_a_condition_that_the_server_would_crash_on_is_refused_before(lab, filters, message):
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        lab.acquire(filters=filters)
    assert lab.wire.calls == []


def test_the_earliest_schedule_holds_a_host():
    from ansible_collections.perfscale.seatrial.plugins.module_utils._quads.records import Row

    rows = [Row(16, "h", 1), Row(17, "h", 2), Row(9, "h", 3, active=False)]
    assert holder(rows) == rows[0]
    assert holder([]) is None


def test_check_mode_only_reads(lab):
    lab.acquire(dry=True, count=3)
    assert {call.method for call in lab.wire.calls} == {"GET"}
    assert cron.holders(lab.simulator, lab.simulator.clock.now()) == {}

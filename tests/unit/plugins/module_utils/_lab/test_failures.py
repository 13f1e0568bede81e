"""Ways in which taking machines fails that were seen on a real server, and what the client does about each."""

from __future__ import annotations

import json

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab import quads_errors
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.lease_acquisition import Acquisition
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.quads_options import LeaseSpec
from quads_simulator import lab as labs
from quads_simulator.virtual import RIVAL, Fault, Wire, client

NAMES = labs.host_names()
LEASE = "t1121-abcdef"


def posted(lab, path: str) -> list[dict]:
    """The bodies of what was sent to one address."""
    return [json.loads(call.body) for call in lab.wire.calls if call.method == "POST" and call.url.endswith(path)]


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
    with pytest.raises(quads_errors.BadCredentials, match="just issued"):
        lab.acquire()
    assert len(lab.asked("/login")) <= 4  # for the lease, and for giving back


def test_a_permanent_token_of_newer_servers_is_used_as_it_is(new_lab):
    lab = new_lab(version="dev")
    first = lab.client()
    lab.simulator.access.api_tokens["qat_0"] = first.account.username
    one = client(lab.simulator, lab.wire, password="", api_token="qat_0")
    made = one.create_assignment_once({"description": "with a token", "owner": "joe", "wipe": True, "ticket": "1"})
    lab.simulator.access.expire_all()
    assert one.terminate_assignment(made.id)
    assert lab.asked("/login") == []


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
        if call.url.endswith("/schedules"):
            lab.wire._none = original
            lab.wire.give(one, wanted)
        return original(call, value)

    lab.wire._none = steal
    got = lab.acquire()
    assert [body["hostname"] for body in posted(lab, "/schedules")] == [wanted, *got.lease.hosts]
    assert got.rejected == [{"host": wanted, "reason": "Host is not available for the specified date range"}]


def test_a_host_that_is_already_ours_is_not_mistaken_for_taken(lab):
    wanted = first_choice(lab)
    original = lab.wire._none

    def twice(call, value):
        if call.url.endswith("/schedules"):  # a request that was thought lost arrives just before the next one
            original(call, value)
        return original(call, value)

    lab.wire._none = twice
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
    with pytest.raises(quads_errors.NotEnoughHosts, match="another tenant's earlier schedule"):
        lab.acquire(hosts=NAMES[:3])
    assert lab.active() == []


def test_our_own_duplicates_do_no_harm(lab):
    got = lab.acquire()
    lab.wire.give(lab.simulator.assignments[1], got.lease.hosts[0])
    again = lab.acquire()
    assert again.lease.hosts == got.lease.hosts
    assert not again.changed
    assert len(lab.acquire(count=2).lease.hosts) == 2  # a host that is there twice is one host


def test_too_few_hosts_are_none_at_all(lab):
    for host in NAMES[:11]:
        lab.wire.give(lab.wire._rival(), host)
    with pytest.raises(quads_errors.NotEnoughHosts, match="3 of 3 hosts are required, but 2 are available"):
        lab.acquire(count=3)
    assert lab.asked("/assignments/self") == []
    assert len(lab.acquire(count=3, min_count=2).lease.hosts) == 2


@pytest.mark.parametrize(
    "wanted", [{"filters": {"model": "R999"}}, {"hosts": ["s99-h01"]}, {"count": 99, "split": True}]
)
def test_what_cannot_be_had_is_refused_at_once(lab, wanted):
    before = lab.simulator.clock.now()
    with pytest.raises(quads_errors.NotEnoughHosts):
        lab.acquire(**wanted)
    assert lab.simulator.clock.now() - before < 5  # nothing was asked for, so nothing may come yet


def test_one_who_is_interrupted_before_the_first_request_has_nothing_to_wait_for(lab):
    class Interrupted(Exception):
        pass

    def check():
        if lab.asked("/login"):
            raise Interrupted

    one = lab.client()
    one.use_interruptible_clock(one.clock, check)
    before = lab.simulator.clock.now()
    with pytest.raises(Interrupted):
        Acquisition(one, LeaseSpec.from_params({"lease_id": LEASE, "count": 1}), lab.record, lab.told.append).run()
    assert lab.simulator.clock.now() - before < 5
    assert lab.record.pending is None


def test_a_request_that_was_noted_and_then_not_sent_is_not_waited_for(lab):
    class Interrupted(Exception):
        pass

    def check():
        if lab.record.pending:  # the signal came while the note was written
            raise Interrupted

    one = lab.client()
    one.use_interruptible_clock(one.clock, check)
    before = lab.simulator.clock.now()
    with pytest.raises(Interrupted):
        Acquisition(one, LeaseSpec.from_params({"lease_id": LEASE, "count": 1}), lab.record, lab.told.append).run()
    assert lab.asked("/assignments/self") == []
    assert lab.record.pending is None
    lab.release(lab.record)
    assert lab.simulator.clock.now() - before < 5


def test_a_request_that_reached_nobody_is_not_waited_for(lab):
    lab.faults(**{f"create_{number}": Fault("refused", 0) for number in range(200)})
    with pytest.raises(AccessError):
        lab.acquire()
    assert lab.record.pending is None


@pytest.mark.parametrize("kind", ["expired", "crash"])
def test_one_who_is_interrupted_after_a_request_came_to_nothing_does_not_wait_for_it(lab, kind):
    """The server refused the token, or its handler has ended with an error: nothing is under way."""

    class Interrupted(Exception):
        pass

    def check():
        if lab.asked("/assignments/self"):
            raise Interrupted

    lab.faults(create_0=Fault(kind))
    one = lab.client()
    one.use_interruptible_clock(one.clock, check)
    before = lab.simulator.clock.now()
    with pytest.raises(Interrupted):
        Acquisition(one, LeaseSpec.from_params({"lease_id": LEASE, "count": 1}), lab.record, lab.told.append).run()
    lab.release(lab.record)
    assert lab.simulator.clock.now() - before < 30


def test_a_server_that_is_not_trusted_any_more_has_got_no_request(lab):
    original = lab.wire._none

    def refuse(call, value):
        if call.url.endswith("/assignments/self"):
            raise AccessError("TLS: certificate has expired")
        return original(call, value)

    lab.wire._none = refuse
    with pytest.raises(AccessError, match="TLS"):
        lab.acquire()
    assert lab.record.pending is None


def test_a_cloud_that_fills_up_meanwhile_is_given_back(new_lab):
    lab = new_lab(host_limit=2)
    with pytest.raises(quads_errors.NotEnoughHosts, match="The cloud is full"):
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
    first, *others = [body["hostname"] for body in posted(lab, "/schedules")]
    assert first not in others  # it was looked up, not asked for again
    assert others == [others[0]] * 2


@pytest.mark.parametrize("request_", ["schedule_0", "schedule_1", "read_-1", "read_-3"])
def test_a_lease_that_is_ended_while_it_is_taken_is_lost_and_says_so(new_lab, request_):
    calm = new_lab()
    calm.acquire(count=2)
    what, number = request_.rsplit("_", 1)
    lab = new_lab()
    lab.wire.faults = {(what, int(number) % calm.wire.counts[what]): Fault("ended")}
    with pytest.raises(quads_errors.LeaseLost, match="has been terminated"):
        lab.acquire(count=2)
    assert lab.active() == []


# refusals


def test_quota_role_and_service_are_told_apart(new_lab):
    lab = new_lab(user_cloud_limit=1)
    other = client(lab.simulator, Wire(lab.simulator))
    made = other.create_assignment_once({"description": "by hand", "owner": "joe", "wipe": True})
    with pytest.raises(quads_errors.QuotaReached, match=r"1 \(cloud02, '\[SSM\] by hand'\)") as caught:
        lab.acquire()
    assert caught.value.facts["active_assignments"] == [made.id]
    lab.simulator.access.users["joe@example.com"].role = "guest"
    with pytest.raises(quads_errors.RoleRefused, match="role of joe@example.com"):
        lab.acquire()
    lab.simulator.access.users["joe@example.com"].role = "user"
    lab.simulator.config.enabled = False
    with pytest.raises(quads_errors.ServiceDisabled, match="disabled self-scheduling"):
        lab.acquire()


def test_a_ticket_system_that_is_down_is_told_and_nothing_is_left(new_lab):
    lab = new_lab()
    lab.simulator.faults.tickets_down = True
    with pytest.raises(quads_errors.TicketSystemDown, match="ticket system is probably down"):
        lab.acquire()
    newer = new_lab(version="dev")
    newer.simulator.faults.tickets_down = True
    with pytest.raises(quads_errors.TicketSystemDown, match="ticket system is down"):
        newer.acquire()
    assert lab.active() == newer.active() == []


def test_a_server_without_tickets_says_what_it_needs_by_its_version(new_lab):
    lab = new_lab(tickets=False)
    with pytest.raises(quads_errors.TicketNeeded, match="set quads_lease_ticket"):
        lab.acquire()
    with pytest.raises(quads_errors.TicketRefused, match="can't self-schedule at all"):
        lab.acquire(ticket="12345")
    newer = new_lab(tickets=False, version="dev")
    with pytest.raises(quads_errors.TicketNeeded):
        newer.acquire()
    assert newer.acquire(ticket="12345").lease.parts[0].assignment.ticket == "12345"


def test_a_deadline_that_is_past_gives_the_cloud_back(new_lab):
    lab = new_lab(deadline_day="monday")
    with pytest.raises(quads_errors.LeaseTooShort, match="this week's leases have ended"):
        lab.acquire()
    assert lab.active() == []


def test_a_lease_that_would_be_too_short_is_given_back_after_the_first_host(lab):
    with pytest.raises(quads_errors.LeaseTooShort, match="quads_lease_min_lifetime is 2 d 12 h"):
        lab.acquire(count=3, min_lifetime="60h")  # 45 hours are left to the deadline
    assert len(lab.simulator.schedules) == 1
    assert lab.active() == []


def test_wipe_is_always_sent(lab):
    lab.acquire()
    lab.release()
    lab.record.known["state"] = "released"
    lab.acquire(wipe=False)
    assert [body["wipe"] for body in posted(lab, "/assignments/self")] == [True, False]
    assert [one.wipe for one in lab.simulator.assignments.values()] == [True, False]

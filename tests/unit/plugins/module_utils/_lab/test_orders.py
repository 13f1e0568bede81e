"""What a lease is asked for with."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab import quads_errors, quads_options
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.quads_records import first_created_active_schedule
from quads_simulator import cron
from quads_simulator import lab as labs

NAMES = labs.host_names()
LEASE = "t1121-abcdef"
ROOT = Path(__file__).resolve().parents[5]
SETTINGS = yaml.safe_load((ROOT / "roles/quads_lease/defaults/main.yml").read_text(encoding="utf-8"))
ACCOUNT = {"api_url": "https://quads.example.com", "username": "joe@example.com", "password": "x"}


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
    with pytest.raises(quads_errors.LeaseDiffers, match="wipe True"):
        lab.acquire(count=2, wipe=False)
    assert lab.active() == [1]
    more = lab.acquire(count=3)
    assert more.changed
    assert set(first.lease.hosts) < set(more.lease.hosts)


def test_preferences_are_tried_in_order_and_exclusions_left_out(lab):
    got = lab.acquire(count=3, model=["r750", "R640"], exclude=[NAMES[0]], filters={"disks.disk_type": "nvme"})
    assert got.lease.hosts == [NAMES[2], NAMES[4], NAMES[12]]
    lab.release()
    lab.record.known["state"] = "released"
    wanted = [{"interfaces.vendor__ilike": "%intel%", "disks.disk_type": "sata"}, {"model__in": ["R640"]}]
    got = lab.acquire(count=4, prefer=wanted)
    assert set(got.lease.hosts) > {NAMES[7], NAMES[9], NAMES[11]}


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"interfaces.speeed": 1}, "did you mean 'interfaces.speed'"),
        ({"modle": "R640"}, "did you mean 'model'"),
        ({"model__equals": "R640"}, "'model__equals': unknown operator __equals"),
        ({"disks.size_gb__gte": [1, 2]}, "takes one value"),
    ],
)
def test_a_condition_that_the_server_would_crash_on_is_refused_before(lab, filters, message):
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        lab.acquire(filters=filters)
    assert lab.wire.calls == []


def test_the_earliest_schedule_holds_a_host():
    from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.quads_records import HostSchedule

    rows = [HostSchedule(16, "h", 1), HostSchedule(17, "h", 2), HostSchedule(9, "h", 3, active=False)]
    assert first_created_active_schedule(rows) == rows[0]
    assert first_created_active_schedule([]) is None


@pytest.mark.parametrize("name", ["-oProxyCommand=id", "{{ 1 + 1 }}", "a b", "a/../b", "a\nb", "x" * 254])
def test_what_is_no_name_of_a_host_becomes_none(name: str) -> None:
    """It would become a name in the inventory and an argument of ssh."""
    from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.quads_records import HostSchedule

    assert HostSchedule.from_json({"id": 1, "host": {"name": "s01-h02.lab"}}).host == "s01-h02.lab"
    with pytest.raises(ValueError, match="the name of a host has other characters"):
        HostSchedule.from_json({"id": 1, "host": {"name": name}})


def test_check_mode_only_reads(lab):
    lab.acquire(dry=True, count=3)
    assert {call.method for call in lab.wire.calls} == {"GET"}
    assert cron.holders(lab.simulator, lab.simulator.clock.now()) == {}


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"count": 2, "hosts": ["a"]}, ["count", "hosts"]),
        ({"count": 0}, ["count", "hosts"]),
        ({"min_count": 3}, ["min_count"]),
        ({"hosts": ["a"], "exclude": ["a"], "count": 0}, ["hosts", "exclude"]),
        ({"count": 12}, ["max_hosts", "split"]),
        ({"count": 12, "split": True, "vlan": 1150}, ["cloud", "vlan"]),
        ({"min_lifetime": "soon"}, ["min_lifetime"]),
        ({"lease_id": "-"}, ["id"]),
        ({"prefer": ["R650"]}, ["prefer"]),
    ],
)
def test_a_request_is_refused_in_the_words_of_its_settings(given: dict[str, Any], named: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        quads_options.LeaseSpec.from_params({"lease_id": LEASE, "count": 2, **given})
    assert re.findall(r"quads_lease_(\w+)", str(caught.value)) == named


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"api_url": "quads.example.com"}, ["api_url"]),
        ({"api_url": "http://quads.example.com"}, ["api_url", "validate_certs"]),
        ({"username": "joe"}, ["username"]),
        ({"password": ""}, ["password", "api_token"]),
        ({"api_token": "x"}, ["password", "api_token"]),
    ],
)
def test_an_account_is_refused_in_the_words_of_its_settings(given: dict[str, Any], named: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        quads_options.account_from_params({**ACCOUNT, **given}, secret=True)
    assert re.findall(r"quads_lease_(\w+)", str(caught.value)) == named


def test_messages_on_a_lab_name_settings_that_exist() -> None:
    sources = sorted((ROOT / "plugins/module_utils/_lab").glob("*.py"))
    named = {name for path in sources for name in re.findall(r"quads_lease_\w+", path.read_text(encoding="utf-8"))}
    assert len(named) > 10
    assert named <= set(SETTINGS)

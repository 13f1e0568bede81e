"""What hosts are searched for with: each condition is understood by the server as the user means it, or refused."""

from __future__ import annotations

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab import host_search, lab_inventory, quads_errors
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab.host_search import HostSearch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from quads_simulator import filters, lab
from quads_simulator.core import Simulator
from quads_simulator.lab import Config
from quads_simulator.virtual import Wire, client

NAMES = lab.host_names()
NOTHING = {"model": [], "filters": {}, "prefer": [], "exclude": [], "duration": "1d", "count": 0}
NOTHING |= {"gather_metadata": False}


def free(one, **given):
    """What quads_info returns."""
    return host_search.find_available_lab_resources(one.client(), HostSearch.from_params({**NOTHING, **given}))["hosts"]


@pytest.mark.parametrize(
    ("conditions", "found"),
    [
        ({"bootmode": "uefi"}, [0]),
        ({"bootmode": ["BIOS", "Uefi"]}, [0, 1]),
        ({"processors.processor_type": "cpu"}, range(13)),
        ({"model": "r650,R750"}, range(6, 13)),
        ({"model": ["r750"]}, [12]),
        ({"model__like": "r7%"}, [12]),
        ({"disks.size_gb": "447, 1000"}, range(13)),
        ({"disks.size_gb__gte": "1000"}, range(13)),
        ({"broken": 0}, range(13)),
        ({"broken": "No", "model": "R750"}, [12]),
        ({"interfaces.pxe_boot": "yes", "model": "R750"}, [12]),
        # met by one part, not by two
        ({"disks.disk_type": "ssd", "disks.size_gb__gte": 1000}, []),
        ({"disks.disk_type": "nvme", "disks.size_gb__gte": 1000, "model": "R650"}, [6, 8, 10]),
        # a sum is that of all parts of its kind, whatever the other conditions are
        ({"disks.disk_type": "ssd", "disks.count__gte": 2, "model": "R750"}, [12]),
        ({"disks.disk_type": "ssd", "disks.count": 3}, range(13)),
        ({"disks.disk_type": "ssd", "disks.count__gte": 4}, []),
        ({"disks.disk_type": "tape", "disks.count": 3}, []),
        ({"memory.size_gb__gte": 400, "interfaces.speed__gte": 25000}, []),
        ({"memory.size_gb": 384, "interfaces.count": 5, "model": "R750"}, [12]),
        ({"processors.cores__gte": 32, "processors.threads__lte": 64, "model": "R750"}, [12]),
        ({"disks.count__gte": 2, "disks.count__lte": 4, "model": "R750"}, [12]),
    ],
)
def test_a_condition_finds_what_its_words_say(new_lab, conditions, found):
    one = new_lab()
    for number, mode in enumerate(("Uefi", "Bios")):
        one.simulator.hosts[NAMES[number]]["bootmode"] = mode
    assert sorted(free(one, filters=conditions)) == [NAMES[number] for number in found]
    assert sorted(free(one, prefer=[conditions])) == [NAMES[number] for number in found]


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ({"bootmode": "legacy"}, "'bootmode' is 'legacy': it must be Bios or Uefi"),
        ({"bootmode": "Ufei"}, "it must be Bios or Uefi (did you mean 'Uefi'?)"),
        ({"processors.processor_type__like": "G%"}, "'processors.processor_type__like': unknown operator __like"),
        ({"memory.size_gb__in": "256,384"}, "'memory.size_gb__in': unknown operator __in"),
        ({"memory.size_gb": [256, 384]}, "'memory.size_gb' takes one value, not 256 and 384"),
        ({"disks.count": "2,3"}, "'disks.count' is '2,3': it must be a whole number"),
        ({"disks.size_gb__like": "17%"}, "'disks.size_gb__like': unknown operator __like; there are __ne, __lt"),
        ({"disks.size_gb": "1.7T"}, "'disks.size_gb' is '1.7T': it must be a whole number"),
        ({"interfaces.speed__gte": 3_000_000_000}, "it must be a whole number"),
        ({"disks.size_gb": True}, "it must be a whole number"),
        ({"broken__lt": True}, "'broken__lt': unknown operator __lt; there is __ne"),
        ({"broken": "perhaps"}, "'broken' is 'perhaps': it must be true or false"),
        ({"retired": [True, False]}, "'retired' takes one value"),
        ({"cloud": "cloud01"}, "'cloud' is not a search field"),
        ({"can_self_schedule": False}, "'can_self_schedule' is not a search field"),
        ({"model": []}, "'model' has no value"),
        ({"model": None}, "'model' has no value"),
        ({"host_type": {"a": 1}}, "'host_type' is '{'a': 1}': it must be a text"),
        ({"interfaces.vendor": ["Mellanox, Inc.", "Intel"]}, "a comma"),
    ],
)
def test_a_condition_that_the_server_cannot_answer_is_refused_before_a_request(lab, conditions, message):
    for how in ({"filters": conditions}, {"prefer": [conditions]}):
        with pytest.raises(InputError) as caught:
            lab.acquire(**how)
        assert message in str(caught.value)
        assert str(caught.value).startswith(f"quads_lease_{next(iter(how))}: ")
    assert lab.wire.calls == []


def test_groups_of_machines_are_refused_in_their_own_words():
    with pytest.raises(InputError, match="roles: worker: where: 'bootmode' is 'legacy'"):
        lab_inventory.assign_groups({}, [{"name": "worker", "where": {"bootmode": "legacy"}}])
    in_cloud = {NAMES[0]: {"cloud": {"name": "cloud02"}}, NAMES[1]: {"cloud": {"name": "cloud03"}}}
    assert lab_inventory.assign_groups(in_cloud, [{"name": "far", "where": {"cloud": "cloud03"}}]) == {
        "far": [NAMES[1]]
    }


# hosts that cannot be had


@pytest.mark.parametrize("field", ["broken", "retired"])
@pytest.mark.parametrize("begun", [False, True])
def test_a_named_host_that_is_broken_or_retired_says_so(lab, field, begun):
    if begun:
        lab.acquire(hosts=NAMES[:1])
        lab.record.known["state"] = "asking"
    lab.simulator.hosts[NAMES[1]][field] = True
    with pytest.raises(quads_errors.NotEnoughHosts, match=f"{NAMES[1]}: the lab has marked it as {field}"):
        lab.acquire(hosts=NAMES[:2])
    assert lab.active() == []


def test_a_named_host_that_the_lab_does_not_know_names_the_nearest(lab):
    with pytest.raises(quads_errors.NotEnoughHosts, match=rf"no such host \(did you mean '{NAMES[6]}'"):
        lab.acquire(hosts=[NAMES[6].replace("-000", "-00")])


@pytest.mark.parametrize("how", [{"model": ["R65O"]}, {"filters": {"model": "r65o"}}])
def test_a_model_that_the_lab_does_not_have_is_named_with_the_nearest(lab, how):
    text = r"[Tt]he lab has no R65O \(did you mean 'R650'\?\); its models: R640 \(6\), R650 \(6\), R750 \(2\)"
    with pytest.raises(quads_errors.NotEnoughHosts, match=text):
        lab.acquire(**how)
    with pytest.raises(InputError, match=text):
        free(lab, **how)


def test_a_model_that_another_lab_has_does_no_harm_beside_one_that_is_there(lab):
    assert len(lab.acquire(count=2, model=["R760", "R640"]).lease.hosts) == 2


# moments


@pytest.mark.parametrize("offset", [0, 330, -300])
def test_a_host_that_was_just_released_can_be_leased_at_once(new_lab, offset):
    lab = new_lab(utc_offset=offset)
    first = lab.acquire(hosts=NAMES[:1], count=1)
    lab.release(lab.record)
    lab.record.known["state"] = "released"
    assert lab.acquire(hosts=NAMES[:1]).lease.hosts == first.lease.hosts


def test_a_search_leaves_the_beginning_to_the_server(lab):
    lab.acquire()
    free(lab)
    searches = lab.asked("/available")
    assert searches
    assert not [url for url in searches if "start=" in url]
    assert all("end=" in url for url in searches)


# any set of conditions

FIELDS = [*filters.HOST, *(f"{child}.{name}" for child, names in filters.CHILDREN.items() for name in names)]
WORDS = st.sampled_from(
    [
        *("R640", "r650,R750", "nvme", "Uefi", "bios", "CPU", "gpu", "384", "447,1700", "2", "64", "%e%", "cloud01"),
        *("true", "No", "", "null", "1", "-1", "25000", "99999999999", "1.5", "Intel Corporation", NAMES[0]),
    ]
)
VALUES = st.one_of(
    WORDS,
    st.booleans(),
    st.integers(-1, 2000),
    st.sampled_from([384, 5, 32, 64, 25000, 447]),
    st.lists(WORDS, max_size=3),
    st.none(),
)
KEYS = st.builds(
    lambda field, word: field + (f"__{word}" if word else ""),
    st.sampled_from(FIELDS),
    st.sampled_from(["", *filters.OPERATORS[1:]]),
)
CONDITIONS = st.dictionaries(KEYS, VALUES, min_size=1, max_size=4)


def fresh() -> Simulator:
    """A lab whose hosts differ."""
    simulator = Simulator(Config())
    for number, host in enumerate(simulator.hosts.values()):
        host["bootmode"] = (None, "Uefi", "Bios")[number % 3]
        host["disks"][1]["size_gb"] = 447 + 400 * (number % 4)
        host["memory"].append({**host["memory"][0], "size_gb": 64 * (number % 2)})
    return simulator


@settings(max_examples=300, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(CONDITIONS)
def test_no_condition_that_is_accepted_crashes_the_server_and_groups_see_it_alike(conditions):
    simulator = fresh()
    one = client(simulator, Wire(simulator), retry_time=0)
    try:
        (wanted,) = host_search.conditions_by_preference([], conditions, [])
    except InputError:
        return
    found = host_search.find_free_hosts(one, wanted, simulator.clock.now() + 86400)
    machines = {name: about for name, about in simulator.hosts.items() if about["can_self_schedule"]}
    rule = {"name": "same", "where": conditions}
    assert sorted(lab_inventory.assign_groups(machines, [rule])["same"]) == sorted(found)


def test_names_of_hosts_are_ordered_by_their_numbers_whatever_characters_they_have() -> None:
    names = ["h²", "h" + "9" * 5000, "h10", "h02b", "h2"]
    assert sorted(names, key=lab_inventory.natural_sort_key) == ["h2", "h02b", "h10", "h" + "9" * 5000, "h²"]

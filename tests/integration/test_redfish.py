"""Machines through emulated BMCs: what is asked for is asserted in the emulator, not in our answer."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.redfish import (
    bmc_machine,
    bmc_requests_and_vendors,
    machine_fleet,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.redfish.bmc_machine import BmcConnection
from bmc_emulator import Emulator, emulator

NAMES = [f"s01-h{number:02d}" for number in range(1, 7)]


@pytest.fixture(scope="module")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    folder = tmp_path_factory.mktemp("bmcs")
    with emulator(folder, {name: f"02:11:22:33:{at:02x}:00" for at, name in enumerate(NAMES, start=1)}) as running:
        yield running


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bmc_machine, "PAUSE", 0.2)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("images")
    for name in ("agent.iso", "other.iso"):
        (folder / name).write_bytes(b"an image")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def bring(one: Emulator, state: str, image: str = "", names: list[str] = NAMES, **more: Any) -> Any:
    given = {"ca_path": str(one.ca), "validate_certs": True, "wait_timeout": 240, "timeout": 60, **more}
    bmcs = [BmcConnection(**bmc) for bmc in one.bmcs() if bmc["name"] in names]
    return machine_fleet.set_machine_states(bmcs, state, image, given, print)


def test_six_machines_boot_from_an_image_once_and_are_given_back_dark(emulated: Emulator, images: str) -> None:
    found, changed = bring(emulated, "booted", f"{images}/agent.iso")
    assert changed and [one["name"] for one in found] == NAMES
    for one in emulated.state().values():
        assert one["power"] == "On" and one["boot"] == "Cd" and one["media"] == {"Cd": f"{images}/agent.iso"}
    assert bring(emulated, "off")[1] is True
    for one in emulated.state().values():
        assert one["power"] == "Off" and one["boot"] != "Cd" and one["media"] == {}
    assert bring(emulated, "off")[1] is False, "a second time there is nothing to do"


def test_what_is_in_already_makes_way_and_a_running_machine_is_started_anew(emulated: Emulator, images: str) -> None:
    bring(emulated, "booted", f"{images}/other.iso", NAMES[:1])
    before = len(emulated.state()[NAMES[0]]["log"])
    bring(emulated, "booted", f"{images}/agent.iso", NAMES[:1])
    state = emulated.state()[NAMES[0]]
    assert state["media"] == {"Cd": f"{images}/agent.iso"} and state["power"] == "On"
    resets = [line for line in state["log"][before:] if line.endswith("ComputerSystem.Reset")]
    assert len(resets) == 2, "off, then on"
    bring(emulated, "off", names=NAMES[:1])


def test_a_busy_bmc_is_asked_again_and_a_job_queue_that_stays_is_emptied(emulated: Emulator, images: str) -> None:
    emulated.steer(faults={NAMES[1]: {"busy": 4}, NAMES[2]: {"jobs": True}})
    bring(emulated, "booted", f"{images}/agent.iso", NAMES[1:3])
    state = emulated.state()
    assert all(state[name]["power"] == "On" and state[name]["media"] for name in NAMES[1:3])
    assert sum("DellJobService.DeleteJobQueue" in line for line in state[NAMES[2]]["log"]) == 1
    bring(emulated, "off", names=NAMES[1:3])


def test_an_old_bmc_that_accepts_only_the_image_boots_too(emulated: Emulator, images: str) -> None:
    emulated.steer(faults={NAMES[4]: {"image_only": True}})
    before = len(emulated.state()[NAMES[4]]["log"])
    bring(emulated, "booted", f"{images}/agent.iso", NAMES[4:5])
    state = emulated.state()[NAMES[4]]
    assert state["media"] == {"Cd": f"{images}/agent.iso"}
    assert sum(line.endswith("InsertMedia") for line in state["log"][before:]) == 2, "refused, then the image alone"
    bring(emulated, "off", names=NAMES[4:5])


def test_one_system_of_several_must_be_named(emulated: Emulator) -> None:
    emulated.steer(faults={NAMES[5]: {"several": True}})
    try:
        with pytest.raises(machine_fleet.FleetError, match="has the Systems .*name one as bmc_system in the inventory"):
            bring(emulated, "off", names=NAMES[5:])
        one = next(BmcConnection(**bmc) for bmc in emulated.bmcs() if bmc["name"] == NAMES[5])
        own = "00000000-0000-4000-8000-000000000005"
        given = {"ca_path": str(emulated.ca), "wait_timeout": 240}
        found = machine_fleet.read_machine_states([replace(one, system=own)], given, print)
        assert found[0]["power"] == "Off" and found[0]["error"] == ""
        with pytest.raises(machine_fleet.FleetError, match=f"'{own[:-1]}9' is not one of them .did you mean"):
            machine_fleet.set_machine_states([replace(one, system=f"{own[:-1]}9")], "off", "", given, print)
    finally:
        emulated.steer(faults={NAMES[5]: {"several": False}})


def test_a_dead_bmc_is_named_and_the_others_get_there(emulated: Emulator, images: str) -> None:
    emulated.steer(dead=[NAMES[3]])
    try:
        with pytest.raises(machine_fleet.FleetError, match=f"1 of 6 machines are not booted: {NAMES[3]}: ") as raised:
            bring(emulated, "booted", f"{images}/agent.iso", contact_timeout=1)
        state = emulated.state()
        assert [name for name in NAMES if state[name]["power"] != "On"] == [NAMES[3]]
        assert [one["name"] for one in raised.value.facts["machines"] if one["error"]] == [NAMES[3]]
    finally:
        emulated.steer(alive=[NAMES[3]])
    bring(emulated, "off")
    assert {one["power"] for one in emulated.state().values()} == {"Off"}


def test_a_password_that_is_wrong_and_an_image_that_is_not_there_are_told_at_once(
    emulated: Emulator, images: str, tmp_path: Path
) -> None:
    wrong = [
        BmcConnection(
            name=NAMES[0], address=emulated.machines[NAMES[0]]["address"], user="quads", password="not-this-one"
        )
    ]
    given = {"ca_path": str(emulated.ca), "wait_timeout": 240}
    with pytest.raises(machine_fleet.FleetError, match="401 Unauthorized") as raised:
        machine_fleet.set_machine_states(wrong, "off", "", given, print)
    assert "not-this-one" not in str(raised.value)
    with pytest.raises(machine_fleet.FleetError, match="can't insert media.*(404|400)"):
        bring(emulated, "booted", f"{images}/no-such.iso", NAMES[:1])
    with pytest.raises(machine_fleet.FleetError, match="certificate"):
        bring(emulated, "off", names=NAMES[:1], ca_path=None)


def test_traits_that_a_user_gives_are_checked(emulated: Emulator) -> None:
    with pytest.raises(machine_fleet.FleetError, match="'boot_devise' is an unknown trait .did you mean 'boot_device'"):
        bring(emulated, "off", names=NAMES[:1], vendors={"sushy": {"boot_devise": ["Cd"]}})
    with pytest.raises(InputError):
        bmc_requests_and_vendors.traits_of_vendor(["Dell Inc."], {"dell": {"no": 1}})

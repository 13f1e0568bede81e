"""A cluster on bare metal that is released by its name: an entry of the metadata store chooses no machine by itself."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.redfish.bmc_machine import (
    BmcConnection,
    RedfishMachine,
)
from bmc_emulator import Emulator, emulator
from role_lab import Lab

NAMES = ["s01-h01", "s01-h02"]


def boot(bmcs: Emulator) -> None:
    """Switch all machines on."""
    options = {"ca_path": str(bmcs.ca), "validate_certs": True, "timeout": 60}
    for bmc in bmcs.bmcs():
        machine = RedfishMachine(BmcConnection(**bmc), options, time.monotonic() + 60, print)
        machine.find()
        machine.power("On")


def entry(bmcs: Emulator, share: Path, inventory: Path) -> dict[str, Any]:
    """What role cluster writes for a cluster of two machines, and the inventory that the writer prefers."""
    machines = [
        {"name": name, "role": "master", "ip": "", "address": one["address"], "user": bmcs.user, "system": ""}
        for name, one in bmcs.machines.items()
    ]
    settings = {"cluster_agent_inventory": str(inventory), "cluster_agent_control_plane_group": "controlplane"}
    data = {"settings": settings, "machines": machines, "share": {"host": "localhost", "folder": str(share / "perf")}}
    shared = {"provider": "openshift_agent", "name": "perf", "owned": True, "hosts": ["sutest", "driver"]}
    return {**shared, "provider_data": data}


def test_only_machines_of_the_inventory_are_powered_off_for_an_entry_of_the_store(tmp_path: Path) -> None:
    script = tmp_path / "evil.sh"
    script.write_text(f"#!/bin/sh\ntouch {tmp_path}/executed\necho '{{}}'\n", encoding="utf-8")
    script.chmod(0o755)
    foreign = tmp_path / "documents" / "perf"
    foreign.mkdir(parents=True)
    (tmp_path / "store").mkdir()
    with emulator(tmp_path / "bmcs", {name: f"02:11:22:33:{at:02x}:00" for at, name in enumerate(NAMES)}) as bmcs:
        boot(bmcs)
        files.write_json(tmp_path / "store" / "perf.json", entry(bmcs, foreign.parent, script))
        lab = Lab(tmp_path / "lab", "g1-named")
        lab.env = {"SEATRIAL_CLUSTER_AGENT_BMC_PASSWORD": bmcs.password}
        words = lab.settings(
            cluster_metadata_store=str(tmp_path / "store"),
            cluster_release_named="perf",
            cluster_installer_dir=str(tmp_path / "installs"),
            cluster_agent_bmc_ca_path=str(bmcs.ca),
        )
        ours, other = NAMES
        lab.hosts({ours: {"bmc_address": bmcs.machines[ours]["address"]}, other: {"bmc_address": "192.0.2.1"}})
        done = lab.run("release", *words)
        state = bmcs.state()
        assert done.code != 0 and state[ours]["power"] == "Off", done.output
        assert state[other]["power"] == "On"
        left = f"machine {other} with the BMC {bmcs.machines[other]['address']}, folder {foreign} on localhost"
        assert f"The entry of perf in cluster_metadata_store names {left}" in done.flat(), done.output
        assert not (tmp_path / "executed").exists() and foreign.is_dir()
        assert (tmp_path / "store" / "perf.json").exists() and lab.clusters["sutest"]["state"] != "released"

        lab.hosts({name: {"bmc_address": one["address"]} for name, one in bmcs.machines.items()})
        again = lab.run("release", *words, "-e", f"cluster_agent_share_dir={foreign.parent}")
        assert again.code == 0 and bmcs.state()[other]["power"] == "Off", again.output
        assert not foreign.exists() and list((tmp_path / "store").iterdir()) == []
        assert lab.clusters["sutest"]["state"] == "released"

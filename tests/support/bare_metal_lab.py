"""A lab of simulated machines: a QUADS simulator, emulated BMCs, a stand-in for the installer."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.openshift import cluster_folder_processes
from bmc_emulator import Emulator, emulator
from quads_simulator import server as servers
from quads_simulator.clock import Clock
from quads_simulator.core import Simulator
from quads_simulator.lab import Config, host_names
from quads_simulator.server import Running
from stand_in.place import StandIn

#: What must be found nowhere: the lab's password, that of the BMCs, what the installer reads and what it tells.
USER_CANARY = "canary-9fT2-not-a-word"
TICKET = 4000
BMC_CANARY = f"lab@{TICKET}"
PULL_CANARY = "cHVsbC1jYW5hcnk="
KUBEADMIN_CANARY = "KuBe-adMin-CaNary"
CANARIES = (USER_CANARY, BMC_CANARY, PULL_CANARY, KUBEADMIN_CANARY)
NAMES = host_names()[:6]


@dataclass
class Lab:
    """A lab that runs."""

    folder: Path
    server: Running
    bmcs: Emulator
    stand_in: StandIn
    inventory: Path

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of a user of this lab: the secrets."""
        return {
            **self.stand_in.environment,
            "SEATRIAL_QUADS_LEASE_PASSWORD": USER_CANARY,
            "SEATRIAL_CLUSTER_PULL_SECRET": json.dumps({"auths": {"registry.example.com": {"auth": PULL_CANARY}}}),
        }

    def leases(self) -> list[dict[str, Any]]:
        """The active leases."""
        return [one for one in servers.state(self.server.simulator)["assignments"] if one["active"]]

    def left(self) -> list[str]:
        """Whatever is not as it was before: machines, media, leases, processes, folders."""
        found = [f"lease {one['id']}" for one in self.leases()]
        for name, one in self.bmcs.state().items():
            if one["power"] != "Off":
                found.append(f"{name} is {one['power']}")
            found += [f"{name} has {image} in" for image in one["media"].values()]
            if one["boot"] == "Cd":
                found.append(f"{name} boots from Cd")
        for part in ("installs", "share"):
            for folder in (self.folder / part).glob("*"):
                found += [
                    f"{folder} is left",
                    *(
                        f"process {pid} of {folder}"
                        for pid in cluster_folder_processes.find_processes_of_folder(folder)
                    ),
                ]
        return found


@contextlib.contextmanager
def lab(folder: Path, kubeconfig: str, **settings: Any) -> Iterator[Lab]:
    """Run a lab of six machines while the body does."""
    macs = {name: f"02:11:22:33:{at:02x}:00" for at, name in enumerate(NAMES, start=1)}
    with emulator(folder / "bmcs", macs, BMC_CANARY) as bmcs:
        config = Config(utc_offset=120, move_delay=0.5, validate_delay=0.5, inventory_period=0.5, next_ticket=TICKET)
        config.bmc_addresses = {name: one["address"] for name, one in bmcs.machines.items()}
        # A Saturday: the lab's week ends on Sunday evening.
        simulator = Simulator(config, Clock(1_795_219_182.0, speed=1.0))
        simulator.access.add("jo@example.com", USER_CANARY)
        server = servers.start(simulator, folder / "quads")
        stand_in = StandIn(folder / "stand-in", kubeconfig=kubeconfig, emulator=str(folder / "bmcs"), **settings)
        settings = {
            "quads_lease_api_url": server.url,
            "quads_lease_ca_path": str(server.ca),
            "quads_lease_username": "jo@example.com",
            "quads_lease_wait_interval": 0.5,
            "quads_lease_model": ["r640"],
            "cluster_base_domain": "perf.example.com",
            "cluster_installer": stand_in.program(),
            "cluster_installer_dir": str(folder / "installs"),
            "cluster_agent_share_dir": str(folder / "share"),
            "cluster_agent_share_address": "127.0.0.1",
            "cluster_agent_bmc_ca_path": str(bmcs.ca),
            "cluster_agent_interface": "em1",
            "cluster_agent_models": {"R640": {"root_device": {"deviceName": "/dev/disk/by-path/pci-0"}}},
            "cluster_agent_machine_network": "198.18.0.0/22",
            "cluster_agent_first_address": "198.18.0.10",
            "cluster_agent_gateway": "198.18.0.1",
            "cluster_agent_dns": ["198.18.0.1"],
            "cluster_agent_api_vip": "198.18.0.5",
            "cluster_agent_ingress_vip": "198.18.0.6",
        }
        local = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
        inventory = folder / "lab.yml"
        files.write_yaml(inventory, {"made_up_lab": {"hosts": {"localhost": local}, "vars": settings}})
        running = Lab(folder, server, bmcs, stand_in, inventory)
        try:
            yield running
        finally:
            for part in ("installs", "share"):
                for one in (folder / part).glob("*"):
                    cluster_folder_processes.stop_processes_of_folder(one, 1.0)
            server.stop()

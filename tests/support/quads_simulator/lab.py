"""The initial lab of the simulator: the one in which the transcripts were recorded, with other names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

DOMAIN = "lab.example.com"
SPARE = "cloud01"


@dataclass
class Config:
    """The settings of a QUADS administrator (conf/selfservice.yml, quads.yml), and the speed of the lab.

    All delays in seconds. Two clocks, in minutes ahead of UTC: ``utc_offset`` of the web server, which writes start and
    end of a schedule, and ``database_offset`` of the database, which writes when something was created. They differ
    unless a test sets them, so that none passes that takes one for the other.
    """

    version: str = "2.2.6"
    enabled: bool = True
    host_limit: int = 10
    lifetime_days: float = 5
    user_cloud_limit: int = 3
    tickets: bool = True
    deadline_day: str = "sunday"
    deadline_hour: int | None = 21
    prefix: str = "[SSM]"
    utc_offset: int = 0
    database_offset: int = -300
    token_lifetime: float = 15600
    infra: str = "lab"
    next_ticket: int = 4000
    move_delay: float = 300
    validate_delay: float = 1500
    inventory_period: float = 900
    cron: bool = True
    #: Host -> address of its BMC, where it is not mgmt-<host>.
    bmc_addresses: dict[str, str] = field(default_factory=dict)

    @property
    def dev(self) -> bool:
        """True for the behaviour of the development branch."""
        return self.version == "dev"


@dataclass
class Faults:
    """Injected faults."""

    ticket_delay: float = 0.0
    tickets_down: bool = False
    database_down: bool = False
    #: Time between the check and the insert of POST /schedules, in which others are served.
    race_window: float = 0.0
    #: Hosts that never become validated.
    broken: set[str] = field(default_factory=set)
    #: The next requests that match (method, text in path) are answered with status; executed first, or not at all.
    answers: list[dict[str, Any]] = field(default_factory=list)


def host_names() -> list[str]:
    """Names of the fourteen hosts."""
    models = ["r640"] * 6 + ["r650"] * 6 + ["r750"] * 2
    return [f"s01-h{number:02d}-000-{model}.{DOMAIN}" for number, model in enumerate(models, start=1)]


def hosts(created_at: str, spare: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the hosts as GET /hosts/<name> returns them. R640s have Mellanox NICs; odd ones have NVMe disks."""
    made = []
    for number, name in enumerate(host_names(), start=1):
        model = name.split(".")[0].rsplit("-", 1)[1].upper()
        vendor = "Mellanox Technologies" if model == "R640" else "Intel Corporation"
        kind = "sata" if number % 2 == 0 else "nvme"
        first = (number - 1) * 5
        made.append(
            {
                "blade": None,
                "bootmode": None,
                "broken": False,
                "build": False,
                "can_self_schedule": number != 14,
                "cloud": spare,
                "cloud_id": spare["id"],
                "created_at": created_at,
                "default_cloud": spare,
                "default_cloud_id": spare["id"],
                "disks": [
                    {"count": 1, "disk_type": kind, "host_id": number, "id": 2 * number - 1, "size_gb": 1700},
                    {"count": 2, "disk_type": "ssd", "host_id": number, "id": 2 * number, "size_gb": 447},
                ],
                "host_type": "examplelab",
                "id": number,
                "interfaces": [
                    {
                        "bios_id": f"NIC.{at}",
                        "host_id": number,
                        "id": first + at + 1,
                        "mac_address": f"02:11:22:33:{number:02x}:{at:02x}",
                        "maintenance": False,
                        "name": f"em{at + 1}",
                        "pxe_boot": at == 0,
                        "speed": 25000,
                        "switch_ip": "192.0.2.1",
                        "switch_port": f"et-0/0/{number}:{at}",
                        "vendor": vendor,
                    }
                    for at in range(5)
                ],
                "last_build": None,
                "memory": [{"handle": "DIMM1", "host_id": number, "id": number, "size_gb": 384}],
                "model": model,
                "name": name,
                "processors": [
                    {
                        "cores": 32,
                        "handle": "CPU1",
                        "host_id": number,
                        "id": number,
                        "processor_type": "CPU",
                        "product": "Xeon",
                        "threads": 64,
                        "vendor": "Intel",
                    }
                ],
                "rack": None,
                "retired": False,
                "switch_config_applied": False,
                "uloc": None,
                "validated": False,
            }
        )
    return made


def vlans() -> list[dict[str, Any]]:
    """Return the public VLANs as GET /vlans returns them."""
    return [
        {
            "gateway": f"198.18.{number}.1",
            "id": number + 1,
            "ip_free": 1000,
            "ip_range": f"198.18.{number}.0/22",
            "netmask": "255.255.252.0",
            "vlan_id": 601 + number,
        }
        for number in range(2)
    ]

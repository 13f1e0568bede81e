# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The resources that a run holds, from its files, and the commands that give them back.

A resource counts until a server has confirmed that it is released. The commands are built from the present session.
The file GIVE_BACK is for people: whoever can write a file into a run directory must not be able to run a command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats, state_file
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    DataError,
    InputError,
    OwnershipError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters import clusters_of_run
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.providers import provider_by_name
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import project_role

from .run_directory import read_document_if_exists
from .run_record import CommandLine


def resources_held(run_dir: Path, since: str) -> list[dict[str, Any]]:
    """Return the resources as run.yml lists them: clusters, objects on clusters of others, scaled nodes, machines.

    since: when the run began.
    """
    records = clusters_of_run.read_cluster_records(run_dir)
    holdings: dict[str, dict[str, Any]] = {}

    def add(what: str, until: str | None = None, ends: str = "") -> None:
        holdings.setdefault(what, {"what": what, "since": since, "until": until, **({"ends": ends} if ends else {})})

    held = clusters_of_run.clusters_to_release(records)
    for record in records.values():
        if record in held:
            add(
                f"{record['provider']} cluster {clusters_of_run.cluster_display_name(record)}",
                record.get("expires"),
                provider_by_name(record["provider"]).expires_by,
            )
        elif record.get("objects") and not record["owned"]:
            add(f"objects on cluster {clusters_of_run.cluster_display_name(record)}")
    if _is_there(records.get("driver", {})):
        for entry in read_document_if_exists(run_dir / "scaling-driver.json").get("sets") or ():
            add(f"scaled MachineSet {entry['name']} of the driver")
    if _is_there(records.get("sutest", {})):
        scaling = read_document_if_exists(run_dir / "scaling.json")
        for part, text in (("sets", "scaled MachineSet"), ("namespaces", "namespace with dedicated nodes:")):
            for entry in scaling.get(part) or ():
                add(f"{text} {entry['name']}")
        _add_registry(read_document_if_exists(run_dir / "registry.json") or {}, add)
        if (run_dir / "monitoring.json").exists():
            add("monitoring of user workloads, which this run switched on")
    path = run_dir / "lease.yml"
    if path.exists() and state_file.read_state_file(path, "state")["state"] in ("asking", "held"):
        lease = state_file.read_state_file(path, "lease_id", "parts", "hosts", "expires_at")
        clouds = ", ".join(part["cloud"] for part in lease["parts"]) or "an unknown cloud"
        what = f"lease {lease['lease_id']}: {formats.format_count(len(lease['hosts']), 'machine')} in {clouds}"
        until = lease["expires_at"] or ""
        if until and not until.endswith("Z"):
            what += f" until {until} by the clock of the lab, whose time zone is unknown"
        add(what, until if until.endswith("Z") else None, "the lab takes them back")
    return list(holdings.values())


def _add_registry(inventory: Mapping[str, Any], add: Callable[[str], None]) -> None:
    for mirror in inventory.get("mirrors") or ():
        add(f"{mirror['manifest']['kind']} {mirror['manifest']['metadata']['name']}")
    if inventory.get("secret"):
        add(f"credentials of {', '.join(inventory['secret']['registries'])} in the pull secret of the cluster")


def _is_there(record: Mapping[str, Any]) -> bool:
    """Return whether a cluster may hold what the run has changed on it."""
    return not (record.get("owned") and record.get("state") == "released")


def refuse_release_of_kept_cluster(
    run_dir: Path, settings: Mapping[str, Any], tags: Iterable[str], give_back: str
) -> None:
    """Raise OwnershipError if the session's tag release would leave a cluster that is kept (cluster_keep).

    This is checked before the session begins, because its phase cleanup runs before its phase release.
    """
    if "release" not in tags or not settings.get("cluster_keep"):
        return
    for record in clusters_of_run.clusters_to_release(clusters_of_run.read_cluster_records(run_dir)):
        if record["owned"]:
            until = f" until {record['expires']}" if record.get("expires") else ""
            raise OwnershipError(
                f"{record['provider']} cluster {record.get('name', '')} is kept (cluster_keep){until} and stays, so "
                f"nothing was touched. To remove it: {give_back}"
            )


def commands_by_run_directory(artifacts: Path, argv: list[str], cli: Mapping[str, Any]) -> dict[str, str]:
    """Return run directory -> command, for runs with a cluster whose project is installed here.

    argv, cli: the command line of this session, which gives the program, the inventories, the passwords of vaults and
    the files of ``-e @file``.
    """
    variable_files = [argument[1:] for argument in cli.get("extra_vars") or () if argument.startswith("@")]
    commands = {}
    for path in sorted(artifacts.glob(f"*/{clusters_of_run.FILE}")):
        try:
            record = files.read_yaml(path.parent / "run.yml")
            role = project_role.find_role(str(record.get("role") or record["project"]))
        except (DataError, InputError, KeyError, TypeError, AttributeError):
            continue
        playbook = role.root / "playbooks" / f"{role.project}.yml"
        if playbook.is_file():
            command_line = CommandLine(argv, {**cli, "args": [str(playbook)]}, [], variable_files)
            tags = ["cleanup", "release"] if project_role.variables_passed_to_phases_playbook(playbook) else ["release"]
            commands[str(path.parent)] = command_line.give_back(path.parent, role.project, tags)
    return commands

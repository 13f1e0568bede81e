# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The metadata with which a cluster can be destroyed, stored where other machines can read it.

The run directory's cluster.yml has it too. A store is a shared folder or s3://bucket/prefix; an entry is <name>.json,
written before anything of the cluster exists and removed with the last of it. It contains no secret.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    AccessError,
    DataError,
    InputError,
    OwnershipError,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import parse_json
from ansible_collections.perfscale.seatrial.plugins.module_utils._http import s3

#: The providers whose clusters have entries.
PROVIDERS = ("openshift_ipi", "openshift_agent")


def write_cluster_entry(store: str, name: str, entry: Mapping[str, Any]) -> None:
    """Write the entry of a cluster. Raises AccessError, and OwnershipError if another run has one of this name."""
    if not store:
        return
    refuse_entry_of_another_run(store, name, str(entry.get("run") or ""))
    if store.startswith("s3://"):
        with _open_s3_bucket(store, name) as (connection, where):
            connection.put_object(**where, Body=json.dumps(files.to_plain_types(entry), indent=2).encode())
        return
    folder = Path(store).expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files.write_json(folder / f"{_check_cluster_name(name)}.json", entry)
    except OSError as error:
        raise AccessError(f"cluster_metadata_store: can't write {folder}: {error.strerror}") from error


def read_cluster_entry(store: str, name: str) -> dict[str, Any]:
    """Return the entry of a cluster. Raises DataError when there is none, InputError without a store."""
    if not store:
        raise InputError(f"cluster_release_named={name} requires cluster_metadata_store, which has its metadata")
    if store.startswith("s3://"):
        with _open_s3_bucket(store, name) as (connection, where):
            try:
                content = s3.read_object(connection, where["Bucket"], where["Key"])
            except connection.exceptions.NoSuchKey as error:
                raise _unknown_cluster_error(store, name) from error
        try:
            document = parse_json(content)
        except ValueError as error:
            raise DataError(f"cluster_metadata_store {store}: the entry of {name} is not JSON") from error
        return _checked_entry(store, name, document)
    path = Path(store).expanduser() / f"{_check_cluster_name(name)}.json"
    if not path.exists():
        raise _unknown_cluster_error(store, name)
    return _checked_entry(store, name, files.read_json(path))


def _checked_entry(store: str, name: str, document: Any) -> dict[str, Any]:
    """Return an entry, which others may have written: its names become those of files and folders. Raises DataError."""
    if not isinstance(document, dict):
        raise DataError(f"cluster_metadata_store {store}: the entry of {name} is not a JSON object")
    data = document.get("provider_data") or {}
    share = (data.get("share") if isinstance(data, dict) else None) or {}
    machines = (data.get("machines") if isinstance(data, dict) else None) or []
    hosts = document.get("hosts") or []
    folder = PurePosixPath(str(share.get("folder") or f"/{name}") if isinstance(share, dict) else "")
    for what, wrong in {
        "has another name": document.get("name", name) != name,
        "is not of a provider that stores entries": document.get("provider", PROVIDERS[0]) not in PROVIDERS,
        "names a folder that is not of the cluster": folder.name != name or ".." in folder.parts,
        "has provider_data of another form": not isinstance(data, dict)
        or not isinstance(data.get("settings") or {}, dict),
        "has machines of another form": not isinstance(machines, list)
        or not all(isinstance(machine, dict) for machine in machines),
        "names hosts that no run has": not isinstance(hosts, list)
        or not all(re.fullmatch(r"sutest|driver|worker-\d+", str(host)) for host in hosts),
    }.items():
        if wrong:
            raise DataError(f"cluster_metadata_store {store}: the entry of {name} {what}: nothing was deleted")
    return document


def keep_what_session_names(
    entry: Mapping[str, Any], bmc_address_of: Callable[[str], str], own: Mapping[str, str]
) -> dict[str, Any]:
    """Return an entry without the machines, the inventory and the folder that only the entry names.

    Who can write to the store must not choose which BMC gets the password, which inventory is read (it may be a
    program), or in which folder of which machine files are deleted. provider_data.left says what was left out.

    Args:
        entry: The entry.
        bmc_address_of: Returns the address of the BMC of a machine in the session's inventories; empty without one.
        own: The session's own inventory, bastion and share_dir.
    """
    data = dict(entry.get("provider_data") or {})
    left: list[str] = []
    if "settings" in data:
        data["settings"] = {**data["settings"], "cluster_agent_inventory": own["inventory"]}
    if "machines" in data:
        machines = data["machines"] or []
        data["machines"] = [machine for machine in machines if _is_machine_of_session(machine, bmc_address_of)]
        left += [
            f"machine {machine.get('name')} with the BMC {machine.get('address')}"
            for machine in machines
            if machine not in data["machines"]
        ]
    share = data.get("share") or {}
    if share and share != {"host": own["bastion"], "folder": f"{own['share_dir']}/{entry.get('name')}"}:
        left.append(f"folder {share.get('folder')} on {share.get('host')}")
        del data["share"]
    return {**entry, "owned": True, "provider_data": {**data, "left": left}}


def _is_machine_of_session(machine: Mapping[str, Any], bmc_address_of: Callable[[str], str]) -> bool:
    name, address = machine.get("name"), machine.get("address")
    return isinstance(name, str) and bool(address) and bmc_address_of(name) == address


def refuse_entry_of_another_run(store: str, name: str, run: str) -> None:
    """Raise OwnershipError if there is an entry of this name that another run has written."""
    owner = _run_of_entry(store, name) if store else None
    if owner not in (None, run):
        raise OwnershipError(
            f"cluster_metadata_store {store} has a cluster {name} of {f'run {owner}' if owner else 'an unknown run'}: "
            f"choose another cluster_name, or release that one first (cluster_release_named={name})"
        )


def _run_of_entry(store: str, name: str) -> str | None:
    """Return the run of an entry, empty if it is unknown; None without an entry."""
    try:
        return str(read_cluster_entry(store, name).get("run") or "")
    except DataError as error:
        return None if isinstance(error, UnknownClusterError) else ""


def delete_cluster_entry(store: str, name: str, run: str = "") -> None:
    """Remove the entry of a cluster, if there is one. run: leave that of another run."""
    if not store or (run and _run_of_entry(store, name) not in ("", run)):
        return
    if store.startswith("s3://"):
        with _open_s3_bucket(store, name) as (connection, where):
            connection.delete_object(**where)
        return
    (Path(store).expanduser() / f"{_check_cluster_name(name)}.json").unlink(missing_ok=True)


class UnknownClusterError(DataError):
    """There is no entry of this name."""


def _unknown_cluster_error(store: str, name: str) -> UnknownClusterError:
    return UnknownClusterError(
        f"cluster_metadata_store {store} has no cluster {name}: it was released, or stored elsewhere"
    )


def _check_cluster_name(name: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", name):
        raise InputError(f"'{name}' is not a valid cluster name")
    return name


@contextmanager
def _open_s3_bucket(store: str, name: str) -> Iterator[tuple[Any, dict[str, str]]]:
    """Yield a client and the bucket and key of an entry; endpoint, region and credentials are the environment's."""
    bucket, _slash, prefix = store.removeprefix("s3://").partition("/")
    if not bucket:
        raise InputError(f"cluster_metadata_store: {store} has no bucket: use s3://bucket/prefix")
    key = "/".join([*(part for part in prefix.split("/") if part), f"{_check_cluster_name(name)}.json"])
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
    place = s3.S3Location(bucket, prefix.strip("/"), endpoint, region="")
    try:
        with s3.s3_errors(place):
            yield s3.create_s3_client(place), {"Bucket": bucket, "Key": key}
    except AccessError as error:
        raise AccessError(f"cluster_metadata_store: {error}") from error

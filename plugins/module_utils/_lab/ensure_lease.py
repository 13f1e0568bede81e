# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operations of modules quads_lease and quads_lease_wait: from options to results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, SeatrialError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import Step

from . import lease_info, lease_lookup, lease_release, lease_tag, server_options, times
from .lease_acquisition import Acquired, Acquisition
from .lease_adoption import adopt
from .lease_record import LeaseRecord
from .lease_spec import LeaseSpec
from .lease_wait import MachineWait
from .quads_client import QuadsClient

Say = Callable[[str], None]


def run(given: Mapping[str, Any], dry: bool, step: Step) -> dict[str, Any]:
    """Run module quads_lease; return its result."""
    say = step.reporter(given.get("progress_file"), "lease")
    if given["state"] == "absent":
        return _absent(given, dry, step, say)
    if given.get("adopt"):
        return _adopted(given, dry, say)
    spec = LeaseSpec.of(given)
    client = server_options.client(given, secret=not dry, say=say)
    record = _record(given, client)
    if record.adopted:
        raise InputError(
            f"{given['lease_file']} records an adopted allocation, to which nothing is added: "
            "use another run directory for a lease"
        )
    with step.timed("cluster", "lease"), server_options.heeding_signals(client):
        got = Acquisition(client, spec, record, say).run(dry)
    result: dict[str, Any] = {"changed": got.changed, "rejected_hosts": got.rejected, "surplus": 0}
    if got.lease:
        result["lease"] = got.lease.view()
        result["surplus"] = max(len(got.lease.hosts) - spec.wanted, 0)
    if dry:
        result["candidates"] = got.candidates
        say(_would(got))
    elif got.lease:
        say(_line(result["lease"]))
    before = [] if got.changed and not dry else (got.lease.hosts if got.lease else [])
    after = got.lease.hosts if got.lease and not dry else [*before, *got.candidates]
    return {**result, "diff": _diff(before, after)}


def _would(got: Acquired) -> str:
    if not got.candidates:
        return "the lease exists: nothing would be requested"
    hosts = formats.count(len(got.candidates), "host")
    return f"would request {hosts}, given the present state of the lab: {', '.join(got.candidates)}"


def _line(view: Mapping[str, Any]) -> str:
    clouds = " and ".join(part["cloud"] for part in view["parts"])
    hosts = formats.count(len(view["hosts"]), "host")
    return f"{hosts} in {clouds} until {view['expires_at']}: {', '.join(view['hosts'])}"


def _diff(before: list[str], after: list[str]) -> dict[str, str]:
    return {"before": "".join(f"{one}\n" for one in before), "after": "".join(f"{one}\n" for one in after)}


def _record(given: Mapping[str, Any], client: QuadsClient) -> LeaseRecord:
    lease_id = lease_tag.check_id(str(given["lease_id"]))
    path, command = given.get("lease_file"), given.get("release_command") or ""
    return LeaseRecord(path, lease_id, client.account.api_url, client.account.owner, command)


def _adopted(given: Mapping[str, Any], dry: bool, say: Say) -> dict[str, Any]:
    client = server_options.client(given, say=say)
    record = _record(given, client)
    lease = adopt(
        client,
        str(given["adopt"]),
        record.known["lease_id"],
        given["hosts"],
        int(given.get("count") or 0),
        given["exclude"],
        times.duration(given.get("min_lifetime") or 0, "min_lifetime"),
    )
    if record.known["parts"] and not record.adopted and record.known["state"] != "released":
        raise InputError(f"{given['lease_file']} records a lease that was not released: release it before adopting")
    if not dry:
        record.held(lease)
    view = lease.view()
    say(f"adopted {_line(view)}; it is never released from here")
    return {"changed": False, "lease": view, "rejected_hosts": [], "surplus": 0, "diff": _diff([], [])}


def _absent(given: Mapping[str, Any], dry: bool, step: Step, say: Say) -> dict[str, Any]:
    mine = not (given.get("lease_id") and lease_info.remembered(given.get("lease_file")).get("adopted"))
    client = server_options.client(given, secret=mine and not dry, say=say)
    with step.timed("cluster", "release"):
        if given.get("lease_id"):
            return _release(given, client, dry, say)
        if given.get("assignment_id"):
            done = lease_release.release_assignment(client, given["assignment_id"], given["force"], dry, say)
            return _released(done)
        if not client.account.owner:
            raise InputError("set username, the owner of the leases")
        age = times.duration(given["older_than"], "older_than")
        old = lease_release.reap(client, age, tuple(given["keep"]), dry, say)
        if not old:
            say(f"no lease of {client.account.owner} is older than {times.about(age)}")
        return {**_released([one.assignment_id for one in old]), "leases": [one.view() for one in old]}


def _release(given: Mapping[str, Any], client: QuadsClient, dry: bool, say: Say) -> dict[str, Any]:
    record = _record(given, client)
    if record.adopted:
        say("the machines were adopted: they are not released")
        if not dry:
            record.released()
        return _released([])
    if dry:
        return _released([one.id for one in lease_lookup.tagged(client, record.known["lease_id"], active=True)])
    known = record if record.remembers else None
    done = lease_release.release(client, record.known["lease_id"], known, given["settle"], say)
    if not done:
        say(f"lease {record.known['lease_id']} has no assignments")
    return _released(done)


def _released(numbers: list[int]) -> dict[str, Any]:
    before = "".join(f"assignment {one}\n" for one in numbers)
    return {"changed": bool(numbers), "released": numbers, "diff": {"before": before, "after": ""}}


def wait_for(given: Mapping[str, Any], step: Step) -> dict[str, Any]:
    """Run module quads_lease_wait; return its result."""
    say = step.reporter(given.get("progress_file"), "lease")
    client = server_options.client(given, say=say)
    known = lease_info.remembered(given.get("lease_file"))
    client.remember_offset(known.get("utc_offset"))
    name = given.get("lease_id") or known.get("lease_id") or str(given.get("assignment_id") or given.get("cloud"))
    wait = MachineWait(
        client=client,
        look=lease_info.looker(client, given, known),
        goal=given["wait_for"],
        timeout=float(given["wait_timeout"]),
        interval=float(given["interval"]),
        min_lifetime=times.duration(given.get("min_lifetime") or 0, "min_lifetime"),
        lease_id=name,
        url=given.get("inventory_url") or "",
        asked=lease_info.asked(known),
        adopted=bool(known.get("adopted")),
        say=say,
    )
    try:
        with step.timed("wait", "machines"), server_options.heeding_signals(client):
            done = wait.run()
    except SeatrialError as error:
        raise _with_pending(error, wait) from error
    return {
        "changed": False,
        "lease": done.lease.view(),
        "elapsed": round(done.elapsed, 1),
        "stages": done.stages,
    }


def _with_pending(error: SeatrialError, wait: MachineWait) -> SeatrialError:
    """Add the hosts that are not ready to an error's facts; errors of that query are ignored."""
    facts = getattr(error, "facts", {})
    try:
        wait.client.undisturbed()
        facts["pending_hosts"] = wait.pending_hosts()
    except Exception:
        facts["pending_hosts"] = []
    error.facts = facts  # type: ignore[attr-defined]  # read by the module
    return error

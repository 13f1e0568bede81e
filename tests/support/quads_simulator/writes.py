"""Requests that change something."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from quads_simulator import answers, lab, reads
from quads_simulator.answers import Answer, Request
from quads_simulator.state import Assignment, deadline

if TYPE_CHECKING:
    from quads_simulator.core import Simulator

USERS = ("user", "admin")
ADMINS = ("admin",)


def create(simulator: Simulator, request: Request) -> Answer:
    """POST /assignments/self."""
    user = simulator.access.user_of(request, USERS)
    given = simulator.json_of(request)
    config = simulator.config
    if not config.enabled:
        raise answers.bad("Service not enabled", 403)
    for field in ("description",) if config.dev else ("description", "owner"):
        if not given.get(field):
            raise answers.bad(f"Missing argument: {field}")
    owner = user.name if config.dev else str(given["owner"])
    if len(simulator.active_of(owner)) >= config.user_cloud_limit:
        raise answers.bad("Self scheduling limit reached", 403)
    cloud = _cloud(simulator, given.get("cloud"))
    vlan = None
    if given.get("vlan"):
        vlan = next((one for one in simulator.vlans if str(one["vlan_id"]) == str(given["vlan"])), None)
        if vlan is None:
            raise answers.bad(f"Vlan not found: {given['vlan']}")
    made = Assignment(
        id=max(simulator.assignments, default=0) + 1,
        cloud=cloud,
        owner=owner,
        description=f"{config.prefix} {given['description']}",
        ticket=_ticket(simulator, given),
        wipe=str(given.get("wipe")).lower() in ("true", "y", "yes"),
        created=simulator.clock.now(),
        qinq=int(given.get("qinq") or 0),
        ccuser=[word for word in re.split(r"[,\s]+", given.get("cc_user") or "") if word],
        vlan=vlan,
    )
    simulator.assignments[made.id] = made
    return answers.data(reads.assignment_view(simulator, made), 201)


def _cloud(simulator: Simulator, wanted: str | None) -> str:
    taken = {one.cloud for one in simulator.assignments.values() if one.active}
    if wanted:
        if wanted == lab.SPARE:
            raise answers.bad(f"Cloud {wanted} is not allowed to be used for self scheduling")
        if wanted not in simulator.clouds:
            raise answers.bad(f"Cloud not found: {wanted}")
        if wanted in taken:
            raise answers.bad(f"There is an already active assignment for {wanted}")
        return wanted
    free = [name for name in simulator.clouds if name not in taken and name != lab.SPARE]
    if not free:
        raise answers.bad("No free clouds available")
    return free[0]


def _ticket(simulator: Simulator, given: dict[str, object]) -> str:
    config = simulator.config
    if not config.tickets:
        if not given.get("ticket"):
            raise answers.bad("Missing Jira ticket number while automatic ticket creation is disabled")
        if not config.dev:
            raise answers.crash()  # create_assignment() missing 'ticket'
        return str(given["ticket"])
    if simulator.faults.tickets_down:
        raise answers.bad("Ticket creation failed: 503") if config.dev else answers.crash()
    simulator.ticket += 1
    return f"EXAMPLELAB-{simulator.ticket - 1}" if config.dev else str(simulator.ticket - 1)


def schedule(simulator: Simulator, request: Request) -> Answer:
    """POST /schedules: one host. The check and the insert are two things, and others may come between them."""
    user = simulator.access.user_of(request, USERS)
    given = simulator.json_of(request)
    cloud, host = given.get("cloud", ""), given.get("hostname", "")
    if cloud not in simulator.clouds:
        raise answers.bad(f"Cloud not found: {cloud}")
    one = next((one for one in simulator.assignments.values() if one.active and one.cloud == cloud), None)
    if one is None:
        raise answers.bad(f"No active assignment for cloud: {cloud}")
    if not one.self_schedule and user.role != "admin":
        raise answers.bad(f"You({user.email}) don't have permission to create a schedule on {cloud}", 403)
    if host not in simulator.hosts:
        raise answers.bad(f"Host not found: {host}")
    if not simulator.hosts[host]["can_self_schedule"]:
        raise answers.bad(f"Host {host} is not allowed to self-schedule")
    if len(simulator.current(cloud=cloud)) >= simulator.config.host_limit:
        raise answers.bad(f"Cloud {cloud} has reached the maximum number of hosts")
    start = simulator.clock.now()
    end = _end(simulator, start)
    if start >= end:
        raise answers.bad("Invalid date range for start or end, start must be before end")
    if not simulator.is_free(host, start, end):
        raise answers.bad("Host is not available for the specified date range")
    simulator.between(host, cloud)
    row = simulator.insert(one, host, start, end)
    return answers.data(reads.schedule_view(simulator, row), 201 if simulator.config.dev else 200)


def _end(simulator: Simulator, start: float) -> float:
    config = simulator.config
    if config.deadline_hour is None:
        raise answers.crash()
    end = start + config.lifetime_days * 86400
    last = deadline(start, config.deadline_day, config.deadline_hour, config.utc_offset)
    if config.dev and last <= start:
        return end
    return min(end, last)


def terminate(simulator: Simulator, request: Request, number: str) -> Answer:
    """POST /assignments/terminate/<id>: may be repeated."""
    user = simulator.access.user_of(request, USERS)
    if not number.isdecimal():
        raise answers.crash()
    one = simulator.assignments.get(int(number))
    if one is None:
        raise answers.bad(f"Assignment not found: {number}")
    if user.role != "admin" and user.name != one.owner:
        raise answers.bad(f"You({user.name}) don't have permission to terminate this assignment({one.owner})", 403)
    simulator.end(one)
    return answers.data({"message": "Assignment terminated", "status_code": 200})


def change(simulator: Simulator, request: Request, number: str) -> Answer:
    """PATCH /assignments/<id>, for administrators."""
    simulator.access.user_of(request, ADMINS)
    one = simulator.assignments[int(number)]
    for field, value in simulator.json_of(request).items():
        if field in ("provisioned", "validated", "description", "active"):
            setattr(one, field, value)
    return answers.data(reads.assignment_view(simulator, one))


def administer(simulator: Simulator, request: Request, number: str) -> Answer:
    """PATCH and DELETE /schedules/<id>: for administrators; no test needs them."""
    simulator.access.user_of(request, ADMINS)
    return answers.missing()


def make_token(simulator: Simulator, request: Request, email: str) -> Answer:
    """POST /tokens/<email>, of newer servers only."""
    simulator.access.user_of(request, USERS)
    if not simulator.config.dev:
        return answers.missing()
    token = f"qat_{len(simulator.access.api_tokens):032d}"
    simulator.access.api_tokens[token] = email
    return answers.data({"id": 1, "name": simulator.json_of(request)["name"], "token": token}, 201)

"""GET requests: all are open, whatever credentials come along."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from quads_simulator import answers, cron, filters, lab
from quads_simulator.answers import Answer, Request
from quads_simulator.state import Assignment, Schedule

if TYPE_CHECKING:
    from quads_simulator.core import Simulator


def assignment_view(simulator: Simulator, one: Assignment) -> dict[str, Any]:
    """Return an assignment as the server returns it, without ``vlan`` if it has none."""
    flags = dict.fromkeys(
        ("fail", "five_days", "initial", "one_day", "pre", "pre_initial", "seven_days", "success", "three_days"), False
    )
    cloud = simulator.clouds[one.cloud]
    view = {
        "active": one.active,
        "boot_order": "foreman",
        "ccuser": one.ccuser,
        "cloud": cloud,
        "cloud_id": cloud["id"],
        "created_at": simulator.written(one.created),
        "description": one.description,
        "id": one.id,
        "is_self_schedule": one.self_schedule,
        "notification": {"assignment_id": one.id, "id": one.id, **flags},
        "ostype": "RHEL 7",
        "owner": one.owner,
        "provisioned": one.provisioned,
        "qinq": one.qinq,
        "ticket": one.ticket,
        "validated": one.validated,
        "vlan_id": one.vlan["id"] if one.vlan else None,
        "wipe": one.wipe,
    }
    return {**view, "vlan": one.vlan} if one.vlan else view


def schedule_view(simulator: Simulator, row: Schedule) -> dict[str, Any]:
    """Return a schedule as the server returns it, with its assignment and host."""
    host = simulator.hosts[row.host]
    return {
        "assignment": assignment_view(simulator, row.assignment),
        "assignment_id": row.assignment.id,
        "build_end": None,
        "build_start": None,
        "created_at": simulator.written(row.created),
        "end": simulator.stamp(row.end),
        "host": host,
        "host_id": host["id"],
        "id": row.id,
        "start": simulator.stamp(row.start),
    }


def version(simulator: Simulator, request: Request) -> Answer:
    """GET /version."""
    return answers.data("QUADS version 2.2.6 maximilian" if not simulator.config.dev else "QUADS version 2.3.0 dev")


def _selected(
    simulator: Simulator, things: Iterable[dict[str, Any]], query: list[tuple[str, str]], kinds: dict[str, filters.Kind]
) -> list[Any]:
    try:
        return filters.select(things, query, kinds, simulator.clouds)
    except filters.BadRequest as error:
        raise answers.bad(str(error)) from error
    except filters.Crash as error:
        raise answers.crash() from error


def _window(simulator: Simulator, query: dict[str, str]) -> tuple[float, float]:
    """Return start and end, by default the present time; an end before the start is a minute after it."""
    start = end = simulator.clock.now()
    try:
        start = simulator.local(query["start"]) if query.get("start") else start
        end = simulator.local(query["end"]) if query.get("end") else end
    except ValueError as error:
        text = "Invalid date format for start or end, correct format: 'YYYY-MM-DDTHH:MM'"
        raise answers.bad(text) from error
    return start, start + 60 if start > end else end


def available(simulator: Simulator, request: Request) -> Answer:
    """GET /available: names of hosts without a schedule in the window. ``cloud``: scheduled there at this moment."""
    given = dict(request.query)
    start, end = _window(simulator, given)
    query = [(key, value) for key, value in given.items() if key not in ("start", "end", "cloud")]
    found = [one["name"] for one in _selected(simulator, simulator.hosts.values(), query, filters.HOST)]
    free = [name for name in found if simulator.is_free(name, start, end)]
    if given.get("cloud"):
        free = [name for name in free if any(row.host == name for row in simulator.current(cloud=given["cloud"]))]
    return answers.data(free)


def available_host(simulator: Simulator, request: Request, name: str) -> Answer:
    """GET /available/<host>: True or False, as text."""
    start, end = _window(simulator, dict(request.query))
    return answers.data({name: str(name in simulator.hosts and simulator.is_free(name, start, end))})


def hosts(simulator: Simulator, request: Request) -> Answer:
    """GET /hosts."""
    if dict(request.query).get("group_by") == "model":
        models = [host["model"] for host in simulator.hosts.values()]
        return answers.data({model: models.count(model) for model in models})
    return answers.data(_selected(simulator, simulator.hosts.values(), request.query, filters.HOST))


def host(simulator: Simulator, request: Request, name: str) -> Answer:
    """GET /hosts/<name>."""
    if name not in simulator.hosts:
        raise answers.bad(f"Host not found: {name}")
    return answers.data(simulator.hosts[name])


def _taken(simulator: Simulator) -> set[str]:
    return {one.cloud for one in simulator.assignments.values() if one.active}


def clouds(simulator: Simulator, request: Request) -> Answer:
    """GET /clouds."""
    wanted = dict(request.query).get("name")
    return answers.data([one for name, one in simulator.clouds.items() if wanted in (None, name)])


def free_clouds(simulator: Simulator, request: Request) -> Answer:
    """GET /clouds/free."""
    taken = {*_taken(simulator), lab.SPARE}
    return answers.data([one for name, one in simulator.clouds.items() if name not in taken])


def summary(simulator: Simulator, request: Request) -> Answer:
    """GET /clouds/summary."""
    found = []
    for name in simulator.clouds:
        one = next((one for one in simulator.assignments.values() if one.active and one.cloud == name), None)
        count = len(simulator.current(cloud=name))
        if name == lab.SPARE:
            count = len(simulator.hosts) - len({row.host for row in simulator.current()})
        spare = "Spare Pool" if name == lab.SPARE else "Available"
        found.append(
            {
                "ccuser": one.ccuser if one else "",
                "count": count,
                "description": one.description if one else spare,
                "is_self_schedule": bool(one and one.self_schedule),
                "name": name,
                "owner": one.owner if one else "quads" if name == lab.SPARE else "",
                "provisioned": bool(one and one.provisioned),
                "ticket": one.ticket if one else "",
                "validated": bool(one and one.validated),
            }
        )
    return answers.data(found)


def vlans(simulator: Simulator, request: Request) -> Answer:
    """GET /vlans."""
    return answers.data(simulator.vlans)


def free_vlans(simulator: Simulator, request: Request) -> Answer:
    """GET /vlans/free."""
    used = {one.vlan["id"] for one in simulator.assignments.values() if one.active and one.vlan}
    return answers.data([one for one in simulator.vlans if one["id"] not in used])


def moves(simulator: Simulator, request: Request) -> Answer:
    """GET /moves: hosts that are not yet where their schedule wants them."""
    now = simulator.clock.now()
    found = []
    for name, row in sorted(cron.holders(simulator, now).items()):
        one = simulator.hosts[name]
        if one["cloud"]["name"] != row.assignment.cloud:
            found.append({"current": one["cloud"]["name"], "host": name, "new": row.assignment.cloud})
    return answers.data(found)


def progress(simulator: Simulator, request: Request) -> Answer:
    """GET /moves/progress, of newer servers only."""
    if not simulator.config.dev:
        return answers.missing()
    cloud = dict(request.query).get("cloud")
    now = simulator.clock.now()
    found = []
    for row in simulator.current():
        name, broken = row.host, row.host in simulator.faults.broken
        if row.assignment.cloud != cloud or simulator.hosts[name]["validated"]:
            continue
        moved = simulator.hosts[name]["cloud"]["name"] == cloud
        found.append(
            {
                "id": row.id,
                "host": name,
                "source_cloud": lab.SPARE,
                "target_cloud": cloud,
                "status": "failed" if broken and moved else "provisioning" if moved else "pending",
                "message": "",
                "error_message": "Foreman build did not finish" if broken and moved else None,
                "started_at": simulator.stamp(row.start),
                "completed_at": None if now else None,
            }
        )
    return answers.data(found)


def assignments(simulator: Simulator, request: Request) -> Answer:
    """GET /assignments."""
    views = [assignment_view(simulator, one) for one in simulator.assignments.values()]
    return answers.data(_selected(simulator, views, request.query, filters.ASSIGNMENT))


def active(simulator: Simulator, request: Request, cloud: str) -> Answer:
    """GET /assignments/active/<cloud>: the first active assignment, or an empty object."""
    one = next((one for one in simulator.assignments.values() if one.active and one.cloud == cloud), None)
    return answers.data(assignment_view(simulator, one) if one else {})


def assignment(simulator: Simulator, request: Request, number: str) -> Answer:
    """GET /assignments/<id>."""
    if not number.isdecimal():
        raise answers.bad(f"Invalid assignment id: {number}") if simulator.config.dev else answers.crash()
    if int(number) not in simulator.assignments:
        raise answers.bad(f"Assignment not found: {number}")
    return answers.data(assignment_view(simulator, simulator.assignments[int(number)]))


def schedules(simulator: Simulator, request: Request) -> Answer:
    """GET /schedules, of one assignment."""
    wanted = dict(request.query).get("assignment_id")
    rows = [row for row in simulator.schedules.values() if wanted in (None, str(row.assignment.id))]
    return answers.data([schedule_view(simulator, row) for row in rows])


def current(simulator: Simulator, request: Request) -> Answer:
    """GET /schedules/current, of one cloud or host."""
    query = dict(request.query)
    wanted = {key: query[key] for key in ("cloud", "host") if key in query}
    return answers.data([schedule_view(simulator, row) for row in simulator.current(**wanted)])

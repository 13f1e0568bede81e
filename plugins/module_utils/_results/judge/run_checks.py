# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks of a run: its phases and locks; of each test point its end, its workloads and the load generator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from math import isnan
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats, load_generator_health
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.lock import lock_records
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import NOT_BEGUN, SKIPPED, Point, Run
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.timeline_table import TimelineTable

from ..statistics.readings_from_p_values import OUTSIDE, PASS
from .bisection_plan import attempts_left_out
from .overall_verdict import ERROR, INVALID, NOT_JUDGED, PHASES

FOREIGN = "The files of the Run:ai scale-test tool do not state"
#: Phases without which there is nothing to measure.
BEFORE = ("lease", "cluster", "prepare")
#: Phases after the measurement, which they do not change. A failure there fails the session, see close_session.
AFTER = ("cleanup", "release", "export")
#: The phase that evaluates the measurement: without its metrics, the other figures can still show a regression.
REPORT = "report"
#: Outcomes of workloads, in the order of a report.
OUTCOMES = {
    "failed": "failed",
    "unfinished": "unfinished at the end of the observation",
    "deleted": "deleted before the end",
    "refused": "refused by the API server",
    "lost": "sent, but never answered or seen",
    "unsent": "never sent",
}
#: Outcomes that the load generator or the API server caused.
ERRORS = ("refused", "lost", "unsent")
#: Those of requests to inference servers: to refuse some is what such a server does under load.
ERRORS_OF_REQUESTS = ("lost", "unsent")
#: The figure that shows whether the client of such requests was too slow, and its limit in the settings of a point.
CLIENT_LAG, CLIENT_LAG_LIMIT = "client_lag_p99", "serving_max_client_lag"


# Causes of failures: names of the classes of errors, as phases and points record them. A failure before the first test
# point is an error of the infrastructure whatever its cause; see phases().
#: At any time of a run, neither product nor load is at fault: the cluster or its machines are unreachable, or do not
#: belong to the run any more.
INFRASTRUCTURE = frozenset(
    {
        "AccessError",
        "Broken",
        "FleetError",
        "LockLost",
        "NoAnswer",
        # leases of machines
        "BadCredentials",
        "CloudFull",
        "DeadlinePassed",
        "HostRefused",
        "HostTaken",
        "InventoryStale",
        "LeaseDiffers",
        "LeaseError",
        "LeaseLost",
        "LeaseTooShort",
        "NotEnoughHosts",
        "NotOwner",
        "QuadsRefused",
        "QuotaReached",
        "RoleRefused",
        "ServiceDisabled",
        "TicketNeeded",
        "TicketRefused",
        "TicketSystemDown",
        "Unsure",
    }
)
#: Everything else. During a test the product itself may cause some of these: a timeout, a refused request.
OTHER = frozenset(
    {
        "SeatrialError",
        "ApiError",
        "CleanupTimeout",
        "DataError",
        "EndedMeanwhile",
        "HttpRefused",  # a server beside the cluster
        "InputError",
        "InstallError",
        "Interrupted",
        "OwnershipError",
        "PathError",
        "PortTaken",
        "PodEnded",
        "ProcessError",
        "QueryError",  # metrics
        "SecretFound",
        "SettingsError",
        "TooLarge",
        "UnknownClusterError",
        "WaitTimeout",
    }
)


def is_infrastructure_error(cause: str | None) -> bool:
    """Return whether a failure with this cause is an error of the infrastructure at any time of a run."""
    return cause in INFRASTRUCTURE


def entry_of_check(name: str, result: str, detail: str, point: str | None = None) -> dict[str, Any]:
    return {"check": name, "result": result, "detail": detail, "point": point}


def check_workload_successes(
    point: str, table: TimelineTable | None, allowed: float | None = 0.0, max_errors: float = 0.01
) -> dict[str, Any]:
    """Check how many planned workloads succeeded.

    allowed: number of workloads that need not succeed, None for any. max_errors: largest share of workloads that the
    API server refused, or that were never sent or seen; above it the load was not the requested one.
    """
    if table is None:
        return entry_of_check("objects", INVALID, "There is no timeline, so the outcomes are unknown.", point)
    planned = len(table)
    noun = table.noun
    if not planned:
        nothing = "seen" if "sent_is" in table.header else "planned or sent"
        return entry_of_check("objects", INVALID, f"No {noun} was {nothing}.", point)
    server = "API server" if noun == "workload" else "server"
    counts = Counter(table.outcome)
    good = counts.pop("succeeded", 0)
    if good == planned:
        subject = f"The {noun}" if planned == 1 else f"Both {noun}s" if planned == 2 else f"All {planned:,} {noun}s"
        return entry_of_check("objects", PASS, f"{subject} succeeded.", point)
    bad = "; ".join(
        f"{counts[outcome]:,} {text.replace('API server', server)}"
        f" ({formats.format_list(_workload_names_with_outcome(table, outcome), 3)})"
        for outcome, text in OUTCOMES.items()
        if counts[outcome]
    )
    text = f"{good:,} of {formats.format_count(planned, noun)} succeeded; {bad}"
    kinds = ERRORS if noun == "workload" else ERRORS_OF_REQUESTS
    unmeasured = sum(counts[outcome] for outcome in kinds)
    if unmeasured > max_errors * planned:
        names = f"{', '.join(kinds[:-1])} or {kinds[-1]}"
        limit = f"the load is valid up to {formats.format_number(max_errors * 100)} % {names}"
        return entry_of_check("objects", INVALID, f"{text}; {limit}.", point)
    if not good and not counts["failed"] and "sent_is" not in table.header:
        return entry_of_check("objects", INVALID, f"{text}: nothing finished.", point)
    failed = planned - good
    if noun == "request":  # An interrupted load lost these. The server may have failed the turn before an unsent one.
        failed -= counts["lost"]
    if allowed is not None and failed > allowed:
        limit = f"; the limit is {formats.format_count(int(allowed), noun)}" if allowed else ""
        return entry_of_check("objects", OUTSIDE, f"{text}{limit}.", point)
    return entry_of_check("objects", PASS, f"{text}. The limits allow this.", point)


def _workload_names_with_outcome(table: TimelineTable, outcome: str) -> list[str]:
    return [name for name, result in zip(table.name, table.outcome, strict=True) if result == outcome]


def check_load_generator_lateness(
    point: str, table: TimelineTable | None, limit: float, foreign: bool = False
) -> dict[str, Any]:
    """Check that the 99th percentile of the lateness of all sent workloads is at most ``limit`` seconds.

    Workloads that were never sent have no lateness; they fail the check objects().
    """
    if table is None:
        return entry_of_check("generator", INVALID, "There is no timeline, so the lateness is unknown.", point)
    if foreign:
        return entry_of_check("generator", NOT_JUDGED, f"{FOREIGN} when a workload was due.", point)
    if "sent_is" in table.header:
        return entry_of_check(
            "generator", PASS, "Others submitted the load: no workload was due at a certain time.", point
        )
    intended, sent = table.moments["intended"], table.moments["sent"]
    late = sorted(
        moment - due
        for moment, due, outcome in zip(sent, intended, table.outcome, strict=True)
        if outcome != "unsent" and not (isnan(moment) or isnan(due))
    )
    noun = table.noun
    if not late:
        if not all(isnan(due) for due in intended) or not len(table):
            return entry_of_check(
                "generator", INVALID, "Nothing was sent, so the load was not the requested one.", point
            )
        return entry_of_check(
            "generator", PASS, f"Closed loop: each {noun} was due as soon as an earlier one ended.", point
        )
    usual = load_generator_health.quantile(late, 0.99)
    most = formats.format_duration(late[-1])
    text = f"99 % of {len(late):,} {noun}s were sent at most {formats.format_duration(usual)} late, all at most {most}"
    if len(late) == 1:
        text = f"The only {noun} was sent {formats.format_duration(usual)} late"
    result = INVALID if usual > limit else PASS
    text = f"{text}; the limit is {formats.format_duration(limit)}.{_server_lateness_text(table)}"
    return entry_of_check("generator", result, text, point)


def _server_lateness_text(table: TimelineTable) -> str:
    """Return how late the API server had created the workloads, which no limit holds for; empty if nothing is known."""
    created = table.latest.get("created", ())
    late = [moment - due for moment, due in zip(created, table.moments["intended"], strict=False)]
    late = sorted(max(0.0, moment) for moment in late if not isnan(moment))
    if not late:
        return ""
    usual = formats.format_duration(load_generator_health.quantile(late, 0.99))
    if len(late) == 1:
        return f" The API server had created it at most {usual} after it was due."
    return f" The API server had created 99 % of {len(late):,} of them at most {usual} after they were due."


def check_client_lag(point: Point) -> list[dict[str, Any]]:
    """Check that the client of requests to inference servers read what it received in time; none for other loads.

    A client that was the bottleneck has measured itself.
    """
    kpi = next((kpi for kpi in point.kpis or [] if kpi["name"] == CLIENT_LAG and kpi["value"] is not None), None)
    limit = (point.all_settings or {}).get(CLIENT_LAG_LIMIT)
    if kpi is None or not isinstance(limit, (int, float)):
        return []
    text = (
        f"The client read 99 % of the first tokens at most {formats.format_duration(kpi['value'])} after their receipt;"
        f" the limit is {formats.format_duration(limit)}"
    )
    if kpi["value"] <= limit:
        return [entry_of_check("client", PASS, f"{text}.", point.number)]
    more = "the client was the bottleneck, use a machine with more free processors"
    return [entry_of_check("client", INVALID, f"{text}: {more}.", point.number)]


def check_run_phases(run: Run, foreign: bool = False) -> dict[str, Any]:
    """Check that no phase failed and the run was not interrupted.

    A failure before the first test point is an error, and one with a cause in the infrastructure at any time. If only
    the report failed, the run is not judged as a whole, which a regression outweighs.
    """
    recorded: Mapping[str, Any] = run.record.get("phases") or {}
    known = {name: value for name, value in recorded.items() if name not in AFTER}
    grave = INVALID if has_any_point_started(run) else ERROR
    failed = {name: phase for name, phase in known.items() if phase.get("status") == "failed"}
    cut = [name for name, phase in known.items() if phase.get("status") == "interrupted"]
    # One phase runs during this check; another one in status running was left by a killed session.
    running = sorted(
        (phase.get("started") or "", name) for name, phase in known.items() if phase.get("status") == "running"
    )
    cut += [name for _started, name in running[:-1]]
    if failed:
        name, phase = next(iter(failed.items()))
        more = f" So did {formats.format_list(list(failed)[1:])}." if len(failed) > 1 else ""
        measuring = [failed[each] for each in failed if each != REPORT]
        if set(failed) & set(BEFORE) or any(is_infrastructure_error(each.get("cause")) for each in measuring):
            grave = ERROR
        elif not measuring:
            grave = NOT_JUDGED
        error = _format_as_short_sentence(phase.get("error") or "no reason was recorded")
        return entry_of_check(PHASES, grave, f"Phase {name} failed: {error}{more}")
    if cut:
        return entry_of_check(PHASES, grave, f"The run was interrupted in phase {formats.format_list(cut)}.")
    if run.failures and not recorded:
        return entry_of_check(
            PHASES, grave, f"A failure was recorded: {_format_as_short_sentence(run.failures.splitlines()[0])}"
        )
    if not run.record and foreign:
        return entry_of_check(PHASES, NOT_JUDGED, f"{FOREIGN} whether anything other than a workload failed.")
    if not run.record:
        return entry_of_check(PHASES, INVALID, "There is no run.yml, so the results of the phases are unknown.")
    done = [name for name, phase in known.items() if phase.get("status") == "passed"]
    return entry_of_check(PHASES, PASS, f"No phase failed ({', '.join(done)} passed)." if done else "No phase failed.")


def has_any_point_started(run: Run) -> bool:
    """Return whether a test point was begun."""
    return any(point.record.get("status") not in NOT_BEGUN for point in run.points)


def _format_as_short_sentence(text: str) -> str:
    flat = " ".join(str(text).split())
    flat = flat[:297] + "…" if len(flat) > 298 else flat
    return flat if flat.endswith((".", "!", "?", "…")) else f"{flat}."


def check_cluster_locks_kept(run: Run) -> list[dict[str, Any]]:
    """Check that the run kept its locks. Clusters that the run created have none."""
    if not any(run.top.glob(lock_records.PATTERN)):
        return []
    why = lock_records.describe_lost_lock(run.top)
    if why:
        return [
            entry_of_check(
                "lock",
                ERROR,
                _format_as_short_sentence(
                    f"{formats.capitalize_first_letter(why)}. Another run may have used the cluster"
                ),
            )
        ]
    return [entry_of_check("lock", PASS, "The run held its lock on the cluster all the time.")]


def check_planned_points_finished(run: Run) -> list[dict[str, Any]]:
    """Check that each planned test point ran to its end."""
    if not run.points:
        why = "There is no test point: the test phase did not run or failed before its first one."
        return [entry_of_check("points", ERROR, why)]
    checks = []
    there = {point.of for point in run.points}
    absent = [number for number in run.record.get("points") or [] if number not in there]
    if absent:
        text = f"{formats.format_count(len(absent), 'planned test point')} did not run: {formats.format_list(absent)}."
        checks.append(entry_of_check("points", INVALID, text))
    left_out = attempts_left_out(run.bisection)
    for point in run.points:
        status = point.record.get("status")
        if status == "planned" and run.bisection:
            continue  # no run was needed at this value
        if point.number in left_out and not is_infrastructure_error(point.record.get("cause")):
            continue
        if status == "failed":
            text = str(point.record.get("error") or "no reason was recorded")
            error = _format_as_short_sentence(text.removeprefix(f"point {point.number}: "))
            result = ERROR if is_infrastructure_error(point.record.get("cause")) else INVALID
            checks.append(entry_of_check("points", result, f"Test point {point.number} failed: {error}", point.number))
        elif status in ("planned", "running"):
            text = "was not started" if status == "planned" else "was started, but did not end"
            result = INVALID if has_any_point_started(run) else ERROR
            checks.append(entry_of_check("points", result, f"Test point {point.number} {text}.", point.number))
    if not checks:
        skipped = {point.of for point in run.points if point.status == SKIPPED}
        ran = len(there - skipped)
        subject = "The test point" if ran == 1 else f"All {ran} test points"
        more = f"; {formats.format_count(len(skipped), 'more')} skipped" if skipped else ""
        checks.append(entry_of_check("points", PASS, f"{subject} ran{more}."))
    return checks


def check_bisection_result(run: Run) -> list[dict[str, Any]]:
    """Check that a bisection found its step; none for any other run."""
    if not run.bisection:
        return []
    results = {PASS: PASS, INVALID: INVALID}
    return [
        entry_of_check(
            "bisection", results.get(run.bisection.get("verdict", ""), NOT_JUDGED), str(run.bisection["why"])
        )
    ]


def error_class_of_verdict(run: Run, verdict: str) -> str | None:
    """Return the class of the error behind a verdict of error or invalid, if it was recorded."""
    if verdict not in (ERROR, INVALID):
        return None
    phases_: Mapping[str, Any] = run.record.get("phases") or {}
    # A failed test phase follows from its points.
    test = [name for name in phases_ if name not in (*BEFORE, REPORT, *AFTER)]
    causes = _failure_causes(phases_[name] for name in phases_ if name in BEFORE)
    later = _failure_causes([*(point.record for point in run.points), *(phases_[name] for name in test)])
    causes += sorted(later, key=lambda cause: verdict == ERROR and not is_infrastructure_error(cause))
    if verdict == ERROR and lock_records.describe_lost_lock(run.top):
        causes.insert(0, "LockLost")
    return next(iter(causes), None)


def _failure_causes(records: Iterable[Mapping[str, Any]]) -> list[str]:
    return [str(record["cause"]) for record in records if record.get("status") == "failed" and record.get("cause")]

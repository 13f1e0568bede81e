# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Join what the clients of a load have recorded: their files, their results, their progress.

The files of the clients follow one another, unchanged: each session names its client, and its times are those of the
client's clock. The timeline compares the clocks (_results/timeline/revision_and_server_clocks.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats, load_generator_health
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import expect_documented_form

from ..plan import workload_plan
from ..plan.rendered_workload_templates import workload_name
from ..send import creation_ledger
from ..send.load_spec import LoadSpec

LEDGER, OBSERVATIONS = "ledger.jsonl", "observations.jsonl"
#: Maximum number of names in the result.
_NAMED = 10


def join_files_of_clients(point_dir: Path, folders: Mapping[int, Path], clients: int, lost: Mapping[int, str]) -> None:
    """Write ledger and observations of the point from those in the folders of the clients, by number.

    lost: client -> why its files are missing. Safe to repeat.
    """
    for name in (LEDGER, OBSERVATIONS):
        aside = point_dir / f".{name}.joined"
        with open(aside, "wb") as stream:
            if name == LEDGER:
                for client, reason in sorted(lost.items()):
                    row = {"type": "lost", "client": client, "clients": clients, "reason": reason}
                    stream.write(f"{files.encode(row)}\n".encode())
            for _client, folder in sorted(folders.items()):
                if (folder / name).exists():
                    append_complete_lines(folder / name, stream)
        if aside.stat().st_size or name == LEDGER:
            aside.replace(point_dir / name)
        else:
            aside.unlink()  # the load was not sampled


def append_complete_lines(path: Path, stream: BinaryIO) -> None:
    """Append the whole lines of a file: the last line of a killed client may be torn.

    Raises DataError for a line that is too long.
    """
    with open(path, "rb") as source:
        for line in files.lines_up_to_length(source, path):
            if line.endswith(b"\n"):
                stream.write(line)


def clients_progress_line(
    point: str, planned: int, counts: Iterable[Mapping[str, int]], clients: int, seconds: float
) -> str:
    """Return the progress of all clients as one line."""
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    parts = [
        f"{total['submitted']}/{planned} submitted by {clients} clients",
        f"{total['created']} created",
        f"{total['running']} running",
        f"{total['succeeded']} done",
        f"{total['failed']} failed",
        *(f"{total[name]} {name}" for name in ("deleted", "refused", "retries") if total[name]),
        f"{seconds:.0f} s",
    ]
    return f"workload {point}: {', '.join(parts)}"


def join_client_results(
    request: LoadSpec, planned: int, results: Mapping[int, Mapping[str, Any]], lost: Mapping[int, str], seconds: float
) -> dict[str, Any]:
    """Return the results of the clients as one, as workload_submit returns it, and ``clients`` with each.

    lost: client -> why it has no result; of its workloads, those without a final line in its ledger are unknown. The
    joined ledger must exist: the lateness is that of all workloads. Rates add up, because the clients send at the same
    time. Raises DataError for what no client reports.
    """
    with expect_documented_form("what the clients of the load report", list(results.values()), DataError):
        return _join_client_results(request, planned, results, lost, seconds)


def _join_client_results(
    request: LoadSpec, planned: int, results: Mapping[int, Mapping[str, Any]], lost: Mapping[int, str], seconds: float
) -> dict[str, Any]:
    ordered = [results[client] for client in sorted(results)]
    counts: Counter[str] = Counter()
    for client_result in ordered:
        counts.update(client_result["counts"])
    recorded = _read_joined_ledger(request, lost)
    counts.update(recorded.outcomes.values())
    unknown = [
        workload_name(request.run, request.point, index)
        for index in range(planned)
        if index % request.clients in lost and index not in recorded.outcomes
    ]
    counted = {**counts, "planned": planned, "unknown": len(unknown)}
    late = recorded.late
    total = load_generator_health.percentile_summary(
        [client_result for some in late.values() for client_result in some]
    )
    result: dict[str, Any] = {
        "changed": any(client_result["changed"] for client_result in ordered),
        "counts": counted,
        "timed_out": any(client_result["timed_out"] for client_result in ordered),
        "stopped": next((client_result["stopped"] for client_result in ordered if client_result["stopped"]), "")
        or _lost_clients_text(lost, unknown),
        "waiting_for": [name for client_result in ordered for name in client_result["waiting_for"]][:_NAMED],
        "refusals": _sum_client_refusals(ordered),
        "lateness": total,
        "max_lateness": request.max_lateness,
        "held_back": sum(client_result["held_back"] for client_result in ordered),
        "stolen": max((client_result["stolen"] or 0.0 for client_result in ordered), default=0.0),
        "on_time": load_generator_health.is_load_on_time(total, request.max_lateness),
        "rate": round(sum(client_result["rate"] for client_result in ordered), 3),
        "load_seconds": max((client_result["load_seconds"] for client_result in ordered), default=0.0),
        "repeated": dict(sum((Counter(client_result["repeated"]) for client_result in ordered), Counter())),
        "sessions": max((client_result["sessions"] for client_result in ordered), default=0),
        "events": sum(client_result["events"] for client_result in ordered),
        "gaps": sum(client_result["gaps"] for client_result in ordered),
        "sampling": ordered[0]["sampling"] if ordered else {},
        "notes": sorted({note for client_result in ordered for note in client_result["notes"]}),
        "seconds": round(seconds, 3),
        "clients": [
            _client_result_summary(client, results[client], late.get(client, [])) for client in sorted(results)
        ],
    }
    return {**result, "msg": _result_summary_text(request, result)}


def _client_result_summary(client: int, result: Mapping[str, Any], late: Sequence[float]) -> dict[str, Any]:
    kept = {name: result[name] for name in ("counts", "rate", "held_back", "stolen", "sessions", "sampling", "seconds")}
    return {"client": client, "lateness": load_generator_health.percentile_summary(late), **kept}


def _lost_clients_text(lost: Mapping[int, str], unknown: Sequence[str]) -> str:
    if not lost:
        return ""
    why = "; ".join(f"client {client}: {reason}" for client, reason in sorted(lost.items()))
    named = ", ".join(unknown[:_NAMED]) + (", …" if len(unknown) > _NAMED else "")
    of = formats.format_count(len(unknown), "workload")
    return f"clients were lost ({why}); the fate of {of} is unknown{f': {named}' if named else ''}"


@dataclass
class _JoinedLedgerContent:
    """What the joined ledger has.

    late: client -> the lateness of the first attempt for each of its workloads, on its own clock, seconds. outcomes:
    index of a workload of a lost client -> its final outcome.
    """

    late: dict[int, list[float]] = field(default_factory=dict)
    outcomes: dict[int, str] = field(default_factory=dict)


def _read_joined_ledger(request: LoadSpec, lost: Mapping[int, str]) -> _JoinedLedgerContent:
    recorded = _JoinedLedgerContent()
    kinds = set()
    if lost:
        header = workload_plan.read_plan_header(request.point_dir / "plan.jsonl")
        kinds = {template["kind"] for template in header["templates"]}
    seen: set[int] = set()
    client = 0
    for row in files.read_json_lines(request.point_dir / LEDGER):
        if row["type"] == "session":
            client = row.get("client", 0)
        if row["type"] != "attempt":
            continue
        if row["index"] not in seen:
            seen.add(row["index"])
            recorded.late.setdefault(client, []).append(row["sent"] - row["intended"])
        if client in lost and row["kind"] in kinds and row["outcome"] in creation_ledger.FINAL:
            recorded.outcomes[row["index"]] = row["outcome"]
    return recorded


def _sum_client_refusals(results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    total: dict[tuple[str, int, str], dict[str, Any]] = {}
    for row in (refusal for client_result in results for refusal in client_result["refusals"]):
        known = total.setdefault((row["kind"], row["status"], row["reason"]), {**row, "count": 0})
        known["count"] += row["count"]
    return sorted(total.values(), key=lambda row: -int(row["count"]))[:_NAMED]


def _result_summary_text(request: LoadSpec, result: Mapping[str, Any]) -> str:
    counts = result["counts"]
    created = counts[creation_ledger.CREATED] + counts[creation_ledger.ALREADY_MINE]
    parts = [f"{created} of {counts['planned']} created by {request.clients} clients at {result['rate']:.1f}/s"]
    if request.wait:
        parts.append(f"{counts['succeeded']} succeeded")
    for name in (
        "stopped",
        "failed",
        "deleted",
        "refused",
        "blocked",
        "lost",
        "unsent",
        "unfinished",
        "unknown",
        "retries",
    ):
        if counts.get(name):
            parts.append(f"{counts[name]} {name}")
    late = result["lateness"]
    if late is not None:
        known = [client for client in result["clients"] if client["lateness"]]
        worst = max(known, key=lambda entry: float(entry["lateness"]["p99"]))
        of_worst = f"client {worst['client']}: {worst['lateness']['p99'] * 1000:.1f}"
        parts.append(f"sent P99 {late['p99'] * 1000:.1f} ms late ({of_worst})")
        if not result["on_time"]:
            parts.append(f"which is more than the {result['max_lateness'] * 1000:g} ms allowed")
    text = f"workload {request.point}: {', '.join(parts)}, in {result['seconds']:.0f} s"
    return f"{text}. The load was ended early: {result['stopped']}" if result["stopped"] else text

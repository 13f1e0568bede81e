# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text of a message: from summary.md of a run, with its first failures, links, and what is still held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.plain_text import markdown_line
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import schema_migration
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Run

STARTED, ENDED, ANSWERED = "started", "ended", "answered"
FAILURES = 5
#: Exit status of a verdict in CI -> conclusion of a check run.
CONCLUSIONS = {0: "success", 1: "failure", 2: "neutral", 3: "failure"}
#: Lines of summary.md that name places on the machine of the run.
_LOCAL = ("- directory: ", "- report: report/")


@dataclass(frozen=True)
class RunMessage:
    """A message on a run. conclusion: of a check run, empty while the run is in progress. held: what it still holds."""

    title: str
    text: str
    conclusion: str = ""
    held: list[str] = field(default_factory=list)


def run_started_message(run: Run, links: Mapping[str, str]) -> RunMessage:
    """Return the message of a run that has begun."""
    title = f"running: {_project_and_presets_title(run)}"
    return RunMessage(title, _join_text_blocks([f"# {markdown_line(title)}", _links_section(run, links)]))


def run_ended_message(run: Run, links: Mapping[str, str]) -> RunMessage:
    """Return the message of a run whose session has ended."""
    try:
        verdict = schema_migration.read_document_migrated(run.top / "verdict.json", "verdict")
    except DataError:
        verdict = {}
    status = str(run.record.get("status") or "failed")
    failures = [line for line in run.failures.splitlines() if line.strip()]
    result = str(verdict.get("verdict") or ("error" if failures or status != "passed" else "no verdict"))
    conclusion = CONCLUSIONS.get(int(verdict.get("exit_status", 3)), "failure")
    if status == "interrupted":
        conclusion = "cancelled"
    elif conclusion == "success" and status != "passed":
        conclusion = "failure"
    held = [_format_held_resource(entry) for entry in run.record.get("held") or []]
    blocks = [
        _read_run_summary(run) or f"# {markdown_line(f'{result}: {_project_and_presets_title(run)}')}",
        _failures_section(failures),
        _held_resources_section(held),
    ]
    return RunMessage(
        f"{result}: {_project_and_presets_title(run)}",
        _join_text_blocks([*blocks, _links_section(run, links)]),
        conclusion,
        held,
    )


def _project_and_presets_title(run: Run) -> str:
    return f"{run.record.get('project') or 'run'} {'+'.join(run.record.get('presets') or [])}".strip()


def _read_run_summary(run: Run) -> str:
    """Return summary.md without places on the machine of the run."""
    path = run.top / "summary.md"
    if not path.is_file():
        return ""
    lines = path.read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith(_LOCAL)).strip()


def _failures_section(failures: Sequence[str]) -> str:
    if not failures:
        return ""
    more = (
        [f"- {formats.format_count(len(failures) - FAILURES, 'further failure')}"] if len(failures) > FAILURES else []
    )
    return "\n".join(
        ["## First failures", "", *(f"- {markdown_line(failure)}" for failure in failures[:FAILURES]), *more]
    )


def _format_held_resource(entry: Mapping[str, Any]) -> str:
    until = f"until {entry['until']}" if entry.get("until") else "until it is given back"
    return f"{entry.get('what')}, {until}"


def _held_resources_section(held: Sequence[str]) -> str:
    if not held:
        return ""
    text = "The file GIVE_BACK in the run directory contains the command that gives it back."
    return "\n".join(["## Still held", "", *(f"- {markdown_line(entry)}" for entry in held), "", text])


def _links_section(run: Run, links: Mapping[str, str]) -> str:
    lines = [f"- run: {run.id}"] if not (run.top / "summary.md").is_file() else []
    return "\n".join([*lines, *(f"- {markdown_line(name)}: {url}" for name, url in links.items() if url)])


def _join_text_blocks(blocks: Sequence[str]) -> str:
    return "\n\n".join(block for block in blocks if block) + "\n"

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The past runs that a session has read, in history.json of its run directory.

A repetition looks at the history after each attempt. Reading it again each time could take minutes, and attempts of the
same session would be judged by different histories.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError

from .past_runs import PastPoint, PastRun, PastValue

FILE, SCHEMA = "history.json", "history/1"
#: Reads a source; gets the lists for notes, and for why the source cannot be read.
Read = Callable[[list[str], list[str]], Iterator[PastRun]]


@dataclass
class _Source:
    """What was read of a source. whole: to its end, or to the most that are read of any."""

    runs: list[PastRun] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    whole: bool = False


class KeptRuns:
    """The past runs that a session has read. session: its start, as in run.yml."""

    def __init__(self, top: Path, session: str) -> None:
        self._path, self._session = top / FILE, session
        self._sources = _sources(self._path, session)

    def read(self, source: str, fresh: Read, notes: list[str], unread: list[str]) -> Iterator[PastRun]:
        """Yield the runs of a source: those that are kept, then further ones that ``fresh`` reads.

        A source that could not be read is read again at the next look.
        """
        kept = self._sources.get(source, _Source())
        yield from kept.runs
        if kept.whole:
            notes += kept.notes
            return
        known = {one.run for one in kept.runs}
        found, failed = _Source(), list[str]()
        self._sources[source] = found
        for past in fresh(found.notes, failed):
            found.runs.append(past)
            if past.run not in known:
                yield past
        found.whole = not failed
        notes += found.notes
        unread += failed

    def save(self) -> None:
        """Write the file."""
        sources = {source: asdict(one) for source, one in self._sources.items()}
        files.write_json(self._path, {"schema": SCHEMA, "session": self._session, "sources": sources}, SCHEMA)


def _sources(path: Path, session: str) -> dict[str, _Source]:
    """Return what a session has read; nothing of another session, or from a damaged file."""
    try:
        found = files.read_json(path)
        if found["session"] != session:
            return {}
        return {
            source: _Source([_run(run) for run in one["runs"]], one["notes"], one["whole"])
            for source, one in found["sources"].items()
        }
    except (DataError, OSError, KeyError, TypeError, AttributeError):
        return {}


def _run(one: Mapping[str, Any]) -> PastRun:
    return PastRun(**{**one, "points": tuple(_point(point) for point in one["points"])})


def _point(one: Mapping[str, Any]) -> PastPoint:
    return PastPoint(**{**one, "kpis": {name: PastValue(**kpi) for name, kpi in one["kpis"].items()}})

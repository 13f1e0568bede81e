# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Explain what went wrong in a run: known signatures of failures in its errors, captured objects, events and logs.

A signature is data (schema signatures/1): in which places of a run which texts show a cause, whose fault that is, and
what to do. A text is words that stand in one line in this order, with ``*`` between them; upper and lower case are
alike. So the search takes a time proportional to the text, whatever the text and the signature are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats, yaml_definitions
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.schemas.run_schemas import FAULT, FINDING, PLACES
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.secret_gate import SecretScanner
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.secret_names import mask_assignments
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import escape_control_characters
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Run

from . import run_checks
from .collect_failure_evidence import ERRORS, MOST_LETTERS, RunText, texts_to_search_for_causes

FILE, SCHEMA = "findings.json", "findings/1"
#: Whose fault a failure is: of what the user asked for, of the software under test, of the machines and services.
FAULTS = tuple(FAULT["enum"])
#: Classes of errors that phases and points record.
ERROR_CLASSES = sorted(run_checks.INFRASTRUCTURE | run_checks.OTHER)
REQUIRED = ("name", "title", "fault", "remedy", "patterns")
OPTIONAL = ("in", "not", "causes", "yields_to")
#: Letters that a pattern must have beside ``*``: shorter ones match by chance.
LEAST_LETTERS = 4
#: Limits of what is kept: letters of a line, pieces of evidence of a finding, errors without a cause.
LINE, EVIDENCE, UNEXPLAINED = 300, 3, 5

Document = dict[str, Any]


@dataclass(frozen=True)
class FailureSignature:
    """A known cause. patterns, excluded: words that stand in a line in this order; causes: classes of errors."""

    name: str
    title: str
    fault: str
    remedy: str
    places: tuple[str, ...]
    patterns: tuple[tuple[str, ...], ...]
    excluded: tuple[tuple[str, ...], ...] = ()
    causes: frozenset[str] = frozenset()
    yields_to: frozenset[str] = frozenset()


def load_failure_signatures(paths: Iterable[str]) -> list[FailureSignature]:
    """Read signatures from YAML files; a later one replaces an earlier one of the same name. Raises InputError."""
    entries = yaml_definitions.read_yaml_definitions(
        paths, "signature", "signatures of failures", "signatures/1", REQUIRED, OPTIONAL, _check_signature
    )
    names = {entry["name"] for entry in entries}
    for entry in entries:
        for name in entry.get("yields_to", ()):
            if name not in names:
                raise InputError(
                    f"signature {entry['name']}: yields_to {formats.unknown_value_error('signature', name, names)}"
                )
    return [
        FailureSignature(
            entry["name"],
            entry["title"],
            entry["fault"],
            entry["remedy"],
            tuple(entry.get("in") or PLACES),
            tuple(map(_words_of_pattern, entry["patterns"])),
            tuple(map(_words_of_pattern, entry.get("not", ()))),
            frozenset(entry.get("causes", ())),
            frozenset(entry.get("yields_to", ())),
        )
        for entry in entries
    ]


def _check_signature(entry: Mapping[str, Any], where: str) -> None:
    for key in ("name", "title", "remedy"):
        if not isinstance(entry[key], str) or not entry[key].strip():
            raise InputError(f"{where}: {key} must be a text")
    if entry["fault"] not in FAULTS:
        raise InputError(f"{where}: {formats.unknown_value_error('fault', entry['fault'], FAULTS)}")
    for key in ("patterns", *(key for key in OPTIONAL if key in entry)):
        if not isinstance(entry[key], list) or not all(isinstance(value, str) for value in entry[key]):
            raise InputError(f"{where}: {key} must be a list of texts")
    for place in entry.get("in", ()):
        if place not in PLACES:
            raise InputError(f"{where}: in: {formats.unknown_value_error('place', place, PLACES)}")
    for name in entry.get("causes", ()):
        if name not in ERROR_CLASSES:
            raise InputError(f"{where}: causes: {formats.unknown_value_error('class of errors', name, ERROR_CLASSES)}")
    if not entry["patterns"] and not entry.get("causes"):
        raise InputError(f"{where}: patterns and causes are empty, so it can match nothing")
    for pattern in (*entry["patterns"], *entry.get("not", ())):
        if sum(map(len, _words_of_pattern(pattern))) < LEAST_LETTERS:
            raise InputError(f"{where}: pattern '{pattern}' needs at least {LEAST_LETTERS} letters beside *")
        if "\n" in pattern:
            raise InputError(f"{where}: pattern '{pattern!r}' has several lines, and a pattern is searched in one")


def _words_of_pattern(pattern: str) -> tuple[str, ...]:
    return tuple(word for word in pattern.lower().split("*") if word.strip())


def line_numbers_with_word_sequence(text: str, words: Sequence[str]) -> Iterator[int]:
    """Yield the numbers, from 0, of the lines of a lower-case text that contain the words in this order."""
    place, line, counted = 0, 0, 0
    while (found := text.find(words[0], place)) >= 0:
        end = text.find("\n", found)
        end = len(text) if end < 0 else end
        line += text.count("\n", counted, found)
        counted = found
        at = found + len(words[0])
        for word in words[1:]:
            at = text.find(word, at, end)
            if at < 0:
                break
            at += len(word)
        if at >= 0:
            yield line
        place = end + 1


@dataclass
class _MatchedLines:
    """The lines of a run that match a signature."""

    count: int = 0
    points: set[str] = field(default_factory=set)
    places: set[str] = field(default_factory=set)
    evidence: list[tuple[int, Document]] = field(default_factory=list)

    def add(self, text: RunText, line: int, words: Sequence[str]) -> None:
        self.count += 1
        self.places.add(text.place)
        parts = text.file.split("/")
        if parts[0] == "points":
            self.points.add(parts[1])
        elif parts[0] == "capture" and "-point-" in parts[1]:
            self.points.add(parts[1].partition("-point-")[2])
        rank = PLACES.index(text.place)
        if len(self.evidence) < EVIDENCE or rank < self.evidence[-1][0]:
            self.evidence.append((rank, _evidence(text, line, words)))
            self.evidence.sort(key=lambda entry: entry[0])
            del self.evidence[EVIDENCE:]


def explain_run(
    run: Run,
    verdict: Mapping[str, Any],
    signatures: Sequence[FailureSignature],
    past: Mapping[str, Sequence[str]] | None = None,
    past_runs: int = 0,
) -> Document:
    """Return findings.json of a run: the known causes of what went wrong, the most direct evidence first.

    Nothing is searched in a run in which nothing went wrong: events and logs of a good run mention transient failures.

    Args:
        run: The run.
        verdict: Its verdict, empty if there is none.
        signatures: The known causes.
        past: Signature -> past runs that it was found in, oldest first; None if no history was read, which keeps what
            an earlier findings.json says.
        past_runs: How many past runs were looked at.
    """
    before = _earlier_findings(run.top)
    seen = before.get("past") or {"runs": 0, "signatures": {}}
    if past is not None:
        seen = {"runs": past_runs, "signatures": {name: list(runs) for name, runs in past.items()}}
    matched: dict[str, _MatchedLines] = {}
    unexplained: list[Document] = []
    read: set[str] = set()
    if has_any_failure(run, verdict):
        for text in texts_to_search_for_causes(run):
            read.add(text.file)
            names = _match(text, signatures, matched)
            if text.place == ERRORS and not names and len(unexplained) < UNEXPLAINED:
                unexplained.append(_evidence(text, 0))
    else:
        before = {}
    yielding = {
        signature.name for signature in signatures if signature.name in matched and signature.yields_to & matched.keys()
    }
    findings = [
        _finding(signature, matched[signature.name], seen)
        for signature in signatures
        if signature.name in matched and signature.name not in yielding
    ]
    there = {finding["signature"] for finding in findings} | yielding
    # A copy of a run has not all of its files: what these have shown stays.
    findings += [
        finding
        for finding in before.get("findings") or ()
        if finding["signature"] not in there
        and not any((run.top / entry["file"]).exists() for entry in finding["evidence"])
    ]
    ranks = {signature.name: number for number, signature in enumerate(signatures)}
    findings.sort(
        key=lambda finding: (
            min((PLACES.index(place) for place in finding["places"]), default=len(PLACES)),
            ranks.get(finding["signature"], len(ranks)),
        )
    )
    # With a cause, an error that none matches is mostly its consequence, such as workloads that did not end.
    left = [] if findings else unexplained
    return {"schema": SCHEMA, "run": run.id, "findings": findings, "unexplained": left, "past": seen}


def has_any_failure(run: Run, verdict: Mapping[str, Any]) -> bool:
    """Return whether a phase, a point, a workload or a figure of a run is not as it should be."""
    phases = (run.record.get("phases") or {}).values()
    states = {state.get("status") for state in (*phases, *(point.record for point in run.points))}
    return bool(run.failures) or "failed" in states or verdict.get("verdict") in ("error", "invalid", "regression")


def _match(text: RunText, signatures: Iterable[FailureSignature], matched: dict[str, _MatchedLines]) -> set[str]:
    """Add the lines of a text to the signatures that they match; return the names of these."""
    lower = text.text.lower()
    lines: list[str] | None = None
    names = set()
    for signature in signatures:
        if text.place not in signature.places:
            continue
        numbers = {
            number: words for words in signature.patterns for number in line_numbers_with_word_sequence(lower, words)
        }
        if text.cause and text.cause in signature.causes:
            numbers.setdefault(0, ())
        if numbers and signature.excluded:
            lines = lower.split("\n") if lines is None else lines
            for number in list(numbers):
                if any(_has_words(lines[number], words) for words in signature.excluded):
                    del numbers[number]
        for number in sorted(numbers):
            matched.setdefault(signature.name, _MatchedLines()).add(text, number, numbers[number])
            names.add(signature.name)
    return names


def _has_words(line: str, words: Sequence[str]) -> bool:
    return next(line_numbers_with_word_sequence(line, words), None) is not None


def _evidence(text: RunText, line: int, words: Sequence[str] = ()) -> Document:
    """Return a line as evidence: on one line, without secrets and control characters; of a long one, the part with
    the first of the words.
    """
    own = text.text.split("\n")[line] if "\n" in text.text else text.text
    plain = " ".join(escape_control_characters(_NO_SECRETS.masked(mask_assignments(own[:MOST_LETTERS]))).split())
    place = max(plain.lower().find(words[0]), 0) if words else 0
    if place > LINE // 2:
        plain = f"…{plain[place - LINE // 4 :]}"
    shown = plain if len(plain) <= LINE else f"{plain[: LINE - 1]}…"
    about = {"about": " ".join(escape_control_characters(text.about).split())[:LINE]} if text.about else {}
    return {"file": text.file, "line": text.line + line, "text": shown, **about}


#: Known values are masked where files are written; this one knows the forms of secrets.
_NO_SECRETS = SecretScanner({})


def _finding(signature: FailureSignature, lines: _MatchedLines, seen: Mapping[str, Any]) -> Document:
    runs = seen["signatures"].get(signature.name) or []
    return {
        "signature": signature.name,
        "title": signature.title,
        "fault": signature.fault,
        "remedy": signature.remedy,
        "count": lines.count,
        "places": sorted(lines.places, key=PLACES.index),
        "points": sorted(lines.points),
        "evidence": [evidence for _rank, evidence in lines.evidence],
        "past_runs": len(runs),
        "first_seen": runs[0] if runs else None,
    }


def _earlier_findings(top: Path) -> Document:
    """Return findings.json as far as it is one: its whole findings, and ``past`` if it is whole; empty otherwise."""
    try:
        document = files.read_json(top / FILE)
    except (DataError, OSError, ValueError):
        return {}
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        return {}
    if not isinstance(document.get("findings"), list):
        return {}
    whole = [finding for finding in document["findings"] if _is_finding(finding)]
    past = document.get("past")
    return {"findings": whole, **({"past": past} if _is_past(past) else {})}


def _is_finding(value: Any) -> bool:
    """Return whether a value has the keys of a finding, each with a value of its type."""
    if not isinstance(value, dict) or value.keys() != set(FINDING["required"]):
        return False
    return (
        all(isinstance(value[key], str) for key in ("signature", "title", "remedy"))
        and value["fault"] in FAULTS
        and all(_is_count(value[key]) for key in ("count", "past_runs"))
        and _are_texts(value["places"])
        and set(value["places"]) <= set(PLACES)
        and _are_texts(value["points"])
        and isinstance(value["first_seen"], str | None)
        and isinstance(value["evidence"], list)
        and all(_is_evidence(entry) for entry in value["evidence"])
    )


def _is_evidence(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and all(isinstance(value.get(key), str) for key in ("file", "text"))
        and _is_count(value.get("line"))
        and isinstance(value.get("about", ""), str)
    )


def _is_past(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and _is_count(value.get("runs"))
        and isinstance(value.get("signatures"), dict)
        and all(map(_are_texts, value["signatures"].values()))
    )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


def read_findings_of_run(top: Path) -> list[Document]:
    """Return the findings of a run directory, none if there is no readable findings.json."""
    return list(_earlier_findings(top).get("findings") or ())


def read_matched_signature_names(top: Path) -> tuple[str, ...] | None:
    """Return the names of the signatures that were found in a run; None if none were sought."""
    document = _earlier_findings(top)
    return tuple(finding["signature"] for finding in document["findings"]) if document else None

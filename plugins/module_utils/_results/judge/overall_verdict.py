# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict of a run, from the results of its checks and the readings of its figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats

from ..statistics.readings import IMPROVEMENT, INCONCLUSIVE, OUTSIDE, PASS, REGRESSION, of_suite

INVALID, ERROR = "invalid", "error"
NOT_JUDGED = "not judged"
#: The check that no phase failed.
PHASES = "phases"

#: Verdicts, the one that outweighs the others first: an invalid load proves nothing about the product, and after an
#: error there is no load.
PRECEDENCE = (ERROR, INVALID, REGRESSION, INCONCLUSIVE, IMPROVEMENT, PASS)
#: Result of a check -> the verdict that it asks for.
OF_CHECK = {PASS: PASS, OUTSIDE: REGRESSION, INVALID: INVALID, ERROR: ERROR, NOT_JUDGED: INCONCLUSIVE}


def overall(results: Iterable[str], readings: Iterable[str] = ()) -> str:
    """Return the verdict from the results of all checks and the readings of the judged figures."""
    found = {OF_CHECK[one] for one in results} | {of_suite(list(readings))}
    return next((one for one in PRECEDENCE if one in found), PASS)


def reasons(verdict: Mapping[str, Any]) -> list[str]:
    """Return the sentences that explain a verdict (schema verdict/2), checks first, then figures; none for a pass.

    A failed phase that does not decide the verdict comes last.
    """
    result = verdict.get("verdict", PASS)
    if result == PASS:
        return []
    checks = [
        f"{one['check']}{_at(one)}: {one['detail']}"
        for one in verdict.get("checks") or []
        if OF_CHECK.get(one["result"], PASS) == result
    ]
    kpis = [
        f"{one['name']}{_at(one)}: {one['why']}"
        for one in verdict.get("kpis") or []
        if of_suite([one["reading"], (one.get("limit") or {}).get("result", PASS)]) == result
    ]
    phases = [
        f"{one['check']}: {one['detail']}"
        for one in verdict.get("checks") or []
        if one["check"] == PHASES and one["result"] != PASS and OF_CHECK[one["result"]] != result
    ]
    return checks + kpis + phases


def explanation(verdict: Mapping[str, Any]) -> list[str]:
    """Return the reasons of a verdict; for a pass, how its figures compare with the history, if there is one."""
    if verdict.get("verdict", PASS) != PASS or not verdict.get("baseline"):
        return reasons(verdict)
    kpis = verdict.get("kpis") or []
    return [f"{one['name']}{_at(one)}: {one['why']}" for one in kpis if one["reading"] == PASS]


def compared(verdict: Mapping[str, Any]) -> str:
    """Return what the run was compared with: "against 18 runs of 4.19.3", "not enough history: 1 past run"."""
    if verdict.get("baseline"):
        return f"against {verdict['baseline']}"
    history = verdict.get("history")
    if not history:
        return "no history to compare with"
    used = history["used"]
    return f"not enough history: {formats.count(used, 'comparable past run') if used else 'no comparable past run'}"


def history_line(history: Mapping[str, Any]) -> str:
    """Return how many runs of the history are used, and why others are not."""
    out = [f"{len(one['runs'])} {one['why']}" for one in history["left_out"]]
    left = f"; left out: {', '.join(out)}" if out else ""
    return f"{history['used']} of {formats.count(history['found'], 'run')} comparable{left}"


def history_sentence(verdict: Mapping[str, Any]) -> str:
    """Return what the run was compared with, and which past runs were left out; empty without a history."""
    if not verdict.get("history"):
        return ""
    return f"{formats.capitalized(compared(verdict))}. {history_line(verdict['history'])}."


def _at(one: Mapping[str, Any]) -> str:
    return f" (point {one['point']})" if one.get("point") else ""

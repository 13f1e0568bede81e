# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict of a run, from the results of its checks and the readings of its figures; its code and exit status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._statistics.readings import (
    IMPROVEMENT,
    INCONCLUSIVE,
    OUTSIDE,
    PASS,
    REGRESSION,
    of_suite,
)

INVALID, ERROR = "invalid", "error"
NOT_JUDGED = "not judged"

#: Verdicts, the one that outweighs the others first: an invalid load proves nothing about the product, and after an
#: error there is no load.
PRECEDENCE = (ERROR, INVALID, REGRESSION, INCONCLUSIVE, IMPROVEMENT, PASS)
#: Number of a verdict in files and metrics.
CODES = {PASS: 0, IMPROVEMENT: 1, INCONCLUSIVE: 2, INVALID: 3, REGRESSION: 4, ERROR: 5}
#: Exit status of a CI job.
EXIT_STATUS = {PASS: 0, IMPROVEMENT: 0, REGRESSION: 1, INCONCLUSIVE: 2, INVALID: 2, ERROR: 3}

#: Result of a check -> the verdict that it asks for.
OF_CHECK = {PASS: PASS, OUTSIDE: REGRESSION, INVALID: INVALID, ERROR: ERROR, NOT_JUDGED: INCONCLUSIVE}


def overall(results: Iterable[str], readings: Iterable[str] = ()) -> str:
    """Return the verdict from the results of all checks and the readings of the judged figures."""
    found = {OF_CHECK[one] for one in results} | {of_suite(list(readings))}
    return next((one for one in PRECEDENCE if one in found), PASS)


def decisive(checks: Iterable[Mapping[str, Any]], verdict: str) -> list[Mapping[str, Any]]:
    """Return the checks that ask for this verdict, none if it is pass."""
    return [one for one in checks if verdict != PASS and OF_CHECK[one["result"]] == verdict]

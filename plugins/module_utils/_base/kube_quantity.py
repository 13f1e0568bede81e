# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Convert Kubernetes quantities to numbers."""

from __future__ import annotations

import re

# The grammar of the Kubernetes API (apimachinery, resource.Quantity). 1E is 10**18, 1E3 is 1000.
_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+))(?:(?P<exponent>[eE][+-]?\d+)|(?P<suffix>[numkMGTPE]|[KMGTPE]i)?)"
)
_FACTORS = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0}
_FACTORS |= {suffix: 1000.0**power for power, suffix in enumerate("kMGTPE", start=1)}
_FACTORS |= {f"{letter}i": 1024.0**power for power, letter in enumerate("KMGTPE", start=1)}


def is_valid(text: object) -> bool:
    """Return whether an API server would take ``text`` as the request of a container, which is not negative."""
    found = _QUANTITY.fullmatch(str(text))
    return found is not None and not found["number"].startswith("-")


def amount(text: object) -> float:
    """Return a quantity as a number (``500m`` is 0.5, ``1Gi`` 2**30, ``1e3`` 1000), NaN for other text.

    The server normalizes 1024Gi to 1Ti, so quantities must be compared as numbers.
    """
    found = _QUANTITY.fullmatch(str(text))
    if not found:
        return float("nan")
    return float(found["number"] + (found["exponent"] or "")) * _FACTORS[found["suffix"] or ""]

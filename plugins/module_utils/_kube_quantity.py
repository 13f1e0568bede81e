# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Convert Kubernetes quantities to numbers."""

from __future__ import annotations

import re

_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)([kMGTPE]i?|Ki|m)?")
# The grammar of the Kubernetes API (apimachinery, resource.Quantity) without a sign: no request is negative.
_VALID = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+|[numkMGTPE]|[KMGTPE]i)?")


def is_valid(text: object) -> bool:
    """Return whether an API server would take ``text`` as the request of a container."""
    return _VALID.fullmatch(str(text)) is not None


def amount(text: object) -> float:
    """Return a quantity as a number (``500m`` is 0.5, ``1Gi`` 2**30), NaN for other text.

    The server normalizes 1024Gi to 1Ti, so quantities must be compared as numbers.
    """
    match = _QUANTITY.fullmatch(str(text))
    if not match:
        return float("nan")
    number, unit = float(match.group(1)), match.group(2) or ""
    if unit == "m":
        return number / 1000
    power = "kMGTPE".find(unit[:1].replace("K", "k")) + 1 if unit else 0
    return number * (1024.0 if unit.endswith("i") else 1000.0) ** power

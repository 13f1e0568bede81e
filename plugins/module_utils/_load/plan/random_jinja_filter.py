# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Jinja filter ``drawn`` of workload templates: a random number per workload from a distribution.

``{{ index | drawn({"type": "exponential", "mean": 60}, seed) }}`` is the same for an index and a seed on every machine
and in every template, so that two loads with the same seed differ only in their settings.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from math import exp, log1p
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, nearest

#: Required keys of each type. ``low`` and ``high`` truncate any distribution.
NEEDS: dict[str, tuple[str, ...]] = {
    "fixed": ("mean",),
    "uniform": ("low", "high"),
    "exponential": ("mean",),
    "lognormal": ("mean", "sigma"),
}
_KEYS = ("type", "mean", "sigma", "low", "high")
#: Digits after the point. Rounding hides the last bit of logarithms, which differs between C libraries.
_DIGITS = 6


def uniform(index: int, seed: int, stream: str = "") -> float:
    """Return a number in (0, 1) that depends on index, seed and stream: the first 52 bits of a BLAKE2b digest."""
    digest = hashlib.blake2b(f"{seed}:{stream}:{index}".encode(), digest_size=8).digest()
    return ((int.from_bytes(digest, "big") >> 12) + 0.5) / 2.0**52


def drawn(index: int, spec: Mapping[str, Any], seed: int = 1, stream: str = "") -> float:
    """Return the number of workload ``index``; ``stream`` distinguishes several numbers of a workload.

    spec: type (fixed, uniform, exponential or lognormal), mean, sigma (lognormal: of the logarithm), low, high.
    Raises InputError for an invalid distribution.
    """
    kind, values = _checked(spec)
    low, high = values.get("low", 0.0), values.get("high")
    u = uniform(int(index), int(seed), stream)
    if kind == "fixed":
        value = values["mean"]
    elif kind == "uniform":
        value = low + u * (values["high"] - low)
    elif kind == "exponential":
        value = -log1p(-u) * values["mean"]
    else:
        sigma = values["sigma"]
        # The mean of a lognormal is exp(mu + sigma²/2), so mu follows from the requested mean.
        from statistics import NormalDist

        value = values["mean"] * exp(sigma * NormalDist().inv_cdf(u) - sigma**2 / 2)
    value = max(value, low)
    return round(value if high is None else min(value, high), _DIGITS)


def _checked(spec: Mapping[str, Any]) -> tuple[str, dict[str, float]]:
    if not isinstance(spec, Mapping):
        raise InputError(f"'{spec}' is not a distribution: it must be a dictionary with 'type'")
    for key in spec:
        if key not in _KEYS:
            raise InputError(f"a distribution has no '{key}'{nearest(str(key), _KEYS)}")
    kind = str(spec.get("type", "fixed"))
    if kind not in NEEDS:
        raise InputError(f"distribution '{kind}' is not known{nearest(kind, NEEDS)}; there are {', '.join(NEEDS)}")
    values: dict[str, float] = {}
    for key in _KEYS[1:]:
        if spec.get(key) is None:
            if key in NEEDS[kind]:
                raise InputError(f"distribution '{kind}' needs '{key}'")
            continue
        try:
            values[key] = float(spec[key])
        except (TypeError, ValueError) as error:
            raise InputError(f"distribution '{kind}': {key} is '{spec[key]}', which is not a number") from error
        if values[key] < 0:
            raise InputError(f"distribution '{kind}': {key} is {values[key]:g}, it must be 0 or more")
    if values.get("high", float("inf")) < values.get("low", 0.0):
        raise InputError(f"distribution '{kind}': high {values['high']:g} is below low {values.get('low', 0.0):g}")
    return kind, values

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random numbers that depend only on the seed, on every machine.

- For arrivals: the uniform numbers of numpy's Generator over the bit generator PCG64, computed here, because a pod or
  another host that sends a load needs no numpy, and our own other distributions, because those of numpy may change.
- For templates: the Jinja filter ``drawn``. ``{{ index | drawn({"type": "exponential", "mean": 60}, seed) }}`` is the
  same for an index and a seed in every template, so that two loads with the same seed differ only in their settings.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from math import exp, log, log1p, sqrt
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name

GENERATOR = "PCG64"
_WORD, _STATE = (1 << 32) - 1, (1 << 128) - 1
#: Multiplier of the 128-bit linear congruential generator of PCG64.
_MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645


class SeededRandom:
    """Uniform numbers in (0, 1), one per call: PCG XSL RR 128/64 (O'Neill, 2014), seeded as numpy seeds it."""

    def __init__(self, seed: int) -> None:
        if seed < 0:
            raise InputError(f"seed {seed} is below 0")
        high, low, other, stream = _seed_words(seed)
        self._increment = ((other << 64 | stream) << 1 | 1) & _STATE
        self._state = self._next(self._increment + (high << 64 | low))

    def _next(self, state: int) -> int:
        return (state * _MULTIPLIER + self._increment) & _STATE

    def __call__(self) -> float:
        """Return the next number."""
        state = self._state = self._next(self._state)
        folded, turn = (state >> 64) ^ (state & 0xFFFFFFFFFFFFFFFF), state >> 122
        # The upper 53 bits of the folded state, rotated to the right.
        return (((folded >> turn | folded << 64 - turn) & 0xFFFFFFFFFFFFFFFF) >> 11) * 2.0**-53 or 2.0**-54


class _SeedWordHash:
    """A hash of 32-bit words whose constant changes with each word."""

    def __init__(self, constant: int, multiplier: int) -> None:
        self._constant, self._multiplier = constant, multiplier

    def __call__(self, word: int) -> int:
        word ^= self._constant
        self._constant = self._constant * self._multiplier & _WORD
        word = word * self._constant & _WORD
        return word ^ word >> 16


def _seed_words(seed: int) -> list[int]:
    """Return four words of 64 bits, as numpy's SeedSequence derives them from a seed of any size."""
    words = [seed >> shift & _WORD for shift in range(0, max(seed.bit_length(), 1), 32)]
    mixed = _SeedWordHash(0x43B0D7E5, 0x931E8875)

    def mix(into: int, word: int) -> None:
        value = (pool[into] * 0xCA01F9DD - mixed(word) * 0x4973F715) & _WORD
        pool[into] = value ^ value >> 16

    pool = [mixed(word) for word in (*words, 0, 0, 0)[:4]]
    for source in range(4):
        for into in range(4):
            if into != source:
                mix(into, pool[source])
    for word in words[4:]:
        for into in range(4):
            mix(into, word)
    drawn = _SeedWordHash(0x8B51F9DD, 0x58F38DED)
    halves = [drawn(word) for word in pool * 2]
    return [low | high << 32 for low, high in zip(halves[::2], halves[1::2], strict=True)]


def exponential_variate(draw: Callable[[], float]) -> float:
    """Return an exponential variate of mean 1, by inversion."""
    return -log1p(-draw())


def gamma_variate(draw: Callable[[], float], shape: float) -> float:
    """Return a gamma variate of mean ``shape`` (Marsaglia and Tsang, 2000; below 1 by their power of a uniform)."""
    if shape < 1:
        return gamma_variate(draw, shape + 1) * draw() ** (1 / shape)
    d = shape - 1 / 3
    c = 1 / sqrt(9 * d)
    while True:
        x = _standard_normal_distribution().inv_cdf(draw())
        v = (1 + c * x) ** 3
        if v > 0 and log(draw()) < 0.5 * x * x + d - d * v + d * log(v):
            return d * v


def normal_in_unit_interval(draw: Callable[[], float], middle: float, spread: float) -> float:
    """Return a normal variate truncated to [0, 1], by inversion."""
    normal = _standard_normal_distribution()
    low, high = normal.cdf(-middle / spread), normal.cdf((1 - middle) / spread)
    within = min(max(low + draw() * (high - low), 2.0**-54), 1 - 2.0**-53)
    return min(max(middle + spread * normal.inv_cdf(within), 0.0), 1.0)


def _standard_normal_distribution() -> Any:
    from statistics import NormalDist

    return NormalDist()


#: Required keys of each type. ``low`` and ``high`` truncate any distribution.
REQUIRED_KEYS: dict[str, tuple[str, ...]] = {
    "fixed": ("mean",),
    "uniform": ("low", "high"),
    "exponential": ("mean",),
    "lognormal": ("mean", "sigma"),
}
_KEYS = ("type", "mean", "sigma", "low", "high")
#: Most of each number of a distribution.
LARGEST = 1_000_000_000
#: Digits after the point. Rounding hides the last bit of logarithms, which differs between C libraries.
_DIGITS = 6


def uniform_number_by_index(index: int, seed: int, stream: str = "") -> float:
    """Return a number in (0, 1) that depends on index, seed and stream: the first 52 bits of a BLAKE2b digest."""
    digest = hashlib.blake2b(f"{seed}:{stream}:{index}".encode(), digest_size=8).digest()
    return ((int.from_bytes(digest, "big") >> 12) + 0.5) / 2.0**52


def draw_number_for_workload(index: int, spec: Mapping[str, Any], seed: int = 1, stream: str = "") -> float:
    """Return the number of workload ``index``; ``stream`` distinguishes several numbers of a workload.

    spec: type (fixed, uniform, exponential or lognormal), mean, sigma (lognormal: of the logarithm), low, high.
    Raises InputError for an invalid distribution.
    """
    kind, values = _check_distribution_spec(spec)
    low, high = values.get("low", 0.0), values.get("high")
    u = uniform_number_by_index(int(index), int(seed), stream)
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


def _check_distribution_spec(spec: Mapping[str, Any]) -> tuple[str, dict[str, float]]:
    if not isinstance(spec, Mapping):
        raise InputError(f"'{spec}' is not a distribution: it must be a dictionary with 'type'")
    for key in spec:
        if key not in _KEYS:
            raise InputError(f"a distribution has no '{key}'{suggest_similar_name(str(key), _KEYS)}")
    kind = str(spec.get("type", "fixed"))
    if kind not in REQUIRED_KEYS:
        raise InputError(
            f"unknown distribution '{kind}'{suggest_similar_name(kind, REQUIRED_KEYS)}; there are"
            f" {', '.join(REQUIRED_KEYS)}"
        )
    values: dict[str, float] = {}
    for key in _KEYS[1:]:
        if spec.get(key) is None:
            if key in REQUIRED_KEYS[kind]:
                raise InputError(f"distribution '{kind}' needs '{key}'")
            continue
        try:
            values[key] = float(spec[key])
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"distribution '{kind}': {key} is '{str(spec[key])[:60]}', which is not a number"
            ) from error
        if not 0 <= values[key] <= LARGEST:
            wanted = "0 or more" if values[key] < 0 else f"0 to {LARGEST:,}"
            raise InputError(f"distribution '{kind}': {key} is {values[key]:g}, it must be {wanted}")
    if values.get("high", float("inf")) < values.get("low", 0.0):
        raise InputError(f"distribution '{kind}': high {values['high']:g} is below low {values.get('low', 0.0):g}")
    return kind, values

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much each setting of a matrix changed a figure.

Each value of a setting is compared with its first value, at pairs of points that are equal in all other settings. Of
several pairs, the effect is the mean of their differences, and its interval is Student's t over the pairs: it includes
that the effect depends on the other settings. Of one pair, it is that of compare_groups() over the observations.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan, sqrt
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats

from . import comparison_scale, group_comparison_intervals

LEVEL = 0.95


@dataclass(frozen=True)
class ObservedPoint:
    """A point of a matrix: its values by setting, and the observations of a figure there."""

    values: Mapping[str, Hashable]
    observations: Sequence[float]


@dataclass(frozen=True)
class SettingEffect:
    """The change of a figure from value ``base`` of a setting to ``value``.

    change, low, high: as a share (0.1: ten percent more) if ``relative``, else in the unit of the figure; low and high
    are NaN if nothing shows how much observations differ. pairs: of points. observations: at all of them.
    """

    setting: str
    base: Any
    value: Any
    change: float
    low: float
    high: float
    relative: bool
    pairs: int
    observations: int


def estimate_setting_effects(
    points: Sequence[ObservedPoint], level: float = LEVEL, *, absolute: bool = False
) -> list[SettingEffect]:
    """Return the effects of all settings that vary, in the order of the points.

    level: of each interval. absolute: whether changes are in the unit of the figure even if a share could be given.
    """
    known = [point for point in points if len(comparison_scale.finite_values(point.observations))]
    names = dict.fromkeys(name for point in known for name in point.values)
    relative = not absolute and comparison_scale.is_compared_on_log_scale(
        *(comparison_scale.finite_values(point.observations) for point in known)
    )
    results = []
    for name in names:
        values = list(dict.fromkeys(point.values[name] for point in known if name in point.values))
        for value in values[1:]:
            pairs = _pairs_differing_in_setting(known, name, values[0], value)
            if pairs:
                results.append(_estimate_effect(name, values[0], value, pairs, relative, level))
    return results


#: The end of the names of settings whose values repeat a point: seeds of random numbers.
SEED = "_seed"


def estimate_setting_effects_over_seeds(
    points: Sequence[ObservedPoint],
) -> list[tuple[SettingEffect, dict[str, Hashable]]]:
    """Return what the last setting of a matrix changed at each combination of the others, if a seed varies too.

    Each value of the seed is a repetition: pairs of points have the same seed, and the interval is over the seeds. The
    values of the last setting were measured one after another, so a drift of the cluster meets all of them. Changes are
    in the unit of the figure. There is none without at least two pairs of points.
    """
    varied = [
        name
        for name in dict.fromkeys(name for point in points for name in point.values)
        if len({point.values.get(name) for point in points}) > 1
    ]
    kept = [name for name in varied if not name.endswith(SEED)]
    if not kept or len(kept) == len(varied):
        return []
    groups: dict[tuple[Hashable, ...], list[ObservedPoint]] = {}
    for point in points:
        place = tuple(point.values.get(name) for name in kept[:-1])
        values = {name: value for name, value in point.values.items() if name not in kept[:-1]}
        groups.setdefault(place, []).append(ObservedPoint(values, point.observations))
    return [
        (effect, dict(zip(kept[:-1], place, strict=True)))
        for place, group in groups.items()
        for effect in estimate_setting_effects(group, absolute=True)
        if effect.setting == kept[-1] and effect.pairs > 1
    ]


#: Maximum length of a value as text: different values stay different.
LONGEST = 10_000


def setting_values_as_text(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the values that a matrix set for a point as text, without whole dictionaries."""
    return {
        name: formats.format_setting_value(value, LONGEST)
        for name, value in settings.items()
        if not isinstance(value, Mapping)
    }


Pair = tuple[ObservedPoint, ObservedPoint]


def _pairs_differing_in_setting(
    points: Sequence[ObservedPoint], name: str, base: Hashable, value: Hashable
) -> list[Pair]:
    def rest(point: ObservedPoint) -> frozenset[tuple[str, Hashable]]:
        return frozenset((key, setting) for key, setting in point.values.items() if key != name)

    others = {rest(point): point for point in points if point.values.get(name) == value}
    first = [point for point in points if point.values.get(name) == base]
    return [(point, others[rest(point)]) for point in first if rest(point) in others]


def _estimate_effect(
    name: str, base: Any, value: Any, pairs: Sequence[Pair], relative: bool, level: float
) -> SettingEffect:
    scaled = [
        tuple(
            comparison_scale.convert_to_scale(comparison_scale.finite_values(point.observations), relative)
            for point in pair
        )
        for pair in pairs
    ]
    differences = [float(new.mean() - old.mean()) for old, new in scaled]
    mean = sum(differences) / len(differences)
    low = high = nan
    if len(pairs) > 1:
        variance = sum((difference - mean) ** 2 for difference in differences) / (len(pairs) - 1)
        low, high = group_comparison_intervals.confidence_interval(
            mean, sqrt(variance / len(pairs)), len(pairs) - 1, level
        )
    else:
        # The scale of all points is that of this pair, unless only other points have zero or negative observations.
        old, new = pairs[0]
        alone = group_comparison_intervals.compare_groups(old.observations, new.observations, level=level)
        if alone.logarithmic == relative and isfinite(alone.low) and isfinite(alone.high):
            low, high = alone.low, alone.high
    if relative:
        mean, low, high = (comparison_scale.difference_as_share(value, True, 0.0) for value in (mean, low, high))
    number = sum(len(observations) for pair in scaled for observations in pair)
    return SettingEffect(name, base, value, mean, low, high, relative, len(pairs), number)

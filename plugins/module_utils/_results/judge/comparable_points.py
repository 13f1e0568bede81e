# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the past points that are comparable with the points of a run: those with the same labels.

A pattern is matched with the dotted name of a label; ``settings.`` may be omitted, and ``*`` matches any text. The name
of a part matches all below it: ``ran.nodes`` also stands for ``ran.nodes.count``.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from types import MappingProxyType

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats

from ..kpi.point_labels import ALL_SETTINGS, SETTINGS, FlatLabels, ReadSettings
from .past_run_data import PastPoint, PastRun

SIMULATED = "ran.simulated"
#: A run on real and simulated nodes has measured figures under names that are simulated in others.
NODES = "ran.workload_nodes"
#: Labels that do not influence what is measured. Presets and matrix: what they set is in the settings.
NEVER_COMPARED = ("uuid", "attempt", "presets", "matrix", "ran.collection", "ran.revision")
#: Patterns of settings that do not, by what they say: where results go, how a cluster is obtained, names and paths.
NEVER_COMPARED_SETTINGS = (
    *("run_*", "export_*", "results_*", "metrics_*", "quads_*", "doctor_*", "cleanup_*", "new_project_*"),
    *("cluster_name", "cluster_owner", "cluster_purpose", "cluster_tags", "cluster_expected_host", "cluster_machines"),
    *("cluster_keep*", "cluster_lock*", "cluster_exclusive", "cluster_lifetime", "cluster_release_named"),
    *("cluster_reap*", "cluster_wait_nodes", "cluster_*_timeout", "cluster_hive_*", "cluster_ssh_*"),
    *("cluster_metadata_store", "cluster_installer_dir", "cluster_agent_share*"),
    *("rehearsal_name", "rehearsal_*_dir", "rehearsal_owner", "rehearsal_expires", "rehearsal_force"),
    *("rehearsal_timeout", "rehearsal_download_url", "rehearsal_fetch_published", "rehearsal_binaries"),
    *("rehearsal_versions", "rehearsal_sources"),  # ran.operators has what was built of them
    *("workload_point", "workload_elsewhere_*", "*_kubeconfig", "*_context", "*_namespace", "*_file"),
)
#: What runs did before a setting existed, where that is not its default of today, for points that have the setting:
#: label -> (another label, its value -> what they did, what they did with all other values).
FORMER = {"settings.fine_tuning_api": ("settings.fine_tuning_flavour", {"ray": "rayjob"}, "pytorchjob")}
#: Verdicts of runs whose figures are no measurements.
UNUSABLE = ("invalid", "error")
#: Labels that a reason names.
_NAMED = 3


@dataclass(frozen=True)
class LabelRules:
    """Patterns of labels. compare_on: may differ, and then mark the old group. ignore: do not matter."""

    compare_on: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()


@dataclass(frozen=True)
class LeftOut:
    """A run that is not comparable, and why."""

    run: str
    why: str


@dataclass(frozen=True)
class ComparablePoint:
    """A past point that is comparable with a point of the run. new: its configuration is that of the run."""

    run: PastRun
    point: PastPoint
    new: bool


def find_comparable_points(
    own: Mapping[str, FlatLabels],
    past: PastRun,
    rules: LabelRules,
    defaults: Mapping[str, Collection[str]] = MappingProxyType({}),
    read: ReadSettings = ALL_SETTINGS,
) -> dict[str, list[ComparablePoint]] | LeftOut:
    """Return the comparable points of a past run by the number of the own point, or why there is none.

    own: number -> labels of the points of the run that is judged. defaults: number -> settings that have their default.
    read: settings that the run reads. Older versions put those of all projects into the labels.
    """
    if not past.verdict:
        return LeftOut(past.run, "without a verdict")
    if past.verdict in UNUSABLE:
        return LeftOut(past.run, past.verdict)
    if not past.points:
        return LeftOut(past.run, "without figures")
    kept = {number: labels_required_equal(labels, rules) for number, labels in own.items()}
    marks = {number: labels_distinguishing_old_group(labels, rules) for number, labels in own.items()}
    points: dict[str, list[ComparablePoint]] = {}
    nearest: list[str] | None = None
    names = {name for name in FORMER if any(name in labels for labels in own.values())}
    for point in (
        replace(point, labels=_with_former_values(read.keep_read(point.labels), names)) for point in past.points
    ):
        theirs, mark = labels_required_equal(point.labels, rules), labels_distinguishing_old_group(point.labels, rules)
        for number, labels in kept.items():
            ours = (
                labels if theirs == labels else _labels_without_newer_settings(point, labels, defaults.get(number, ()))
            )
            if theirs == ours:
                new = bool(rules.compare_on) and mark == marks[number]
                points.setdefault(number, []).append(ComparablePoint(past, point, new))
            elif not points and (nearest is None or len(nearest) > 1):
                other = differing_label_names(ours, theirs)
                nearest = other if nearest is None or len(other) < len(nearest) else nearest
    return points or LeftOut(past.run, _reason_not_comparable(nearest or [], past))


def _labels_without_newer_settings(past: PastPoint, labels: FlatLabels, defaults: Collection[str]) -> FlatLabels:
    """Return labels without the settings that are newer than a past point, if nothing sets them: it ran with them."""
    known = {_setting_of_label(name) for name in past.labels if name.startswith(SETTINGS)}
    newer = set(defaults) - known if known else set()
    return {
        name: value
        for name, value in labels.items()
        if not name.startswith(SETTINGS) or _setting_of_label(name) not in newer
    }


def _with_former_values(labels: FlatLabels, names: Collection[str]) -> FlatLabels:
    """Return the labels of a past point with what it did before settings existed that are among ``names``."""
    former = {
        name: values.get(str(labels.get(by)), otherwise)
        for name, (by, values, otherwise) in FORMER.items()
        if name in names and name not in labels
    }
    return {**labels, **former} if former else labels


def _setting_of_label(name: str) -> str:
    return label_display_name(name).partition(".")[0]


def _reason_not_comparable(other: Sequence[str], past: PastRun) -> str:
    if not any(name.startswith("ran.") for point in past.points for name in point.labels):
        return "written before labels were recorded"
    if SIMULATED in other:
        simulated = any(point.labels.get(SIMULATED) for point in past.points)
        return "simulated" if simulated else "not simulated"
    names = formats.format_list([label_display_name(name) for name in other], _NAMED)
    return f"other {names}" if other else "no comparable point"


def differing_label_names(ours: FlatLabels, theirs: FlatLabels) -> list[str]:
    """Return the names of labels that differ, or that one side lacks: what ran first, then the settings."""
    names = {name for name in {*ours, *theirs} if name not in ours or name not in theirs or ours[name] != theirs[name]}
    return sorted(names, key=lambda name: (name.startswith(SETTINGS), name))


def label_display_name(name: str) -> str:
    """Return the name of a label as a user writes it."""
    return name.removeprefix(SETTINGS)


def labels_required_equal(labels: FlatLabels, rules: LabelRules) -> FlatLabels:
    """Return the labels that must be equal. Simulated figures are never compared with measured ones."""
    kept = {name: value for name, value in labels.items() if _is_compared(name, rules)}
    return {**kept, SIMULATED: bool(labels.get(SIMULATED)), NODES: labels.get(NODES, "")}


def labels_distinguishing_old_group(labels: FlatLabels, rules: LabelRules) -> FlatLabels:
    """Return the labels that may differ and then mark the old group."""
    return {name: value for name, value in labels.items() if label_marks_old_group(name, rules)}


def label_marks_old_group(name: str, rules: LabelRules) -> bool:
    """Return whether a label may differ and then marks the old group."""
    return name not in (SIMULATED, NODES) and matches_any_pattern(name, rules.compare_on)


@functools.lru_cache(maxsize=100_000)
def _is_compared(name: str, rules: LabelRules) -> bool:
    if name.startswith(SETTINGS):
        never = any(fnmatchcase(_setting_of_label(name), pattern) for pattern in NEVER_COMPARED_SETTINGS)
    else:
        never = matches_any_pattern(name, NEVER_COMPARED)
    return not never and not matches_any_pattern(name, (*rules.compare_on, *rules.ignore))


@functools.lru_cache(maxsize=100_000)
def matches_any_pattern(name: str, patterns: tuple[str, ...]) -> bool:
    """Return whether a pattern matches the name of a label."""
    names = {name, label_display_name(name)}
    return any(fnmatchcase(name, end) for pattern in patterns for end in (pattern, f"{pattern}.*") for name in names)


def unmatched_label_patterns(patterns: Iterable[str], known: Iterable[str]) -> list[str]:
    """Return the patterns that match none of the names of labels."""
    names = list(known)
    return [pattern for pattern in patterns if not any(matches_any_pattern(name, (pattern,)) for name in names)]


def label_difference_text(old: Sequence[PastPoint], own: FlatLabels, rules: LabelRules) -> str:
    """Return what distinguishes the old points from the run, such as "4.19.3"; empty if nothing does."""
    of_points = (own, *(point.labels for point in old))
    names = sorted({name for labels in of_points for name in labels if label_marks_old_group(name, rules)})
    names = [name for name in names if any(point.labels.get(name) != own.get(name) for point in old)]
    single = len(names) == 1 and names[0].startswith("ran.")
    texts = []
    for point in old:
        values = [(label_display_name(name), point.labels.get(name, "none")) for name in names]
        texts.append(", ".join(str(value) if single else f"{name} {value}" for name, value in values[:_NAMED]))
    return formats.format_list(dict.fromkeys(text for text in texts if text), 2)

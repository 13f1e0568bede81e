# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the points of two or more runs; write comparison.json, the plots and the page.

With one run, its points are compared with the first, or with that of the first settings and the same seed. Module
results_compare calls it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import format_utc_timestamp
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point, point_label

from ..judge import history_settings, judge_run_groups
from ..judge.comparable_points import LabelRules
from ..judge.judge_run_groups import ComparisonRules, RunGroup, RunSide
from ..kpi import latency_attribution, write_kpis
from ..kpi.point_data import PointData
from ..report import plot_canvas, verdict_plots, write_report
from . import comparison_page, run_pairs

Result = dict[str, Any]

DEFAULT_RULES = ComparisonRules()
#: Plots of judged figures at most.
MOST_PLOTS = 8


def write_run_comparison(
    run_dirs: Sequence[str],
    dest: str,
    definition_files: Iterable[str],
    template: str,
    rules: ComparisonRules = DEFAULT_RULES,
) -> Result:
    """Write the comparison of each run with the first, or of the points of a single run. Raises InputError.

    rules: how the groups of several runs are judged; the points of a single run differ on purpose and are not.
    """
    if not run_dirs:
        raise InputError("no run was given; give two or more runs, or one whose points are compared")
    if not Path(template).is_file():
        raise InputError(f"template {template} does not exist")
    loaded = write_kpis.load_and_check_kpi_definitions(definition_files)
    history_settings.check_named_kpis_are_defined(rules.judged, rules.settings.least, loaded)
    notes: list[str] = []
    sides = [run_pairs.complete_and_read_compared_run(Path(run_dir), loaded, notes) for run_dir in run_dirs]
    _check_label_patterns(sides, rules.past.rules)
    groups = judge_run_groups.group_and_label_runs(sides, rules.past.rules) if len(sides) > 1 else []
    sides = (
        [side for group in groups for side in group.sides] if groups else run_pairs.sides_from_points_of_run(sides[0])
    )
    read = judge_run_groups.settings_read_by_any(sides)
    folder = Path(dest)
    (folder / "plots").mkdir(parents=True, exist_ok=True)
    for old in (folder / "plots").iterdir():
        old.unlink()
    document: dict[str, Any] = {
        "schema": "comparison/2",
        "made": format_utc_timestamp(),
        "runs": [_run_side_document(side) for side in sides],
        "settings": [
            row
            for row in run_pairs.differing_settings(
                [side.settings for side in sides], [side.run.settings for side in sides]
            )
            if read.reads(row["name"])
        ],
        "pairs": [],
        "notes": notes,
    }
    drawn = _add_point_pairs(sides, len(groups[0].sides) if groups else 1, document, folder / "plots")
    pictures = _add_groups_and_verdict(groups, rules, document, folder / "plots") if groups else []
    files.write_json(folder / "comparison.json", document, "comparison/2")
    path = folder / "index.html"
    reports = [comparison_page.relative_path_to_report(side.run.top, path) for side in sides]
    content = comparison_page.comparison_template_variables(document, drawn, reports, pictures)
    files.replace_text(path, write_report.render_template(Path(template), content))
    notes += comparison_page.link_from_run_reports(
        [side.run.top for side in sides],
        path,
        comparison_page.comparison_title(document["runs"]),
        document["made"],
        Path(template),
    )
    return _results_compare_module_result(document, path)


def _results_compare_module_result(document: Mapping[str, Any], path: Path) -> Result:
    """Return the result of module results_compare. path: of the page."""
    lines = [line for pair in document["pairs"] for line in comparison_page.headline_kpi_lines(pair)]
    counts = run_pairs.count_figures_by_reading(row for pair in document["pairs"] for row in pair["kpis"])
    assessments = ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "nothing to compare"
    return {
        "changed": True,
        "path": str(path),
        "lines": [*comparison_page.comparison_verdict_lines(document), *lines],
        "warnings": document["notes"],
        "summary": f"{path}: figures {assessments}",
        **{name: document.get(name) for name in ("verdict", "code", "exit_status")},
        "why": document.get("why") or [],
    }


def _check_label_patterns(sides: Sequence[RunSide], rules: LabelRules) -> None:
    """Raise InputError for a pattern that can match no label of the runs."""
    settings: dict[str, Any] = {}
    for side in sides:
        for point in side.run.points:
            settings |= point.all_settings or {}
    for name, patterns in (("results_compare_on", rules.compare_on), ("results_ignore", rules.ignore)):
        # The names of settings are unknown for runs that have none recorded, such as those of other tools.
        checked = [pattern for pattern in patterns if settings or pattern.startswith("ran.")]
        history_settings.check_label_patterns(name, checked, settings, "these runs")


def _add_point_pairs(
    sides: Sequence[RunSide], before: int, document: dict[str, Any], folder: Path
) -> list[list[dict[str, Any]]]:
    """Add the pairs of points of the sides after the first group and of their base; return their plots.

    before: number of sides in the first group.
    """
    drawn: list[list[dict[str, Any]]] = []
    notes = document["notes"]
    for other in sides[before:]:
        base = run_pairs.baseline_of_side(sides, other)
        if base is None:
            continue
        pairs = run_pairs.pair_points_by_matrix_values(base.run.points, other.run.points)
        if not pairs:
            notes.append(f"no point of {other.label} has the same matrix values as one of {base.label}")
        for first, second in pairs:
            pair = _compare_point_pair(base, other, first, second, notes)
            if pair is not None:
                document["pairs"].append(pair)
                drawn.append([])
                with plot_canvas.note_failed_plots(f"plots of {pair['label']}", notes):
                    drawn[-1] = _draw_pair_plots(base, other, first, second, pair, folder, len(drawn) - 1)
    return drawn


def _add_groups_and_verdict(
    groups: Sequence[RunGroup], rules: ComparisonRules, document: dict[str, Any], folder: Path
) -> list[dict[str, Any]]:
    """Add groups, verdict and the stages that changed; return the plots of the figures that explain the verdict."""
    document["groups"] = [
        {"letter": group.letter, "runs": [side.run.id for side in group.sides], "what": group.what} for group in groups
    ]
    document.update(judge_run_groups.judge_run_groups(groups, rules, document["notes"]))
    changes = []
    for group in groups[1:]:
        runs = {side.run.id for side in group.sides}
        for number in dict.fromkeys(pair["points"][0] for pair in document["pairs"] if pair["run"] in runs):
            own = [pair for pair in document["pairs"] if pair["run"] in runs and pair["points"][0] == number]
            stage = run_pairs.stage_with_largest_difference(own, group.letter, number)
            changes += [stage] if stage else []
    document["changed"] = changes
    shown = [kpi for kpi in document["kpis"] if kpi["reading"] in judge_run_groups.EXPLAINED][:MOST_PLOTS]
    return [
        write_report.embedded_plot_variables(
            verdict_plots.draw_history(kpi, folder / f"judged_{place:02d}", f"{kpi['group']} against A")
        )
        for place, kpi in enumerate(shown)
    ]


def _run_side_document(side: RunSide) -> dict[str, Any]:
    selections = {
        data.table.header["selection"]["text"] for data in side.data.values() if "selection" in data.table.header
    }
    return {
        "run": side.run.id,
        "label": side.label,
        "verdict": side.verdict,
        "simulated": side.simulated is not False,
        "selection": "; ".join(sorted(selections)) or None,
    }


def _compare_point_pair(
    first: RunSide, other: RunSide, old_point: Point, two: Point, notes: list[str]
) -> dict[str, Any] | None:
    if old_point.number not in first.data or two.number not in other.data:
        notes.append(
            f"point {old_point.number} of {first.label} and {two.number} of {other.label} could not both be read"
        )
        return None
    old, new = first.data[old_point.number], other.data[two.number]
    before, after = (
        latency_attribution.attribute_latency_to_stages(old),
        latency_attribution.attribute_latency_to_stages(new),
    )
    both = bool(before.n and after.n)
    several = len(first.run.points) > 1 or len(other.run.points) > 1
    label = f", {point_label(old_point, str(first.run.record.get('project') or ''))}" if several else ""
    return {
        "label": f"{other.letter} against {first.letter}{label}",
        "sides": [first.label, other.label],
        "run": other.run.id,
        "points": [old_point.number, two.number],
        "kpis": run_pairs.kpi_differences(first.kpis[old_point.number], other.kpis[two.number]),
        "stages": latency_attribution.attribute_difference_to_stages(before, after, old.resampling, new.resampling)
        if both
        else [],
        "writers": latency_attribution.attribute_difference_to_stages(
            before, after, old.resampling, new.resampling, "writers"
        )
        if both
        else [],
        "total": [_mean_workload_time(old, before), _mean_workload_time(new, after)],
    }


def _mean_workload_time(data: PointData, attribution: latency_attribution.LatencyByStage) -> float | None:
    return float(data.np.nanmean(attribution.total)) if attribution.n else None


def _draw_pair_plots(
    first: RunSide, other: RunSide, old_point: Point, two: Point, pair: Mapping[str, Any], folder: Path, number: int
) -> list[dict[str, Any]]:
    label = pair["label"]
    runs_drawn = [(first.label, first.data[old_point.number]), (other.label, other.data[two.number])]
    with plot_canvas.plot_style_context():
        drawings = {
            "attribution": comparison_page.draw_stage_contributions(pair["stages"], label),
            "distributions": comparison_page.draw_stage_distributions(runs_drawn, label),
        }
        written = [
            plot_canvas.write_png_and_csv(each, folder / f"{number:02d}_{name}")
            for name, each in drawings.items()
            if each is not None
        ]
    return [write_report.embedded_plot_variables(each) for each in written]

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""KPI functions over the failures that were injected into a load. At a point without failures they have no value.

Those of MultiKueue show what the loss of a worker cluster costs the workloads that were dispatched to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf, isnan, nan
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats

from ..timeline.failure_recoveries import PointFailures
from ..timeline.pod_lifetimes import NEVER, Span, midpoint_of_span
from ..timeline.recovery_stages import (
    CAUSES,
    EVICTED,
    MARKED,
    NODE_LOST,
    OF_LOST_NODE,
    OF_QUEUE,
    OF_TOPOLOGY,
    OF_TRAINING,
    STAGES,
    WHOLE,
    Recovery,
)
from .censored_quantiles import LEAST_ROWS, BootstrapResampling, ConfidenceInterval, DurationSample, parse_quantile
from .point_data import INTENDED, SENT, KpiValue, NoFigure, PointData, bootstrap_replicates_and_interval, kpi_function

#: What a sentence calls a failure that hits pods. Of several kinds a report leads with the last one of these.
NOUNS = {
    "gpu_lost": "A lost GPU",
    "container_oom": "A container out of memory",
    "network_cut": "A network cut",
    "kubelet_restarted": "A killed kubelet",
    "pod_killed": "A killed pod",
    "node_drained": "A drained node",
    "node_lost": "A lost node",
}
#: The same of failures of the control plane and of kubelets.
OUTAGE_NOUNS = {
    "kubelet_restarted": "A kubelet that is killed and comes back after",
    "controller_restarted": "A controller that is killed and comes back after",
    "etcd_slow": "A slow etcd for",
    "api_away": "An API server that is away for",
}
#: Stages of such a failure: it is undone; all workloads that were due until then run.
BACK, CAUGHT_UP = OUTAGE_STAGES = ("back", "caught_up")
#: What trainings did again.
SECONDS, STEPS = REDONE_UNITS = ("seconds", "steps")
_NO_PROGRESS = "no training that a failure hit says which steps it does"


def _needed_failures(data: PointData) -> PointFailures:
    failures = failures_of_point(data)
    if failures is None:
        raise NoFigure(KpiValue(None, 0, 0, note="no failures were injected", inapplicable=True))
    return failures


def failures_of_point(data: PointData) -> PointFailures | None:
    """Return the failures of a point, None if it has none."""
    return data.extras.failures() if data.extras.failures is not None else None


def failure_kinds_that_hit_workloads(data: PointData) -> list[str]:
    """Return the kinds of failures that hit workloads, in the order of NOUNS."""
    failures = failures_of_point(data)
    hit = {recovery.kind for recovery in failures.recoveries} if failures else set()
    return [kind for kind in NOUNS if kind in hit]


def kinds_of_failures_of_trainings(data: PointData) -> list[str]:
    """Return the kinds of failures that hit trainings which say what steps they do, in the order of NOUNS."""
    failures = failures_of_point(data)
    told = {recovery.kind for recovery in _recoveries_with_training_steps(failures.recoveries)} if failures else set()
    return [kind for kind in NOUNS if kind in told]


def kinds_of_failures_with_evictions(data: PointData) -> list[str]:
    """Return the kinds of failures after which Kueue evicted a workload, in the order of NOUNS."""
    failures = failures_of_point(data)
    evicted = {recovery.kind for recovery in _reaching(failures.recoveries, EVICTED)} if failures else set()
    return [kind for kind in NOUNS if kind in evicted]


def kinds_of_failures_with_marked_nodes(data: PointData) -> list[str]:
    """Return the kinds of failures after which Kueue marked a node as unhealthy, in the order of NOUNS."""
    failures = failures_of_point(data)
    marked = {recovery.kind for recovery in _reaching(failures.recoveries, MARKED)} if failures else set()
    return [kind for kind in NOUNS if kind in marked]


def kinds_of_outages(data: PointData) -> list[str]:
    """Return the kinds of failures of the control plane, in the order of OUTAGE_NOUNS."""
    failures = failures_of_point(data)
    kinds = {outage.kind for outage in failures.outages} if failures else set()
    return [kind for kind in OUTAGE_NOUNS if kind in kinds]


def _chosen(failures: PointFailures, failure: str) -> list[Recovery]:
    return [recovery for recovery in failures.recoveries if failure in ("", recovery.kind)]


def _recoveries_with_training_steps(recoveries: list[Recovery]) -> list[Recovery]:
    """Return those of trainings that say which steps they do, except one that succeeded without a further step."""
    return [row for row in recoveries if row.resumption is not None and not row.resumption.succeeded]


def _reaching(recoveries: list[Recovery], stage: str) -> list[Recovery]:
    """Return those that reached a stage."""
    return [row for row in recoveries if not isnan(row.stages.get(stage, (nan,))[0])]


def _provenance(data: PointData) -> dict[str, Any]:
    stage = next((stage for stage in ("pods_running", "running") if data.knows(stage)), None)
    return data.provenance(stage) if stage is not None else {}


def recovery_sample(data: PointData, failures: PointFailures, recoveries: list[Recovery], stage: str) -> DurationSample:
    """Return the seconds from the injection until ``stage``, one row for each failure and workload that it hit."""
    np = data.np
    begin = np.array([recovery.injected for recovery in recoveries]).reshape(-1, 2)
    until = np.array([recovery.stages[stage] for recovery in recoveries]).reshape(-1, 2)
    middle = (until[:, 0] + until[:, 1] - begin[:, 0] - begin[:, 1]) / 2
    last = np.array([min(recovery.succeeded, failures.end) for recovery in recoveries])
    waited = np.maximum(last - begin[:, 1], 0.0)
    open_rows = np.array([not recovery.over or recovery.succeeded < inf for recovery in recoveries], dtype=bool)
    return DurationSample(middle, until[:, 0] - begin[:, 1], until[:, 1] - begin[:, 0], waited, open_rows)


@kpi_function
def recovery(data: PointData, stage: str = WHOLE, quantile: Any = "p50", failure: str = "") -> KpiValue:
    """A quantile of the seconds from a failure until ``stage``, over all workloads that it hit; Kaplan-Meier.

    stage: one of STAGES; one of OF_QUEUE over the workloads that Kueue evicted, or of OF_TOPOLOGY over those of which
    it marked a node. failure: of one kind only.
    """
    if stage not in (known := (*STAGES, *OF_QUEUE, *OF_TOPOLOGY)):
        raise formats.unknown_value_error("stage", stage, known)
    failures = _needed_failures(data)
    if stage in OF_LOST_NODE and failure not in ("", NODE_LOST):
        return KpiValue(None, 0, 0, note=f"only a lost node is {stage}", inapplicable=True)
    chosen = [row for row in _chosen(failures, failure) if stage not in OF_LOST_NODE or row.kind == NODE_LOST]
    if stage in OF_QUEUE:
        chosen = _reaching(chosen, EVICTED)
        if not chosen:
            return KpiValue(None, 0, 0, note="Kueue evicted no workload that a failure hit", inapplicable=True)
    if stage in OF_TOPOLOGY:
        chosen = _reaching(chosen, MARKED)
        if not chosen:
            return KpiValue(None, 0, 0, note="Kueue marked no node of a workload that a failure hit", inapplicable=True)
    if stage in OF_TRAINING:
        chosen = _recoveries_with_training_steps(chosen)
        if not chosen:
            return KpiValue(None, 0, 0, note=_NO_PROGRESS, inapplicable=True)
    if not chosen:
        return KpiValue(None, 0, 0, note="no failure hit a workload", **_provenance(data))
    sample, q = recovery_sample(data, failures, chosen, stage), parse_quantile(quantile)
    estimate = sample.quantile(q)
    bootstrap: dict[str, Any] = {}
    if len(chosen) >= LEAST_ROWS and 0 < q < 1:  # also of fewer workloads
        drawing = BootstrapResampling(len(chosen))
        bootstrap = bootstrap_replicates_and_interval(
            drawing, estimate.value, lambda drawing: drawing.quantiles(sample, [q])[:, 0], "order of the failures"
        )
    missing = sample.of - sample.n
    spread = _spread(sample, bootstrap.get("confidence"))
    return KpiValue.of_estimate(
        estimate,
        note=f"{missing:,} of {sample.of:,} were not seen to reach it" if missing else "",
        labels={**_labels_of_answer(failures, chosen, failure), "spread": spread},
        **bootstrap,
        **_provenance(data),
    )


def _spread(sample: DurationSample, confidence: ConfidenceInterval | None) -> str:
    """Return the confidence interval of a figure as text; with too few rows for one, its least and largest value."""
    if confidence is not None and confidence.low is not None and confidence.high is not None:
        return f"{formats.format_interval_words(confidence.low, confidence.high, 's')} at 95 %"
    if not sample.n:
        return "none was seen"
    number = formats.format_count(sample.n, "recovery", "recoveries")
    return f"{formats.format_interval_words(sample.middle[0], sample.middle[-1], 's')}, {number}"


def _labels_of_answer(failures: PointFailures, chosen: list[Recovery], failure: str) -> dict[str, str]:
    """Return what a sentence about the failures needs besides the time: noun, GPUs of a failure, goodput."""
    single = {(recovery.number, recovery.target) for recovery in chosen}  # of a node, or of a pod
    gpus = sum(recovery.gpus for recovery in chosen) / max(len(single), 1)
    pods = sum(recovery.pods for recovery in chosen) / max(len(single), 1)
    number, noun = (gpus, "GPU") if gpus else (pods, "pod")
    lost = f"{number:.3g} {noun}{'s' if number != 1 else ''}"
    share = ""
    if failures.held:
        hourly = 3600 * sum(failures.injected.values()) / failures.end
        share = (
            f"; {100 * failures.useful / failures.held:.0f} % goodput at {float(f'{hourly:.2g}'):,g} failures an hour"
        )
    return {"noun": NOUNS.get(failure, "A failure"), "lost": lost, "goodput": share}


@kpi_function
def outage(data: PointData, stage: str = CAUGHT_UP, quantile: Any = "max", failure: str = "") -> KpiValue:
    """A quantile of the seconds from a failure of the control plane until ``stage``, over all of this kind.

    stage: back; or caught_up: all workloads run that were due until it was undone, and did not run before it began.
    """
    if stage not in OUTAGE_STAGES:
        raise formats.unknown_value_error("stage", stage, OUTAGE_STAGES)
    failures = _needed_failures(data)
    chosen = [outage for outage in failures.outages if failure in ("", outage.kind)]
    if not chosen:
        return KpiValue(None, 0, 0, note="no failure of the control plane was injected", inapplicable=True)
    np = data.np
    begin, back = (np.array([getattr(outage, name) for outage in chosen]) for name in ("injected", "undone"))
    until, waiting = back.copy(), 0
    running = data.first_known_stage(("pods_running", "running"))
    if stage == CAUGHT_UP and running is not None:
        due = data.stage_bounds(INTENDED)[0]
        due = np.where(np.isnan(due), data.stage_bounds(SENT)[0], due)
        first, last = data.stage_bounds(running)
        for place, (injected, undone) in enumerate(zip(begin, back, strict=True)):
            # Those that a failed comparison with an unknown time leaves in had not run when the observation ended.
            waited = (due <= (failures.end if np.isnan(undone[1]) else undone[1])) & ~(last < injected[0])
            waiting += int(waited.sum())
            if waited.any():
                latest = np.argmax(np.where(np.isnan(last[waited]), np.inf, last[waited]))
                until[place] = np.fmax([first[waited][latest], last[waited][latest]], undone)
                until[place][np.isnan(last[waited]).any() | np.isnan(undone)] = np.nan
    middle = until.mean(axis=1) - begin.mean(axis=1)
    still = np.maximum(failures.end - begin[:, 1], 0.0)
    sample = DurationSample(
        middle, until[:, 0] - begin[:, 1], until[:, 1] - begin[:, 0], still, np.ones(len(chosen), dtype=bool)
    )
    away = (back.mean(axis=1) - begin.mean(axis=1)).max()
    labels = {
        "noun": OUTAGE_NOUNS.get(failure, "A failure of the control plane of"),
        "away": "an unknown time" if np.isnan(away) else formats.format_duration(float(away)),
        "waiting": formats.format_count(waiting, "workload"),
    }
    return KpiValue.of_estimate(sample.quantile(parse_quantile(quantile)), labels=labels, **_provenance(data))


@kpi_function
def failures_injected(data: PointData, failure: str = "") -> KpiValue:
    """Count the failures that were injected."""
    failures = _needed_failures(data)
    count = sum(number for kind, number in failures.injected.items() if failure in ("", kind))
    note = f"{failures.skipped:,} found nothing to fail" if failures.skipped else ""
    return KpiValue(float(count), count, count + failures.skipped, note=note, **_provenance(data))


@kpi_function
def never_recovered(data: PointData, failure: str = "") -> KpiValue:
    """Count the workloads that a failure hit and that were not seen whole again; each counts once for each failure.

    One that succeeded all the same needed no recovery.
    """
    chosen = _chosen(_needed_failures(data), failure)
    missing = [recovery for recovery in chosen if isnan(recovery.stages[WHOLE][0])]
    succeeded = sum(recovery.succeeded < inf for recovery in missing)
    note = f"{succeeded:,} more succeeded without being whole again" if succeeded else ""
    return KpiValue(float(len(missing) - succeeded), len(chosen), len(chosen), note=note, **_provenance(data))


@kpi_function
def wrongly_hit(data: PointData) -> KpiValue:
    """Count the workloads that no failure was aimed at, and that lost pods after the first failure all the same."""
    failures = _needed_failures(data)
    return KpiValue(float(failures.wrongly_hit), len(failures.lives), len(failures.lives), **_provenance(data))


@kpi_function
def gpu_seconds_lost(data: PointData, cause: str = "", failure: str = "") -> KpiValue:
    """GPU-seconds that failures cost: waiting for replacements, blocked beside them, or redone; all without cause."""
    if cause and cause not in CAUSES:
        raise formats.unknown_value_error("cause", cause, CAUSES)
    failures = _needed_failures(data)
    chosen = _chosen(failures, failure)
    if not failures.holds_gpus:
        return KpiValue(None, 0, 0, note="the pods hold no GPUs", inapplicable=True)
    value = sum(sum(recovery.lost[name] for name in CAUSES if cause in ("", name)) for recovery in chosen)
    return KpiValue(value, len(chosen), len(chosen), **_provenance(data))


@kpi_function
def training_redone(data: PointData, unit: str = SECONDS, failure: str = "") -> KpiValue:
    """Seconds or steps that trainings did again after failures, since the checkpoints from which they went on.

    The sum over all recoveries that were seen to go on.
    """
    if unit not in REDONE_UNITS:
        raise formats.unknown_value_error("unit", unit, REDONE_UNITS)
    chosen = _chosen(_needed_failures(data), failure)
    known = [
        recovery.resumption for recovery in _recoveries_with_training_steps(chosen) if recovery.resumption is not None
    ]
    if not known:
        return KpiValue(None, 0, 0, note=_NO_PROGRESS, inapplicable=True)
    resumed = [resumption for resumption in known if not data.np.isnan(resumption.resumed)]
    value = float(sum(getattr(resumption, unit) for resumption in resumed))
    missing = len(known) - len(resumed)
    note = f"{missing:,} of {len(known):,} did not go on" if missing else ""
    return KpiValue(value, len(resumed), len(known), note=note, **_provenance(data))


@kpi_function
def goodput(data: PointData) -> KpiValue:
    """Useful GPU-seconds in percent of those that workloads held, with those of pods that waited for replacement.

    Of pods without GPUs, it is the share of their seconds.
    """
    failures = _needed_failures(data)
    if failures.held <= 0:
        return KpiValue(None, 0, data.of, note="no pod was seen to have a node", **_provenance(data))
    note = "" if failures.holds_gpus else "of pod-seconds: the pods hold no GPUs"
    return KpiValue(100 * failures.useful / failures.held, data.of, data.of, note=note, **_provenance(data))


#: In this order: Kueue takes the workload away, another worker cluster has it, all of its pods are ready there.
DISPATCH_STAGES = ("evicted", "dispatched", "pods_ready")


@kpi_function
def moved(data: PointData, stage: str = "dispatched", quantile: Any = "p50") -> KpiValue:
    """A quantile of the seconds from the loss of a worker cluster until ``stage`` of the workloads taken from it.

    stage: evicted, dispatched (to another worker) or pods_ready (there). Any eviction after a loss counts, because
    Kueue does not say which worker it concerns. Kaplan-Meier.
    """
    if stage not in DISPATCH_STAGES:
        raise formats.unknown_value_error("stage", stage, DISPATCH_STAGES)
    failures = failures_of_point(data)
    lives = data.extras.lives() if data.extras.lives else None
    if failures is None or lives is None or not failures.workers_away:
        return KpiValue(None, 0, 0, note="no worker cluster was away", inapplicable=True)
    moves = find_evictions_after_worker_loss(failures.workers_away, lives.conditions)
    if not moves:
        return KpiValue(
            None, 0, 0, note="Kueue took no workload away from a lost worker cluster", writers=("controller",)
        )
    np = data.np
    begin = np.array([lost for lost, _reached in moves]).reshape(-1, 2)
    until = np.array([reached[stage] for _lost, reached in moves]).reshape(-1, 2)
    middle = (until[:, 0] + until[:, 1] - begin[:, 0] - begin[:, 1]) / 2
    waited = np.maximum(failures.end - begin[:, 1], 0.0)
    sample = DurationSample(middle, until[:, 0] - begin[:, 1], until[:, 1] - begin[:, 0], waited, np.isnan(middle))
    estimate = sample.quantile(parse_quantile(quantile))
    return KpiValue.of_estimate(estimate, labels={"quantile": str(quantile)}, writers=("controller",))


def find_evictions_after_worker_loss(
    losses: Sequence[Span], conditions: dict[str, list[tuple[int, Span]]]
) -> list[tuple[Span, dict[str, Span]]]:
    """Return for the first eviction of each workload after each loss of a worker that loss, and the stages after it.

    conditions: name -> (index of the workload, when), in order.
    """
    ordered = sorted(losses)
    moves: list[tuple[Span, dict[str, Span]]] = []
    for index in sorted({index for index, _span in conditions["evicted"]}):
        for lost, following in zip(ordered, [*ordered[1:], NEVER], strict=True):
            reached: dict[str, Span] = {}
            after = midpoint_of_span(lost)
            for stage in DISPATCH_STAGES:
                reached[stage] = _first_after((span for other, span in conditions[stage] if other == index), after)
                after = midpoint_of_span(reached[stage], inf)
            if midpoint_of_span(reached["evicted"], inf) < midpoint_of_span(following, inf):
                moves.append((lost, reached))
    return moves


def _first_after(spans: Iterable[Span], moment: float) -> Span:
    return next((span for span in spans if midpoint_of_span(span) > moment), NEVER)

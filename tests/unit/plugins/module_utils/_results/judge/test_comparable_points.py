"""Which past points are comparable: equal labels, but for those that do not matter."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import comparable_points
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.comparable_points import (
    LabelRules,
    LeftOut,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.past_run_data import PastPoint, PastRun
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.point_labels import ReadSettings
from hypothesis import given
from hypothesis import strategies as st

OWN = {
    "project": "fine_tuning",
    "ran.simulated": False,
    "ran.openshift": "4.19.4",
    "ran.operators.rhods-operator": "2.19.0",
    "ran.nodes.count": 6,
    "ran.revision": "a",
    "settings.fine_tuning_gpus": 4,
    "settings.fine_tuning_image": "x:v2",
    "settings.fine_tuning_hyper_parameters.train_file": "a.json",
    "settings.workload_point": "001",
    "uuid": "1",
}


def past(verdict: str = "pass", **changes: Any) -> PastRun:
    """Return a run whose labels differ in ``changes`` (dots written as __); None removes a label."""
    labels = {**OWN, **{name.replace("__", "."): value for name, value in changes.items()}}
    kept = {name: value for name, value in labels.items() if value is not None}
    return PastRun("old", "2026-11-01", verdict, "here", (PastPoint("001", "2026-11-01", kept, {}),))


def outcome(run: PastRun, *compare_on: str, ignore: tuple[str, ...] = ()) -> str:
    """Return old, new, or why the run is left out."""
    found = comparable_points.find_comparable_points({"001": OWN}, run, LabelRules(compare_on, ignore))
    return found.why if isinstance(found, LeftOut) else "new" if found["001"][0].new else "old"


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (past(), "old"),
        (past(ran__revision="b", uuid="2", settings__workload_point="003"), "old"),
        (past(settings__export_s3_url="s3://a", settings__fine_tuning_kubeconfig="/b"), "old"),
        (past(settings__fine_tuning_gpus=2), "other fine_tuning_gpus"),
        (past(settings__fine_tuning_hyper_parameters__train_file="b"), "other fine_tuning_hyper_parameters.train_file"),
        (past(ran__openshift=None), "other ran.openshift"),
        (past(settings__fine_tuning_new=1), "other fine_tuning_new"),
        (past(ran__simulated=True, ran__openshift="4"), "simulated"),
        (past("invalid"), "invalid"),
        (past("error"), "error"),
        (past(""), "without a verdict"),
        (past("regression"), "old"),
        (PastRun("old", "", "pass", "here", ()), "without figures"),
        (
            past(
                ran__openshift="4", ran__nodes__count=2, settings__fine_tuning_gpus=1, settings__fine_tuning_image="y"
            ),
            "other ran.nodes.count, ran.openshift, fine_tuning_gpus and 1 more",
        ),
    ],
)
def test_labels_must_be_equal_but_for_those_without_influence(run: PastRun, expected: str) -> None:
    assert outcome(run) == expected


@pytest.mark.parametrize(
    ("run", "defaults", "expected"),
    [
        (past(settings__fine_tuning_gpus=None), ["fine_tuning_gpus"], "old"),
        (past(settings__fine_tuning_gpus=None), ["fine_tuning_image"], "other fine_tuning_gpus"),
        (past(settings__fine_tuning_gpus=2), ["fine_tuning_gpus"], "other fine_tuning_gpus"),
        (
            past(settings__fine_tuning_hyper_parameters__train_file=None, settings__fine_tuning_hyper_parameters__r=1),
            ["fine_tuning_hyper_parameters"],
            "other fine_tuning_hyper_parameters.r, fine_tuning_hyper_parameters.train_file",
        ),
        (past(settings__fine_tuning_hyper_parameters__train_file=None), ["fine_tuning_hyper_parameters"], "old"),
        (past(ran__openshift=None), ["ran", "openshift"], "other ran.openshift"),
    ],
)
def test_a_setting_that_a_past_run_did_not_know_matches_while_it_has_its_default(
    run: PastRun, defaults: list[str], expected: str
) -> None:
    found = comparable_points.find_comparable_points({"001": OWN}, run, LabelRules(), {"001": defaults})
    assert (found.why if isinstance(found, LeftOut) else "old") == expected


READ = ReadSettings(("fine_tuning", "workload"), ("scheduler", "workload_scale"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("my_llm_test_arrival.rate", "old"),  # of a project that is gone
        ("scheduler_mode", "old"),
        ("workload_scale_count", "old"),  # although a role that is read has the name workload
        ("workload_count", "other workload_count"),
        ("fine_tuning_removed", "other fine_tuning_removed"),
    ],
)
def test_settings_of_other_projects_may_come_and_go(name: str, expected: str) -> None:
    run = past(**{f"settings__{name}": 1})
    found = comparable_points.find_comparable_points({"001": OWN}, run, LabelRules(), read=READ)
    assert (found.why if isinstance(found, LeftOut) else "old") == expected


def test_a_past_run_without_recorded_settings_matches_no_defaults() -> None:
    settings = [name.removeprefix("settings.").partition(".")[0] for name in OWN if name.startswith("settings.")]
    run = past(**{name.replace(".", "__"): None for name in OWN if name.startswith("settings.")})
    assert isinstance(
        comparable_points.find_comparable_points({"001": OWN}, run, LabelRules(), {"001": settings}), LeftOut
    )


def test_what_was_written_before_labels_is_left_out() -> None:
    bare = PastRun("old", "", "pass", "index", (PastPoint("001", "", {"project": "fine_tuning"}, {}),))
    assert outcome(bare) == "written before labels were recorded"


@pytest.mark.parametrize(
    ("pattern", "run"),
    [
        ("ran.openshift", past(ran__openshift="4.19.3")),
        ("ran.operators.rhods-operator", past(**{"ran__operators__rhods-operator": "2.18.0"})),
        ("ran.operators", past(**{"ran__operators__rhods-operator": None})),
        ("fine_tuning_image", past(settings__fine_tuning_image="x:v1")),
        ("settings.fine_tuning_*", past(settings__fine_tuning_image="x:v1")),
        ("fine_tuning_hyper_parameters", past(settings__fine_tuning_hyper_parameters__train_file="b.json")),
        ("ran.revision", past(ran__revision="b")),
    ],
)
def test_a_compared_label_marks_the_old_group_and_its_equal_the_new(pattern: str, run: PastRun) -> None:
    assert outcome(run, pattern) == "old"
    assert outcome(past(), pattern) == "new"
    assert outcome(run, ignore=(pattern,)) == "old"


def test_simulated_figures_are_never_compared_with_measured_ones() -> None:
    for patterns in (("ran.simulated",), ("*",)):
        assert outcome(past(ran__simulated=True), ignore=patterns) == "simulated"
        assert outcome(past(ran__simulated=True), *patterns) == "simulated"


def test_figures_of_real_and_simulated_nodes_are_compared_with_such_figures_only() -> None:
    for patterns in ((), ("ran.workload_nodes",), ("*",)):
        assert outcome(past(ran__workload_nodes="mixed"), ignore=patterns) == "other ran.workload_nodes"
        assert outcome(past(ran__workload_nodes="mixed"), *patterns) == "other ran.workload_nodes"


def test_the_reason_is_that_of_the_nearest_point() -> None:
    far = {**OWN, "settings.fine_tuning_gpus": 1, "ran.nodes.count": 1}
    near = {**OWN, "settings.fine_tuning_gpus": 8}
    run = PastRun("old", "", "pass", "here", (PastPoint("001", "", far, {}), PastPoint("002", "", near, {})))
    assert outcome(run) == "other fine_tuning_gpus"


def test_points_are_found_by_labels_not_by_numbers() -> None:
    other = {**OWN, "settings.fine_tuning_gpus": 8}
    run = PastRun("old", "", "pass", "here", (PastPoint("001", "", other, {}), PastPoint("002", "", dict(OWN), {})))
    found = comparable_points.find_comparable_points({"001": OWN, "003": other}, run, LabelRules())
    assert isinstance(found, dict)
    assert {number: [one.point.number for one in points] for number, points in found.items()} == {
        "001": ["002"],
        "003": ["001"],
    }


def test_patterns_that_match_nothing_are_found() -> None:
    assert comparable_points.unmatched_label_patterns(["ran.openshft", "ran.nodes", "fine_tuning_g*", "uuid"], OWN) == [
        "ran.openshft"
    ]


def test_the_old_points_are_named_by_what_distinguishes_them() -> None:
    def text(*runs: PastRun, on: tuple[str, ...]) -> str:
        return comparable_points.label_difference_text([one.points[0] for one in runs], OWN, LabelRules(on))

    older, oldest = past(ran__openshift="4.19.3"), past(ran__openshift="4.18.9")
    assert text(older, older, on=("ran.openshift",)) == "4.19.3"
    assert text(older, oldest, on=("ran.openshift",)) == "4.19.3, 4.18.9"
    assert text(past(settings__fine_tuning_image="x:v1"), on=("fine_tuning_image",)) == "fine_tuning_image x:v1"
    assert text(older, on=()) == ""
    assert text(past(), on=("ran.openshift",)) == ""


NAMES = st.sampled_from(["ran.openshift", "ran.nodes.count", "settings.a", "settings.b", "settings.run_x", "uuid"])
LABELS = st.dictionaries(NAMES, st.integers(0, 1), max_size=6)


@given(LABELS, LABELS)
def test_comparable_is_mutual(one: dict[str, Any], other: dict[str, Any]) -> None:
    def fits(own: dict[str, Any], theirs: dict[str, Any]) -> bool:
        run = PastRun("old", "", "pass", "here", (PastPoint("001", "", theirs, {}),))
        return not isinstance(comparable_points.find_comparable_points({"001": own}, run, LabelRules()), LeftOut)

    assert fits(one, other) == fits(other, one)
    assert fits(one, one)


@pytest.mark.parametrize(
    ("api", "flavour", "found"),
    [("pytorchjob", "fms", "old"), ("trainjob", "fms", "other fine_tuning_api"), ("rayjob", "ray", "old")],
)
def test_a_run_from_before_a_setting_is_compared_by_what_it_did(api: str, flavour: str, found: str) -> None:
    """And not as if it had run with the default of today."""
    old = {**OWN, "settings.fine_tuning_flavour": flavour}
    own = {**old, "settings.fine_tuning_api": api}
    run = PastRun("old", "2026-11-01", "pass", "here", (PastPoint("001", "2026-11-01", old, {}),))
    points = comparable_points.find_comparable_points({"001": own}, run, LabelRules(), {"001": {"fine_tuning_api"}})
    assert (points.why if isinstance(points, LeftOut) else "old") == found
    rules = LabelRules(compare_on=("fine_tuning_api",))
    related = comparable_points.find_comparable_points({"001": own}, run, rules, {"001": {"fine_tuning_api"}})
    assert not isinstance(related, LeftOut) and related["001"][0].new is (found == "old")

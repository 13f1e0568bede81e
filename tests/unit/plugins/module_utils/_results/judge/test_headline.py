"""The sentence that a report leads with, and the warning of a busy machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import headline, judge_run
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.write_verdict import write_verdict
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.write_kpis import (
    load_and_check_kpi_definitions,
    write_kpis,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.write_timeline import write_timeline
from ansible_collections.perfscale.seatrial.plugins.module_utils._run.run_reader import Point, point_label
from run_directory import World, write_run

ROLES = Path(__file__).parents[6] / "roles"
WAITING = {
    "text": "95 % of the jobs ran within {value}",
    "bound": "The others waited {value} or longer",
    "names": {"job": "plain Jobs", "kueue": "Kueue"},
}
ONE = {**WAITING, "one": "The job ran within {value}", "one_bound": "The job did not run within {value}"}


def kpi(value, name="waiting_p95", **more):
    usual = {
        "name": name,
        "title": "Waiting, P95",
        "value": value,
        "unit": "s",
        "direction": "lower",
        "simulated": False,
        "n": 30,
        "of": 30,
        "labels": {},
        "answer": WAITING,
    }
    return {**usual, **more}


def difference(value, low, high):
    confidence = {"low": low, "high": high, "level": 0.95, "method": ""} if low is not None else None
    return {"point": "000", "value": value, "confidence": confidence}


def said(*points, labels=("mode = job", "mode = kueue", "mode = appwrapper"), settings=None):
    of = [Point(f"{place:03d}", Path("x"), kpis=list(kpis), all_settings=settings) for place, kpis in enumerate(points)]
    names = {point.number: labels[place % len(labels)] for place, point in enumerate(of)}
    return headline.run_answer_sentence(of, names)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (kpi(18.6), ["95 % of the jobs ran within 18.6 s"]),
        (kpi(18.6, n=1, of=1, answer=ONE), ["The job ran within 18.6 s"]),
        (kpi(None, n=0, of=1, answer=ONE, at_least=20.0), ["The job did not run within 20 s"]),
        (kpi(None, n=0, of=1, at_least=20.0), ["The others waited 20 s or longer"]),
        (kpi(18.6, n=28), ["95 % of the jobs ran within 18.6 s (28 of 30 workloads)"]),
        (kpi(0.0, interval=[0.0, 0.039]), ["95 % of the jobs ran within at most 39 ms"]),
        (kpi(0.02, interval=[-0.01, 0.05]), ["95 % of the jobs ran within at most 50 ms"]),
        (kpi(0.02, interval=[0.01, 0.03]), ["95 % of the jobs ran within 20 ms"]),
        (kpi(0.0, interval=[0.0, 0.0]), ["95 % of the jobs ran within 0 s"]),
        (kpi(0.0, unit="pods", interval=[0.0, 2.0]), ["95 % of the jobs ran within 0 pods"]),
        (kpi(18.6, simulated=True), ["95 % of the jobs ran within 18.6 s (SIMULATED)"]),
        (kpi(None, at_least=14.6), ["The others waited 14.6 s or longer"]),
        (
            kpi(None, n=341, of=1400, at_least=18.0, answer={**WAITING, "bound": "{n} of {of} ran; {value} or longer"}),
            ["341 of 1,400 ran; 18 s or longer"],
        ),
        (kpi(None, note="the plan does not say"), []),
        (kpi(18.6, answer=None), []),
        (
            kpi(None, labels={"missed_at": 2.0}, answer={**WAITING, "missed": "Missed even at {value}"}),
            ["Missed even at 2 s"],
        ),
        (kpi(18.6, simulated=True, answer={**WAITING, "only_real": True}), []),
    ],
)
def test_the_answer_of_one_point(found, expected):
    assert said([found]) == expected


def test_two_points_are_named_the_better_first_with_their_difference():
    second = kpi(18.6, difference=difference(-16.8, -19.0, -14.0))
    assert said([kpi(35.4)], [second]) == ["Waiting, P95: Kueue 18.6 s, plain Jobs 35.4 s, difference 14 to 19 s"]


def test_a_difference_that_may_be_none_is_not_called_one():
    second = kpi(18.6, difference=difference(1.0, -2.0, 5.0))
    assert said([kpi(17.6)], [second]) == [
        "Waiting, P95: plain Jobs 17.6 s, Kueue 18.6 s, no clear difference: -2 to 5 s at 95 %"
    ]


def test_of_three_points_each_says_how_it_differs_from_the_first():
    second = kpi(18.6, difference=difference(-16.8, -19.0, -14.0))
    third = kpi(40.0, difference=difference(4.6, None, None))
    assert said([kpi(35.4)], [second], [third]) == [
        "Waiting, P95: plain Jobs 35.4 s, Kueue 18.6 s (14 to 19 s less), 40 s (mode = appwrapper; 4.60 s more)"
    ]


def test_of_many_points_the_ends_are_named():
    points = [[kpi(float(place))] for place in (5, 3, 9, 4, 6)]
    labels = [f"gpus = {place}" for place in range(5)]
    assert said(*points, labels=labels) == [
        "Waiting, P95: lowest 3 s (gpus = 1), highest 9 s (gpus = 2), of 5 test points"
    ]


def test_points_of_several_kinds_are_answered_by_a_figure_that_applies_to_all():
    of_one_kind = kpi(2.0, name="time_to_ready_p95", title="Time until ready, P95")
    assert said([kpi(35.4)], [kpi(18.6), of_one_kind]) == [
        "Waiting, P95: Kueue 18.6 s, plain Jobs 35.4 s, difference 16.8 s"
    ]
    unknown = kpi(None, name="time_to_ready_p95", title="Time until ready, P95")
    assert said([kpi(35.4), of_one_kind], [kpi(18.6), unknown])[0].startswith("Time until ready, P95: ")


def test_the_figure_that_a_setting_names_answers_unless_it_has_no_value():
    share = {"unit": "%", "title": "Compact gangs", "answer": {"text": "Compact gangs: {value}"}}
    points = [[kpi(80.0, "compact", **share), kpi(9.0)], [kpi(95.0, "compact", **share), kpi(18.6)]]
    named = {"results_answer": "compact"}
    assert said(*points)[0].startswith("Waiting, P95: ")
    assert said(*points, settings=named) == [
        "Compact gangs: 80 % (mode = job), 95 % (mode = kueue), difference 15 percentage points"
    ]
    points[0][0]["value"] = points[1][0]["value"] = None
    assert said(*points, settings=named)[0].startswith("Waiting, P95: ")


def test_of_two_capacities_one_may_lie_below_the_lowest_rate():
    rate = {"unit": "requests/s", "title": "Capacity", "answer": {"text": "Up to {value}", "missed": "Not at {value}"}}
    points = [[kpi(21.0, **rate)], [kpi(None, labels={"missed_at": 2.0}, **rate)]]
    assert said(*points) == ["Capacity: 21 requests/s (mode = job), less than 2 requests/s (mode = kueue)"]


def paired(*values: float, order: str = "ABBAABBA", versions: dict[int, str] | None = None) -> list[str]:
    points = [
        Point(
            f"{place:03d}",
            Path("x"),
            record={"settings": {"a_seed": place // 2, "a_version": name}},
            kpis=[kpi(value)],
            ran={"operators": {"kueue": (versions or {}).get(place, f"1+{name}"), "olm": "2"}} if place else {},
        )
        for place, (name, value) in enumerate(zip(order, values, strict=False))
    ]
    return headline.run_answer_sentence(points, {point.number: point.number for point in points})


def test_of_alternating_points_the_difference_of_the_pairs_is_the_answer():
    # The machine becomes slower by 1 s with each point; B takes 5 s more than A.
    (answer,) = paired(10, 16, 17, 13, 14, 20, 21, 17)
    assert answer == "Waiting, P95: 3.16 to 6.84 s more with B than with A (95 %, 4 pairs; mean 16 s)"
    (answer,) = paired(15, 11, 12, 18, 19, 15, 16, 22)
    assert "less with B than with A" in answer


def test_alternating_points_that_differ_by_chance_have_no_clear_difference():
    (answer,) = paired(10, 11, 12, 13, 14, 13, 12, 11)
    assert answer.startswith("Waiting, P95: no clear difference between A and B: -")


def test_sides_whose_checkout_was_edited_during_the_run_are_not_compared():
    (answer,) = paired(10, 16, 17, 13, 14, 20, 21, 17, versions={5: "1+C", 6: "1+C"})
    assert answer == "Waiting, P95: A and B are not compared, because the points of B ran kueue 1+B and 1+C"


def test_one_pair_says_nothing_of_how_pairs_differ():
    assert "pairs" not in paired(10, 16)[0]


def test_a_long_label_gives_way_to_the_number_of_its_point():
    assert said([kpi(2.0)], [kpi(3.0)], labels=["x = " + "y" * 90, "x = z"]) == [
        "Waiting, P95: 2 s (point 000), 3 s (x = z), difference 1 s"
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("", '2 s (partition = "")'),
        (" ", '2 s (partition = " ")'),
        ([], "2 s (partition = [])"),
        ({}, "2 s (partition = {})"),
        (None, "2 s (partition = null)"),
        ("1g.10gb", "2 s (partition = 1g.10gb)"),
    ],
)
def test_a_value_of_the_matrix_that_is_empty_can_be_seen(value, text):
    points = [
        Point(f"{place:03d}", Path("x"), record={"settings": {"load_partition": setting}}, kpis=[kpi(figure)])
        for place, (setting, figure) in enumerate([(value, 2.0), ("3g.40gb", 3.0)])
    ]
    (answer,) = headline.run_answer_sentence(points, {point.number: point_label(point, "load") for point in points})
    assert answer == f"Waiting, P95: {text}, 3 s (partition = 3g.40gb), difference 1 s"


def test_an_empty_release_of_alternating_points_can_be_seen():
    order = ["", "B", "B", "", "", "B", "B", ""]
    points = [
        Point(
            f"{place:03d}",
            Path("x"),
            record={"settings": {"a_seed": place // 2, "a_version": name}},
            kpis=[kpi(5.0 + place if name else 10.0 + place)],
        )
        for place, name in enumerate(order)
    ]
    (answer,) = headline.run_answer_sentence(points, {point.number: point.number for point in points})
    assert 'less with B than with ""' in answer


def test_a_name_may_be_of_a_value_of_one_setting_only():
    named = {**WAITING, "names": {'partition = ""': "whole GPUs", '""': "nothing"}}
    points = [[kpi(2.0, answer=named)], [kpi(3.0, answer=named)]]
    assert said(*points, labels=['partition = ""', 'other = ""']) == [
        "Waiting, P95: whole GPUs 2 s, nothing 3 s, difference 1 s"
    ]


def test_a_later_definition_goes_before_an_earlier_one_if_it_has_a_value():
    first, later = kpi(1.0, "general"), kpi(2.0, "special")
    assert said([first, later]) == ["95 % of the jobs ran within 2 s"]
    assert said([first, {**later, "value": None, "note": "nothing"}]) == ["95 % of the jobs ran within 1 s"]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"text": "no place"}, "answer.text must contain {value}"),
        ({"txt": "{value}"}, "answer must be a dictionary with a 'text'"),
        ({"text": "{value}", "bond": "{value}"}, "answer has no 'bond', did you mean 'bound'"),
    ],
)
def test_a_wrong_answer_names_file_and_key(tmp_path, wrong, words):
    entry = {"name": "x", "unit": "s", "direction": "lower", "help": "x", "source": {"function": "makespan"}}
    files.write_yaml(tmp_path / "kpis.yml", [{**entry, "answer": wrong}])
    with pytest.raises(InputError) as error:
        load_and_check_kpi_definitions([str(tmp_path / "kpis.yml")])
    assert words in str(error.value).replace(" (", ", ") and "kpis.yml" in str(error.value)


@pytest.mark.parametrize(
    "role", ["fine_tuning", "scheduler", "users", "workload_scale", "../skeletons/collection/roles/my_project"]
)
def test_each_project_declares_an_answer(role):
    found = load_and_check_kpi_definitions([str(ROLES / role / "files" / "kpis.yml")])
    assert any(one.get("answer") for one in found)


def test_a_run_has_its_answer_in_verdict_and_page(tmp_path, definitions):
    worlds = [(World(count=10, seed=seed), {"fine_tuning_gpus": seed}) for seed in (1, 2)]
    top = write_run(tmp_path / "run", worlds)
    write_timeline(str(top))
    write_kpis(str(top), [definitions])
    result = write_verdict(str(top), 0.5)
    (sentence,) = files.read_json(top / "verdict.json")["answer"]
    assert result["answer"] == [sentence]
    assert sentence.startswith("Time until scheduled, P95: ") and "ms (gpus = 1)" in sentence
    assert "difference" in sentence
    (first, *_others) = files.read_json(top / "verdict.json")["headline"]
    assert first["name"] == "time_to_scheduled_p95", "what answers leads"
    found = {one["name"]: one for one in files.read_json(top / "points/001/kpis.json")["kpis"]}
    assert found["time_to_scheduled_p95"]["difference"]["point"] == "000"
    assert found["time_to_scheduled_p95"]["difference"]["confidence"]["low"] is not None


def test_an_invalid_run_has_no_answer(tmp_path, definitions):
    top = write_run(tmp_path / "run", [(World(count=10, late=1.0), {})])
    write_timeline(str(top))
    write_kpis(str(top), [definitions])
    assert write_verdict(str(top), 0.01)["answer"] == ["No answer: the run is invalid, see its checks."]


def ledger(folder, name="ledger.jsonl", **machine_):
    folder.mkdir(parents=True)
    rows = [{"type": "session"}, {"type": "end", "at": 1.0, "reason": "done", "machine": machine_}]
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return Point(folder.name, folder)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"cpus": 2, "stolen": 0.01, "load": 1.5}, []),
        ({"cpus": 2, "stolen": None, "load": None}, []),
        ({"cpus": 2, "stolen": 0.12, "load": 1.5}, ["test point 000: the hypervisor took 12 % of its processor time"]),
        ({"cpus": 2, "stolen": 0.0, "load": 18.0}, ["test point 000: load average 18 on 2 processors"]),
    ],
)
@pytest.mark.parametrize("name", ["ledger.jsonl", "requests.jsonl"])
def test_a_busy_machine_is_a_warning(tmp_path, name, found, expected):
    given = judge_run.busy_machine_warning([ledger(tmp_path / "000", name, **found)])
    assert len(given) == len(expected) and all(words in one for words, one in zip(expected, given, strict=True))


@pytest.mark.parametrize("text", ["", "torn", '{"type": "end", "at": 1, "reason": "done"}\n', "[1]\n"])
def test_a_ledger_that_says_nothing_of_the_machine_is_no_warning(tmp_path, text):
    (tmp_path / "ledger.jsonl").write_text(text, encoding="utf-8")
    assert judge_run.busy_machine_warning([Point("000", tmp_path), Point("001", tmp_path / "nowhere")]) == []


def test_a_figure_that_is_not_told_from_none_is_shown_as_its_upper_bound() -> None:
    figure = {"headline": True, "help": "", "interval": [0.0, 0.039]}
    (entry,) = headline.headline_figures([Point("001", Path("x"), kpis=[kpi(0.0, **figure)])])
    assert (entry["text"], entry["value"]) == ("≤ 39 ms", 0.0)

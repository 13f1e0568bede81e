"""KPIs: definitions as data, values with denominators and intervals, and whether they are simulated."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files, formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi import write_kpis as compute_kpis
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.point_data import (
    FUNCTIONS,
    PointData,
    PointExtras,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.write_kpis import (
    load_and_check_kpi_definitions,
    write_kpis,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline import timeline_builder
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.write_timeline import write_timeline
from computed_kpis import NODES, ONE, computed, written
from run_directory import REAL, RUN, World, write_point, write_run
from split_point import WrongClock, split


def test_the_spread_is_the_difference_of_the_longest_and_the_shortest(good):
    _world, _folder, table = good
    data = PointData(table)
    found = FUNCTIONS["spread"](data, stage=["no_such_stage", "pods_running"], since="sent")
    times = [
        (first + last) / 2 - sent
        for first, last, sent in zip(
            table.earliest["pods_running"], table.latest["pods_running"], table.moments["sent"], strict=True
        )
    ]
    assert found.value == pytest.approx(max(times) - min(times), abs=0.05) and (found.n, found.of) == (len(times),) * 2
    assert found.interval[0] <= found.value <= found.interval[1]
    assert FUNCTIONS["spread"](data, stage="no_such_stage", since="sent").value is None


@pytest.fixture(scope="module")
def of_good(good, definitions):
    """KPIs by name of a point in which all workloads succeed."""
    _world, folder, table = good
    training = list(files.read_json_lines(folder / "training.jsonl"))
    return {
        one["name"]: one
        for one in computed(PointData(table, PointExtras(training)), load_and_check_kpi_definitions([definitions]))
    }


@pytest.fixture(scope="module")
def of_mixed(mixed, definitions):
    """KPIs by name of a point with all outcomes."""
    _world, _folder, table = mixed
    return {one["name"]: one for one in computed(PointData(table), load_and_check_kpi_definitions([definitions]))}


def test_the_shipped_definitions_give_valid_documents(of_good, of_mixed):
    for found in (of_good, of_mixed):
        document = {"schema": "kpis/1", "run": RUN, "point": "000", "labels": {}, "kpis": list(found.values())}
        files.validate_schema_if_enabled("kpis/1", document)


def test_makespan_is_from_the_start_to_the_last_end(good, of_good):
    world, _folder, _table = good
    truth = max(moment for (_index, stage), moment in world.truth.items() if stage == "succeeded") - world.start
    low, high = of_good["makespan"]["interval"]
    assert low <= truth <= high
    assert (of_good["makespan"]["n"], of_good["makespan"]["of"]) == (8, 8)


@pytest.mark.parametrize("quantile", ["p50", "p95", "p99", "max"])
def test_the_true_quantile_of_a_stage_lies_within_the_interval_of_its_kpi(good, of_good, quantile):
    import numpy

    world, _folder, _table = good
    q = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}[quantile]
    taken = []
    for index in range(world.count):
        pods = [[world.truth[index, f"pod{n}_{stage}"] for n in range(2)] for stage in ("scheduled", "running")]
        taken.append(max(pods[1]) - max(pods[0]))
    kpi = of_good[f"duration_pods_running_{quantile}"]
    assert kpi["interval"][0] <= numpy.quantile(taken, q) <= kpi["interval"][1]


def test_rows_that_never_got_there_stay_in_the_denominator(of_mixed):
    kpi = of_mixed["time_to_running_p95"]
    assert (kpi["n"], kpi["of"], kpi["value"]) == (9, 12, None)
    assert kpi["note"].startswith(f"≥ {formats.format_with_unit(kpi['at_least'], 's')}: ")
    assert kpi["note"].endswith("3 of 12 were not seen to reach it")


@pytest.mark.parametrize(("sent_is", "word"), [("", "sent"), ("created", "stored")])
def test_the_answer_says_since_when_the_time_is_known(good, definitions, sent_is, word):
    data = PointData(good[2])
    data.sent_is = sent_is
    answers = [
        kpi["answer"] for kpi in computed(data, load_and_check_kpi_definitions([definitions])) if kpi.get("answer")
    ]
    assert answers[0]["text"].endswith(f"within {{value}} of being {word}")


def test_makespan_of_a_run_that_did_not_end_has_a_bound_only(of_mixed):
    kpi = of_mixed["makespan"]
    assert kpi["value"] is None
    assert (kpi["n"], kpi["of"]) == (7, 12)


@pytest.mark.parametrize("outcome", ["failed", "unfinished", "deleted", "refused", "lost", "unsent"])
def test_each_outcome_is_counted(of_mixed, outcome):
    assert of_mixed[f"workloads_{outcome}"]["value"] == 1


def test_simulated_is_what_a_simulated_writer_has_a_part_in(of_good):
    real = [
        "throughput_created",
        "lateness_p99",
        "time_to_scheduled_p95",
        "duration_pods_scheduled_p50",
        "duration_accepted_p50",
    ]
    simulated = [
        "makespan",
        "time_to_running_p95",
        "duration_pods_running_p95",
        "duration_succeeded_p50",
        "gpu_hours_used",
    ]
    assert [name for name in real if of_good[name]["simulated"]] == []
    assert [name for name in simulated if not of_good[name]["simulated"]] == []


def test_on_a_real_cluster_nothing_is_simulated(tmp_path, definitions):
    world = World(count=3, simulated_writers=())
    table = timeline_builder.build_timeline_of_workloads(write_point(tmp_path / "000", world), RUN, "000")
    assert [
        one["name"]
        for one in computed(PointData(table), load_and_check_kpi_definitions([definitions]))
        if one["simulated"]
    ] == []


def test_measured_and_simulated_figures_of_one_point_are_kept_apart(tmp_path, definitions):
    top = write_run(tmp_path / "run", [(World(count=6, nodes={row: NODES[row % 2] for row in range(6)}), {})])
    write_timeline(str(top))
    write_kpis(str(top), [definitions])
    document = files.read_json(top / "points/000/kpis.json")
    files.validate_schema_if_enabled("kpis/2", document)
    assert document["labels"]["ran"]["workload_nodes"] == "mixed" and document["labels"]["ran"]["simulated"] is True
    found = {one["name"]: one for one in document["kpis"]}
    measured, played = found["time_to_running_p95"], found["time_to_running_p95_simulated"]
    assert (measured["simulated"], measured["of"]) == (False, 3) and (played["simulated"], played["of"]) == (True, 3)
    assert measured["headline"] and not played["headline"]
    # The scheduler is real for all of them.
    assert (found["time_to_scheduled_p95"]["simulated"], found["time_to_scheduled_p95"]["of"]) == (False, 6)
    assert "time_to_scheduled_p95_simulated" not in found
    assert [name for name, one in found.items() if one["simulated"] is not name.endswith("_simulated")] == []
    parts = files.read_json(top / "points/000/attribution.json")
    assert (parts["nodes"], parts["of"]) == ("real", 3) and not any(one["simulated"] for one in parts["stages"])


def test_a_point_on_real_nodes_of_a_rehearsal_cluster_is_measured(tmp_path, definitions):
    nodes = dict.fromkeys(range(3), REAL)
    top = write_run(tmp_path / "run", [(World(count=3, nodes=nodes, training=False), {})])
    write_timeline(str(top))
    write_kpis(str(top), [definitions])
    document = files.read_json(top / "points/000/kpis.json")
    assert [one["name"] for one in document["kpis"] if one["simulated"]] == []
    assert document["labels"]["ran"]["simulated"] is False and document["labels"]["ran"]["workload_nodes"] == "real"


def test_concurrency_and_gpu_hours_agree_with_the_truth(good, of_good):
    world, _folder, _table = good
    spans = [
        (max(world.truth[i, f"pod{n}_running"] for n in range(2)), world.truth[i, "succeeded"])
        for i in range(world.count)
    ]
    most = max(sum(1 for begin, end in spans if begin <= moment < end) for moment, _end in spans)
    low, high = of_good["concurrency_running_max"]["interval"]
    assert low <= most <= high
    used = sum(2 * (end - begin) for begin, end in spans) / 3600
    low, high = of_good["gpu_hours_used"]["interval"]
    assert low <= used <= high


def test_gpu_hours_are_unknown_where_no_pods_were_observed(tmp_path, definitions):
    """Such as in the manager cluster of MultiKueue."""
    table = timeline_builder.build_timeline_of_workloads(write_point(tmp_path / "000", World(count=3)), RUN, "000")
    table.pods, table.gpus = [0] * 3, [0.0] * 3
    found = {one["name"]: one for one in computed(PointData(table), load_and_check_kpi_definitions([definitions]))}
    assert found["gpu_hours_requested"]["value"] is found["gpu_hours_used"]["value"] is None
    assert "no pods were observed" in found["gpu_hours_requested"]["note"]
    table.gpus = [2.0] * 3  # the workload itself states them
    found = {one["name"]: one for one in computed(PointData(table), load_and_check_kpi_definitions([definitions]))}
    assert found["gpu_hours_requested"]["value"] > 0


def test_a_closed_loop_has_no_lateness(tmp_path, definitions):
    table = timeline_builder.build_timeline_of_workloads(
        write_point(tmp_path / "000", World(count=3, closed_loop=True)), RUN, "000"
    )
    found = {one["name"]: one for one in computed(PointData(table), load_and_check_kpi_definitions([definitions]))}
    assert (found["lateness_p99"]["value"], found["lateness_p99"]["of"]) == (None, 0)
    assert "closed loop" in found["lateness_p99"]["note"]


def test_the_lateness_as_the_server_saw_it_contains_what_sending_took(tmp_path, definitions):
    table = timeline_builder.build_timeline_of_workloads(write_point(tmp_path / "000", World(count=8)), RUN, "000")
    found = {one["name"]: one for one in computed(PointData(table), load_and_check_kpi_definitions([definitions]))}
    sent, created = found["lateness_p50"], found["lateness_created_p50"]
    middle = [
        (first + last) / 2 - due
        for first, last, due in zip(
            table.earliest["created"], table.latest["created"], table.moments["intended"], strict=True
        )
    ]
    assert created["value"] == pytest.approx(statistics.median(middle), abs=1e-6)
    assert created["value"] > sent["value"] and created["n"] == sent["n"] == 8
    low, high = created["interval"]
    assert low <= created["value"] <= high and sent["interval"][0] == sent["interval"][1]


def test_each_client_of_a_load_has_its_lateness_on_its_own_clock(tmp_path, definitions):
    clocks = [WrongClock(), WrongClock(3600, 1e-4), WrongClock(-60)]
    one = write_point(tmp_path / "one", World(count=10, canary=60.0, rate=5))
    known = load_and_check_kpi_definitions([definitions])
    alone = {
        kpi["name"] for kpi in computed(PointData(timeline_builder.build_timeline_of_workloads(one, RUN, "000")), known)
    }
    table = timeline_builder.build_timeline_of_workloads(split(one, tmp_path / "many", clocks), RUN, "000")
    for index in range(1, 10, 3):
        table.moments["sent"][index] = table.moments["intended"][index] + 0.25
    found = {kpi["name"]: kpi for kpi in computed(PointData(table), known)}
    assert set(found) - alone == {f"lateness_p99_client_{client}" for client in range(3)}
    assert [found[f"lateness_p99_client_{client}"]["of"] for client in range(3)] == [4, 3, 3]
    assert found["lateness_p99_client_1"]["value"] == pytest.approx(0.25) == found["lateness_max"]["value"]
    assert all(found[f"lateness_p99_client_{client}"]["value"] < 0.2 for client in (0, 2))
    assert found["lateness_p99_client_1"]["labels"] == {"quantile": "p99", "client": "1"}


@pytest.mark.parametrize(
    ("statistic", "value"), [("median", 2.0), ("sum", 9.0), ("mean", 3.0), ("max", 6.0), ("min", 1.0)]
)
def test_training_figures_rest_on_the_logs_that_had_them(good, statistic, value):
    rows = [
        {"index": number, "pod": f"p{number}", "figures": {"loss": loss}, "simulated": number == 2}
        for number, loss in enumerate((1, 2, 6))
    ]
    rows.append({"index": 3, "pod": "p3", "figures": {}, "simulated": True})
    figure = FUNCTIONS["training"](PointData(good[2], PointExtras(rows)), "loss", statistic)
    assert (figure.value, figure.n, figure.of, figure.simulated) == (value, 3, 8, True)


def test_a_figure_that_no_log_had_has_no_value(good):
    figure = FUNCTIONS["training"](PointData(good[2]), "loss")
    assert (figure.value, figure.n, figure.of) == (None, 0, 8)


def test_scaling_efficiency_compares_with_the_fewest_accelerators_of_equal_settings(tmp_path):
    """Of 1, 2 and 4 GPUs with two batch sizes; a run that varies neither GPUs nor pods has no such figure."""
    speeds = {(1, 8): 10.0, (2, 8): 18.0, (4, 8): 30.0, (1, 16): 12.0, (4, 16): 24.0}
    worlds = [(World(count=3), {"seatrial_gpus": gpus, "seatrial_batch": batch}) for gpus, batch in speeds]
    top = write_run(tmp_path / "run", worlds)
    for number, ((gpus, batch), speed) in enumerate(speeds.items()):
        folder = top / "points" / f"{number:03d}"
        files.write_yaml(folder / "settings.yml", {"seatrial_gpus": gpus, "seatrial_pods": 0, "seatrial_batch": batch})
        figures = {"train_samples_per_second": speed}
        rows = [{"index": n, "pod": f"p{n}", "figures": figures, "simulated": False} for n in range(3)]
        files.write_json_lines(folder / "training.jsonl", rows, "training/1")
    write_timeline(str(top))
    source = {"function": "scaling_efficiency", "figure": "train_samples_per_second"}
    over = {"over": ["seatrial_gpus", "seatrial_pods"]}
    entry = {**ONE, "unit": "%", "for_each": {"scaled": "scaled"}}
    other = {**entry, "name": "none", "source": {**source, "over": ["seatrial_pods"]}}
    write_kpis(str(top), [written(tmp_path, {**entry, "source": {**source, **over}}, other)])
    found = [files.read_json(top / f"points/{number:03d}/kpis.json")["kpis"] for number in range(len(speeds))]
    assert [[(one["name"], one["value"], one["n"]) for one in kpis] for kpis in found] == [
        [("x", pytest.approx(value), 3)] for value in (100.0, 90.0, 75.0, 100.0, 50.0)
    ]
    assert found[2][0]["labels"]["accelerators"] == 4 and found[2][0]["labels"]["reference"] == 1


def trained(folder, speeds):
    """Write the figures of a point whose plan has a template for each name in ``speeds``: name -> one speed per job."""
    names = [name for name, values in speeds.items() for _one in values]
    plan = list(files.read_json_lines(folder / "plan.jsonl"))
    templates = [{**plan[0]["templates"][0], "name": name} for name in speeds]
    plan = [{**plan[0], "templates": templates}, *({**one, "template": names[n]} for n, one in enumerate(plan[1:]))]
    files.write_json_lines(folder / "plan.jsonl", plan, "plan/1")
    values = [{"train_samples_per_second": one} for some in speeds.values() for one in some]
    rows = [{"index": n, "pod": f"p{n}", "figures": one, "simulated": False} for n, one in enumerate(values)]
    files.write_json_lines(folder / "training.jsonl", rows, "training/1")


@pytest.mark.parametrize(("noise", "known"), [(0.0, True), (0.4, True), (None, False)])
def test_scaling_efficiency_has_an_interval_that_contains_it_and_is_wider_with_more_noise(tmp_path, noise, known):
    """One job at each point gives no interval: nothing shows how much jobs differ."""
    factors = (1.0,) if noise is None else (1.0, 1.0 + noise, 1.0 - noise)
    worlds = [(World(count=len(factors)), {"seatrial_gpus": gpus}) for gpus in (1, 2)]
    top = write_run(tmp_path / "run", worlds)
    for number, (gpus, speed) in enumerate(((1, 10.0), (2, 18.0))):
        folder = top / "points" / f"{number:03d}"
        files.write_yaml(folder / "settings.yml", {"seatrial_gpus": gpus})
        trained(folder, {"job": [speed * one for one in factors]})
    write_timeline(str(top))
    source = {"function": "scaling_efficiency", "figure": "train_samples_per_second", "over": ["seatrial_gpus"]}
    write_kpis(str(top), [written(tmp_path, {**ONE, "unit": "%", "source": source})])
    first, second = (files.read_json(top / f"points/00{n}/kpis.json")["kpis"][0] for n in (0, 1))
    assert first["confidence"] is None and second["value"] == pytest.approx(90.0)
    if not known:
        assert second["confidence"] is None
    elif not noise:
        assert second["confidence"]["low"] == pytest.approx(90.0) == pytest.approx(second["confidence"]["high"])
    else:  # by hand: exp(±t(0.025, 4) · s · sqrt(2/3)) with s = 0.42663, the deviation of log(1, 1.4, 0.6)
        assert second["confidence"]["low"] == pytest.approx(90 * 0.38017, rel=1e-3)
        assert second["confidence"]["high"] == pytest.approx(90 * 2.63043, rel=1e-3)


def test_several_models_are_compared_with_the_points_that_train_each_alone(tmp_path):
    points = [
        ({"a": 1}, {"a": [10.0]}),
        ({"b": 1}, {"b": [4.0]}),
        ({"a": 2, "b": 1}, {"a": [9.0, 8.0], "b": [3.0]}),
        ({"a": 1, "c": 1}, {"a": [5.0], "c": [1.0]}),
    ]
    worlds = [(World(count=sum(models.values())), {"fine_tuning_models": models}) for models, _speeds in points]
    top = write_run(tmp_path / "run", worlds)
    for number, (models, speeds) in enumerate(points):
        folder = top / "points" / f"{number:03d}"
        files.write_yaml(folder / "settings.yml", {"fine_tuning_models": models})
        trained(folder, speeds)
    write_timeline(str(top))
    own = {"function": "training", "figure": "train_samples_per_second", "template": "{model}"}
    beside = {"function": "speed_beside_others", "figure": "train_samples_per_second", "template": "{model}"}
    definitions = [
        {**ONE, "name": name, "for_each": {"model": "templates"}, "source": source}
        for name, source in (("of_{model}", own), ("beside_{model}", beside))
    ]
    write_kpis(str(top), [written(tmp_path, *definitions)])
    found = [files.read_json(top / f"points/00{number}/kpis.json")["kpis"] for number in range(4)]
    seen = [[(one["name"], one["value"], one["n"], one["of"]) for one in kpis] for kpis in found]
    assert seen == [
        [],
        [],
        [("of_a", 8.5, 2, 2), ("of_b", 3.0, 1, 1), ("beside_a", 85.0, 2, 2), ("beside_b", 75.0, 1, 1)],
        [("of_a", 5.0, 1, 1), ("of_c", 1.0, 1, 1), ("beside_a", 50.0, 1, 1), ("beside_c", None, 0, 1)],
    ]
    assert found[2][2]["confidence"]["low"] < 85.0 < found[2][2]["confidence"]["high"]
    assert found[3][3]["note"] == "no point of the matrix trains this model only"


@pytest.mark.parametrize("product", ["NVIDIA-L40S", "simulated-NVIDIA-L40S"])
def test_figures_of_gpus_that_nodes_only_claim_to_have_are_simulated(tmp_path, definitions, product):
    """Workloads ran on a real node, whose GPUs role fake_gpu wrote into its status: their times are measured."""
    top = write_run(tmp_path / "run", [(World(count=3, nodes=dict.fromkeys(range(3), REAL), training=False), {})])
    document = files.read_yaml(top / "cluster.yml")
    document["clusters"]["sutest"]["gpu_products"] = {product: 3}
    files.write_yaml(top / "cluster.yml", document, "cluster/2")
    write_timeline(str(top))
    write_kpis(str(top), [definitions])
    found = {one["name"]: one for one in files.read_json(top / "points/000/kpis.json")["kpis"]}
    assert [name for name, one in found.items() if one["simulated"]] == (
        ["gpu_hours_requested", "gpu_hours_used"] if product.startswith("simulated") else []
    )


def test_figures_of_a_foreign_file_that_are_not_finite_are_left_out_and_said(tmp_path, definitions):
    top = write_run(tmp_path / "run", [(World(count=2), {})])
    write_timeline(str(top))
    row = {"index": 0, "pod": "p-0", "simulated": True, "error": None}
    figures = ['"train_samples_per_second": Infinity, "train_loss": NaN', '"train_loss": 1.5']
    lines = [json.dumps(row)[:-1] + ', "figures": {' + text + "}}" for text in figures]
    (top / "points/000/training.jsonl").write_text("\n".join(lines) + "\n")
    fine_tuning = str(Path(definitions).parents[3] / "fine_tuning/files/kpis.yml")
    result = compute_kpis.write_kpis(str(top), [definitions, fine_tuning])
    text = (top / "points/000/kpis.json").read_text()
    assert "Infinity" not in text and "NaN" not in text
    (said,) = [warning for warning in result["warnings"] if "finite" in warning]
    assert said == (
        "point 000: training.jsonl has figures that are not finite numbers and are left out: "
        "train_loss (1), train_samples_per_second (1)"
    )


def test_a_kpi_that_is_not_finite_has_no_value(good):
    data = PointData(good[2], PointExtras(users={"reaction": {"p95": math.inf}}))
    definition = {**ONE, "source": {"jmespath": "users.reaction.p95"}}
    (kpi,) = computed(data, [definition])
    assert (kpi["value"], kpi["note"]) == (None, "it is not a finite number")

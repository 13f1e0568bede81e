"""Definitions of KPIs: read, replaced, refused; at which points they hold; which figure is shown first."""

from __future__ import annotations

import json

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi import (
    kpi_definitions,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.point_data import (
    FUNCTIONS,
    KpiValue,
    PointData,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi.write_kpis import (
    load_and_check_kpi_definitions,
    write_kpis,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline import timeline_builder
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline.write_timeline import write_timeline
from computed_kpis import NODES, ONE, computed, written
from run_directory import RUN, World, write_point, write_run


def test_a_setting_names_a_figure_without_an_answer_of_its_own(tmp_path, definitions):
    top = write_run(tmp_path / "run", [(World(count=3), {}), (World(count=4), {})])
    for number in ("000", "001"):
        files.write_yaml(top / f"points/{number}/settings.yml", {"results_answer": "makespan"}, "settings/1")
    write_timeline(str(top))
    write_kpis(str(top), [definitions])
    first, second = (files.read_json(top / f"points/{number}/kpis.json") for number in ("000", "001"))
    for document in (first, second):
        files.validate_schema_if_enabled("kpis/2", document)
    found = {one["name"]: one for one in second["kpis"]}
    assert found["makespan"]["answer"] == {"text": f"{found['makespan']['title']}: {{value}}"}
    before = next(one["value"] for one in first["kpis"] if one["name"] == "makespan")
    assert found["makespan"]["difference"]["value"] == found["makespan"]["value"] - before


def test_a_figure_without_an_answer_has_the_names_of_those_that_have_one(tmp_path, definitions):
    top = write_run(tmp_path / "run", [(World(count=3), {})])
    files.write_yaml(top / "points/000/settings.yml", {"results_answer": "makespan"}, "settings/1")
    write_timeline(str(top))
    named = {**ONE, "name": "other", "answer": {"text": "{value}", "names": {"job": "plain Jobs"}}}
    write_kpis(str(top), [definitions, written(tmp_path, named)])
    found = {one["name"]: one for one in files.read_json(top / "points/000/kpis.json")["kpis"]}
    assert found["makespan"]["answer"]["names"] == {"job": "plain Jobs"}


def test_for_each_makes_one_kpi_for_every_combination(good, tmp_path):
    entry = {
        **ONE,
        "name": "{stage}_{quantile}",
        "source": {"function": "duration", "stage": "{stage}", "quantile": "{quantile}"},
    }
    path = written(tmp_path, {**entry, "for_each": {"stage": ["created", "running"], "quantile": ["p50", "max"]}})
    names = [one["name"] for one in computed(PointData(good[2]), load_and_check_kpi_definitions([path]))]
    assert names == ["created_p50", "created_max", "running_p50", "running_max"]


def test_a_later_definition_replaces_one_of_the_same_name(tmp_path, definitions):
    path = written(tmp_path, {**ONE, "name": "makespan", "unit": "h"})
    found = [one for one in load_and_check_kpi_definitions([definitions, path]) if one["name"] == "makespan"]
    assert [one["unit"] for one in found] == ["h"]


def test_a_figure_of_a_stage_that_the_timeline_lacks_says_so_and_is_not_shown_first(good, tmp_path):
    source = {"function": "rate", "stage": ["admitted", "queued"]}
    path = written(tmp_path, {**ONE, "source": source, "headline": True, "answer": {"text": "Admitted at {value}"}})
    (found,) = computed(PointData(good[2]), load_and_check_kpi_definitions([path]))
    assert "answer" not in found and not found["headline"]
    assert (found["value"], found["note"]) == (None, "this timeline has no stage admitted or queued")


def test_a_figure_stays_first_if_the_definitions_of_the_stages_are_lost(tmp_path):
    path = write_point(tmp_path / "000", World(count=2)) / "observations.jsonl"
    kept = [line for line in path.read_text().splitlines(True) if json.loads(line)["type"] != "stages"]
    path.write_text("".join(kept))
    source = {"function": "rate", "stage": "running"}
    definitions = load_and_check_kpi_definitions([written(tmp_path, {**ONE, "source": source, "headline": True})])
    (found,) = computed(PointData(timeline_builder.build_timeline_of_workloads(path.parent, RUN, "000")), definitions)
    assert found["headline"] and found["value"] is None


@pytest.mark.parametrize("applies", [True, False])
def test_a_figure_that_cannot_apply_to_the_real_part_is_not_shown_first(tmp_path, monkeypatch, applies):
    world = World(count=4, nodes={row: NODES[row % 2] for row in range(4)})
    top = write_run(tmp_path / "run", [(world, {})])
    write_timeline(str(top))

    def figure(data):
        return KpiValue(1.0, 1, data.of, simulated=data.of == 4, inapplicable=not applies and data.of != 4)

    monkeypatch.setitem(FUNCTIONS, "of_a_part", figure)
    answer = {"text": "It is {value}"}
    write_kpis(
        str(top),
        [written(tmp_path, {**ONE, "source": {"function": "of_a_part"}, "headline": True, "answer": answer})],
    )
    found = {one["name"]: one for one in files.read_json(top / "points/000/kpis.json")["kpis"]}
    assert found["x"]["headline"] is applies and ("answer" in found["x"]) is applies
    assert found["x_simulated"]["simulated"] and not found["x_simulated"]["headline"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"direction": "up"}, "direction 'up' is none of higher, lower, none"),
        ({"helpp": "x"}, r"unknown key 'helpp' \(did you mean 'help'\?\)"),
        ({"source": {"function": "makespn"}}, r"unknown function 'makespn' \(did you mean 'makespan'\?\)"),
        (
            {"source": {"function": "rate", "stag": "created"}},
            r"rate has no argument 'stag' \(did you mean 'stage'\?\)",
        ),
        ({"source": {"function": "rate"}}, "rate needs the argument 'stage'"),
        ({"source": "makespan"}, "source must be a dictionary"),
        ({"unit": None, "name": None}, "name"),
    ],
)
def test_a_wrong_definition_is_refused_naming_file_and_nearest(tmp_path, change, message):
    path = written(tmp_path, {key: value for key, value in {**ONE, **change}.items() if value is not None})
    with pytest.raises(InputError, match=message) as caught:
        load_and_check_kpi_definitions([path])
    assert path in str(caught.value)


def test_a_file_that_is_no_list_is_refused(tmp_path):
    path = tmp_path / "kpis.yml"
    path.write_text("name: x\n")
    with pytest.raises(InputError, match="a list of KPI definitions is expected, not dict"):
        load_and_check_kpi_definitions([str(path)])


def test_a_wrong_quantile_is_refused(good, tmp_path):
    path = written(tmp_path, {**ONE, "source": {"function": "lateness", "quantile": "p200"}})
    with pytest.raises(InputError, match="quantile 'p200'"):
        computed(PointData(good[2]), load_and_check_kpi_definitions([path]))


def test_a_kpi_with_settings_exists_only_at_points_that_have_them(tmp_path):
    (tmp_path / "flavours" / "ilab").mkdir(parents=True)
    written(tmp_path, {**ONE, "name": "of_all"})
    written(tmp_path / "flavours" / "ilab", {**ONE, "name": "of_ilab", "settings": {"fine_tuning_flavour": "ilab"}})
    loaded = load_and_check_kpi_definitions([str(tmp_path)])

    def names(settings):
        return [one["name"] for one in kpi_definitions.kpis_defined_for_settings(loaded, settings)]

    assert names({"fine_tuning_flavour": "fms"}) == ["of_all"]
    # A run of a version without the setting keeps all its figures.
    assert names({"fine_tuning_flavour": "ilab"}) == names({}) == ["of_all", "of_ilab"]


def test_a_folder_without_definitions_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"has a kpis.yml, and this one has none"):
        load_and_check_kpi_definitions([str(tmp_path)])


def test_the_figures_of_a_point_are_those_of_its_settings(tmp_path):
    top = write_run(tmp_path / "run", [(World(count=3), {"seatrial_test": 1}), (World(count=3), {"seatrial_test": 2})])
    for number, value in (("000", 1), ("001", 2)):
        files.write_yaml(top / "points" / number / "settings.yml", {"seatrial_test": value})
    write_timeline(str(top))
    write_kpis(str(top), [written(tmp_path, ONE, {**ONE, "name": "second", "settings": {"seatrial_test": 2}})])
    names = [
        [one["name"] for one in files.read_json(top / f"points/{number}/kpis.json")["kpis"]]
        for number in ("000", "001")
    ]
    assert names == [["x"], ["x", "second"]]

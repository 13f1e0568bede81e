# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a request to settings: order of layers, types, templates, points, secrets. Templates are Ansible's own."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import resolve_settings, setting_templates
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.setting_templates import UnsafeText
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_catalogue import Catalogue, Setting
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_layers import (
    RequestedSettings,
    SettingsError,
    SettingsLayer,
)

SPECS: dict[str, dict[str, Any]] = {
    "load_count": {"type": "int", "default": 3},
    "load_wait": {"type": "float", "default": 1},
    "load_breaker": {"type": "float", "default": -1},
    "load_name": {"type": "str", "default": "plain"},
    "load_hyper": {"type": "dict", "default": {"r": 4, "alpha": 16}},
    "load_hosts": {"type": "list", "elements": "str", "default": []},
    "load_sizes": {"type": "list", "elements": "int", "default": []},
    "load_slow": {"type": "bool", "default": False},
    "load_mode": {"type": "str", "choices": ["open", "closed"], "default": "open"},
    "load_title": {"type": "str", "default": "{{ load_name }} x {{ load_count }}"},
    "load_kubeconfig": {"type": "path", "default": "{{ cluster_acquired.sutest.kubeconfig }}"},
    "load_context": {"type": "str", "default": "{{ cluster_acquired.sutest.context | default('') }}"},
    "load_label": {"type": "str", "default": "on {{ load_context }}"},
    "load_token": {"type": "str", "no_log": True, "default": ""},
}
CATALOGUE = Catalogue({name: Setting(name, "load", spec) for name, spec in SPECS.items()}, ("load",))
DEFAULTS = {name: spec["default"] for name, spec in SPECS.items() if not spec.get("no_log")}


def resolve(
    *layers: SettingsLayer, presets: tuple[str, ...] = (), variables: dict[str, Any] | None = None
) -> resolve_settings.EffectiveSettings:
    render = setting_templates.create_template_renderer(Templar(loader=DataLoader()), variables or {})
    return resolve_settings.resolve_request(RequestedSettings("load", presets, layers), CATALOGUE, DEFAULTS, render)


def preset(name: str, **values: Any) -> SettingsLayer:
    return SettingsLayer("preset", name, values)


def extra(**values: Any) -> SettingsLayer:
    return SettingsLayer("extra", "-e", values)


def test_a_path_whose_name_has_braces_stays_text_for_later_sessions() -> None:
    variables = {"cluster_acquired": {"sutest": {"kubeconfig": "/odd {{ name }}/k"}}, "run_dir": "/r"}
    found = resolve(variables=variables).settings["load_kubeconfig"]
    assert found == "/odd {{ name }}/k" and isinstance(found, UnsafeText)
    assert "!unsafe" in setting_templates.dump_yaml_with_unsafe({"load_kubeconfig": found})


def test_each_layer_wins_over_the_one_before() -> None:
    layers = [
        SettingsLayer("inventory", "inventory", {"load_count": 10}),
        preset("p", load_count=20),
        preset("q", load_count=30),
        SettingsLayer("profile", "api.example.com", {"presets": ["q"]}),
        SettingsLayer("overrides", "overrides", {"load_count": 40}),
        extra(load_count="50"),
    ]
    seen = [
        resolve(*layers[:number], presets=("p",) if number > 1 else ()).settings["load_count"] for number in range(7)
    ]
    assert seen == [3, 10, 20, 20, 30, 40, 50]


def test_values_of_every_layer_get_the_declared_type() -> None:
    found = resolve(preset("p", load_slow="yes"), extra(load_count="5", load_hosts=["a", 1]), presets=("p",))
    assert found.settings["load_slow"] is True
    assert found.settings["load_count"] == 5
    assert found.settings["load_hosts"] == ["a", "1"]


def test_templates_see_the_resolved_settings() -> None:
    assert resolve(extra(load_count="7")).settings["load_title"] == "plain x 7"


def test_a_rendered_template_is_coerced_too() -> None:
    assert resolve(extra(load_count="{{ 2 + 3 }}")).settings["load_count"] == 5
    with pytest.raises(SettingsError, match="-e: load_count is a whole number"):
        resolve(extra(load_count="{{ 'x' * 3 }}"))


def test_a_name_that_only_the_run_defines_stays_for_later_and_is_reported() -> None:
    found = resolve()
    assert found.late == ("load_kubeconfig", "load_context", "load_label")
    assert found.settings["load_kubeconfig"] == "{{ cluster_acquired.sutest.kubeconfig }}"
    known = {"cluster_acquired": {"sutest": {"kubeconfig": "/k"}}}
    assert resolve(variables=known).settings["load_kubeconfig"] == "/k"


def test_a_template_that_could_do_without_what_the_run_defines_waits_for_it() -> None:
    found = resolve(extra(load_name="{{ run_id | default('none') }}")).settings
    assert found["load_context"] == SPECS["load_context"]["default"], "an empty context would be another cluster"
    assert found["load_label"] == "on {{ load_context }}"
    assert found["load_name"] == "{{ run_id | default('none') }}"
    known = {"cluster_acquired": {"sutest": {"context": "lab"}}}
    assert resolve(variables=known).settings["load_label"] == "on lab"
    assert resolve(variables={"cluster_acquired": {"sutest": {}}}).settings["load_label"] == "on "


def test_braces_in_a_literal_text_are_no_template() -> None:
    found = resolve(extra(load_name=UnsafeText("{{ not_a_name }}")))
    assert found.settings["load_name"] == "{{ not_a_name }}"
    assert isinstance(found.settings["load_name"], UnsafeText)


def test_a_dotted_key_reaches_into_a_default_that_is_a_template() -> None:
    defaults = {**DEFAULTS, "load_hyper": "{{ {'r': load_count} }}"}
    request = RequestedSettings("load", ("p",), (preset("p", **{"load_hyper.r": 9}),))
    render = setting_templates.create_template_renderer(Templar(loader=DataLoader()), {})
    assert resolve_settings.resolve_request(request, CATALOGUE, defaults, render).settings["load_hyper"] == {"r": 9}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"load_count": "abc"}, 'load_count is a whole number, and "abc" is not'),
        ({"load_hosts": "a,b"}, 'from the command line give JSON: -e \'{"load_hosts": ["a", "b"]}\''),
        ({"load_hyper": "r=4"}, 'give JSON: -e \'{"load_hyper": {"key": "value"}}\''),
        ({"load_name": ["x"]}, 'load_name is text, and ["x"] is not'),
        ({"load_count": True}, "load_count is a whole number, and true is not"),
        ({"load_count": None}, "load_count is a whole number, and null is not; without a value it has its default"),
        ({"load_name": None}, "load_name is text, and null is not"),
        ({"load_count": "{{ none }}"}, "load_count is a whole number, and null is not"),
        ({"load_count": "-1"}, "load_count is -1, and it must be 0 or more"),
        ({"load_count": "{{ 1 - 3 }}"}, "load_count is -2, and it must be 0 or more"),
        ({"load_wait": -0.5}, "load_wait is -0.5, and it must be 0 or more"),
        ({"load_wait": "nan"}, "load_wait is NaN, and it must be 0 to 1,000,000,000"),
        ({"load_wait": "inf"}, "load_wait is Infinity, and it must be 0 to 1,000,000,000"),
        ({"load_mode": "closd"}, "load_mode can't be 'closd' (did you mean 'closed'?); it is one of open, closed"),
    ],
)
def test_a_wrong_value_is_refused_with_setting_source_and_value(values: dict, words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        resolve(extra(**values))
    assert str(caught.value).startswith("-e: ")
    assert words in str(caught.value)


def test_a_secret_in_a_preset_is_refused_and_its_value_not_shown() -> None:
    with pytest.raises(SettingsError) as caught:
        resolve(preset("p", load_token="CANARY"), presets=("p",))
    assert "SEATRIAL_LOAD_TOKEN" in str(caught.value)
    assert "CANARY" not in str(caught.value)


def test_secrets_are_in_no_settings() -> None:
    assert "load_token" not in resolve().settings


def test_without_a_matrix_there_is_one_point_with_all_settings() -> None:
    found = resolve()
    assert [point.name for point in found.points] == ["001"]
    assert found.points[0].settings == found.settings


def test_the_matrix_gives_the_product_and_each_point_is_coerced_and_rendered() -> None:
    found = resolve(preset("p", matrix={"load_count": ["1", 2], "load_hyper.r": [8, 16]}), presets=("p",))
    seen = [(point.settings["load_count"], point.settings["load_hyper"]["r"], point.values) for point in found.points]
    assert [one[:2] for one in seen] == [(1, 8), (1, 16), (2, 8), (2, 16)]
    assert seen[1][2] == {"load_count": "1", "load_hyper.r": 16}


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ((preset("p", matrix={"load_cuont": [1]}),), "matrix, point 001 sets the unknown setting 'load_cuont'"),
        ((preset("p", matrix={"load_count": [1, "x"]}),), "matrix, point 002: load_count is a whole number"),
        ((preset("p", matrix={"load_count": 4}),), "matrix: load_count needs a list of values to vary over, got 4"),
        ((preset("p", matrix={"load_count": [1]}), extra(load_count="2")), "load_count was given on the command line"),
        (
            (preset("p", matrix={"load_hyper.r": [1]}), SettingsLayer("overrides", "overrides", {"load_hyper.r": 2})),
            "load_hyper.r was given on the command line",
        ),
    ],
)
def test_a_wrong_matrix_is_refused(layers: tuple, words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        resolve(*layers, presets=("p",))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("provider", "exclusive", "refused"),
    [("rehearsal", False, False), ("existing", True, False), ("existing", False, True)],
)
def test_a_heavy_preset_needs_a_cluster_that_is_ours_or_ours_alone(
    provider: str, exclusive: bool, refused: bool
) -> None:
    request = RequestedSettings("p", ("mine",), (preset("mine", extends="big"), preset("big", heavy=True)))
    values = {"cluster_provider": provider, "cluster_exclusive": exclusive}
    if refused:
        with pytest.raises(SettingsError, match="preset 'big' is heavy.*cluster_exclusive=true"):
            resolve_settings.refuse_heavy_presets(request, values)
    else:
        resolve_settings.refuse_heavy_presets(request, values)


def test_further_points_come_behind_the_product_and_conditions_skip_points() -> None:
    found = resolve(
        preset(
            "p",
            matrix={"load_count": [1, 4]},
            matrix_points=[{"load_count": "9", "load_mode": "closed"}],
            matrix_skip_if=["load_count > 8 and load_mode == 'open'", "load_hyper.r == 4 and load_count == 4"],
        ),
        presets=("p",),
    )
    assert [point.name for point in found.points] == ["001", "002", "003"]
    assert [point.settings["load_count"] for point in found.points] == [1, 4, 9]
    assert found.points[2].values == {"load_count": "9", "load_mode": "closed"}
    why = "matrix_skip_if[1]: load_hyper.r == 4 and load_count == 4"
    assert [point.skipped for point in found.points] == ["", why, ""]
    assert [point.name for point in found.measured] == ["001", "003"]
    assert not {"matrix", "matrix_points", "matrix_skip_if"} & set(found.settings)


def test_points_without_a_matrix_are_the_only_ones() -> None:
    found = resolve(preset("p", matrix_points=[{"load_count": 1}, {"load_count": 2}]), presets=("p",))
    assert [point.values for point in found.points] == [{"load_count": 1}, {"load_count": 2}]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            {"matrix_skip_if": ["count > 2"]},
            r"matrix_skip_if\[0\]: 'count > 2' names the unknown setting 'count' \(did you mean 'load_count'",
        ),
        (
            {"matrix_skip_if": ["load_cuont > 2"]},
            r"names the unknown setting 'load_cuont' \(did you mean 'load_count'",
        ),
        ({"matrix_skip_if": ["load_count >"]}, r"matrix_skip_if\[0\]: 'load_count >' is not a valid condition"),
        ({"matrix_skip_if": ["{{ load_count > 2 }}"]}, "is a condition: write it without braces"),
        ({"matrix_skip_if": ["load_kubeconfig == 'x'"]}, "names load_kubeconfig, whose value only the run knows"),
        ({"matrix_skip_if": ["load_count < 'x'"]}, r"matrix_skip_if\[0\]: can't render"),
        (
            {"matrix": {"load_count": [1, 2]}, "matrix_skip_if": ["true"]},
            r"leaves no point of 2; the first: matrix_skip_if\[0\]: true",
        ),
        ({"matrix_skip_if": "load_count > 2"}, "matrix_skip_if is a list"),
        ({"matrix_skip_if": ["lookup('pipe', 'id') == 'y'"]}, "calls lookup: a condition only compares settings"),
        ({"matrix_skip_if": ["load_mode.format(1) == 'y'"]}, "calls format: "),
        ({"matrix_skip_if": ["load_mode.__class__ == 'y'"]}, "reads __class__: "),
        ({"matrix_skip_if": ["(load_mode | attr('upper'))"]}, "uses attr, which is no filter or test for conditions"),
        ({"matrix_skip_if": ["('a' * 40 ~ 'b') is search('(a+)+$')"]}, "makes a text or a power: "),
        ({"matrix_skip_if": [f"'{'a' * 40}b' is search('(a+)+$')"]}, "more than 2 s of processor time"),
        ({"matrix_skip_if": ["('a' * 4000000000) | length == 1"]}, "makes a text or a power: "),
        ({"matrix_skip_if": ["load_mode * 4000000000 == 'x'"]}, "makes a text or a power: "),
        ({"matrix_skip_if": ["load_count ** 99999999 == 1"]}, "makes a text or a power: "),
        ({"matrix_skip_if": ["'%999999999d' % 1 == 'x'"]}, "makes a text or a power: "),
        ({"matrix_skip_if": ["'x' | center(3000000000) == 'x'"]}, "uses center, which is no filter or test"),
        ({"matrix_skip_if": ["['/'] | map('fileglob')"]}, "uses fileglob, which is no filter or test"),
        ({"matrix_skip_if": ["['/'] | map(load_mode)"]}, "uses a computed name, which is no filter or test"),
        ({"matrix_skip_if": ["true) }}{{ lookup('pipe', 'id') }}{{ (1"]}, "write it without braces"),
        ({"matrix_skip_if": ["true) }} and (1"]}, "is not one expression: "),
        ({"matrix_points": [{"load_cuont": 1}]}, "matrix_points, point 001 sets the unknown setting 'load_cuont'"),
        ({"matrix_points": [{"load_count": "x"}]}, "matrix_points, point 001: load_count is a whole number"),
        ({"matrix_points": [{}]}, r"matrix_points\[0\] needs a dictionary"),
        ({"matrix_points": {"load_count": 1}}, "matrix_points is a list"),
        (
            {"matrix": {"load_count": [1, 2]}, "matrix_points": [{"load_count": 2}]},
            "point 003 has the same values as point 002",
        ),
    ],
)
def test_wrong_points_and_conditions_are_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        resolve(preset("p", **values), presets=("p",))


def test_a_point_does_not_set_what_the_command_line_sets() -> None:
    with pytest.raises(SettingsError, match=r"load_count was given on the command line, and matrix_points\[0\] sets"):
        resolve(preset("p", matrix_points=[{"load_count": 2}]), extra(load_count=3), presets=("p",))


BISECT = {"over": "load_count", "values": [1, "2", 4], "kpi": "makespan"}


def test_a_bisection_has_a_point_for_each_value() -> None:
    found = resolve(extra(bisect=BISECT))
    assert [point.settings["load_count"] for point in found.points] == [1, 2, 4]
    assert found.bisect == BISECT
    assert "bisect" not in found.settings


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            {"bisect": {**BISECT, "over": "load_cuont"}},
            r"over: unknown setting 'load_cuont' \(did you mean 'load_count'",
        ),
        (
            {"bisect": BISECT, "matrix": {"load_count": [1]}},
            "varies load_count alone, and matrix is set too",
        ),
        ({"bisect": BISECT, "load_count": 3}, "load_count was given on the command line, and the matrix varies"),
        ({"bisect": {**BISECT, "values": [1]}}, "values: 1 value"),
    ],
)
def test_a_wrong_bisection_is_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        resolve(extra(**more))


def test_a_number_whose_default_is_negative_may_be_negative() -> None:
    assert resolve(extra(load_breaker="-1")).settings["load_breaker"] == -1


@pytest.mark.parametrize("word", ["matrix", "matrix_points", "matrix_skip_if", "pre_cleanup", "repeat", "bisect"])
def test_a_word_that_is_null_is_not_set(word: str) -> None:
    assert resolve(extra(**{word: None})).points == resolve().points


@pytest.mark.parametrize(
    "condition",
    [
        "load_count | string is match('2')",
        "(load_count | string).startswith('2')",
        "[load_count] | select('gt', 1) | list | length > 0",
        "load_count in [2, 3]",
    ],
)
def test_a_condition_may_use_filters_and_tests_of_ansible_and_methods(condition: str) -> None:
    found = resolve(
        preset("p", matrix={"load_count": [1, 2]}, matrix_skip_if=[condition]),
        presets=("p",),
    )
    assert [point.skipped for point in found.points] == ["", f"matrix_skip_if[0]: {condition}"]


def test_an_error_of_a_dotted_key_names_that_key() -> None:
    layers = SettingsLayer("inventory", "inventory", {"load_sizes": [1]}), preset("p", **{"load_sizes[0]": "x"})
    with pytest.raises(SettingsError) as caught:
        resolve(*layers, presets=("p",))
    assert (caught.value.at, caught.value.source) == ("load_sizes[0]", "preset p")


def test_a_template_sees_what_the_matrix_sets_at_its_point() -> None:
    found = resolve(preset("p", matrix={"load_count": [1, 2]}, load_wait="{{ load_count * 2 }}"), presets=("p",))
    assert [(one.settings["load_title"], one.settings["load_wait"]) for one in found.points] == [
        ("plain x 1", 2.0),
        ("plain x 2", 4.0),
    ]


def test_what_can_not_refer_to_the_matrix_is_rendered_once() -> None:
    rendered: list[Any] = []
    real = setting_templates.create_template_renderer(Templar(loader=DataLoader()), {})

    def render(value: Any, tree: Any) -> tuple[Any, bool]:
        rendered.append(value)
        return real(value, tree)

    apart, far, dynamic = "{{ load_mode }}", "{{ [load_title] }}", "{{ {'r': lookup('vars', 'load_' ~ 'count')} }}"
    values = {"load_name": apart, "load_hosts": far, "load_hyper": dynamic, "matrix": {"load_count": [1, 2]}}
    request = RequestedSettings("load", ("p",), (preset("p", **values),))
    found = resolve_settings.resolve_request(request, CATALOGUE, DEFAULTS, render)
    assert [one.settings["load_hosts"] for one in found.points] == [["open x 1"], ["open x 2"]]
    assert [one.settings["load_hyper"] for one in found.points] == [{"r": 1}, {"r": 2}]
    assert [rendered.count(one) for one in (apart, far, dynamic)] == [1, 3, 3]

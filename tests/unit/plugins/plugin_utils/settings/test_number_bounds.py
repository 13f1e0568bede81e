# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Numbers have bounds before anything is made of them."""

from __future__ import annotations

import re
from typing import Any

import preflight
import pytest
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import settings_catalogue
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.convert_setting_values import (
    coerce_to_declared_type,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.matrix_points import (
    MOST_POINTS,
    SettingsMatrix,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.project_role import ROOT
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_layers import SettingsError
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.usefixtures("ansible_plugins")
NUMBERS = [setting for setting in preflight.CATALOGUE.settings.values() if setting.type in ("int", "float")]
#: Settings of whose value lists, objects, processes or nodes are made.
COUNTED = re.compile(r"_(count|nodes|pods|gpus|in_flight|clients|workers|iterations|gpus_per_node|pods_per_node)$")


@pytest.mark.parametrize("setting", NUMBERS, ids=lambda setting: setting.name)
def test_a_number_out_of_its_bounds_is_refused_with_them(setting: settings_catalogue.Setting) -> None:
    least, most = setting.bounds
    for value in (most + 1, 10**12 if most < 10**12 else 10**20, "1e300", 0xF << 16000, "9" * 5000, least - 1):
        with pytest.raises(SettingsError) as caught:
            coerce_to_declared_type(setting, value, "-e", setting.name)
        assert setting.name in str(caught.value) and len(str(caught.value)) < 250
    assert coerce_to_declared_type(setting, most, "-e") == most
    assert coerce_to_declared_type(setting, least, "-e") == least


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize("name", ["fine_tuning_count", "fine_tuning_rate", "fine_tuning_arrival", "results_limits"])
def test_a_number_that_is_not_finite_is_refused_with_its_setting_and_source(name: str, number: float) -> None:
    value = {"a": [number]} if preflight.CATALOGUE.settings[name].type == "dict" else number
    with pytest.raises(SettingsError, match=f"-e: {name} has -?(inf|nan), which is no finite number"):
        coerce_to_declared_type(preflight.CATALOGUE.settings[name], value, "-e", name)
    with pytest.raises(SettingsError, match=f"-e: {name} has -?(inf|nan), which is no finite number"):
        preflight.check(preflight.PHASES, **{name: value})


@pytest.mark.parametrize("path", sorted((ROOT / "roles").glob("*/meta/bounds.yml")), ids=lambda path: path.parts[-3])
def test_bounds_are_of_numeric_settings_and_hold_their_defaults(path: Any) -> None:
    known = {setting.name: setting for setting in NUMBERS if setting.role == path.parts[-3]}
    for name, (least, most) in yaml.safe_load(path.read_text(encoding="utf-8")).items():
        assert isinstance(least, int) and isinstance(most, int), "AWX takes whole numbers as limits of an answer"
        assert least <= known[name].default <= most


def test_what_lists_and_objects_are_made_of_has_bounds_of_its_own() -> None:
    without = [one.name for one in NUMBERS if COUNTED.search(one.name) and one.declared_bounds is None]
    assert without == []


@pytest.mark.parametrize(
    "given_values",
    [
        {"fine_tuning_hyper_parameters": {"max_steps": 0xF << 16000}},
        {"matrix": {"fine_tuning_hyper_parameters.r": [1, 0xF << 16000]}},
        {"matrix_points": [{"fine_tuning_count": 2**63}]},
        {"repeat": {"max": 10**5000}},
    ],
)
def test_a_whole_number_of_more_than_64_bits_is_refused_at_any_depth(given_values: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=r"has a number of \d+ bits, and a whole number is at most 9,223,372,036"):
        preflight.preflight(["settings"], **given_values)


@given(st.lists(st.integers(1, 12), min_size=1, max_size=300), st.integers(0, 3))
def test_a_matrix_has_at_most_as_many_points_as_a_run_may_have(sizes: list[int], further: int) -> None:
    lists = {f"role_setting_{number}": list(range(size)) for number, size in enumerate(sizes)}
    points = [{"role_other": number} for number in range(further)]
    settings = {"matrix": lists, "matrix_points": points, "matrix_skip_if": []}
    number = further
    product = 1
    for size in sizes:
        product *= size
    number += product
    if number > MOST_POINTS:
        with pytest.raises(SettingsError, match=f"points .*, and a run has at most {MOST_POINTS}"):
            SettingsMatrix.of(settings, ())
    else:
        assert len(list(SettingsMatrix.of(settings, ()).combinations())) == number


@pytest.mark.parametrize(
    ("given_values", "words"),
    [
        ({"fine_tuning_count": 0}, r"the load has no workload \(from fine_tuning_models, fine_tuning_count\)$"),
        ({"fine_tuning_models": {"a": 10**9}}, "1,000,000,000 workloads, and 1,000,000 are the most of one load"),
        ({"fine_tuning_count": 0, "fine_tuning_arrival": {"rate": 1e4, "timespan": 1e5}}, "gives 1,000,000,000"),
    ],
)
def test_a_load_of_nothing_or_without_bound_is_refused_before_a_run(given_values: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        preflight.check(["test", "cluster"], **given_values)

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits, comparisons and histories that are refused before a run begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_layers import SettingsLayer
from preflight import PHASES, check

pytestmark = pytest.mark.usefixtures("ansible_plugins")  # defaults look up the environment


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"results_limits": {"time_to_schedule_p95": {"max": 1}}},
            r"KPI 'time_to_schedule_p95' \(from -e\) is not defined \(did you mean 'time_to_scheduled_p95'",
        ),
        ({"results_limits": {"makespan": {"max": "2 GB"}}}, r"makespan \(from -e\): max '2 GB' has another unit than"),
    ],
)
def test_a_wrong_limit_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        check(PHASES, None, **given)
    with pytest.raises(InputError, match=words):
        check(["settings"], None, **given)
    check(["cluster"], None, **given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"results_level": 2},
            r"results_level is 2.0, and it must be a probability above 0 and at most 0.5 \(set by -e",
        ),
        ({"results_power": 1}, "results_power is 1.0, and it must be a probability between 0 and 1 "),
        ({"results_max_errors": 2}, "results_max_errors is 2.0, and it must be a share from 0 to 1"),
        ({"results_least": 5}, "results_least is 5, and it must be a share .* such as 0.05 for 5 %"),
        ({"results_least": "5 %"}, "results_least: '5 %' has another unit"),
        ({"results_least": {"makespan": "x"}}, "results_least: makespan: 'x' is no number"),
        ({"results_least": {"makespn": 0.1}}, r"results_least: KPI 'makespn' is not defined \(did you mean 'makespan'"),
        (
            {"results_answer": "makespn"},
            r"results_answer: KPI 'makespn' is not defined \(did you mean 'makespan'\?\) \(set",
        ),
        ({"results_answer": "makesp*"}, r"results_answer: KPI 'makesp\*' is not defined"),
        ({"results_judged": ["headlin"]}, r"KPI 'headlin' is not defined \(did you mean 'headline'\?\) \(set by -e"),
        ({"results_correction": "holmes"}, r"results_correction can't be 'holmes' \(did you mean 'holm'"),
    ],
)
def test_a_wrong_setting_of_the_comparison_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        check(PHASES, None, **given)


def test_the_file_and_line_of_a_wrong_setting_is_named_and_every_point_is_checked() -> None:
    lab = SettingsLayer("overrides", "overrides", {"results_level": 0.7}, {"results_level": "x.yml:3"})
    with pytest.raises(InputError, match=r"results_level is 0.7, .* \(set by overrides, x.yml:3\)"):
        check(PHASES, None, lab)
    with pytest.raises(InputError, match="results_least is 1"):
        check(PHASES, None, matrix={"results_least": [0.1, 1]})


def test_settings_of_the_comparison_are_accepted() -> None:
    check(PHASES, None, results_answer="time_to_running_p95")
    check(PHASES, None, results_answer="goodput", results_limits={"never_recovered": {"max": 0}})
    check(PHASES, None, results_judged=["time_to_recover_node_lost"])
    check(PHASES, None, results_judged=["headline", "time_to_*_p95"], results_level="0.05", results_least="0.1")
    check(
        PHASES,
        None,
        results_judged=["all"],
        results_least={"makespan": 0.1, "train_*": "0.2"},
    )


def test_limits_of_common_and_project_figures_are_accepted() -> None:
    check(PHASES, None, results_limits={"makespan": {"max": "2 min 5 s"}, "train_loss": {"max": 3}})
    key = "results_limits.workloads_failed.max"
    check(PHASES, None, SettingsLayer("overrides", "overrides", {key: 5}))
    check(PHASES, None, SettingsLayer("overrides", "overrides", {"results_limits.makespan.max": "2 min"}))
    absent = SettingsLayer(
        "overrides", "overrides", {"results_limits.makspan.max": 1}, {"results_limits.makspan.max": "x:3"}
    )
    with pytest.raises(InputError, match=r"'makspan' \(from overrides, x:3\) is not defined \(did you mean 'makespan'"):
        check(PHASES, None, absent)
    wrong = SettingsLayer("overrides", "overrides", {key: "2 s"}, {key: "x.yml:3"})
    with pytest.raises(InputError, match=r"workloads_failed \(from overrides, x.yml:3\): max '2 s' has another unit"):
        check(PHASES, None, wrong)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"results_history": ["/no/such"]}, r"results_history: folder /no/such does not exist \(set by -e"),
        ({"results_history": ["opensearch"]}, "'opensearch' is named, but export_opensearch_url is empty"),
        ({"results_history": ["s3://"]}, "'s3://' is not s3://bucket/prefix"),
        ({"results_history": ["https://a/b"]}, "is neither a folder, s3://bucket/prefix nor opensearch"),
        ({"results_history": [__file__]}, "is not a folder; name the folder that contains the run directories"),
        (
            {"results_compare_on": ["ran.openshft"]},
            r"results_compare_on: 'ran.openshft' matches no label of this run \(did you mean 'ran.openshift'\?\) \(set",
        ),
        ({"results_ignore": ["fine_tuning_cnt"]}, r"results_ignore: .*did you mean 'fine_tuning_count'"),
    ],
)
def test_a_wrong_history_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        check(PHASES, None, **given)
    check(["cluster"], None, **given)


@pytest.mark.parametrize(
    "given",
    [{"results_history_runs": 0}, {"results_history_runs": 201}, {"matrix": {"results_history_runs": [5, 500]}}],
)
def test_a_number_of_past_runs_out_of_its_bounds_is_refused_in_every_phase(given: dict[str, Any]) -> None:
    for phases in (PHASES, ["cluster"]):
        with pytest.raises(InputError, match="results_history_runs is [0-9]+, and it must be 1 "):
            check(phases, None, **given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"export_mlflow_url": "mlflow:5000"},
            r"export_mlflow_url: MLflow: the address is not https://host:port \(set",
        ),
        (
            {"export_mlflow_url": "http://mlflow:5000"},
            "export_mlflow_url: MLflow: http is allowed for this machine only",
        ),
        (
            {"export_otlp_url": "https://me:word@c"},
            "export_otlp_url: the OTLP receiver: the address contains a user name",
        ),
    ],
)
def test_an_address_that_cannot_be_right_is_refused_before_the_run(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        check(PHASES, None, **given)


def test_a_folder_with_another_name_is_suggested(tmp_path: Path) -> None:
    (tmp_path / "nightly").mkdir()
    with pytest.raises(InputError, match=r"nigthly does not exist \(did you mean '.*/nightly'\?\)"):
        check(PHASES, None, results_history=[str(tmp_path / "nigthly")])


def test_a_history_is_accepted(tmp_path: Path) -> None:
    names = [
        "ran.openshift",
        "ran.operators.rhods-operator",
        "ran.images",
        "ran.nodes.gp*",
        "fine_tuning_image",
        "ran.*",
    ]
    address = {"export_opensearch_url": "https://search:9200"}
    sources = [str(tmp_path), "s3://results/nightly", "opensearch"]
    check(PHASES, None, results_history=sources, results_compare_on=names, results_ignore=["presets", "*"], **address)
    # the first run makes the folder that the second one reads
    check(PHASES, None, results_history=[str(tmp_path / "a")], run_artifacts_dir=str(tmp_path / "a" / "b"))

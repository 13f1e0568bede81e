# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is played follows from the settings, scales as its formula says, and says that it is played."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._load import simulated_training_logs
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.training_figures import (
    training_log,
    training_rows,
)
from hypothesis import given
from hypothesis import strategies as st
from jinja2.nativetypes import NativeEnvironment

PLAN = Path(__file__).parents[5] / "roles" / "fine_tuning" / "meta" / "doctor.yml"

HYPER = {
    "per_device_train_batch_size": 4,
    "gradient_accumulation_steps": 1,
    "max_seq_length": 512,
    "num_train_epochs": 1,
}


def test_eight_gpus_are_faster_than_one_but_not_eight_times() -> None:
    one, eight = (simulated_training_logs.simulate_training_job(24, 1, gpus, HYPER) for gpus in (1, 8))
    gain = eight.figures["train_samples_per_second"] / one.figures["train_samples_per_second"]
    assert gain == pytest.approx(8 / 1.21, rel=1e-3)
    assert one.run_seconds / eight.run_seconds == pytest.approx(gain, rel=1e-3)


@given(st.floats(0.1, 1000), st.integers(1, 64), st.integers(0, 16))
def test_the_plan_of_fine_tuning_lasts_as_long_as_what_is_simulated(run_seconds: float, pods: int, gpus: int) -> None:
    settings = {
        "fine_tuning_expected_seconds": 0,
        "fine_tuning_run_seconds": run_seconds,
        "fine_tuning_pod_count": pods,
        "fine_tuning_gpus": gpus,
    }
    seconds = files.read_yaml(PLAN)["plan"]["seconds"]
    planned = NativeEnvironment().from_string(seconds).render(settings)
    simulated = simulated_training_logs.simulate_training_job(run_seconds, pods, gpus, HYPER)
    assert planned == pytest.approx(simulated.run_seconds, abs=1e-3)
    real = NativeEnvironment().from_string(seconds).render({**settings, "fine_tuning_expected_seconds": 7.5})
    assert real == 7.5


@given(st.floats(0.1, 1000), st.integers(1, 64), st.integers(0, 16))
def test_figures_agree_with_each_other(run_seconds: float, pods: int, gpus: int) -> None:
    played = simulated_training_logs.simulate_training_job(run_seconds, pods, gpus, HYPER)
    figures = played.figures
    assert 0 < figures["train_runtime"] <= played.run_seconds + 1e-3
    assert figures["train_tokens_per_second"] == pytest.approx(
        512 * figures["train_samples_per_second"], rel=0.01, abs=1
    )
    assert all(value > 0 for value in figures.values())


@given(st.integers(1, 1000))
def test_more_accelerators_are_never_slower(accelerators: int) -> None:
    assert (
        simulated_training_logs.multi_accelerator_speedup(accelerators)
        < simulated_training_logs.multi_accelerator_speedup(accelerators + 1)
        <= accelerators + 1
    )


def test_the_log_begins_by_saying_that_it_is_played_and_can_be_parsed() -> None:
    played = simulated_training_logs.simulate_training_job(8, 2, 1, HYPER)
    texts = simulated_training_logs.training_log_lines(played, "bloom-560m", "alpaca", 2, 1)
    assert texts[0].startswith("SIMULATED:") and "no measurement" in texts[0]
    assert training_log.parse_log_figures(texts, training_rows.SIMULATED).values == played.figures


def test_every_line_is_in_the_format_that_kwok_serves() -> None:
    text = simulated_training_logs.format_cri_log_lines(["one", "two"])
    assert text == "2026-01-01T00:00:00.000000001Z stdout F one\n2026-01-01T00:00:00.000000002Z stdout F two\n"


def test_writing_the_same_log_again_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "pod.log"
    assert simulated_training_logs.write_log_file(path, ["one"]) is True
    assert simulated_training_logs.write_log_file(path, ["one"]) is False
    assert simulated_training_logs.write_log_file(path, ["two"]) is True
    with pytest.raises(InputError, match="is the rehearsal cluster running"):
        simulated_training_logs.write_log_file(tmp_path / "gone" / "pod.log", ["one"])


@pytest.mark.parametrize("value", [0, -1, "many", []])
def test_a_hyper_parameter_that_no_training_could_have_is_refused(value: object) -> None:
    with pytest.raises(InputError, match="fine_tuning_hyper_parameters.per_device_train_batch_size is"):
        simulated_training_logs.simulate_training_job(8, 1, 1, {**HYPER, "per_device_train_batch_size": value})
    with pytest.raises(InputError, match="cannot be simulated"):
        simulated_training_logs.simulate_training_job(0, 1, 1, HYPER)

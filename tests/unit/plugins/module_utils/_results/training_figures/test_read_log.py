# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures are found in logs as trainings write them, whatever else the log contains."""

from __future__ import annotations

import json

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.training_figures import (
    training_log,
    training_rows,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.training_figures.training_log import (
    LogFormat,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import training_flavours
from hypothesis import given
from hypothesis import strategies as st

FMS, ILAB, RAY = (LogFormat.of(training_flavours.load_flavour(name).log_format) for name in ("fms", "ilab", "ray"))
SUMMARY = (
    "{'train_runtime': 123.4567, 'train_samples_per_second': 8.1, 'train_steps_per_second': 1.0, "
    "'train_tokens_per_second': 4147.2, 'train_loss': 1.5, 'epoch': 1.0}"
)
FIGURES = {
    "train_runtime": 123.4567,
    "train_samples_per_second": 8.1,
    "train_steps_per_second": 1.0,
    "train_tokens_per_second": 4147.2,
    "train_loss": 1.5,
    "epoch": 1.0,
}


def test_the_last_line_of_a_trainer_is_read() -> None:
    log = ["loading weights\n", "{'loss': 2.1, 'learning_rate': 1e-05, 'epoch': 0.5}\n", f"{SUMMARY}\n", "done\n"]
    assert training_log.parse_log_figures(log, FMS) == training_log.LogFigures(FIGURES, loss=[(0.5, 2.1)], over="epoch")


def test_of_several_summaries_the_last_counts() -> None:
    assert training_log.parse_log_figures(["{'train_runtime': 1.0, 'train_loss': 9}", SUMMARY], FMS).values == FIGURES


@pytest.mark.parametrize(
    "line",
    [
        f"\x1b[32m{SUMMARY}\x1b[0m",
        f"100%|██████████| 10/10 [00:01<00:00]\r{SUMMARY}",
        f"[rank0]: INFO trainer.py:42 {SUMMARY} # end",
        SUMMARY.replace("'", '"'),
        SUMMARY.replace("123.4567", "'123.4567'"),
        f"noise {{not: a, dictionary}} then {SUMMARY}",
    ],
    ids=["colours", "progress bar", "prefix", "json", "numbers as text", "other braces"],
)
def test_noise_around_the_line_does_not_hide_it(line: str) -> None:
    assert training_log.parse_log_figures([line], FMS).values == FIGURES


def test_a_loss_that_is_no_number_is_left_out_and_the_others_stay() -> None:
    found = training_log.parse_log_figures(
        ["{'train_runtime': 2.0, 'train_loss': nan, 'train_steps_per_second': inf}"], FMS
    )
    assert found.values == {"train_runtime": 2.0} and found.error is None


def test_json_lines_of_steps_are_summed_up_without_the_first() -> None:
    """The first step compiles and fills caches: its throughput is none that lasts."""
    names = ("step", "overall_throughput", "elapsed_time", "total_loss")
    steps = [(0.5, 8.0, 3.0), (10.0, 2.0, 2.0), (12.0, 2.0, 1.5), (11.0, 2.0, 1.25)]
    lines = [f"\x1b[92m{json.dumps(dict(zip(names, [n, *step], strict=True)))}\x1b[0m" for n, step in enumerate(steps)]
    assert training_log.parse_log_figures(lines, ILAB).values == {
        "steps": 4.0,
        "train_samples_per_second": 11.0,
        "train_runtime": 14.0,
        "train_steps_per_second": 4 / 14,
        "train_loss": 1.25,
    }


def test_steps_of_newer_versions_give_the_same_figures() -> None:
    """They print neither the duration of a step nor its total loss, but samples, samples per second and mean loss."""
    names = ("step", "overall_throughput", "batch_size", "avg_loss")
    steps = [(2.0, 8, 3.0), (4.0, 8, 2.0), (8.0, 8, 1.5)]
    lines = [
        json.dumps({**dict(zip(names, [n, *step], strict=True)), "gradnorm": None}) for n, step in enumerate(steps)
    ]
    assert training_log.parse_log_figures(lines, ILAB).values == {
        "steps": 3.0,
        "train_samples_per_second": 6.0,
        "train_runtime": 7.0,
        "train_steps_per_second": 3 / 7,
        "train_loss": 1.5,
    }


def test_a_log_without_figures_says_so_and_why_when_it_knows() -> None:
    assert training_log.parse_log_figures(["hello"], FMS).error == "no line with training figures"
    assert training_log.parse_log_figures([], FMS).error == "the log is empty, as those of simulated nodes are"
    broken = training_log.parse_log_figures(
        ["Traceback (most recent call last):", "torch.cuda.OutOfMemoryError: CUDA out of memory"], FMS
    )
    assert broken.error == "the log reports: torch.cuda.OutOfMemoryError: CUDA out of memory"


@given(st.lists(st.text(max_size=200)), st.lists(st.text(max_size=200)))
def test_whatever_a_log_holds_the_summary_is_found_and_nothing_is_raised(before: list[str], after: list[str]) -> None:
    noise = [line for line in before + after if "train_" not in line]
    found = training_log.parse_log_figures([*noise[: len(before)], SUMMARY, *noise[len(before) :]], FMS)
    assert found.values == FIGURES


@given(st.dictionaries(st.sampled_from(training_rows.SUMMARY), st.floats(0, 1e9), min_size=1))
def test_what_a_trainer_prints_comes_back(figures: dict[str, float]) -> None:
    assert training_log.parse_log_figures([str(figures)], FMS).values == figures


def test_the_tokens_and_the_memory_of_each_step_are_read() -> None:
    """Older versions print how long a step lasted; newer ones its samples, from which the duration follows."""
    step = {
        "num_loss_counted_tokens": 600,
        "cuda_mem_allocated": 2.0,
        "cuda_malloc_retries": 0,
        "overall_throughput": 4,
    }
    old, new = {**step, "elapsed_time": 3.0}, {**step, "batch_size": 12}
    for one in (old, new):
        found = training_log.parse_log_figures([json.dumps({**one, "step": n}) for n in range(3)], ILAB).values
        assert found["train_loss_counted_tokens_per_second"] == 200.0
        assert (found["train_memory_allocated"], found["train_memory_retries"]) == (2 * 2**30, 0.0)


def test_the_tables_of_ray_are_steps() -> None:
    def table(iteration: int, total: float, loss: float) -> list[str]:
        return [
            f"Training finished iteration {iteration} at 2026-11-22 10:00:00. Total running time: 10s",
            "╭───────────────────────────────╮",
            "│ Training result               │",
            "├───────────────────────────────┤",
            "│ checkpoint_dir_name           │",
            "│ time_this_iter_s         2.00 │",
            f"│ time_total_s         {total:8.2f} │",
            f"│ training_iteration   {iteration:8d} │",
            f"│ loss                 {loss:8.4f} │",
            "╰───────────────────────────────╯",
        ]

    found = training_log.parse_log_figures(
        [*table(1, 2.5, 2.0), "(RayTrainWorker pid=7) saving", *table(2, 4.5, 1.5)], RAY
    )
    assert found.values == {
        "steps": 2.0,
        "train_runtime": 4.5,
        "train_steps_per_second": 0.5,
        "train_loss": 1.5,
    }
    assert (found.over, found.loss) == ("training_iteration", [(1.0, 2.0), (2.0, 1.5)])
    # What the program itself prints of the whole training counts more.
    assert (
        training_log.parse_log_figures([*table(1, 2.5, 2.0), f"(RayTrainWorker pid=7) {SUMMARY}"], RAY).values
        == FIGURES
    )


def test_a_long_loss_curve_keeps_its_ends_and_a_bounded_number_of_points() -> None:
    lines = [f"{{'loss': {5 - n / 1000}, 'epoch': {n / 1000}}}" for n in range(1234)]
    found = training_log.parse_log_figures([*lines, SUMMARY], FMS)
    assert found.loss[0] == (0.0, 5.0) and found.loss[-1] == (1.233, 5 - 1.233)
    assert len(found.loss) <= training_log.CURVE_POINTS + 1
    assert found.loss == sorted(found.loss)


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(
                ["overall_throughput", "elapsed_time", "batch_size", "num_loss_counted_tokens", "avg_loss"]
            ),
            st.floats(allow_nan=False),
        )
    )
)
def test_no_numbers_of_steps_give_figures_that_are_no_numbers(steps: list[dict[str, float]]) -> None:
    for value in training_log.parse_log_figures([json.dumps(one) for one in steps], ILAB).values.values():
        assert value == value and abs(value) != float("inf")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "neither a summary nor steps"),
        ({"sumary": {"has": ["x"]}}, r"unknown key 'sumary' \(did you mean 'summary'\?\)"),
        ({"summary": {"has": ["x"]}, "records": ["tables"]}, r"'tables' is none of .* \(did you mean 'table'\?\)"),
        ({"steps": {"has": ["x"]}}, "log_format.steps: 'figures' is missing"),
        ({"steps": {"has": ["x"], "figures": {"y": {"of": ["x"], "statistic": "medain"}}}}, "did you mean 'median'"),
        ({"steps": {"has": ["x"], "figures": {"y": {"of": ["x+z"], "statistic": "sum"}}}}, "'x\\+z' is not a valid"),
        ({"steps": {"has": ["x"], "figures": {"y": {"statistic": "sum"}}}}, "figures.y: 'of' is missing"),
        ({"summary": ["x"]}, "log_format.summary is a list"),
    ],
)
def test_a_wrong_format_is_refused(given: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        LogFormat.of(given)


BATCH = "[INFO|trainer.py] 2026-11-22 >>   Total train batch size (w. parallel, distributed & accumulation) = 1,024"


def test_a_figure_that_stands_alone_in_a_line_is_read() -> None:
    found = training_log.parse_log_figures([BATCH, SUMMARY], FMS)
    assert found.values == {**FIGURES, "total_batch_size": 1024.0}
    assert training_log.parse_log_figures([BATCH], FMS) == training_log.LogFigures(
        error="no line with training figures"
    )


@pytest.mark.parametrize(
    ("description", "words"),
    [
        ({"lines": {"total": "size ="}}, "'size =' has 0 groups, and one must be the figure"),
        ({"lines": {"total": "(["}}, "is not a valid regular expression"),
        ({"expected": {"total": ["batch plus processes"]}}, "is not a valid formula"),
        ({"expcted": {}}, "did you mean 'expected'"),
    ],
)
def test_a_wrong_description_of_a_line_is_refused(description: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words.replace("(", "[(]")):
        LogFormat.of({"summary": {"has": ["x"]}, **description})

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures are found in logs as trainings write them, whatever else stands in there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils import _files, _training_figures
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError
from hypothesis import given
from hypothesis import strategies as st

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
    assert _training_figures.parse(log) == _training_figures.LogFigures(FIGURES)


def test_of_several_summaries_the_last_counts() -> None:
    assert _training_figures.parse(["{'train_runtime': 1.0, 'train_loss': 9}", SUMMARY]).values == FIGURES


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
    assert _training_figures.parse([line]).values == FIGURES


def test_a_loss_that_is_no_number_is_left_out_and_the_others_stay() -> None:
    found = _training_figures.parse(["{'train_runtime': 2.0, 'train_loss': nan, 'train_steps_per_second': inf}"])
    assert found.values == {"train_runtime": 2.0} and found.error is None


def test_json_lines_of_steps_are_summed_up_without_the_first() -> None:
    """The first step compiles and fills caches: its throughput is none that lasts."""
    names = ("step", "overall_throughput", "elapsed_time", "total_loss")
    steps = [(0.5, 8.0, 3.0), (10.0, 2.0, 2.0), (12.0, 2.0, 1.5), (11.0, 2.0, 1.25)]
    lines = [f"\x1b[92m{json.dumps(dict(zip(names, [n, *step], strict=True)))}\x1b[0m" for n, step in enumerate(steps)]
    assert _training_figures.parse(lines).values == {
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
    assert _training_figures.parse(lines).values == {
        "steps": 3.0,
        "train_samples_per_second": 6.0,
        "train_runtime": 7.0,
        "train_steps_per_second": 3 / 7,
        "train_loss": 1.5,
    }


def test_a_log_without_figures_says_so_and_why_when_it_knows() -> None:
    assert _training_figures.parse(["hello"]).error == "no line with training figures"
    assert _training_figures.parse([]).error == "the log is empty, as those of simulated nodes are"
    broken = _training_figures.parse(
        ["Traceback (most recent call last):", "torch.cuda.OutOfMemoryError: CUDA out of memory"]
    )
    assert broken.error == "the log reports: torch.cuda.OutOfMemoryError: CUDA out of memory"


@given(st.lists(st.text(max_size=200)), st.lists(st.text(max_size=200)))
def test_whatever_a_log_holds_the_summary_is_found_and_nothing_is_raised(before: list[str], after: list[str]) -> None:
    noise = [line for line in before + after if "train_" not in line]
    found = _training_figures.parse([*noise[: len(before)], SUMMARY, *noise[len(before) :]])
    assert found.values == FIGURES


@given(st.dictionaries(st.sampled_from(_training_figures.SUMMARY), st.floats(0, 1e9), min_size=1))
def test_what_a_trainer_prints_comes_back(figures: dict[str, float]) -> None:
    assert _training_figures.parse([str(figures)]).values == figures


def test_index_and_workload_are_read_from_the_name_of_the_pod(tmp_path: Path) -> None:
    for name in ("t1121-abcdef-001-7-master-0", "t1121-abcdef-001-12-worker-1", "other"):
        (tmp_path / f"{name}.log").write_text(SUMMARY)
    assert [(one.index, one.workload) for one in _training_figures.logs_in(tmp_path)] == [
        (None, ""),
        (12, "t1121-abcdef-001-12"),
        (7, "t1121-abcdef-001-7"),
    ]


def test_each_log_becomes_a_row_also_the_one_that_is_missing(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.log").write_text(f"{SUMMARY}\n")
    (tmp_path / "logs" / "b.log").write_bytes(b"\xff\xfe broken \x00")
    pods = [
        {"pod": "a", "index": 0, "workload": "w-0", "log": "a.log", "error": None},
        {"pod": "b", "index": 1, "workload": "w-1", "log": "b.log", "error": None},
        {"pod": "c", "index": 2, "workload": "w-2", "log": None, "error": "404 NotFound"},
    ]
    changed, rows = _training_figures.write(
        tmp_path, _training_figures.logs_of(pods, tmp_path / "logs"), simulated=True
    )
    assert changed and list(_files.read_lines(tmp_path / "training.jsonl")) == rows
    assert rows[0] == {
        "index": 0,
        "pod": "a",
        "figures": FIGURES,
        "simulated": True,
        "error": None,
        "workload": "w-0",
        "log": "logs/a.log",
    }
    assert [row["error"] for row in rows[1:]] == ["no line with training figures", "404 NotFound"]
    assert (
        _training_figures.write(tmp_path, _training_figures.logs_of(pods, tmp_path / "logs"), simulated=True)[0]
        is False
    )


def test_the_sentence_counts_logs_and_names_what_is_simulated_and_what_is_missing(tmp_path: Path) -> None:
    rows = [
        {"pod": "a", "index": 0, "figures": {"train_runtime": 2.0, "train_samples_per_second": 10.0}, "error": None},
        {"pod": "b", "index": 1, "figures": {"train_runtime": 4.0, "train_samples_per_second": 20.0}, "error": None},
        {"pod": "c", "index": 2, "figures": {}, "error": "none"},
    ]
    rows = [{**one, "simulated": True} for one in rows]
    assert _training_figures.text(rows) == (
        "training figures in 2 of 3 logs: "
        "median train_samples_per_second 15/s, train_runtime 3 s (simulated, not measured) (1 log without: none)"
    )
    assert "simulated" not in _training_figures.text([{**one, "simulated": False} for one in rows])
    assert _training_figures.text([]) == "training figures in 0 of 0 logs"


def test_a_point_without_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        _training_figures.write(tmp_path / "none", [], simulated=False)


def test_the_log_of_a_pod_on_a_real_node_is_measured(tmp_path):
    (tmp_path / "logs").mkdir()
    pods = [{"pod": f"p-{node}", "log": f"p-{node}.log", "node": node} for node in ("real-0", "fake-0")]
    for one in pods:
        (tmp_path / "logs" / one["log"]).write_text(SUMMARY)
    logs = _training_figures.logs_of(pods, tmp_path / "logs")
    _changed, rows = _training_figures.write(tmp_path, logs, simulated=True, real_nodes=["real-0"])
    assert [row["simulated"] for row in rows] == [False, True]
    assert "(partly simulated)" in _training_figures.text(rows)
    assert "simulated" not in _training_figures.text(rows[:1])

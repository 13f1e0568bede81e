# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each log of a point becomes one row."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.training_figures import (
    training_log,
    training_rows,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.training_figures.training_log import (
    LogFormat,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import training_flavours

FMS = LogFormat.of(training_flavours.load_flavour("fms").log_format)
SUMMARY = "{'train_runtime': 123.4567, 'train_samples_per_second': 8.1, 'train_loss': 1.5}"
FIGURES = {"train_runtime": 123.4567, "train_samples_per_second": 8.1, "train_loss": 1.5}


def test_index_and_workload_are_read_from_the_name_of_the_pod(tmp_path: Path) -> None:
    for name in ("t1121-abcdef-001-7-master-0", "t1121-abcdef-001-12-worker-1", "other"):
        (tmp_path / f"{name}.log").write_text(SUMMARY)
    assert [(one.index, one.workload) for one in training_rows.find_logs_in_folder(tmp_path)] == [
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
    logs = training_rows.logs_from_pod_logs(pods, tmp_path / "logs")
    changed, rows = training_rows.write_training_rows(tmp_path, logs, FMS, simulated=True)
    assert changed and list(files.read_json_lines(tmp_path / "training.jsonl")) == rows
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
    assert training_rows.write_training_rows(tmp_path, logs, FMS, simulated=True)[0] is False


@pytest.mark.parametrize("counted", [True, False])
def test_tokens_of_the_dataset_follow_from_the_tokens_of_a_row_and_the_samples(tmp_path: Path, counted: bool) -> None:
    log = tmp_path / "a.log"
    log.write_text(f"dataset_tokens_per_sample: 61.5000\n{SUMMARY}\n" if counted else SUMMARY)
    logs = [training_rows.TrainingLog("a", 0, "w-0", str(log))]
    (row,) = training_rows.build_training_rows(logs, FMS, False, tmp_path, settings={"processes": 2.0})
    assert row["figures"].get("dataset_tokens_per_second") == (pytest.approx(61.5 * 8.1) if counted else None)


def test_the_sentence_counts_logs_and_names_what_is_simulated_and_what_is_missing(tmp_path: Path) -> None:
    rows = [
        {"pod": "a", "index": 0, "figures": {"train_runtime": 2.0, "train_samples_per_second": 10.0}, "error": None},
        {"pod": "b", "index": 1, "figures": {"train_runtime": 4.0, "train_samples_per_second": 20.0}, "error": None},
        {"pod": "c", "index": 2, "figures": {}, "error": "none"},
    ]
    rows = [{**one, "simulated": True} for one in rows]
    assert training_rows.format_summary_sentence(rows) == (
        "training figures in 2 of 3 logs: "
        "median train_samples_per_second 15/s, train_runtime 3 s (simulated, not measured) (1 log without: none)"
    )
    assert "simulated" not in training_rows.format_summary_sentence([{**one, "simulated": False} for one in rows])
    assert training_rows.format_summary_sentence([]) == "training figures in 0 of 0 logs"


def test_a_point_without_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        training_rows.write_training_rows(tmp_path / "none", [], FMS, simulated=False)


def test_the_log_of_a_pod_on_a_real_node_is_measured(tmp_path):
    (tmp_path / "logs").mkdir()
    pods = [{"pod": f"p-{node}", "log": f"p-{node}.log", "node": node} for node in ("real-0", "fake-0")]
    for one in pods:
        (tmp_path / "logs" / one["log"]).write_text(SUMMARY)
    logs = training_rows.logs_from_pod_logs(pods, tmp_path / "logs")
    _changed, rows = training_rows.write_training_rows(tmp_path, logs, FMS, simulated=True, real_nodes=["real-0"])
    assert [row["simulated"] for row in rows] == [False, True]
    assert "(partly simulated)" in training_rows.format_summary_sentence(rows)
    assert "simulated" not in training_rows.format_summary_sentence(rows[:1])


def test_a_pattern_that_takes_for_ever_on_a_log_leaves_out_its_figures_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_rows, "LOG_LIMIT", 0.2)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "p-0.log").write_text("a" * 40 + "!\n")
    logs = training_rows.logs_from_pod_logs([{"pod": "p-0", "log": "p-0.log"}], tmp_path / "logs")
    form = LogFormat.of({"summary": {"has": ["total"]}, "lines": {"total": "^(?:a+)+([0-9])$"}})
    [row] = training_rows.build_training_rows(logs, form, False, tmp_path)
    assert row["figures"] == {} and "took more than 0.2 s of processor time" in row["error"]


def test_a_simulated_log_is_read_whatever_the_flavour_prints(tmp_path: Path) -> None:
    """The simulation writes one format; a pod of the same job on a real node prints that of its program."""
    (tmp_path / "logs").mkdir()
    steps = '{"step": 1, "overall_throughput": 4.0, "batch_size": 8, "avg_loss": 2.0}'
    pods = [{"pod": f"p-{node}", "log": f"p-{node}.log", "node": node} for node in ("real-0", "fake-0")]
    for one, text in zip(pods, (steps, SUMMARY), strict=True):
        (tmp_path / "logs" / one["log"]).write_text(text)
    ilab = LogFormat.of(training_flavours.load_flavour("ilab").log_format)
    logs = training_rows.logs_from_pod_logs(pods, tmp_path / "logs")
    _changed, rows = training_rows.write_training_rows(tmp_path, logs, ilab, simulated=True, real_nodes=["real-0"])
    assert [row["figures"]["train_loss"] for row in rows] == [2.0, 1.5]
    assert rows[0]["loss"] == {"over": "step", "points": [[1.0, 2.0]]} and "loss" not in rows[1]


@pytest.mark.parametrize(
    ("settings", "value"),
    [
        ({"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "processes": 2}, 16.0),
        ({"per_device_train_batch_size": "4", "processes": 2, "peft_method": "lora", "use_cpu": True}, 8.0),
        ({"processes": 2}, None),
    ],
)
def test_the_total_batch_size_follows_from_the_settings(settings: dict[str, object], value: float | None) -> None:
    found = FMS.expected_of(training_log.finite_numbers_by_name(settings))
    assert found == ({} if value is None else {"total_batch_size": value})


def test_a_pod_that_trained_alone_is_found_unless_it_is_simulated() -> None:
    def row(pod: str, simulated: bool, **figures: float) -> dict[str, object]:
        return {"pod": pod, "figures": figures, "simulated": simulated}

    rows = [
        row("together", False, total_batch_size=8.0),
        row("alone", False, total_batch_size=4.0),
        row("simulated", True, total_batch_size=4.0),
        row("silent", False),
    ]
    assert training_rows.unexpected_figures(rows, {"total_batch_size": 8.0}) == [
        "total_batch_size is 4 in the log of alone, and the settings give 8"
    ]
    assert training_rows.unexpected_figures(rows, {}) == []


def test_tokens_of_one_process_become_those_of_all(tmp_path: Path) -> None:
    """With a line that two real pods printed."""
    line = "{'train_samples_per_second': 11.625, 'train_steps_per_second': 1.453, 'train_tokens_per_second': 447.544}"
    (tmp_path / "one.log").write_text(line)
    logs = [training_rows.TrainingLog("one", path=str(tmp_path / "one.log"))]
    for simulated, tokens in ((False, 895.088), (True, 447.544)):
        (row,) = training_rows.build_training_rows(logs, FMS, simulated, tmp_path, settings={"processes": 2.0})
        assert row["figures"]["train_tokens_per_second"] == pytest.approx(tokens)
        assert row["figures"]["train_samples_per_second"] == 11.625


ILAB, RAY = (LogFormat.of(training_flavours.load_flavour(name).log_format) for name in ("ilab", "ray"))
STEP = '{"step": 1, "overall_throughput": 4.0, "batch_size": 8, "avg_loss": 2.0}'
HF = "[INFO|trainer.py:2414] 1 >>   Total train batch size (w. parallel, distributed & accumulation) = 8"
V1 = "(RayTrainWorker pid=9) Setting up process group for: env:// [rank=0, world_size=2]"
V2 = "(TrainController pid=5) Started training worker group of size 2: "
BATCH = {"per_device_train_batch_size": 4.0, "gradient_accumulation_steps": 1.0}
OF_RAY = "processes or total_batch_size"


@pytest.mark.parametrize(
    ("flavour", "text", "settings", "alone", "unchecked"),
    [
        (ILAB, f'{{"num_gpus": 2, "grad_accum": 1}}\n{STEP}', {}, [], ""),
        (ILAB, f'{{\n  "num_gpus": 1,\n  "grad_accum": 2\n}}\n{STEP}', {}, ["processes is 1"], ""),
        (ILAB, STEP, {}, [], "the log does not have processes"),
        (RAY, f"{V1}\n{SUMMARY}", {}, [], ""),
        (RAY, f"{V2}\n{SUMMARY}", {}, [], ""),
        (RAY, f"{V2}\n{SUMMARY}", {"num_workers": 3.0}, ["processes is 2"], ""),
        (RAY, f"{HF}\n{SUMMARY}", BATCH, [], ""),
        (RAY, f"{HF}\n{SUMMARY}", {**BATCH, "num_workers": 4.0}, ["total_batch_size is 8"], ""),
        (RAY, f"{HF}\n{SUMMARY}", {}, [], "the log does not have processes"),
        (RAY, SUMMARY, BATCH, [], f"the log does not have {OF_RAY}"),
        (FMS, f"{HF}\n{SUMMARY}", {}, [], "the settings do not give total_batch_size"),
        (LogFormat.of({"summary": {"has": ["train_runtime"]}}), SUMMARY, {}, [], "the flavour does not describe"),
    ],
)
def test_a_training_that_may_have_been_alone_is_found_or_said_to_be_unchecked(
    flavour: LogFormat, text: str, settings: dict[str, float], alone: list[str], unchecked: str, tmp_path: Path
) -> None:
    (tmp_path / "one.log").write_text(text)
    logs = [training_rows.TrainingLog("one", 0, "one", str(tmp_path / "one.log"))]
    given = {"processes": 2.0, **settings}
    _changed, found = training_rows.write_training_rows(tmp_path, logs, flavour, False, settings=given)
    said = training_rows.unexpected_figures(found, flavour.expected_of(given))
    assert [one.partition(" in ")[0] for one in said] == alone
    assert found[0].get("unchecked", "").startswith(unchecked) and bool(unchecked) == ("unchecked" in found[0])
    doubt = "whether the processes trained together was not checked: "
    assert (f"{doubt}{unchecked}" in training_rows.format_summary_sentence(found)) == bool(unchecked)


@pytest.mark.parametrize(
    ("steps", "restarted"),
    [
        ([(1, 100.0), (2, 150.0), (3, 200.0)], False),
        ([(1, 100.0), (2, 110.0), (1, 190.0), (2, 200.0)], True),
        ([(1, 100.0), (2, 110.0), (3, 300.0)], True),  # from a checkpoint of its last step
    ],
)
def test_figures_of_the_last_part_of_a_restarted_training_are_left_out_with_the_reason(
    steps: list[tuple[int, float]], restarted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEATRIAL_VALIDATE", "1")
    log = tmp_path / "a.log"
    log.write_text(f"dataset_tokens_per_sample: 61.5\n{HF}\n{SUMMARY}\n")
    (tmp_path / "files" / "w-0").mkdir(parents=True)
    moments = [(step, datetime.fromtimestamp(at, timezone.utc).isoformat()) for step, at in steps]
    lines = [json.dumps({"data": {"step": step, "timestamp": moment}}) for step, moment in moments]
    (tmp_path / "files" / "w-0" / "training_logs.jsonl").write_text("\n".join(lines))
    logs = [training_rows.TrainingLog("a", 0, "w-0", str(log))]
    progress = training_rows.ProgressFormat.of(training_flavours.load_flavour("fms").progress)
    _changed, (row,) = training_rows.write_training_rows(tmp_path, logs, FMS, False, progress=progress)
    left = {*FIGURES, "dataset_tokens_per_second"}
    printed = {"dataset_tokens_per_sample", "total_batch_size"}
    assert row["figures"].keys() == (printed if restarted else printed | left)
    assert row.get("left_out", {}).keys() == (left if restarted else set())
    assert ("the training was restarted" in training_rows.format_summary_sentence([row])) is restarted


def test_one_process_and_a_simulated_one_need_no_check(tmp_path: Path) -> None:
    (tmp_path / "one.log").write_text(SUMMARY)
    logs = [training_rows.TrainingLog("one", 0, "one", str(tmp_path / "one.log"))]
    for simulated, processes in ((False, 1.0), (True, 2.0)):
        (row,) = training_rows.build_training_rows(logs, FMS, simulated, tmp_path, settings={"processes": processes})
        assert "unchecked" not in row

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The log of simulated training pods, and the figures in it. None of them is a measurement.

On a rehearsal cluster no container runs: KWOK simulates the pods, and all of them share one log. Its figures follow
from the settings by this formula, so that a matrix gives a plausible picture:

- n = pods x GPUs of each (1 where there is none) accelerators do the work of one speedup(n) times as fast,
  speedup(n) = n / (1 + 0.03 (n - 1)): Amdahl's law with a serial share of 3 % (G. Amdahl, AFIPS 1967).
- One accelerator takes ``run_seconds``; the pods of a job run for run_seconds / speedup(n).
- The work is fixed: run_seconds x 8 samples (x 0.5 without GPUs), each of max_seq_length tokens.
- 90 % of the simulated time is training, the rest start-up; the loss falls with the number of steps as 2 / steps^0.1.
- A GPU holds 16 GB of model, and 2 MB for each token of a batch at the peak.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError

SERIAL_SHARE = 0.03
SAMPLES_PER_SECOND = {True: 8.0, False: 0.5}  # of one accelerator; with and without GPUs
TRAINING_SHARE = 0.9
MODEL_BYTES = 16e9  # of each job's first GPU: weights, gradients, optimizer
BYTES_PER_TOKEN = 2e6  # of a batch

FIRST_LINE = (
    "SIMULATED: this log was written by perfscale.seatrial for a simulated cluster. "
    "No training ran; the figures follow from the settings by a formula and are no measurement."
)


@dataclass(frozen=True)
class SimulatedTraining:
    """``run_seconds`` of each job's pods, and the figures in their log."""

    run_seconds: float
    figures: dict[str, float]


def multi_accelerator_speedup(accelerators: int) -> float:
    """Return the speedup of ``accelerators`` over one."""
    return accelerators / (1 + SERIAL_SHARE * (accelerators - 1))


def simulate_training_job(
    run_seconds: float, pods: int, gpus: int, hyper_parameters: Mapping[str, Any]
) -> SimulatedTraining:
    """Simulate one job. Raises InputError for an impossible setting.

    run_seconds: of one accelerator. gpus: of each pod.
    """
    if run_seconds <= 0 or pods < 1 or gpus < 0:
        raise InputError(f"a training of {run_seconds:g} s on {pods} pods with {gpus} GPUs each cannot be simulated")
    accelerators = pods * max(gpus, 1)
    lasts = run_seconds / multi_accelerator_speedup(accelerators)
    runtime = lasts * TRAINING_SHARE
    samples = run_seconds * SAMPLES_PER_SECOND[gpus > 0]
    batch = _parse_positive_number(hyper_parameters, "per_device_train_batch_size") * _parse_positive_number(
        hyper_parameters, "gradient_accumulation_steps"
    )
    steps = max(samples / (batch * accelerators), 1.0)
    length = _parse_positive_number(hyper_parameters, "max_seq_length", 512)
    memory = {}
    if gpus > 0:
        memory["train_mem_gpu_alloc_delta"] = MODEL_BYTES
        tokens = _parse_positive_number(hyper_parameters, "per_device_train_batch_size") * length
        memory["train_mem_gpu_peaked_delta"] = tokens * BYTES_PER_TOKEN
    return SimulatedTraining(
        round(lasts, 3),
        {
            "train_runtime": round(runtime, 4),
            "train_samples_per_second": round(samples / runtime, 3),
            "train_steps_per_second": round(steps / runtime, 3),
            "train_tokens_per_second": round(samples * length / runtime, 1),
            "train_loss": round(2.0 / steps**0.1, 4),
            "epoch": float(_parse_positive_number(hyper_parameters, "num_train_epochs")),
            **memory,
        },
    )


def _parse_positive_number(values: Mapping[str, Any], name: str, default: float = 1.0) -> float:
    value = values.get(name)
    if value in (None, ""):
        return default
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = 0.0
    if number <= 0:
        raise InputError(f"fine_tuning_hyper_parameters.{name} is {value!r}, and a training needs a number above 0")
    return number


def training_log_lines(training: SimulatedTraining, model: str, dataset: str, pods: int, gpus: int) -> list[str]:
    """Return the lines of the log."""
    epochs = training.figures["epoch"]
    shares = [tenth / 10 for tenth in range(1, 11)]
    losses = [(share, training.figures["train_loss"] / share**0.1) for share in shares]
    figures = ", ".join(f"'{name}': {value}" for name, value in training.figures.items())
    return [
        FIRST_LINE,
        f"fine-tuning of {model} on {dataset}: {_pluralized_count(pods, 'pod')} with"
        f" {_pluralized_count(gpus, 'GPU')} each",
        *(f"{{'loss': {loss:.4f}, 'epoch': {epochs * share:g}}}" for share, loss in losses),
        f"{{{figures}}}",
        "training finished",
    ]


def _pluralized_count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def format_cri_log_lines(texts: list[str]) -> str:
    """Return lines in the Kubernetes CRI logging format, which KWOK serves."""
    return "".join(f"2026-01-01T00:00:00.{number:09d}Z stdout F {text}\n" for number, text in enumerate(texts, 1))


def write_log_file(path: str | Path, texts: list[str]) -> bool:
    """Write the log; return whether it changed. Raises InputError if its folder does not exist."""
    target = Path(path)
    if not target.parent.is_dir():
        raise InputError(f"{target}: folder {target.parent} does not exist; is the rehearsal cluster running?")
    content = format_cri_log_lines(texts)
    if target.exists() and target.read_text(encoding="utf-8") == content:
        return False
    # In place instead of by a rename, because a reader may have the file open.
    target.write_text(content, encoding="utf-8")
    return True

#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: simulated_training_log
short_description: Write the log of simulated training pods
version_added: 0.1.0
description:
  - On a simulated cluster no training runs. This module computes from the settings how long the simulated pods run and
    which figures their log contains, and writes this log. Its first line states that it is simulated.
  - The formula is documented in C(plugins/module_utils/_load/simulated_training_logs.py).
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._attributes.internal
  - perfscale.seatrial._step_directory
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
    details: The files that it writes are its result.
  idempotent:
    support: full
options:
  path:
    description:
      - File from which the cluster serves the log of simulated pods (C(cluster_acquired.sutest.played_logs)). Without
        it, nothing is written.
    type: path
  run_seconds:
    description: Duration of the training on one accelerator, in seconds.
    type: float
    required: true
  pods:
    description: Number of pods of a job.
    type: int
    required: true
  gpus:
    description: Number of GPUs of each pod.
    type: int
    required: true
  model_name:
    description: Name of the model in the log.
    type: str
    required: true
  dataset_name:
    description: Name of the dataset in the log.
    type: str
    required: true
  hyper_parameters:
    description: Hyperparameters, of which batch sizes, sequence length and epochs are used.
    type: dict
    default: {}
seealso:
  - module: perfscale.seatrial.training_figures
"""

EXAMPLES = r"""
- name: Simulate the training
  perfscale.seatrial.simulated_training_log:
    path: "{{ cluster_acquired.sutest.played_logs }}"
    run_seconds: 8
    pods: 2
    gpus: 1
    model_name: bloom-560m
    dataset_name: alpaca
  register: __fine_tuning_simulation
"""

RETURN = r"""
run_seconds:
  description: Simulated run time of the pods of a job, in seconds.
  returned: success
  type: float
  sample: 4.12
figures:
  description: Figures in the log.
  returned: success
  type: dict
"""

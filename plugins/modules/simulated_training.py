#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: simulated_training
short_description: Write the log that played pods of a training show
version_added: 0.1.0
description:
  - On a simulated cluster no training runs. This computes from the settings how long its pods are played and which
    figures they print, and writes the log that all of them show. Its first line says that it is played.
  - The formula stands in C(plugins/module_utils/_training_simulation.py).
author:
  - The perfscale.seatrial authors (@perfscale)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._step
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  path:
    description:
      - Where the cluster takes the log of its played pods from, which is C(cluster_acquired.sutest.played_logs).
        Without it nothing is written.
    type: path
  run_seconds:
    description: How long the training would take on one accelerator, in seconds.
    type: float
    required: true
  pods:
    description: Pods of a job.
    type: int
    required: true
  gpus:
    description: GPUs of each pod.
    type: int
    required: true
  model_name:
    description: Model that is named in the log.
    type: str
    required: true
  dataset_name:
    description: Dataset that is named in the log.
    type: str
    required: true
  hyper_parameters:
    description: Batch sizes, sequence length and epochs are read from them.
    type: dict
    default: {}
seealso:
  - module: perfscale.seatrial.training_figures
"""

EXAMPLES = r"""
- name: Play the training
  perfscale.seatrial.simulated_training:
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
  description: How long the pods of a job are to be played, in seconds.
  returned: success
  type: float
  sample: 4.12
figures:
  description: The figures that the log shows.
  returned: success
  type: dict
"""

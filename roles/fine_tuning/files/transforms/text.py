# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of instruction, input and output, or of messages, become one text with the marks that fms-hf-tuning needs."""

from __future__ import annotations


def transform(row):
    if "messages" in row:
        said = {"instruction": "", "input": "", "output": ""}
        for one in row["messages"]:
            said[{"system": "input", "user": "instruction"}.get(one["role"], "output")] += one["content"]
        row = said
    below = f"\n\n### Input:\n{row['input']}" if row.get("input") else ""
    return {"text": f"### Instruction:\n{row['instruction']}{below}\n\n### Response:\n{row['output']}"}

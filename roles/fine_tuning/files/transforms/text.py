# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of instruction, input and output, or of messages, become one text with the marks that fms-hf-tuning needs."""

from __future__ import annotations

import json
import os

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "config.json"), encoding="utf-8") as stream:
    GIVEN = json.load(stream)
#: The training looks for this mark, and for the text in this column.
MARK = str(GIVEN.get("response_template") or "### Response:").strip()
COLUMN = str(GIVEN.get("dataset_text_field") or "text")


def transform(row):
    if "messages" in row:
        said = {"instruction": "", "input": "", "output": ""}
        for one in row["messages"]:
            said[{"system": "input", "user": "instruction"}.get(one["role"], "output")] += one["content"]
        row = said
    below = f"\n\n### Input:\n{row['input']}" if row.get("input") else ""
    return {COLUMN: f"### Instruction:\n{row['instruction']}{below}\n\n{MARK}\n{row['output']}"}

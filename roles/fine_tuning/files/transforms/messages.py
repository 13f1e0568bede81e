# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of instruction, input and output become the messages of a conversation, as instructlab-training reads them."""

from __future__ import annotations


def transform(row):
    asked = "\n\n".join(one for one in (row["instruction"], row.get("input")) if one)
    return {"messages": [{"role": "user", "content": asked}, {"role": "assistant", "content": row["output"]}]}

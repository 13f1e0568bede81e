# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Print how many tokens a row of the dataset has in the mean: count_tokens.py <configuration>

Runs in the first pod before the training, with its image. The configuration is that of fms-hf-tuning. A row counts with
at most max_seq_length tokens, which is what the training sees of it; padding does not count.
"""

from __future__ import annotations

import json
import sys

BATCH = 1000


def rows_of(path):
    with open(path, encoding="utf-8") as stream:
        if path.endswith(".jsonl"):
            return [json.loads(one) for one in stream if one.strip()]
        return json.load(stream)


def main(given):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(given["model_name_or_path"])
    longest = int(given.get("max_seq_length") or sys.maxsize)
    texts = [str(one[given["dataset_text_field"]]) for one in rows_of(given["training_data_path"])]
    total = 0
    for begin in range(0, len(texts), BATCH):
        found = tokenizer(texts[begin : begin + BATCH], add_special_tokens=True)["input_ids"]
        total += sum(min(len(one), longest) for one in found)
    print(f"dataset_tokens_per_sample: {total / len(texts):.4f}", flush=True)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as asked:
        main(json.load(asked))

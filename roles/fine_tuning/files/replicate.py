# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write a dataset several times, or a part of it, into another file: replicate.py <from> <to> <factor>

Runs in a pod before the training, with Python 3.9 or later. The first rows are taken as often as the factor says, at
least one row. The dataset is a file of JSON lines (.jsonl) or a JSON list (.json).
"""

from __future__ import annotations

import itertools
import json
import os
import sys


def main(source, target, factor):
    if os.path.isdir(source) or not source.endswith((".json", ".jsonl")):
        sys.exit(f"{source}: only a .json or .jsonl file can be replicated (fine_tuning_dataset_replication)")
    with open(source, encoding="utf-8") as stream:
        lines = source.endswith(".jsonl")
        rows = [one for one in stream if one.strip()] if lines else json.load(stream)
    if not isinstance(rows, list) or not rows:
        sys.exit(f"{source}: this is no list of rows, which can be replicated (fine_tuning_dataset_replication)")
    number = max(round(len(rows) * factor), 1)
    written = itertools.islice(itertools.cycle(rows), number)
    with open(target, "w", encoding="utf-8") as stream:
        if lines:
            stream.writelines(f"{one.rstrip()}\n" for one in written)
        else:
            json.dump(list(written), stream)
    print(f"{target}: {number} rows, {factor:g} times the {len(rows)} of {source}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))

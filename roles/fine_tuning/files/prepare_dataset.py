# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write a dataset to another file, its rows rewritten, then repeated or cut: prepare_dataset.py <from> <to> <factor>

Runs in a pod before the training, with Python 3.9 or later. The dataset is a file of JSON lines (.jsonl) or a JSON list
(.json). If there is a transform.py beside this program, its function ``transform(row)`` returns what a row becomes: a
row, a list of rows, or None for none. Of these, the first are taken as often as the factor says, at least one row.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import sys

TRANSFORM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "transform.py")


def main(source, target, factor):
    if os.path.isdir(source) or not source.endswith((".json", ".jsonl")):
        sys.exit(f"{source}: only a .json or .jsonl file can be replicated or transformed (fine_tuning_dataset_name)")
    lines = source.endswith(".jsonl")
    with open(source, encoding="utf-8") as stream:
        rows = [json.loads(one) for one in stream if one.strip()] if lines else json.load(stream)
    if not isinstance(rows, list) or not rows:
        sys.exit(
            f"{source}: this is no list of rows, which can be replicated or transformed (fine_tuning_dataset_name)"
        )
    before = len(rows)
    if os.path.exists(TRANSFORM):
        rows = transformed(rows, function_of(TRANSFORM), source)
    number = max(round(len(rows) * factor), 1)
    written = itertools.islice(itertools.cycle(rows), number)
    with open(target, "w", encoding="utf-8") as stream:
        if lines:
            stream.writelines(f"{json.dumps(one)}\n" for one in written)
        else:
            json.dump(list(written), stream)
    print(f"{target}: {number} rows, {factor:g} times the {len(rows)} that {before} of {source} became")


def function_of(path):
    spec = importlib.util.spec_from_file_location("transform", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not callable(getattr(module, "transform", None)):
        sys.exit(f"{path}: this script has no function transform(row) (fine_tuning_dataset_transform)")
    return module.transform


def transformed(rows, function, source):
    found = []
    for number, row in enumerate(rows, 1):
        try:
            one = function(row)
        except Exception as error:
            sys.exit(f"{source}, row {number}: the transform failed with {type(error).__name__}: {error}")
        found.extend(one if isinstance(one, list) else [] if one is None else [one])
    if not found:
        sys.exit(f"{source}: the transform leaves no row (fine_tuning_dataset_transform)")
    return found


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))

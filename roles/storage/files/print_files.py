# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Print files of a volume, compressed. Runs in a pod, with Python 3.9 or later and its standard library only.

    python3 program.py specification.json

The specification is written by module storage_volume. Printed is one JSON dictionary per line: ``piece`` (a part of a
file), ``file`` (name, size, checksum), ``left_out`` (beyond the limit), ``unmatched`` (a pattern), ``end`` (number of
pieces). A kubelet keeps only the end of a long log, so one call prints ``count`` pieces, from ``first`` on.
"""

from __future__ import annotations

import base64
import glob
import hashlib
import json
import os
import sys
import zlib

#: Bytes of a piece. A line of a log has 16 KiB.
PIECE = 9000
CHUNK = 1 << 20


def tell(event, **fields):
    print(json.dumps({"event": event, **fields}), flush=True)


def matches(folder, beginning, patterns):
    """Return the paths of all files that the patterns select, relative to the volume."""
    # A link may lead out of the volume.
    inside, found = os.path.realpath(folder) + os.sep, set()
    folders = glob.escape(os.path.join(folder, beginning)) + "*"
    for pattern in patterns:
        paths = set()
        for path in glob.glob(os.path.join(folders, pattern), recursive=True):
            below = [os.path.join(at, name) for at, _folders, names in os.walk(path) for name in names]
            paths.update(below if os.path.isdir(path) else [path])
        kept = {one for one in paths if os.path.isfile(one) and os.path.realpath(one).startswith(inside)}
        if not kept:
            tell("unmatched", pattern=pattern)
        found |= kept
    return sorted(os.path.relpath(one, folder) for one in found)


def packed(path, digest):
    """Yield the file as one zlib stream in pieces; the digest is that of the file."""
    packer, rest = zlib.compressobj(), b""
    with open(path, "rb") as stream:
        while data := stream.read(CHUNK):
            digest.update(data)
            rest += packer.compress(data)
            while len(rest) >= PIECE:
                yield rest[:PIECE]
                rest = rest[PIECE:]
    rest += packer.flush()
    for begin in range(0, len(rest), PIECE):
        yield rest[begin : begin + PIECE]


def main(given):
    folder, number, room = given["folder"], 0, given["limit"]
    for name in matches(folder, given["beginning"], given["patterns"]):
        path = os.path.join(folder, name)
        size = os.path.getsize(path)
        if size > room:
            tell("left_out", name=name, bytes=size)
            continue
        room -= size
        digest, numbers = hashlib.sha256(), []
        for piece in packed(path, digest):
            if given["first"] <= number < given["first"] + given["count"]:
                tell("piece", number=number, data=base64.b64encode(piece).decode())
            numbers.append(number)
            number += 1
        tell("file", name=name, bytes=size, sha256=digest.hexdigest(), first=numbers[0], pieces=len(numbers))
    tell("end", pieces=number)


if __name__ == "__main__":
    try:
        with open(sys.argv[1]) as asked:
            main(json.load(asked))
    except OSError as error:
        tell("failed", message=str(error))
        sys.exit(1)

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sends the files of a user from its pod: through the API server, or, if they are too large, to an S3 server.

The pod has no credentials of the S3 server, only a URL with which one object can be written. Standard library only,
Python 3.9 or later.
"""

import base64
import http.client
import io
import os
import pathlib
import tarfile
import tempfile
import time
import zlib
from hashlib import sha256

from pod_api import labels_of_point, shortened

#: Bytes of a ConfigMap: an API server allows 1,048,576 in all of its values.
CHUNK = 700_000
#: Seconds: how long to try an upload again, and the pause before.
PATIENCE, PAUSE = 300, 2


def send(user, folder, limit):
    """Send the files below ``folder``; return what is known about them.

    At most ``limit`` bytes pass through the API server. More are uploaded to the S3 server, if one was given.
    """
    files, reason = files_below(folder), ""
    if user.upload.get("URL") and sum(size for _path, _name, size in files) > limit:
        try:
            return _upload(user.upload, folder, files, int(user.upload["LIMIT"]))
        except Exception as error:  # what the API server takes is sent there
            reason = shortened(f"the S3 server did not take them: {type(error).__name__}: {error}", 800)
    kept, told = within(files, limit, "users_files_limit_bytes")
    packed = io.BytesIO()
    pack(kept, fileobj=packed, mode="w")
    content = packed.getvalue()
    data = zlib.compress(content)
    parts = [data[begin : begin + CHUNK] for begin in range(0, len(data), CHUNK)] if told["bytes"] else []
    for number, part in enumerate(parts, 1):
        _send_part(user, f"{user.name}-files-{number:04d}", part)
    found = {"parts": len(parts), "sha256": sha256(content).hexdigest(), **told}
    return {**found, "error": reason} if reason else found


def _upload(upload, folder, files, limit):
    """Upload the files as one archive with the URL of this user, which is for one object only."""
    import presigned_upload  # beside this file, if there is a URL

    kept, told = within(files, limit, "users_files_s3_limit_bytes")
    # The folder is a volume that can be written to, which other folders of the image need not be.
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".seatrial-") as stream:
        pack(kept, fileobj=stream, mode="w:gz", compresslevel=1)
        stream.flush()
        end = time.monotonic() + PATIENCE
        while True:
            try:
                presigned_upload.put_file(upload["URL"], pathlib.Path(stream.name), upload["AUTHORITY"])
                break
            except (OSError, http.client.HTTPException):
                if time.monotonic() > end:
                    raise
                time.sleep(PAUSE)
        return {"archive": digest_of(stream.name), **told}


def _send_part(user, name, part):
    owner = {"apiVersion": "v1", "kind": "Pod", "name": user.name, "uid": os.environ["SEATRIAL_UID"]}
    labels = labels_of_point()
    metadata = {"name": name, "labels": labels, "ownerReferences": [owner]}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "immutable": True}
    body["binaryData"] = {"piece": base64.b64encode(part).decode()}
    # 409: created before, and the reply was lost.
    user.api.patiently("POST", f"/api/v1/namespaces/{user.api.namespace}/configmaps", body, fine=(409,))


def files_below(folder):
    """Return path, name and size of each file below a folder; links are no files."""
    found = []
    for place, _folders, names in sorted(os.walk(folder)):
        for one in sorted(names):
            path = os.path.join(place, one)
            if os.path.isfile(path) and not os.path.islink(path):
                found.append((path, os.path.relpath(path, folder), os.path.getsize(path)))
    return found


def within(files, limit, setting):
    """Return the files of at most ``limit`` bytes together, and what is reported of all. setting: of the limit."""
    kept, left_out, size = [], [], 0
    for path, name, more in files:
        if size + more > limit:
            left_out.append({"name": shortened(name, 600), "bytes": more})
        else:
            size += more
            kept.append((path, name))
    told = {"bytes": size, "left_out": len(left_out), "first_left_out": left_out[:3]}
    return kept, {**told, "limit": setting} if left_out else told


def pack(files, **how):
    """Write an archive of the files; how: to where, as for tarfile.open()."""
    with tarfile.open(**how) as archive:
        for path, name in files:
            archive.add(path, name, recursive=False)


def digest_of(path):
    """Return the SHA-256 of a file, in hexadecimal digits."""
    digest = sha256()
    with open(path, "rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()

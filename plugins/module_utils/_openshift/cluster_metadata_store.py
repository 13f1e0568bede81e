# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is needed to destroy a cluster, kept where another machine finds it.

It stands in the run directory's cluster.yml anyway. A store is a folder that machines share, or s3://bucket/prefix; an
entry is <name>.json, written before anything of the cluster exists and removed when nothing is left of it. There is no
secret in it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _files, _s3
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import AccessError, DataError, InputError


def put(store: str, name: str, entry: Mapping[str, Any]) -> None:
    """Write the entry of a cluster. Raises AccessError when it can't be."""
    if not store:
        return
    if store.startswith("s3://"):
        with _bucket(store, name) as (connection, where):
            connection.put_object(**where, Body=json.dumps(_files.plain(entry), indent=2).encode())
        return
    folder = Path(store).expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _files.write_json(folder / f"{_checked(name)}.json", entry)
    except OSError as error:
        raise AccessError(f"cluster_metadata_store: can't write {folder}: {error.strerror}") from error


def get(store: str, name: str) -> dict[str, Any]:
    """Return the entry of a cluster. Raises DataError when there is none, InputError without a store."""
    if not store:
        raise InputError(f"cluster_release_named={name} requires cluster_metadata_store, which has its metadata")
    if store.startswith("s3://"):
        with _bucket(store, name) as (connection, where):
            try:
                return dict(json.loads(connection.get_object(**where)["Body"].read()))
            except connection.exceptions.NoSuchKey as error:
                raise _unknown(store, name) from error
    path = Path(store).expanduser() / f"{_checked(name)}.json"
    if not path.exists():
        raise _unknown(store, name)
    return dict(_files.read_json(path))


def drop(store: str, name: str) -> None:
    """Remove the entry of a cluster, if there is one."""
    if not store:
        return
    if store.startswith("s3://"):
        with _bucket(store, name) as (connection, where):
            connection.delete_object(**where)
        return
    (Path(store).expanduser() / f"{_checked(name)}.json").unlink(missing_ok=True)


def _unknown(store: str, name: str) -> DataError:
    return DataError(f"cluster_metadata_store {store} knows no cluster {name}: it was given back, or kept elsewhere")


def _checked(name: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", name):
        raise InputError(f"'{name}' is no name of a cluster")
    return name


@contextmanager
def _bucket(store: str, name: str) -> Iterator[tuple[Any, dict[str, str]]]:
    """Yield a client and where an entry lies; endpoint, region and credentials are those of the environment."""
    bucket, _slash, prefix = store.removeprefix("s3://").partition("/")
    if not bucket:
        raise InputError(f"cluster_metadata_store: {store} names no bucket: s3://bucket/prefix")
    key = "/".join([*(part for part in prefix.split("/") if part), f"{_checked(name)}.json"])
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
    place = _s3.S3Location(bucket, prefix.strip("/"), endpoint, region="")
    try:
        with _s3.s3_errors(place):
            yield _s3.client(place), {"Bucket": bucket, "Key": key}
    except AccessError as error:
        raise AccessError(f"cluster_metadata_store: {error}") from error

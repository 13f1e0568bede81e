# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The S3 bucket for files of pods, from the controller, which alone has its credentials.

Each client of a load has one object, ``<prefix>/<run>/<point>/<client>.gz``: an archive (result_archive). Each user has
one as well, below ``<point>/users/`` (fetch_large_user_files). It is deleted after its files are on the controller.
"""

from __future__ import annotations

import base64
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import disk_reserve, files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._http import s3

from . import result_upload

#: How long a presigned URL can be used, seconds. The controller replaces it while it follows the load.
LIFETIME = 86400


@dataclass(frozen=True)
class ResultStore:
    """The objects of one load. location: with the prefix of this load. clients: their number."""

    location: s3.S3Location
    clients: int = 1
    lifetime: int = LIFETIME

    @classmethod
    def from_params(cls, params: Mapping[str, Any], run: str, point: str, clients: int = 1) -> ResultStore | None:
        """Return the store from option ``collect_s3`` of a module, None without one. Raises InputError for its URL."""
        asked = params.get("collect_s3") or {}
        if not asked.get("url"):
            return None
        bucket, prefix = s3.parse_s3_url(asked["url"])
        location = s3.S3Location(
            bucket,
            f"{prefix}/{run}/{point}".lstrip("/"),
            asked.get("endpoint") or "",
            asked.get("region") or "us-east-1",
            params.get("ca_file") or "",
            asked.get("access_key") or "",
            asked.get("secret_key") or "",
        )
        return cls(location, clients)

    def key(self, client: int) -> str:
        """Return the key of the object of a client."""
        return f"{self.location.prefix}/{client}.gz"

    def record(self) -> dict[str, Any]:
        """Return where the files of the load are, without credentials: it is written before the load begins."""
        keys = [self.key(client) for client in range(self.clients)]
        return {"bucket": self.location.bucket, "endpoint": self.location.endpoint, "keys": keys}

    def check(self) -> None:
        """Write and delete an object, to know that a load can be collected. Raises InputError."""
        key = f"{self.location.prefix}/check"
        try:
            with s3.s3_errors(self.location):
                connection = s3.create_s3_client(self.location, 20.0, 2)
                connection.put_object(Bucket=self.location.bucket, Key=key, Body=b"")
                connection.delete_object(Bucket=self.location.bucket, Key=key)
        except AccessError as error:
            raise InputError(f"workload_collect_s3 cannot be used: {error}") from error

    def secret(self) -> dict[str, str]:
        """Return the data of the Secret with a URL for each client."""
        connection = s3.create_s3_client(self.location, presign=True)
        entries = {
            str(client): str(
                connection.generate_presigned_url(
                    "put_object",
                    Params={"Bucket": self.location.bucket, "Key": self.key(client)},
                    ExpiresIn=self.lifetime,
                )
            )
            for client in range(self.clients)
        }
        if self.location.authority:
            entries[result_upload.AUTHORITY] = Path(self.location.authority).read_text(encoding="utf-8")
        return {key: base64.b64encode(value.encode()).decode() for key, value in entries.items()}

    def fetch(self, record: Mapping[str, Any], folder: Path) -> Path:
        """Download the archive of a client; return its path. record: of result_upload, or only its ``key``.

        Raises AccessError if the object or the bucket is missing, DataError for a wrong checksum.
        """
        client = int(record["key"])
        target = folder / f".results-{client}.gz"
        where = replace(self.location, prefix=self.key(client))
        received = 0

        def leave_space(size: int) -> None:
            nonlocal received
            received += size
            disk_reserve.refuse_filling_disk(where.address, received, received, folder)

        with s3.s3_errors(where):
            connection = s3.create_s3_client(self.location)
            connection.download_file(self.location.bucket, self.key(client), str(target), Callback=leave_space)
        if "sha256" in record and files.sha256_of(target) != record["sha256"]:
            target.unlink()
            raise DataError(f"{where.address}: its checksum is not that of the files that were sent")
        return target

    def uploaded_clients(self) -> list[int]:
        """Return the clients whose object exists. Raises AccessError."""
        with s3.s3_errors(self.location):
            pages = s3.list_pages(s3.create_s3_client(self.location), self.location.bucket, f"{self.location.prefix}/")
            keys = {entry["Key"] for page in pages for entry in page.get("Contents") or []}
        return [client for client in range(self.clients) if self.key(client) in keys]

    def delete(self) -> bool:
        """Delete the objects of the load; return whether there were any. Safe to repeat."""
        there = self.uploaded_clients()
        with s3.s3_errors(self.location):
            connection = s3.create_s3_client(self.location)
            for client in there:
                connection.delete_object(Bucket=self.location.bucket, Key=self.key(client))
        return bool(there)


def unpack_result_archive(archive: Path, point_dir: Path, step_dir: Path | None) -> dict[str, Any]:
    """Put the files of an archive into the folder of the point and into that of the role call; return the outcome."""

    def target(kind: str, name: str) -> Path | None:
        if kind == "point":
            return point_dir / name
        return step_dir / f".{name}.collected" if step_dir is not None else None

    outcome = result_upload.unpack_result_files(archive, target)
    for aside in sorted(step_dir.glob(".*.collected")) if step_dir is not None else ():
        here = aside.with_name(aside.name.removeprefix(".").removesuffix(".collected"))
        with open(here, "ab") as stream, open(aside, "rb") as unpacked:
            shutil.copyfileobj(unpacked, stream)
        aside.unlink()
    archive.unlink()
    return outcome
